package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Copy gives a copy of a value, made through its JSON form, in which every text is redacted, the names of
// fields that are data included. A text is judged by the name of its field too.
func Copy[T any](r *Redactor, value T) (T, error) {
	var out T
	data, err := json.Marshal(value)
	if err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	if data, err = json.Marshal(newCopying(r).tree("", tree)); err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	return out, nil
}

// copying is one Copy: the same names stand in a document many times and are judged once.
type copying struct {
	r     *Redactor
	names map[string]name
}

// name is what a field's name says of its value, and the name as it is shown.
type name struct {
	kind  Kind
	named bool
	clean string
}

func newCopying(r *Redactor) *copying { return &copying{r, map[string]name{}} }

func (c *copying) name(field string) name {
	n, ok := c.names[field]
	if !ok {
		n.kind, n.named = kindOf(field)
		n.clean = c.r.Text(field)
		c.names[field] = n
	}
	return n
}

// tree redacts what stands below a field.
func (c *copying) tree(field string, value any) any {
	switch v := value.(type) {
	case string:
		return c.r.field(field, v, c.name(field))
	case []any:
		for i := range v {
			v[i] = c.tree(field, v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := key
			if key == "value" || key == "others" {
				below = field // a fact is known by its key
			}
			out[c.name(key).clean] = c.tree(below, v[key])
		}
		return out
	case json.Number:
		if n := c.name(field); n.named {
			return c.r.Mark(n.kind, v.String())
		}
	}
	return value
}

// Field is Text for the value of a field whose name may say what it is.
func (r *Redactor) Field(field, value string) string {
	kind, named := kindOf(field)
	return r.field(field, value, name{kind: kind, named: named})
}

func (r *Redactor) field(field, value string, n name) string {
	if n.named && value != "" && !Marked(value) && secret(value, 0, len(value)) {
		return r.Mark(n.kind, value)
	}
	if versionField.MatchString(field) && dotted.MatchString(value) {
		return value // four numbers are no address there
	}
	if addressField.MatchString(field) {
		return r.URL(value)
	}
	return r.Text(value)
}

var (
	versionField = regexp.MustCompile(`(?i)(?:^|_)(?:version|driver|build|release|kernel|revision)$`)
	dotted       = regexp.MustCompile(`^v?[0-9]+(?:\.[0-9]+)*$`)
	addressField = regexp.MustCompile(`(?i)(?:^|_)(?:url|endpoint)$`)
)

// fieldKinds are the names of fields whose whole values are taken out; one of low stands in the lower case of each.
var fieldKinds = []struct {
	kind Kind
	low  []string
	name *regexp.Regexp
}{
	{APIKey, []string{"key", "authorization"}, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + keyNames + `|authorization)$`)},
	{Token, []string{"token"}, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + tokenNames + `)$`)},
	{Password, passwordWords, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + passwordNames + `)$`)},
	{Cookie, []string{"cookie"}, regexp.MustCompile(`(?i)(?:^|[-_.])cookie$`)},
	{Serial, []string{"serial"}, regexp.MustCompile(`(?i)(?:^|[-_.])serial(?:[-_]?(?:number|no))?$`)},
	{UUID, []string{"id", "asset"}, regexp.MustCompile(`(?i)(?:^|[-_.])(?:uuid|machine[-_]?id|boot[-_]?id|asset[-_]?tag)$`)},
	{Host, []string{"host", "node", "fqdn", "domain"}, regexp.MustCompile(`(?i)^(?:host|hostname|host[-_]name|node[-_]?name|fqdn|domain)$`)},
	{User, []string{"user", "log", "owner"}, regexp.MustCompile(`(?i)^(?:user|username|user[-_]name|login|logname|owner)$`)},
	{MAC, []string{"mac"}, regexp.MustCompile(`(?i)(?:^|[-_.])mac(?:[-_]?address)?$`)},
	{Address, []string{"ip"}, regexp.MustCompile(`(?i)(?:^|[-_.])ip(?:[-_]?address)?$`)},
}

func kindOf(field string) (Kind, bool) {
	low := strings.ToLower(field)
	for _, f := range fieldKinds {
		if anyIn(low, f.low) && f.name.MatchString(field) {
			return f.kind, true
		}
	}
	return "", false
}
