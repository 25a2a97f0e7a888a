package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/runfile"
)

// The bounds of what a document may say.
const (
	deepest         = 32
	longestText     = 256 << 10
	longestName     = 200
	usualField      = 64
	mostContext     = 100 << 20
	mostConcurrency = 100_000
	mostRepeats     = 100
	mostNumber      = 1e15
)

// firstDay is before any run of this program or of those whose results are imported.
func firstDay() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

// decode reads a document that others wrote: valid JSON in every respect, of this program's schema, with no field unknown,
// and within bounds.
func decode(data []byte, limits Limits, now time.Time) (*speedmatrix.Run, error) {
	if err := strict(data, limits); err != nil {
		return nil, err
	}
	run, err := runfile.DecodeStrict(data)
	if err != nil {
		return nil, bad("schema", "run.json is not a document of "+speedmatrix.Schema, plain(err)+".", documentName)
	}
	if err := bounds(run, limits, now); err != nil {
		return nil, err
	}
	if err := runfile.Validate(data); err != nil {
		return nil, bad("schema", "run.json is not a document of "+speedmatrix.Schema, plain(err)+".", firstPlace(err))
	}
	if err := secrets(run); err != nil {
		return nil, err
	}
	return run, nil
}

// placeIn is a place in the words of the schema's checker.
var placeIn = regexp.MustCompile(`'(/[^']*)'`)

// firstPlace is the first place in a document that an error names.
func firstPlace(err error) string {
	if m := placeIn.FindStringSubmatch(err.Error()); m != nil {
		return at(m[1])
	}
	return documentName
}

// strict refuses what readers of JSON understand differently: names that stand twice, bytes that are no UTF-8, nesting
// without end, numbers beyond reason.
func strict(data []byte, limits Limits) error {
	if !utf8.Valid(data) {
		return bad("not-utf8", "run.json is not UTF-8", "JSON is UTF-8 without a mark at its beginning.", documentName)
	}
	if bytes.HasPrefix(data, []byte("\uFEFF")) {
		return bad("byte-order-mark", "run.json begins with a byte order mark", "JSON is UTF-8 without a mark at its beginning.", documentName)
	}
	w := &walker{Decoder: json.NewDecoder(bytes.NewReader(data)), limits: limits}
	w.UseNumber()
	if err := w.value("", 0); err != nil {
		if p, ok := errors.AsType[*Problem](err); ok {
			return p
		}
		return bad("not-json", "run.json is not JSON", plain(err)+".", documentName)
	}
	if _, err := w.Token(); !errors.Is(err, io.EOF) {
		return bad("not-json", "run.json is not one JSON document", "There is something behind its end.", documentName)
	}
	return nil
}

func at(pointer string) string { return documentName + "#" + printable(pointer) }

// escape is a name as it stands in a JSON pointer (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// walker goes over a document and counts what it holds.
type walker struct {
	*json.Decoder
	limits Limits
	values int
	text   int64
}

// value reads one value and all beneath it.
func (w *walker) value(pointer string, depth int) error {
	t, err := w.Token()
	if err != nil {
		return err
	}
	if w.values++; w.values > w.limits.Values {
		return bad("too-many-values", "run.json holds too much", fmt.Sprintf("At most %d values.", w.limits.Values), at(pointer))
	}
	if depth > deepest {
		return bad("too-deep", "run.json nests too deep", fmt.Sprintf("At most %d levels.", deepest), at(pointer))
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return w.object(pointer, depth)
		}
		for i := 0; w.More(); i++ {
			if err := w.value(pointer+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
		_, err = w.Token()
		return err
	case json.Number:
		return numeral(t, pointer)
	case string:
		return w.words(t, pointer)
	}
	return nil
}

// words counts a text.
func (w *walker) words(text, pointer string) error {
	if len(text) > longestText {
		return bad("text-too-long", "A text in run.json is too long", fmt.Sprintf("At most %d bytes.", longestText), at(pointer))
	}
	if w.text += int64(len(text)); w.text > w.limits.Text {
		return bad("too-much-text", "run.json holds too much text", fmt.Sprintf("At most %d bytes in all.", w.limits.Text), at(pointer))
	}
	return nil
}

func (w *walker) object(pointer string, depth int) error {
	names := map[string]bool{}
	for w.More() {
		t, err := w.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		below := pointer + "/" + escape.Replace(name)
		if names[name] {
			return bad("name-twice", "A field in run.json stands twice", "Readers would take different ones.", at(below))
		}
		names[name] = true
		if len(name) > usualField { // the names of this program's fields are shorter
			if err := w.words(name, below); err != nil {
				return err
			}
		}
		if err := w.value(below, depth+1); err != nil {
			return err
		}
	}
	_, err := w.Token()
	return err
}

// numeral refuses numbers that no measurement has. A change may be negative; times, counts and speeds are not.
func numeral(n json.Number, pointer string) error {
	v, err := n.Float64()
	if err != nil || math.Abs(v) > mostNumber {
		return bad("number-out-of-range", "A number in run.json is beyond reason", "No measurement has it.", at(pointer))
	}
	if (v < 0 || v == 0 && math.Signbit(v)) && !mayBeNegative(pointer) {
		return bad("number-negative", "A number in run.json is negative", "Times, counts and speeds are not.", at(pointer))
	}
	return nil
}

// mayBeNegative are the fields of differences, and those whose meaning others decide.
func mayBeNegative(pointer string) bool {
	last := pointer[strings.LastIndexByte(pointer, '/')+1:]
	if slices.Contains([]string{"change", "low", "stamp_error_p50_us", "stamp_error_p99_us", "reader_lag_p99_us", "send_late_p99_us", "server_tokens"}, last) {
		return true
	}
	for _, free := range []string{"/method/body/", "/model/", "/hardware/", "/engine/", "/launch_command/"} {
		if strings.HasPrefix(pointer, free) {
			return true
		}
	}
	return false
}
