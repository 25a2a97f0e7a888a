package yamldoc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type plan struct {
	Concurrency []int             `yaml:"concurrency"`
	Contexts    []string          `yaml:"contexts,omitempty"`
	Duration    float64           `yaml:"duration"`
	Streams     int               `yaml:"streams"`
	Ignore      bool              `yaml:"ignore"`
	Server      server            `yaml:"server"`
	Cells       []cell            `yaml:"cells,omitempty"`
	Named       map[string]server `yaml:"named,omitempty"`
	Level       level             `yaml:"level,omitempty"`
	Common      `yaml:",inline"`
	Hidden      string `yaml:"-"`
}

type server struct {
	URL   string `yaml:"url"`
	Model string `yaml:"model"`
}

type cell struct {
	Context int `yaml:"context"`
}

type Common struct {
	Note string `yaml:"note,omitempty"`
}

type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return fmt.Errorf("%q is no level", text)
	}
	*l = 1
	return nil
}

func (l level) MarshalText() ([]byte, error) { return []byte("high"), nil }

func TestErrorsNameTheFileTheLineAndTheFault(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a misspelt field", "duration: 3\nstreams: 2\n\n# why\nconcurency: [1]\n",
			`plan.yaml line 5: unknown field "concurency"; did you mean "concurrency"?`},
		{"a field like no other", "xyz: 1\n",
			`plan.yaml line 1: unknown field "xyz"; there are concurrency, contexts, duration, streams, ignore, server, cells, named, level, note`},
		{"the first of several", "server:\n  modle: a\n  ulr: b\nstraems: 1\n",
			`plan.yaml line 2: unknown field "modle"; did you mean "model"?`},
		{"in a list", "cells:\n  - context: 1\n  - contxt: 2\n",
			`plan.yaml line 3: unknown field "contxt"; did you mean "context"?`},
		{"in a map", "named:\n  a: {url: x}\n  b: {urk: x}\n",
			`plan.yaml line 3: unknown field "urk"; did you mean "url"?`},
		{"in an inlined struct", "noet: x\n", `plan.yaml line 1: unknown field "noet"; did you mean "note"?`},
		{"a hidden field", "hidden: x\n", `plan.yaml line 1: unknown field "hidden"; there are `},
		{"a field given twice", "streams: 1\nduration: 2\nstreams: 3\n",
			`plan.yaml line 3: the field "streams" is given twice, first on line 1`},
		{"text for a number", "streams: many\n", `plan.yaml line 1: "many" is not a whole number`},
		{"text for a share", "duration: long\n", `plan.yaml line 1: "long" is not a number`},
		{"text for a switch", "ignore: perhaps\n", `plan.yaml line 1: "perhaps" is not true or false`},
		{"a list for a group", "server:\n  - url\n", `plan.yaml line 2: this is a list where a group of fields belongs`},
		{"a number for a list", "\nconcurrency: 3\n", `plan.yaml line 2: this is a number where a list belongs`},
		{"a bad value of a type with its own reader", "streams: 1\nlevel: low\n", `plan.yaml line 2: "low" is no level`},
		{"two documents", "streams: 1\n---\nstreams: 2\n", `plan.yaml line 2: a second document begins; one is all a file may have`},
		{"broken syntax", "streams: 1\nserver: {url: x\n", `plan.yaml line 2: `},
		{"a tab", "server:\n\turl: x\n", `plan.yaml line 2: `},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 20 { // maps inside must not change which fault is named
				err := Decode("plan.yaml", []byte(test.text), &plan{})
				if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("got  %v\nwant %s", err, test.want)
				}
			}
		})
	}
}

func TestAnEmptyDocumentChangesNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n"} {
		p := plan{Streams: 7}
		if err := Decode("plan.yaml", []byte(text), &p); err != nil || p.Streams != 7 {
			t.Errorf("%q: %v, %+v", text, err, p)
		}
	}
}

func TestFieldsThatAreNotGivenKeepTheirValue(t *testing.T) {
	p := plan{Streams: 7, Server: server{URL: "u", Model: "m"}}
	if err := Decode("plan.yaml", []byte("duration: 2.5\nserver:\n  model: other\n"), &p); err != nil {
		t.Fatal(err)
	}
	want := plan{Streams: 7, Duration: 2.5, Server: server{URL: "u", Model: "other"}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestAnchorsAndMergesAreRead(t *testing.T) {
	text := "named:\n  a: &base\n    url: x\n    model: m\n  b:\n    <<: *base\n    model: n\n"
	var p plan
	if err := Decode("plan.yaml", []byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]server{"a": {"x", "m"}, "b": {"x", "n"}}, p.Named); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeWritesForReaders(t *testing.T) {
	p := plan{Concurrency: []int{1, 2}, Duration: 2.5, Server: server{URL: "http://x"}, Cells: []cell{{16384}}, Level: 1, Common: Common{"one\ntwo\n"}}
	got, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `concurrency:
  - 1
  - 2
duration: 2.5
streams: 0
ignore: false
server:
  url: http://x
  model: ""
cells:
  - context: 16384
level: high
note: |
  one
  two
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWrittenIsReadTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zA-Z0-9 :#'"\-\n{}é\[\],&*!|>%@]{0,30}`)
		p := plan{
			Concurrency: rapid.SliceOfN(rapid.Int(), 1, 4).Draw(t, "concurrency"),
			Duration:    float64(rapid.IntRange(-1e6, 1e6).Draw(t, "duration")) / 8,
			Server:      server{URL: text.Draw(t, "url"), Model: text.Draw(t, "model")},
		}
		data, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		var got plan
		if err := Decode("x", data, &got); err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("%s\n%s", diff, data)
		}
	})
}

func TestDecodeOfAnyBytesReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.SampledFrom([]byte("ab:- \n{}[]&*<|>'\"#\t?!,%"))).Draw(t, "data")
		err := Decode("x", data, &plan{})
		if err != nil && !strings.HasPrefix(err.Error(), "x") {
			t.Fatalf("%v does not begin with the name", err)
		}
	})
}
