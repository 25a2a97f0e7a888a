package redact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Change is a text that was redacted, and where it stands.
type Change struct {
	// Pointer is a JSON pointer (RFC 6901).
	Pointer string
	// Before is the text as it was, After what stands there now. Before is "" where only the mark was found: the words are
	// gone.
	Before, After string
}

// Changes lists, by their places, the texts that differ between a value and its redacted copy, and those that were
// redacted already. Both must be of one shape, as Copy makes them.
func Changes(before, after any) ([]Change, error) {
	var trees [2]any
	for i, value := range []any{before, after} {
		data, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(data, &trees[i])
		}
		if err != nil {
			return nil, fmt.Errorf("compare a value with its redacted copy: %w", err)
		}
	}
	return changes("", trees[0], trees[1]), nil
}

func changes(at string, before, after any) (list []Change) {
	switch a := after.(type) {
	case map[string]any:
		b, _ := before.(map[string]any)
		keys := make([]string, 0, len(a))
		for key := range a {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			list = append(list, changes(at+"/"+pointerPart(key), b[key], a[key])...)
		}
	case []any:
		b, _ := before.([]any)
		for i, value := range a {
			var was any
			if i < len(b) {
				was = b[i]
			}
			list = append(list, changes(fmt.Sprintf("%s/%d", at, i), was, value)...)
		}
	case string:
		b, _ := before.(string)
		switch {
		case a != b:
			list = append(list, Change{Pointer: at, Before: b, After: a})
		case Marked(a):
			list = append(list, Change{Pointer: at, After: a})
		}
	}
	return list
}

func pointerPart(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
