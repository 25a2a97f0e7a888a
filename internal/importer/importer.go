// Package importer turns other tools' result files into runs. A number is taken over as the file gives it; what the
// file does not say stays unknown, and where a tool means something else by a word than this program does, the run
// carries a warning that says so.
package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"speedmatrix"
)

// File is one file of a tool.
type File struct {
	// Name is the file's name, for messages and for what a name tells.
	Name string
	Data []byte
}

// Options say what a file does not.
type Options struct {
	// Concurrency is the number of simultaneous requests, 0 unknown: some tools do not write it down.
	Concurrency int
}

// mostBytes is the size up to which a file is read.
const mostBytes = 256 << 20

// format is a tool's kind of file. Exactly one of the two readers is set.
type format struct {
	// name is what people call it.
	name string
	// is says whether a document of JSON, or a text, is of this format.
	is     func(t tree) bool
	isText func(text string) bool
	read   func(b *builder, t tree) error
	readAs func(b *builder, text string) error
}

// formats lists what can be imported; the first that claims a file reads it.
func formats() []format {
	return []format{
		{name: "llm-inference-bench JSON", is: isIncumbent, read: readIncumbent},
		{name: "lil-bench document", is: isLilBench, read: readLilBench},
		{name: "vLLM bench serve or sweep JSON", is: isServe, read: readServe},
		{name: "guidellm JSON", is: isGuide, read: readGuide},
		{name: "AIPerf or genai-perf JSON", is: isPerf, read: readPerf},
		{name: "llama-bench JSON", is: isLlamaBench, read: readLlamaBench},
		{name: "llama-benchy JSON", is: isBenchy, read: readBenchy},
		{name: "inference-perf summary", is: isInferencePerf, read: readInferencePerf},
		{name: "evalscope summary", is: isEvalscope, read: readEvalscope},
		{name: "evalscope percentiles", is: isEvalscopePercentiles, read: readEvalscopePercentiles},
		{name: "genai-bench JSON", is: isGenaiBench, read: readGenaiBench},
		{name: "LocalMaxxing rows", is: isLocalMaxxing, read: readLocalMaxxing},
		{name: "text of a speed test page", isText: isPage, readAs: readPage},
		{name: "llama-bench Markdown", isText: isLlamaMarkdown, readAs: readLlamaMarkdown},
		{name: "llama-bench CSV", isText: isLlamaCSV, readAs: readLlamaCSV},
	}
}

// Formats names what can be imported.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// Import reads the files of one tool into one run. Several files become the cells of one matrix; a cell that comes
// again is a repeat. Errors name the file.
func Import(files []File, o Options) (*speedmatrix.Run, error) {
	b := newBuilder(o)
	for _, f := range files {
		if err := readFile(b, f); err != nil {
			return nil, err
		}
	}
	return b.finish(files)
}

func readFile(b *builder, f File) error {
	refuse := func(what, next string) error {
		return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: f.Name + ": " + what, Next: next}
	}
	data := bytes.TrimPrefix(f.Data, []byte("\xef\xbb\xbf"))
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return refuse("the file is empty", "Give the file that the tool wrote.")
	case len(data) > mostBytes:
		return refuse(fmt.Sprintf("the file has more than %d MiB", mostBytes>>20), "That is no result file of a tool known here.")
	case !utf8.Valid(data):
		return refuse("the file is not text", "Give the JSON, CSV, Markdown or text that the tool wrote, unpacked.")
	}
	read, err := recognise(f.Name, data)
	if err != nil {
		return err
	}
	if read == nil {
		return refuse("no tool known here writes such a file", "These can be imported: "+strings.Join(Formats(), ", ")+".")
	}
	b.file = f.Name
	if err := read(b); err != nil {
		if e, ok := errors.AsType[*speedmatrix.Error](err); ok {
			return e
		}
		return refuse(err.Error(), "The file may be cut off, or of a version of the tool that is not known here.")
	}
	return nil
}

// recognise finds the reader of a file; nil where no format claims it.
func recognise(name string, data []byte) (func(b *builder) error, error) {
	if first := bytes.TrimSpace(data)[0]; first != '{' && first != '[' {
		text := strings.ReplaceAll(string(data), "\r\n", "\n")
		for _, f := range formats() {
			if f.isText != nil && f.isText(text) {
				return func(b *builder) error { return f.readAs(b, text) }, nil
			}
		}
		return nil, nil
	}
	documents, err := decodeJSON(data)
	if err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("%s: the JSON is broken: %v", name, err),
			Next: "The file may be cut off; export it again.", Err: err}
	}
	t := tree{documents[0]}
	if len(documents) > 1 {
		t = tree{documents} // one object a line
	}
	for _, f := range formats() {
		if f.is != nil && f.is(t) {
			return func(b *builder) error { return f.read(b, t) }, nil
		}
	}
	return nil, nil
}

// decodeJSON reads one document, or one a line.
func decodeJSON(data []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var list []any
	for {
		var v any
		err := decoder.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("it ends in the middle")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// tree is a value of a JSON document.
type tree struct{ v any }

// at goes down by names; what is not there is null.
func (t tree) at(path ...string) tree {
	v := t.v
	for _, name := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return tree{}
		}
		v = object[name]
	}
	return tree{v}
}

// has says whether an object has all of these names, null or not.
func (t tree) has(names ...string) bool {
	object, ok := t.v.(map[string]any)
	return ok && !slices.ContainsFunc(names, func(name string) bool { _, there := object[name]; return !there })
}

// number is a number, nil where there is none.
func (t tree) number() *float64 {
	if v, ok := t.v.(float64); ok {
		return &v
	}
	return nil
}

// scaled is a number times a factor.
func (t tree) scaled(factor float64) *float64 {
	v := t.number()
	if v == nil {
		return nil
	}
	return new(*v * factor)
}

// whole is a whole number; ok is false for anything else.
func (t tree) whole() (n int, ok bool) {
	v := t.number()
	if v == nil || *v != float64(int(*v)) {
		return 0, false
	}
	return int(*v), true
}

// text is a string, "" where there is none.
func (t tree) text() string {
	s, _ := t.v.(string)
	return s
}

// words is a string, or a number as text.
func (t tree) words() string {
	if v := t.number(); v != nil {
		return strconv.FormatFloat(*v, 'f', -1, 64)
	}
	return t.text()
}

// list gives the elements of an array; of anything else the value itself, of null nothing.
func (t tree) list() []tree {
	switch v := t.v.(type) {
	case nil:
		return nil
	case []any:
		list := make([]tree, len(v))
		for i := range v {
			list[i] = tree{v[i]}
		}
		return list
	}
	return []tree{t}
}

// keys are the names of an object, sorted.
func (t tree) keys() []string {
	object, _ := t.v.(map[string]any)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
