package yamldoc

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// fault is something in the document that the type it is read into does not
// take.
type fault struct {
	line int
	what error
}

// find walks the document beside the type that it is read into and gives the
// first key that has no field or value that its type refuses to read, nil if
// there is none.
func find(node ast.Node, t reflect.Type) *fault {
	if f, own := refused(node, t); own {
		return f
	}
	if t.Kind() == reflect.Pointer {
		return find(node, t.Elem())
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		return find(n.Value, t)
	case *ast.TagNode:
		return find(n.Value, t)
	case *ast.MappingNode:
		return first(n.Values, func(v *ast.MappingValueNode) *fault { return checkKey(v, t) })
	case *ast.MappingValueNode:
		return checkKey(n, t)
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			return first(n.Values, func(v ast.Node) *fault { return find(v, t.Elem()) })
		}
	}
	return nil
}

func first[N any](nodes []N, check func(N) *fault) *fault {
	for _, n := range nodes {
		if f := check(n); f != nil {
			return f
		}
	}
	return nil
}

func checkKey(value *ast.MappingValueNode, t reflect.Type) *fault {
	switch {
	case value.Key.IsMergeKey():
		return find(value.Value, t)
	case t.Kind() == reflect.Map:
		return find(value.Value, t.Elem())
	case t.Kind() != reflect.Struct:
		return nil
	}
	token := value.Key.GetToken()
	fields := fieldsOf(t)
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == token.Value }); i >= 0 {
		return find(value.Value, fields[i].is)
	}
	return &fault{token.Position.Line, unknown(token.Value, fields)}
}

func unknown(name string, fields []field) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if meant := nearest(name, names); meant != "" {
		return fmt.Errorf("unknown field %q; did you mean %q?", name, meant)
	}
	return fmt.Errorf("unknown field %q; there are %s", name, strings.Join(names, ", "))
}

// refused tells whether a type has its own way to be read (nothing is known
// about its fields then), and the fault if it does not take the node.
func refused(node ast.Node, t reflect.Type) (f *fault, own bool) {
	if t.Kind() == reflect.Pointer {
		return nil, false
	}
	into := reflect.New(t).Interface()
	var err error
	switch reader := into.(type) {
	case yaml.BytesUnmarshaler:
		err = reader.UnmarshalYAML([]byte(node.String()))
	case yaml.BytesUnmarshalerContext, yaml.InterfaceUnmarshaler, yaml.InterfaceUnmarshalerContext,
		yaml.NodeUnmarshaler, yaml.NodeUnmarshalerContext:
		return nil, true
	case encoding.TextUnmarshaler:
		scalar, ok := node.(ast.ScalarNode)
		if !ok {
			return nil, true
		}
		err = reader.UnmarshalText(fmt.Append(nil, scalar.GetValue()))
	default:
		return nil, false
	}
	if err == nil {
		return nil, true
	}
	return &fault{node.GetToken().Position.Line, err}, true
}

type field struct {
	name string
	is   reflect.Type
}

// fieldsOf lists the fields of a struct by their names in a document, those of
// inlined structs included.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for f := range t.Fields() {
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get(yaml.StructTagName), ",")
		switch {
		case name == "-":
		case slices.Contains(strings.Split(options, ","), "inline"):
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				fields = append(fields, fieldsOf(inner)...)
			}
		case name == "":
			fields = append(fields, field{strings.ToLower(f.Name), f.Type})
		default:
			fields = append(fields, field{name, f.Type})
		}
	}
	return fields
}

// nearest gives the name that differs from word in the fewest letters, at most
// a third of them; empty if there is none.
func nearest(word string, names []string) string {
	best, fewest := "", max(1, utf8.RuneCountInString(word)/3)+1
	for _, name := range names {
		if d := edits([]rune(strings.ToLower(word)), []rune(strings.ToLower(name))); d < fewest {
			best, fewest = name, d
		}
	}
	return best
}

// edits is the number of letters to insert, remove, change or swap with their
// neighbour.
func edits(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i, x := range a {
		for j, y := range b {
			change := rows[i][j]
			if x != y {
				change++
			}
			rows[i+1][j+1] = min(change, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && x == b[j-1] && y == a[i-1] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
