package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"speedmatrix"
)

// routesOfUsers are the ends of URLs that people paste; the server's root is what
// stands before them.
var routesOfUsers = []string{
	"/chat/completions", "/completions", "/responses", "/messages", "/embeddings", "/models", "/v1",
	"/api/chat", "/api/generate", "/api/tags", "/generate_stream", "/generate",
}

// addresses gives the server's roots that a user's URL may mean, likeliest first: one
// when it has a scheme, else the same host by both schemes.
func addresses(text string) ([]*url.URL, error) {
	text = strings.TrimSpace(text)
	schemes := []string{""}
	if !strings.Contains(text, "://") {
		schemes = []string{"http://", "https://"}
		if !local(text) {
			schemes = []string{"https://", "http://"}
		}
	}
	var roots []*url.URL
	for _, scheme := range schemes {
		u, err := root(scheme + text)
		if err != nil {
			return nil, err
		}
		roots = append(roots, u)
	}
	return roots, nil
}

func root(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	wrong := func(why, next string) error {
		return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("not a server's URL: %s", why), Next: next, Err: err}
	}
	switch {
	case err != nil:
		// The cause alone: the error repeats the URL, and a password in it.
		return nil, wrong(errors.Unwrap(err).Error(), "A URL looks like http://127.0.0.1:8000.")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, wrong(fmt.Sprintf("the scheme %q is neither http nor https", u.Scheme), "A URL looks like http://127.0.0.1:8000.")
	case u.Hostname() == "":
		return nil, wrong("it names no host", "A URL looks like http://127.0.0.1:8000.")
	case u.User != nil:
		return nil, wrong("it carries a user name or a password", "Give them in a header instead: --header 'Authorization: Basic …'.")
	case u.RawQuery != "":
		return nil, wrong("it carries a query", "Give the URL up to /v1, without what follows the question mark.")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range routesOfUsers {
		path = strings.TrimRight(strings.TrimSuffix(path, end), "/")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// local guesses from a URL without a scheme whether it means a server of one's own,
// which speaks plain HTTP: a port, an address, or a name without a dot.
func local(text string) bool {
	host, _, _ := strings.Cut(text, "/")
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if name = h; port == "443" {
			return false
		}
		if port != "" {
			return true
		}
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || !strings.Contains(name, ".")
}

// place says whether an address is a public one, and whether it is this machine's.
// An address that cannot be read is taken by its host's name.
func place(remote net.Addr, host string) (hosted, same bool) {
	ip, ok := addressOf(remote)
	if !ok {
		same = strings.EqualFold(host, "localhost")
		return !same && strings.Contains(host, "."), same
	}
	if ip.IsLoopback() || ip.IsUnspecified() {
		return false, true
	}
	return !private(ip), ours(ip)
}

func addressOf(remote net.Addr) (netip.Addr, bool) {
	if remote == nil {
		return netip.Addr{}, false
	}
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Addr{}, false
	}
	return at.Addr().Unmap().WithZone(""), true
}

// private also takes the shared range 100.64.0.0/10, in which overlay networks live.
func private(ip netip.Addr) bool {
	shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
	return ip.IsPrivate() || ip.IsLinkLocalUnicast() || shared.Contains(ip)
}

func ours(ip netip.Addr) bool {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range interfaces {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}

// The bounds of measuring the round trip: its time, and the answer of a small route.
const (
	roundTripLimit = 5 * time.Second
	pingMost       = 64 << 10
)

// measureRoundTrip takes the median of 9 GETs of a small route on connections already open; 0
// when the server keeps none open.
func (s *Server) measureRoundTrip(ctx context.Context) {
	var times []float64
	begun := time.Now()
	for i := 0; i < 12 && len(times) < 9 && time.Since(begun) < roundTripLimit; i++ {
		a, err := s.http.do(ctx, call{route: orText(s.engine.ping, "/v1/models"), limit: lookLimit, most: pingMost})
		if err != nil {
			return
		}
		if a.reused && a.took > 0 {
			times = append(times, float64(a.took))
		}
	}
	s.RoundTrip = medianTime(times)
}
