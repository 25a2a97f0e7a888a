package runfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"speedmatrix"
)

// SaveRun writes run.json as a whole or not at all: a reader sees the old
// document or the new one.
func (d *Dir) SaveRun(r *speedmatrix.Run) error {
	return replace(filepath.Join(d.path, runName), func(w io.Writer) error { return Encode(w, r) })
}

// LoadRun reads run.json. Fields that this program does not know are warnings.
func (d *Dir) LoadRun() (*speedmatrix.Run, []speedmatrix.Warning, error) {
	path := filepath.Join(d.path, runName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("there is no %s in %s", runName, d.path),
			Next: "Name the directory that a run wrote; a run that was killed before its first cell has none.",
			Err:  err,
		}
	}
	if err != nil {
		return nil, nil, readError(path, err)
	}
	return Decode(data)
}

// Encode writes the document: indented JSON, times in UTC, lists and facts
// without an entry as [] and {}.
func Encode(w io.Writer, r *speedmatrix.Run) error {
	whole := complete(r)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(&whole); err != nil {
		return fmt.Errorf("encode %s: %w", runName, err)
	}
	return nil
}

// complete is a copy in the form in which a document is written.
func complete(r *speedmatrix.Run) speedmatrix.Run {
	c := *r
	c.StartedAt = c.StartedAt.UTC()
	if c.FinishedAt != nil {
		c.FinishedAt = new(c.FinishedAt.UTC())
	}
	for _, f := range []*speedmatrix.Facts{&c.Model, &c.Hardware, &c.Engine} {
		if *f == nil {
			*f = speedmatrix.Facts{}
		}
	}
	for _, list := range []*[]int{&c.Plan.Contexts, &c.Plan.Concurrency, &c.Plan.Prefill} {
		*list = orEmpty(*list)
	}
	c.Warnings, c.Findings = orEmpty(c.Warnings), orEmpty(c.Findings)
	if c.Telemetry != nil {
		t := *c.Telemetry
		t.Sources, t.GPUs, t.Missing = orEmpty(t.Sources), orEmpty(t.GPUs), orEmpty(t.Missing)
		c.Telemetry = &t
	}
	c.Cells, c.Repeats = completeCells(c.Cells), slices.Clone(orEmpty(c.Repeats))
	for i := range c.Repeats {
		c.Repeats[i].Cells = completeCells(c.Repeats[i].Cells)
	}
	if c.Drift != nil {
		drift := *c.Drift
		drift.Cell = completeCells([]speedmatrix.Cell{drift.Cell})[0]
		c.Drift = &drift
	}
	return c
}

func completeCells(cells []speedmatrix.Cell) []speedmatrix.Cell {
	cells = slices.Clone(orEmpty(cells))
	for i := range cells {
		if at := cells[i].WindowStartedAt; at != nil {
			cells[i].WindowStartedAt = new(at.UTC())
		}
	}
	return cells
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Decode reads a document. Fields that this program does not know are warnings
// of code "unknown field". A damaged document is an error that says where.
func Decode(data []byte) (*speedmatrix.Run, []speedmatrix.Warning, error) {
	r, unknown, err := decode(data)
	if err != nil {
		return nil, nil, err
	}
	var warnings []speedmatrix.Warning
	for _, path := range unknown {
		warnings = append(warnings, speedmatrix.Warning{
			Code:    "unknown field",
			Message: fmt.Sprintf("%s has the field %s, which this version of the program does not know", runName, path),
		})
	}
	return r, warnings, nil
}

// DecodeStrict reads a document in which an unknown field is an error.
func DecodeStrict(data []byte) (*speedmatrix.Run, error) {
	r, unknown, err := decode(data)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("%s has unknown fields: %s", runName, strings.Join(unknown, ", ")),
			Next: "Remove them, or use the version of the program that wrote them.",
		}
	}
	return r, nil
}

func decode(data []byte) (*speedmatrix.Run, []string, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, damaged(runName, "", errors.New("it is empty"))
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, nil, damagedDocument(data, err)
	}
	if err := checkSchema(document); err != nil {
		return nil, nil, err
	}
	var r speedmatrix.Run
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, nil, damagedDocument(data, err)
	}
	return &r, unknownFields(document), nil
}

// checkSchema comes before the fields: another version may give them other types.
func checkSchema(document any) error {
	object, _ := document.(map[string]any)
	switch schema, _ := object["schema"].(string); schema {
	case speedmatrix.Schema:
		return nil
	case "":
		return &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("this is not a run document: it has no schema %q", speedmatrix.Schema),
			Next: "Results of other tools become runs with speedmatrix import.",
		}
	default:
		return &speedmatrix.Error{
			Kind: speedmatrix.KindOutput,
			What: fmt.Sprintf("the run has the schema %q, this program knows %q", schema, speedmatrix.Schema),
			Next: "Use a newer version of speedmatrix.",
		}
	}
}

// damagedDocument says where the document is damaged.
func damagedDocument(data []byte, err error) error {
	at := func(offset int64) string {
		line := 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte{'\n'})
		return fmt.Sprintf(" at byte %d, line %d", offset, line)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return damaged(runName, at(e.Offset), e)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return damaged(runName, at(e.Offset), fmt.Errorf("%s cannot be a %s: %w", e.Field, e.Value, errWrongType))
	}
	return damaged(runName, "", err)
}

var errWrongType = errors.New("wrong type")
