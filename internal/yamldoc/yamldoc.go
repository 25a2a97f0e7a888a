// Package yamldoc reads and writes the YAML files that people edit: strict,
// so that a misspelt field is an error that names the file, the line and the
// field that was probably meant.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Decode reads one YAML document into the value that into points to; fields
// that the document does not give keep what they hold, and an empty document
// changes nothing. Unknown fields, a field given twice, values of the wrong
// type, more than one document and bad syntax are errors of one line that
// begin with name and, where it is known, the line.
func Decode(name string, data []byte, into any) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return explain(name, err, nil)
	}
	docs := documents(file)
	if len(docs) > 1 {
		return fmt.Errorf("%s line %d: a second document begins; one is all a file may have", name, line(docs[1]))
	}
	if len(docs) == 0 {
		return nil
	}
	// The parser has seen to fields given twice. The decoder must not, because
	// it takes a field that overrides a merged one for a second one.
	options := []yaml.DecodeOption{yaml.DisallowUnknownField(), yaml.AllowDuplicateMapKey()}
	err = yaml.NewDecoder(bytes.NewReader(data), options...).Decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return explain(name, err, find(docs[0].Body, reflect.TypeOf(into)))
}

// Encode writes v as a YAML document: two blanks of indent, fields in the
// order of the struct, text of several lines in block form.
func Encode(v any) ([]byte, error) {
	out, err := yaml.MarshalWithOptions(v,
		yaml.Indent(2), yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	// Block form loses some texts, those of line ends alone for one. Quotes
	// and braces lose none, and are YAML too.
	safe, err := yaml.MarshalWithOptions(v, yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	var a, b any
	if yaml.Unmarshal(out, &a) != nil || yaml.Unmarshal(safe, &b) != nil || !reflect.DeepEqual(a, b) {
		return safe, nil
	}
	return out, nil
}

// documents leaves out those without content, such as the one behind a last
// separator.
func documents(file *ast.File) []*ast.DocumentNode {
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if _, comment := d.Body.(*ast.CommentGroupNode); d.Body != nil && !comment {
			docs = append(docs, d)
		}
	}
	return docs
}

func line(d *ast.DocumentNode) int {
	if d.Start != nil {
		return d.Start.Position.Line
	}
	return d.Body.GetToken().Position.Line
}

// twice is what the parser says of a key that occurs again.
var twice = regexp.MustCompile(`^mapping key "(.*)" already defined at \[(\d+):`)

// explain says in one line what is wrong. What our own walk through the
// document found goes first: the library names any one of several unknown
// fields, and no line for values that a type refused.
func explain(name string, err error, found *fault) error {
	if found != nil {
		return fmt.Errorf("%s line %d: %w", name, found.line, found.what)
	}
	if mismatch, ok := errors.AsType[*yaml.TypeError](err); ok && mismatch.Token != nil {
		return fmt.Errorf("%s line %d: %s is not %s",
			name, mismatch.Token.Position.Line, shown(mismatch.Token.Value), wanted(mismatch.DstType))
	}
	if overflow, ok := errors.AsType[*yaml.OverflowError](err); ok && overflow.Token != nil {
		return fmt.Errorf("%s line %d: the number %s is too large", name, overflow.Token.Position.Line, overflow.SrcNum)
	}
	if node, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok && node.Token != nil {
		return fmt.Errorf("%s line %d: this is %s where %s belongs",
			name, node.Token.Position.Line, kindOf(node.Actual), kindOf(node.Expected))
	}
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	message := strings.Join(strings.Fields(located.GetMessage()), " ")
	if match := twice.FindStringSubmatch(message); match != nil {
		message = fmt.Sprintf("the field %q is given twice, first on line %s", match[1], match[2])
	}
	return fmt.Errorf("%s line %d: %s", name, located.GetToken().Position.Line, message)
}

// shown quotes a value, or says that structure stands in its place.
func shown(value string) string {
	switch value {
	case ":", "{", "}":
		return "a group of fields"
	case "-", "[", "]":
		return "a list"
	}
	return fmt.Sprintf("%q", value)
}

// wanted names what a Go type takes, in words of a YAML file.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of at least 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a group of fields"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "a " + t.String()
}

func kindOf(t ast.NodeType) string {
	switch t {
	case ast.MappingType, ast.MappingValueType:
		return "a group of fields"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "nothing"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	case ast.StringType, ast.LiteralType:
		return "text"
	}
	return "a value of the kind " + t.YAMLName()
}
