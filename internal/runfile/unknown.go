package runfile

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"speedmatrix"
)

// unknownFields lists the fields of a decoded document that the root types do
// not have, each once, in order: "cells[].speed".
func unknownFields(document any) []string {
	found := map[string]bool{}
	findUnknown(document, reflect.TypeFor[speedmatrix.Run](), "", found)
	return slices.Sorted(maps.Keys(found))
}

func findUnknown(value any, t reflect.Type, path string, found map[string]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch v := value.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for _, item := range v {
				findUnknown(item, t.Elem(), path+"[]", found)
			}
		}
	case map[string]any:
		findUnknownIn(v, t, path, found)
	}
}

func findUnknownIn(object map[string]any, t reflect.Type, path string, found map[string]bool) {
	switch t.Kind() {
	case reflect.Map:
		for name, item := range object {
			findUnknown(item, t.Elem(), join(path, name), found)
		}
	case reflect.Struct:
		fields := fieldsOf(t)
		for name, item := range object {
			if ft, ok := fields[name]; ok {
				findUnknown(item, ft, join(path, name), found)
			} else {
				found[join(path, name)] = true
			}
		}
	}
}

// fieldsOf gives the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
