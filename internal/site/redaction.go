package site

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
)

// redactionView is what was taken out of a document before it was sent.
type redactionView struct {
	Changes []changeView
	// Replaced is "5 values in 4 fields", "" for none; More counts changes beyond those that are shown.
	Replaced string
	More     int
}

// changeView is one field of a document from which something was taken out.
type changeView struct {
	Pointer, Kinds string
	Parts          []redact.Part
}

// mostChanges bounds the fields that a page shows.
const mostChanges = 100

// redaction lists the fields of a document that hold marks, by their place.
func redaction(document []byte) redactionView {
	var tree any
	if json.Unmarshal(document, &tree) != nil {
		return redactionView{}
	}
	var v redactionView
	values := 0
	walkTexts("", tree, func(pointer, text string) {
		var kinds []string
		var parts []redact.Part
		for _, p := range redact.Parts(text) {
			if p.Kind != "" {
				values++
				if !slices.Contains(kinds, string(p.Kind)) {
					kinds = append(kinds, string(p.Kind))
				}
			} else {
				p.Text = around(report.Clean(p.Text))
			}
			parts = append(parts, p)
		}
		if len(kinds) > 0 {
			v.Changes = append(v.Changes, changeView{clip(pointer, 200), strings.Join(kinds, ", "), parts})
		}
	})
	if n := len(v.Changes); n > 0 {
		v.Replaced = plural(values, "value", "values") + " in " + plural(n, "field", "fields")
		v.More = max(0, n-mostChanges)
		v.Changes = v.Changes[:min(n, mostChanges)]
	}
	return v
}

// around shortens the words between marks to what shows where they stand.
func around(s string) string {
	const most = 60
	r := []rune(s)
	if len(r) <= 2*most {
		return s
	}
	return string(r[:most]) + " … " + string(r[len(r)-most:])
}

// walkTexts gives all texts of a document, in the order of their places, each with its JSON pointer.
func walkTexts(at string, value any, each func(pointer, text string)) {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			walkTexts(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), v[key], each)
		}
	case []any:
		for i, item := range v {
			walkTexts(fmt.Sprintf("%s/%d", at, i), item, each)
		}
	case string:
		each(at, v)
	}
}
