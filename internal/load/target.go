package load

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// target is where a client's requests go.
type target struct {
	endpoint *url.URL
	host     string      // Host header, "" for the endpoint's
	header   http.Header // of every request; shared, never changed
	proxy    *url.URL    // from the environment, nil without
	address  string      // host:port that connections are opened to
	head     []byte      // of a request up to the value of its length, for who sends without net/http
	tls      bool        // whether the connection to address begins with a TLS handshake
}

// aim works out the target of a client.
func aim(o Options) (target, error) {
	u := o.BaseURL
	switch {
	case u == nil:
		return target{}, unusable("no address of a server was given")
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, unusable(fmt.Sprintf("the address %s does not begin with http:// or https://", u.Redacted()))
	case u.Hostname() == "":
		return target{}, unusable(fmt.Sprintf("the address %s names no host", u.Redacted()))
	}
	t := target{endpoint: endpoint(u, o.Dialect.Path())}
	t.header, t.host = headers(o, u.User)
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: t.endpoint})
	if err != nil {
		return target{}, unusable(fmt.Sprintf("the environment names a proxy that cannot be used: %v", err))
	}
	t.proxy = proxy
	door := t.endpoint
	if proxy != nil {
		door = proxy
	}
	t.address, t.tls = address(door), door.Scheme == "https"
	t.head = t.makeHead()
	return t, nil
}

// makeHead is the head of a request up to the value of its Content-Length.
func (t *target) makeHead() []byte {
	var b bytes.Buffer
	host := t.host
	if host == "" {
		host = t.endpoint.Host
	}
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n", t.endpoint.RequestURI(), host)
	_ = t.header.WriteSubset(&b, map[string]bool{"Content-Length": true, "Connection": true}) // a buffer takes all
	b.WriteString("Content-Length: ")
	return b.Bytes()
}

// openAIVersion ends base URLs of the OpenAI surface, which other APIs of the
// same server do not stand under.
const openAIVersion = "/v1"

// endpoint joins the path of a dialect to a base URL, which may contain the
// version already, or the whole path.
func endpoint(base *url.URL, path string) *url.URL {
	u := *base
	u.User, u.Fragment = nil, ""
	prefix := strings.TrimRight(base.Path, "/")
	version, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case strings.HasSuffix(prefix, path):
		path = ""
	case strings.HasSuffix(prefix, "/"+version):
		path = strings.TrimPrefix(path, "/"+version)
	default:
		prefix = strings.TrimSuffix(prefix, openAIVersion)
	}
	u.Path, u.RawPath = prefix+path, ""
	return &u
}

// headers gives the header of every request and the host it asks for.
func headers(o Options, user *url.Userinfo) (h http.Header, host string) {
	h = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream, application/x-ndjson, application/json"},
		"User-Agent":   {"speedmatrix"},
		// The key without a value is not sent, but lets net/http send a request
		// again that died on a kept connection before any answer.
		"Idempotency-Key": {},
	}
	if user != nil {
		password, _ := user.Password()
		r := http.Request{Header: h}
		r.SetBasicAuth(user.Username(), password)
	}
	for key, value := range o.Dialect.Headers("") {
		h.Set(key, value)
	}
	for key, values := range maps.All(o.Header) {
		h[http.CanonicalHeaderKey(key)] = slices.Clone(values)
	}
	host = h.Get("Host")
	h.Del("Host")
	return h, host
}

// address is host:port of a URL, with the scheme's usual port where it names none.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
