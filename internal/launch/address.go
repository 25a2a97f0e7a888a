package launch

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is the URL at which a server will listen, as its command line says or by its engine's custom; false where
// nothing tells. A server that listens on all addresses is asked on loopback.
func (c *Command) Address() (url string, ok bool) {
	v := c.see()
	port, host := v.listens()
	if v.container != nil && !v.container.hostNetwork {
		host, port = v.published(port)
	}
	if port == 0 {
		return "", false
	}
	scheme := "http"
	for _, name := range []string{"--ssl-keyfile", "--ssl-certfile", "--ssl-key-file", "--ssl-cert-file"} {
		if _, tls := v.option(name); tls {
			scheme = "https"
		}
	}
	return scheme + "://" + net.JoinHostPort(reachable(host), strconv.Itoa(port)), true
}

// listens gives the port and the host that the engine is told, 0 where nothing tells the port.
func (v *view) listens() (port int, host string) {
	if e := v.engine; e != nil {
		port = e.port
		if v.container != nil && e.imagePort != 0 {
			port = e.imagePort
		}
		host = v.env[e.hostEnv]
		if h, p, err := net.SplitHostPort(withoutScheme(host)); err == nil {
			host = h
			port = parsed(p, port)
		}
		port = parsed(v.env[e.portEnv], port)
	}
	if text, ok := v.option("--port"); ok {
		port = parsed(text, 0)
	}
	if text, ok := v.option("-p"); ok && v.engine != nil && v.engine.name == "TGI" {
		port = parsed(text, 0)
	}
	if text, ok := v.option("--host"); ok {
		host = text
	}
	return port, host
}

func withoutScheme(host string) string {
	if _, rest, ok := strings.Cut(host, "://"); ok {
		return strings.TrimRight(rest, "/")
	}
	return host
}

func parsed(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<16 {
		return n
	}
	return otherwise
}

// published gives where a container's port is on this machine: the pair of that port, or the only pair.
func (v *view) published(inside int) (host string, port int) {
	for _, p := range v.container.ports {
		if p.inside == inside {
			return p.address, p.host
		}
	}
	if len(v.container.ports) == 1 {
		return v.container.ports[0].address, v.container.ports[0].host
	}
	return "", 0
}

// reachable turns the address on which a server listens into one that it can be asked at.
func reachable(host string) string {
	host = strings.Trim(withoutScheme(host), "[]")
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}
