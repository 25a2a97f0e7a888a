package verify

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
)

// notFromRows are fields that the rows do not tell: what the cell is and was judged,
// and what the program saw of itself.
var notFromRows = []string{
	"phase", "context_label", "context", "concurrency", "status", "reason",
	"step_seconds", "loops", "client", "attempts", "first_error", "text_sample", "warnings",
}

// mayBeNull are numbers that a cell that shows a speed need not have.
var mayBeNull = map[speedmatrix.Phase][]string{
	speedmatrix.PhaseDecode: {"counter_check", "repeats"},
	speedmatrix.PhasePrefill: {
		"counter_check", "repeats", "requests", "completed_requests", "failed_requests", "send_ms", "connect_ms", "prompt_tokens", "cached_tokens",
	},
}

// exactly is the relative error that the order of additions may make.
const exactly = 1e-9

// comparison compares a published cell with a recomputed one.
type comparison struct {
	*checker
	m *measurement
	// halfWidth of the recomputed interval_95.
	halfWidth float64
}

// field is a place in a cell; required says that null is no answer.
type field struct {
	cell, name string
	required   bool
}

func (f field) part(name string) field { return field{f.cell, f.name + name, true} }

// compare goes through every field that the rows tell.
func (c *checker) compare(m *measurement, got *speedmatrix.Cell) {
	x := &comparison{checker: c, m: m}
	if m.hasWindow() {
		_, x.halfWidth = m.interval95()
	}
	published, recomputed := reflect.ValueOf(m.cell).Elem(), reflect.ValueOf(got).Elem()
	for i := range published.NumField() {
		name := jsonName(published.Type().Field(i))
		if slices.Contains(notFromRows, name) {
			continue
		}
		required := m.cell.Status.ShowsSpeed() && !slices.Contains(mayBeNull[m.cell.Phase], name)
		x.value(field{m.key, name, required}, published.Field(i), recomputed.Field(i))
	}
	x.replays()
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// value compares two values of one type.
func (x *comparison) value(f field, published, recomputed reflect.Value) {
	switch published.Kind() {
	case reflect.Pointer:
		x.pointer(f, published, recomputed)
	case reflect.Struct:
		x.object(f, published, recomputed)
	case reflect.Slice:
		x.list(f, published, recomputed)
	case reflect.Float64:
		x.report.Numbers++
		p, r := published.Float(), recomputed.Float()
		// Written so that a NaN disagrees.
		if !(math.Abs(p-r) <= x.tolerance(f.name, p, r)) {
			x.disagree(f.cell, f.name, number(p), number(r))
		}
	case reflect.Int:
		x.report.Numbers++
		if published.Int() != recomputed.Int() {
			x.disagree(f.cell, f.name, published.Int(), recomputed.Int())
		}
	case reflect.String:
		x.word(f, published.String(), recomputed.String())
	}
}

func (x *comparison) pointer(f field, published, recomputed reflect.Value) {
	published, recomputed = withoutEmpty(published), withoutEmpty(recomputed)
	switch {
	case published.IsNil() && recomputed.IsNil():
	case published.IsNil():
		if f.required {
			x.disagree(f.cell, f.name, "null", text(recomputed))
		}
	case recomputed.IsNil():
		x.disagree(f.cell, f.name, text(published), "null")
	default:
		x.value(f, published.Elem(), recomputed.Elem())
	}
}

// withoutEmpty takes a distribution of no samples for none.
func withoutEmpty(v reflect.Value) reflect.Value {
	if d, ok := v.Interface().(*speedmatrix.Distribution); ok && d != nil && d.N == 0 {
		return reflect.Zero(v.Type())
	}
	return v
}

func (x *comparison) object(f field, published, recomputed reflect.Value) {
	if p, ok := published.Interface().(time.Time); ok {
		if r := recomputed.Interface().(time.Time); !p.Equal(r) {
			x.disagree(f.cell, f.name, p, r)
		}
		return
	}
	for i := range published.NumField() {
		x.value(f.part("."+jsonName(published.Type().Field(i))), published.Field(i), recomputed.Field(i))
	}
}

func (x *comparison) list(f field, published, recomputed reflect.Value) {
	if published.Len() != recomputed.Len() {
		// What is wrong with the one that is missing is said already.
		return
	}
	for i := range published.Len() {
		x.value(f.part(fmt.Sprintf("[%d]", i)), published.Index(i), recomputed.Index(i))
	}
}

// word compares what the rows tell in words; "" is what they do not tell.
func (x *comparison) word(f field, published, recomputed string) {
	switch {
	case recomputed == "" || published == recomputed:
	case published == "" && (!f.required || strings.HasSuffix(f.name, ".of")):
	default:
		x.disagree(f.cell, f.name, strconv.Quote(published), strconv.Quote(recomputed))
	}
}

// tolerance is how far two results of one formula may be apart.
func (x *comparison) tolerance(name string, a, b float64) float64 {
	t := exactly * max(math.Abs(a), math.Abs(b))
	switch name {
	case "interval_95.low", "interval_95.high":
		// A quantile of Student's t is known to five digits at least.
		t += 1e-5 * x.halfWidth
	case "queued_share":
		// What a request may wait is a whole number of nanoseconds.
		t += float64(len(x.m.streams)) / 1e9 / (float64(x.m.cell.Concurrency) * x.m.seconds())
	}
	return t
}

// replays is the one figure of the client that the rows tell.
func (x *comparison) replays() {
	if x.m.cell.Client == nil {
		return
	}
	var replays int32
	for _, r := range x.m.requests {
		if r.Stream >= 0 || x.m.cell.Phase == speedmatrix.PhasePrefill {
			replays += r.Replays
		}
	}
	x.report.Numbers++
	if x.m.cell.Client.Replays != int(replays) {
		x.disagree(x.m.key, "client.replays", x.m.cell.Client.Replays, replays)
	}
}

// compareValue compares one number of the run; slack is an absolute error allowed besides.
func (c *checker) compareValue(f field, published, recomputed *float64, slack float64) {
	c.report.Numbers++
	switch {
	case published == nil && recomputed == nil:
	case published == nil || recomputed == nil:
		c.disagree(f.cell, f.name, text(reflect.ValueOf(published)), text(reflect.ValueOf(recomputed)))
	case !(math.Abs(*published-*recomputed) <= slack+exactly*math.Abs(*recomputed)):
		c.disagree(f.cell, f.name, number(*published), number(*recomputed))
	}
}

// text words a value, a pointer to one, or a distribution.
func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		if d, ok := v.Interface().(*speedmatrix.Distribution); ok {
			return fmt.Sprintf("n = %d", d.N)
		}
		return text(v.Elem())
	}
	if v.Kind() == reflect.Float64 {
		return number(v.Float())
	}
	return fmt.Sprintf("%v", v.Interface())
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
