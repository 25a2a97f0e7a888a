package redact

import (
	"slices"
	"testing"
)

func TestATextIsDividedAtItsMarks(t *testing.T) {
	r := New(Options{Salt: []byte("salt")})
	host := r.Mark(Host, "box")
	text := "--api-key " + r.Mark(APIKey, "x") + " on " + host
	want := []Part{{Text: "--api-key "}, {"«redacted: api key»", APIKey}, {Text: " on "}, {host, Host}}
	if got := Parts(text); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Parts("no mark «redacted:»"); !slices.Equal(got, []Part{{Text: "no mark «redacted:»"}}) {
		t.Errorf("%q", got)
	}
	if got := Parts(""); got != nil {
		t.Errorf("%q", got)
	}
}
