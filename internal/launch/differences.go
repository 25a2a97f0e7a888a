package launch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/shell"
)

// aside are options that do not change what is measured: where the server listens, who may ask, what it logs.
var aside = strings.Fields("--host --port -p --api-key --api-key-file --ssl-keyfile --ssl-certfile --log-level --uvicorn-log-level " +
	"--disable-log-requests --enable-log-requests --disable-uvicorn-access-log --disable-access-log-for-endpoints --log-file -v --verbose")

// Differences says how one command line differs from another in what it tells the engine: "--max-num-seqs 8 → 16".
// Where the server listens and how the program is called do not count. Commands that cannot be read differ as texts.
func Differences(old, now string) []string {
	if old == now {
		return nil
	}
	before, err := settings(old)
	after, otherErr := settings(now)
	if err != nil || otherErr != nil {
		return []string{fmt.Sprintf("%s → %s", old, now)}
	}
	names := slices.Sorted(maps.Keys(before))
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	var list []string
	for _, name := range names {
		a, was := before[name]
		b, is := after[name]
		switch {
		case was && is && a != b:
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s → %s", name, or(a, "alone"), or(b, "alone"))))
		case was && !is:
			list = append(list, strings.TrimSpace(name+" "+a)+" → left out")
		case is && !was:
			list = append(list, strings.TrimSpace(name+" "+b)+" added")
		}
	}
	return list
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// takenOut is a mark in the place of a secret: it has blanks, but stands for one word.
var takenOut = regexp.MustCompile(`«[^»]*»`)

// settings gives what a command line tells the engine, by option; "model" is its first positional word.
func settings(text string) (map[string]string, error) {
	words, err := shell.Fields(takenOut.ReplaceAllString(text, "«»"), func(name string) string { return "$" + name })
	if err != nil {
		return nil, err
	}
	c := &Command{Args: words}
	for len(c.Args) > 0 && assignment.MatchString(c.Args[0]) {
		c.Env, c.Args = append(c.Env, c.Args[0]), c.Args[1:]
	}
	v := c.see()
	found := map[string]string{}
	for _, line := range Allowed(c.Env) {
		name, value, _ := strings.Cut(line, "=")
		found[name] = value
	}
	if v.container != nil {
		found["image"] = v.container.image
	}
	for i, word := range v.words {
		name := "model"
		if i > 0 {
			name = fmt.Sprintf("word %d", i+1)
		}
		found[name] = word
	}
	for _, o := range v.options {
		name := strings.ReplaceAll(o.Name, "_", "-")
		if slices.Contains(aside, name) {
			continue
		}
		if there, ok := found[name]; ok {
			o.Value = there + " " + o.Value
		}
		found[name] = o.Value
	}
	return found, nil
}
