package redact

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// services are the domains of public services: their names say nothing about who uses them.
var services = []string{"openai.com", "anthropic.com", "openrouter.ai", "together.ai", "together.xyz", "groq.com", "mistral.ai", "deepseek.com",
	"fireworks.ai", "googleapis.com", "nvidia.com", "cohere.com", "cohere.ai", "x.ai", "cerebras.ai", "sambanova.ai", "perplexity.ai",
	"huggingface.co", "replicate.com", "deepinfra.com", "hyperbolic.xyz", "novita.ai", "nebius.com", "nebius.ai", "baseten.co", "inference.net"}

// URL takes out of a server's address what says whose it is: credentials, query, and every host that is neither
// this machine nor a public service.
func (r *Redactor) URL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return r.Text(text)
	}
	host := r.host(u.Hostname())
	if port := u.Port(); port != "" {
		if strings.Contains(host, ":") && !Marked(host) {
			host = "[" + host + "]"
		}
		host += ":" + port
	}
	return u.Scheme + "://" + host + r.Text(u.Path)
}

func (r *Redactor) host(name string) string {
	if r.keeps(name) {
		return name
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		if ip.IsLoopback() || ip.IsUnspecified() {
			return name
		}
		return r.Mark(Address, name)
	}
	low := strings.ToLower(name)
	public := slices.ContainsFunc(services, func(s string) bool { return low == s || strings.HasSuffix(low, "."+s) })
	if low == "localhost" || public {
		return name
	}
	return r.Mark(Host, name)
}
