package cli

import (
	"net/http"
	"regexp"
	"strings"
)

// Servers echo keys in their error messages; what is shown or written has this in their place.
const hiddenSecret = "[hidden]"

// secretName is the name of a header whose value is a secret, however short.
var secretName = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|passw|session|signature`)

const (
	// leastSecret is the length from which any header's value is kept secret.
	leastSecret = 8
	// leastPart is the length from which the beginning of a secret, cut off by the end of a text, is hidden.
	leastPart = 4
)

// secretsIn gives the secrets in the headers of the requests: whole values, and without the scheme before them.
func secretsIn(header http.Header) (secrets []string) {
	for name, values := range header {
		for _, value := range values {
			if value == "" || !secretName.MatchString(name) && len(value) < leastSecret {
				continue
			}
			secrets = append(secrets, value)
			if _, bare, ok := strings.Cut(value, " "); ok && strings.TrimSpace(bare) != "" {
				secrets = append(secrets, strings.TrimSpace(bare))
			}
		}
	}
	return secrets
}

// hider gives a function that hides the secrets in a text of the server's.
func hider(secrets []string) func(string) string {
	return func(text string) string {
		for _, s := range secrets {
			text = strings.ReplaceAll(text, s, hiddenSecret)
		}
		for _, s := range secrets {
			text = hideCut(text, s)
		}
		return text
	}
}

// hideCut hides the beginning of a secret at the end of a text that was cut there.
func hideCut(text, secret string) string {
	body := strings.TrimSuffix(text, "…")
	for n := len(secret) - 1; n >= leastPart; n-- {
		if rest, ok := strings.CutSuffix(body, secret[:n]); ok {
			return rest + hiddenSecret + text[len(body):]
		}
	}
	return text
}
