package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	if data, err = json.Marshal(r.tree("", tree)); err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("redact: %w", err)
	}
	return out, nil
}

// tree redacts what stands below a field.
func (r *Redactor) tree(field string, value any) any {
	switch v := value.(type) {
	case string:
		return r.Field(field, v)
	case []any:
		for i := range v {
			v[i] = r.tree(field, v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := key
			if key == "value" || key == "others" {
				below = field // a fact is known by its key
			}
			out[r.Text(key)] = r.tree(below, v[key])
		}
		return out
	case json.Number:
		if kind, named := kindOf(field); named {
			return r.Mark(kind, v.String())
		}
	}
	return value
}

// Field is Text for the value of a field whose name may say what it is.
func (r *Redactor) Field(name, value string) string {
	if kind, named := kindOf(name); named && value != "" && !Marked(value) && secret(value, 0, len(value)) {
		return r.Mark(kind, value)
	}
	if versionField.MatchString(name) && dotted.MatchString(value) {
		return value // four numbers are no address there
	}
	if addressField.MatchString(name) {
		return r.URL(value)
	}
	return r.Text(value)
}

var (
	versionField = regexp.MustCompile(`(?i)(?:^|_)(?:version|driver|build|release|kernel|revision)$`)
	dotted       = regexp.MustCompile(`^v?[0-9]+(?:\.[0-9]+)*$`)
	addressField = regexp.MustCompile(`(?i)(?:^|_)(?:url|endpoint)$`)
)

// fieldKinds are the names of fields whose whole values are taken out.
var fieldKinds = []struct {
	kind Kind
	name *regexp.Regexp
}{
	{APIKey, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + keyNames + `|authorization)$`)},
	{Token, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + tokenNames + `)$`)},
	{Password, regexp.MustCompile(`(?i)(?:^|[-_.])(?:` + passwordNames + `)$`)},
	{Cookie, regexp.MustCompile(`(?i)(?:^|[-_.])cookie$`)},
	{Serial, regexp.MustCompile(`(?i)(?:^|[-_.])serial(?:[-_]?(?:number|no))?$`)},
	{UUID, regexp.MustCompile(`(?i)(?:^|[-_.])(?:uuid|machine[-_]?id|boot[-_]?id|asset[-_]?tag)$`)},
	{Host, regexp.MustCompile(`(?i)^(?:host|hostname|host[-_]name|node[-_]?name|fqdn|domain)$`)},
	{User, regexp.MustCompile(`(?i)^(?:user|username|user[-_]name|login|logname|owner)$`)},
	{MAC, regexp.MustCompile(`(?i)(?:^|[-_.])mac(?:[-_]?address)?$`)},
	{Address, regexp.MustCompile(`(?i)(?:^|[-_.])ip(?:[-_]?address)?$`)},
}

func kindOf(field string) (Kind, bool) {
	for _, f := range fieldKinds {
		if f.name.MatchString(field) {
			return f.kind, true
		}
	}
	return "", false
}
