package redact

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// known is one form of a secret whose value is known.
type known struct {
	kind Kind
	text string
}

const (
	// leastAnywhere is the length from which a known secret is taken out inside words too.
	leastAnywhere = 8
	// leastPart is the length from which the beginning of a secret, cut off by the end of a text, is taken out.
	leastPart = 4
)

// placeholders are given as keys where none is needed; they are ordinary words.
var placeholders = []string{"empty", "none", "null", "dummy", "test", "ollama", "vllm", "lm-studio", "llama.cpp", "no-key", "sk-no-key-required",
	"not-needed", "key", "secret", "token", "true", "false", "local", "default", "password", "changeme", "bearer", "basic"}

// IsPlaceholder says whether a text that stands in a secret's place is none.
func IsPlaceholder(text string) bool {
	return strings.Trim(text, "*.…xX-_ ") == "" || slices.Contains(placeholders, strings.ToLower(text))
}

// knownSecrets gives the forms in which secrets may appear, the longest first.
func knownSecrets(secrets []Secret) []known {
	var list []known
	for _, s := range secrets {
		value := strings.TrimSpace(s.Value)
		if value == "" || IsPlaceholder(value) {
			continue
		}
		forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
		if data, err := json.Marshal(value); err == nil {
			forms = append(forms, string(data[1:len(data)-1]))
		}
		for _, form := range forms {
			if k := (known{s.Kind, form}); !slices.Contains(list, k) {
				list = append(list, k)
			}
		}
	}
	slices.SortStableFunc(list, longestFirst)
	return list
}

// hide takes the secret out of a text; a short one only as a word.
func (k known) hide(text string, r *Redactor) string {
	if !strings.Contains(text, k.text) {
		return text
	}
	if len(k.text) >= leastAnywhere {
		return strings.ReplaceAll(text, k.text, r.Mark(k.kind, k.text))
	}
	var b strings.Builder
	for {
		i := strings.Index(text, k.text)
		if i < 0 {
			return b.String() + text
		}
		end := i + len(k.text)
		if wordBefore(text, i) || wordAfter(text, end) {
			b.WriteString(text[:end])
		} else {
			b.WriteString(text[:i] + r.Mark(k.kind, k.text))
		}
		text = text[end:]
	}
}

// hideCut takes out the beginning of the secret at the end of a text that was cut there.
func (k known) hideCut(text string, r *Redactor) string {
	body := strings.TrimSuffix(text, "…")
	for n := len(k.text) - 1; n >= leastPart; n-- {
		if rest, ok := strings.CutSuffix(body, k.text[:n]); ok {
			return rest + r.Mark(k.kind, k.text) + text[len(body):]
		}
	}
	return text
}

// wordBefore says whether a word goes on across the place i from the left, wordAfter from the right.
func wordBefore(text string, i int) bool { return i > 0 && isWord(text[i-1]) }
func wordAfter(text string, i int) bool  { return i < len(text) && isWord(text[i]) }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
