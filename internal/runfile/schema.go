package runfile

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"speedmatrix"
)

//go:embed run.schema.json
var schemaText []byte

// compiled is the schema in the form that checks documents.
var compiled = sync.OnceValues(compileSchema)

// Schema is the JSON Schema (draft 2020-12) of run.json.
func Schema() []byte { return slices.Clone(schemaText) }

// Validate checks a document against the schema. The error names the places that
// do not match.
func Validate(data []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return damagedDocument(data, err)
	}
	err = schema.Validate(document)
	if err == nil {
		return nil
	}
	what := err.Error()
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		what = strings.Join(places(e), "; ")
	}
	return &speedmatrix.Error{
		Kind: speedmatrix.KindOutput,
		What: fmt.Sprintf("%s does not match its schema: %s", runName, what),
		Next: "The document was not written by this version of speedmatrix, or was changed.",
		Err:  err,
	}
}

func compileSchema() (*jsonschema.Schema, error) {
	const name = "run.schema.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, document); err != nil {
		return nil, fmt.Errorf("load the schema: %w", err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	return schema, nil
}

// maxPlaces keeps an error of a document that is wrong all over readable.
const maxPlaces = 5

// places says what does not match and where, in order of the places, from the validator's own
// tree of lines "- at '/cells/0/status': …", which it writes in any order.
func places(e *jsonschema.ValidationError) []string {
	var all []string
	for line := range strings.Lines(e.Error()) {
		place, ok := strings.CutPrefix(strings.TrimSpace(line), "- at ")
		if ok {
			all = append(all, place)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), maxPlaces)]
}
