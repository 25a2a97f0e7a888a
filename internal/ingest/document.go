package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/runfile"
)

// The bounds of what a document may say.
const (
	deepest         = 32
	longestText     = 256 << 10
	longestName     = 200
	mostTokens      = 1 << 20 // of context
	mostConcurrency = 100_000
	mostNumber      = 1e15
)

// firstDay is before any run of this program or of those whose results are imported.
func firstDay() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

// decode reads a document that others wrote: valid JSON in every respect, of this program's schema, with no field unknown,
// and within bounds.
func decode(data []byte, limits Limits, now time.Time) (*speedmatrix.Run, error) {
	if err := strict(data); err != nil {
		return nil, err
	}
	run, err := runfile.DecodeStrict(data)
	if err != nil {
		return nil, bad("schema", "run.json is not a document of "+speedmatrix.Schema, plain(err)+".", documentName)
	}
	if err := bounds(run, limits, now); err != nil {
		return nil, err
	}
	if err := secrets(run); err != nil {
		return nil, err
	}
	return run, nil
}

// strict refuses what readers of JSON understand differently: names that stand twice, bytes that are no UTF-8, nesting
// without end, numbers beyond reason.
func strict(data []byte) error {
	if !utf8.Valid(data) {
		return bad("not-utf8", "run.json is not UTF-8", "JSON is UTF-8 without a mark at its beginning.", documentName)
	}
	if bytes.HasPrefix(data, []byte("\uFEFF")) {
		return bad("byte-order-mark", "run.json begins with a byte order mark", "JSON is UTF-8 without a mark at its beginning.", documentName)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := value(d, "", 0); err != nil {
		if p, ok := errors.AsType[*Problem](err); ok {
			return p
		}
		return bad("not-json", "run.json is not JSON", plain(err)+".", documentName)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("not-json", "run.json is not one JSON document", "There is something behind its end.", documentName)
	}
	return nil
}

func at(pointer string) string { return documentName + "#" + printable(pointer) }

// value reads one value and all beneath it.
func value(d *json.Decoder, pointer string, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if depth > deepest {
		return bad("too-deep", "run.json nests too deep", fmt.Sprintf("At most %d levels.", deepest), at(pointer))
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return object(d, pointer, depth)
		}
		for i := 0; d.More(); i++ {
			if err := value(d, pointer+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	case json.Number:
		return numeral(t, pointer)
	case string:
		if len(t) > longestText {
			return bad("text-too-long", "A text in run.json is too long", fmt.Sprintf("At most %d bytes.", longestText), at(pointer))
		}
	}
	return nil
}

func object(d *json.Decoder, pointer string, depth int) error {
	names := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		below := pointer + "/" + name
		if names[name] {
			return bad("name-twice", "A field in run.json stands twice", "Readers would take different ones.", at(below))
		}
		names[name] = true
		if err := value(d, below, depth+1); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// numeral refuses numbers that no measurement has. A change may be negative; times, counts and speeds are not.
func numeral(n json.Number, pointer string) error {
	v, err := n.Float64()
	if err != nil || math.Abs(v) > mostNumber {
		return bad("number-out-of-range", "A number in run.json is beyond reason", "No measurement has it.", at(pointer))
	}
	if v < 0 && !mayBeNegative(pointer) {
		return bad("number-negative", "A number in run.json is negative", "Times, counts and speeds are not.", at(pointer))
	}
	return nil
}

// mayBeNegative are the fields of differences, and those whose meaning others decide.
func mayBeNegative(pointer string) bool {
	last := pointer[strings.LastIndexByte(pointer, '/')+1:]
	if slices.Contains([]string{"change", "low", "drop_share"}, last) {
		return true
	}
	for _, free := range []string{"/method/body/", "/model/", "/hardware/", "/engine/", "/launch_command/"} {
		if strings.HasPrefix(pointer, free) {
			return true
		}
	}
	return false
}

// bounds holds what the schema cannot say.
func bounds(run *speedmatrix.Run, limits Limits, now time.Time) error {
	if len(run.Cells) > limits.Cells {
		return bad("too-many-cells", "run.json has too many cells", fmt.Sprintf("At most %d.", limits.Cells), at("/cells"))
	}
	if n := len(run.Repeats); n > 100 {
		return bad("too-many-repeats", "run.json has too many repeats", "At most 100.", at("/repeats"))
	}
	if len(run.Cells) == 0 {
		return bad("no-cells", "run.json has no cell", "There is nothing to show of it.", at("/cells"))
	}
	if !slices.Contains([]speedmatrix.Origin{speedmatrix.OriginMeasured, speedmatrix.OriginPredicted, speedmatrix.OriginImported}, run.Origin) {
		return bad("origin", "run.json does not say where its numbers come from", "The origin is measured, predicted or imported.", at("/origin"))
	}
	if err := times(run, now); err != nil {
		return err
	}
	if err := facts(run); err != nil {
		return err
	}
	return cells(run, now)
}

func times(run *speedmatrix.Run, now time.Time) error {
	// Another tool may not have said when it measured.
	if run.Origin != speedmatrix.OriginImported || !run.StartedAt.IsZero() {
		if err := moment(run.StartedAt, "/started_at", now); err != nil {
			return err
		}
	}
	if run.FinishedAt == nil {
		return nil
	}
	if err := moment(*run.FinishedAt, "/finished_at", now); err != nil {
		return err
	}
	if run.FinishedAt.Before(run.StartedAt) {
		return bad("time-order", "The run ended before it began", "Look at the clock of the machine.", at("/finished_at"))
	}
	return nil
}

// facts holds what stands in lists, and the form of what is known of the set-up.
func facts(run *speedmatrix.Run) error {
	for _, name := range []struct{ pointer, text string }{{"/id", run.ID}, {"/method/name", run.Method.Name}} {
		if err := readable(name.pointer, name.text); err != nil {
			return err
		}
	}
	for _, group := range []struct {
		name  string
		facts speedmatrix.Facts
	}{{"model", run.Model}, {"hardware", run.Hardware}, {"engine", run.Engine}} {
		for key, fact := range group.facts {
			switch fact.Value.(type) {
			case string, float64, bool, nil:
			default:
				return bad("fact", "A fact in run.json is a structure", "It is a text, a number, true or false.", at("/"+group.name+"/"+key))
			}
			text, _ := fact.Value.(string)
			if !shownInLists(key) {
				continue
			}
			if err := readable("/"+group.name+"/"+key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func moment(t time.Time, pointer string, now time.Time) error {
	if t.Before(firstDay()) || t.After(now.Add(24*time.Hour)) {
		return bad("time-out-of-range", "The run was measured at a time that cannot be", "Look at the clock of the machine.", at(pointer))
	}
	return nil
}

// shownInLists are the facts that stand where a false letter would pass for another name.
func shownInLists(key string) bool {
	return slices.Contains([]string{speedmatrix.ModelName, speedmatrix.ModelServedName, speedmatrix.ModelQuantization, speedmatrix.HardwareGPU,
		speedmatrix.HardwareVRAM, speedmatrix.HardwareCPU, speedmatrix.EngineVersion, speedmatrix.EngineSpeculative}, key)
}

// readable refuses names that do not read as what they are: with characters that cannot be seen or that turn the line round.
func readable(pointer, name string) error {
	if len(name) > longestName {
		return bad("name-too-long", "A name in run.json is too long", fmt.Sprintf("At most %d bytes.", longestName), at(pointer))
	}
	for _, r := range name {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError {
			return bad("name-unreadable", "A name in run.json has characters that cannot be seen", fmt.Sprintf("Take out U+%04X.", r), at(pointer))
		}
	}
	return nil
}

func cells(run *speedmatrix.Run, now time.Time) error {
	seen := map[string]bool{}
	for i := range run.Cells {
		c, pointer := &run.Cells[i], "/cells/"+strconv.Itoa(i)
		if err := place(c, pointer); err != nil {
			return err
		}
		if seen[c.Key()] {
			return bad("cell-twice", "A cell stands twice", "Each planned cell stands once; repeats have a place of their own.", at(pointer))
		}
		seen[c.Key()] = true
		if c.WindowStartedAt != nil {
			if err := moment(*c.WindowStartedAt, pointer+"/window_started_at", now); err != nil {
				return err
			}
		}
		if c.Interval95 != nil && c.Interval95.High < c.Interval95.Low {
			return bad("interval", "A cell's interval is upside down", "low is not above high.", at(pointer+"/interval_95"))
		}
	}
	return nil
}

// place holds where a cell stands in the matrix, and what it is called.
func place(c *speedmatrix.Cell, pointer string) error {
	switch {
	case !slices.Contains(speedmatrix.Statuses(), c.Status):
		return bad("status", "A cell has a status that there is not", "The statuses are those of docs/method.md.", at(pointer+"/status"))
	case c.Phase != speedmatrix.PhasePrefill && c.Phase != speedmatrix.PhaseDecode:
		return bad("phase", "A cell has a phase that there is not", "It is prefill or decode.", at(pointer+"/phase"))
	case c.Concurrency < 1 || c.Concurrency > mostConcurrency:
		return bad("concurrency", "A cell has a number of requests that cannot be", fmt.Sprintf("It is from 1 to %d.", mostConcurrency), at(pointer+"/concurrency"))
	case c.Context < 0 || c.Context > 100*mostTokens:
		return bad("context", "A cell has a context that cannot be", "It is a number of tokens.", at(pointer+"/context"))
	case c.ContextLabel == "" || len(c.ContextLabel) > 16:
		return bad("label", "A cell has no label, or a long one", "It is such as 16K.", at(pointer+"/context_label"))
	}
	return readable(pointer+"/context_label", c.ContextLabel)
}

// secrets refuses what must not be published: the client takes it out, so that what is left came another way.
func secrets(run *speedmatrix.Run) error {
	r := redact.New(redact.Options{})
	clean, err := redact.Copy(r, run)
	if err != nil {
		return err
	}
	changes, err := redact.Changes(run, clean)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Before != "" {
			return bad("secret", "run.json holds something that must not be published", "A key, a token, an address or the like stands there; `speedmatrix submit` takes it out.", at(c.Pointer))
		}
	}
	return nil
}

// secretLog refuses a log with what must not be published.
func secretLog(log []byte) error {
	line := redact.New(redact.Options{}).Lines()
	n := 0
	for l := range strings.Lines(string(log)) {
		n++
		if line(l) != l {
			return bad("secret", "engine.log holds something that must not be published", fmt.Sprintf("A key, a token, an address or the like stands in line %d; `speedmatrix submit` takes it out.", n), "engine.log")
		}
	}
	return nil
}

// describe is the entry of an upload before the site gives it a name.
func describe(run *speedmatrix.Run, document []byte) catalog.Entry {
	e := catalog.Describe(run)
	e.DocumentHash = hashOf(document)
	return e
}
