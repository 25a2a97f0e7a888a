// Package metricstext reads the Prometheus text format, as engines give it under
// /metrics, and answers the few questions that a scrape asks: the sum of a metric
// over its label sets, and the value of a label.
//
// It reads the plain text format alone. An OpenMetrics answer may carry exemplars,
// which make the whole scrape unreadable, so a client must send Accept and nothing
// wider.
package metricstext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Accept is the request header value that asks for the format read here.
const Accept = "text/plain;version=0.0.4"

// Families are the metrics of one scrape. The zero value holds none.
type Families struct {
	series map[string][]sample
}

// Label is a label of a sample, or a condition on one.
type Label struct{ Name, Value string }

type sample struct {
	labels []*dto.LabelPair
	value  float64
}

// Parse reads one scrape. A histogram or summary x is kept as its parts x_sum and
// x_count; its buckets and quantiles are left out unread. A scrape that is not readable to
// its end is an error and gives nothing: half a scrape would look like zeros.
func Parse(r io.Reader) (Families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&lean{lines: bufio.NewReader(r)})
	if err != nil {
		return Families{}, fmt.Errorf("read metrics: %w", err)
	}
	f := Families{series: make(map[string][]sample, len(families))}
	for name, family := range families {
		seen := map[string]bool{}
		for _, m := range family.GetMetric() {
			// A sample that comes twice counts once.
			if labels := joined(m.GetLabel()); !seen[labels] {
				seen[labels] = true
				f.add(name, m)
			}
		}
	}
	return f, nil
}

// joined is a text that only equal labels share.
func joined(labels []*dto.LabelPair) string {
	var all strings.Builder
	for _, pair := range labels {
		fmt.Fprintf(&all, "%q=%q,", pair.GetName(), pair.GetValue())
	}
	return all.String()
}

// lean leaves out what the parser would only throw away, which is most of a scrape: the help
// texts and the buckets of histograms.
type lean struct {
	lines     *bufio.Reader
	histogram string // whose lines come, as "name_bucket"
	rest      []byte // of a line that is wanted
	inLine    bool   // the last piece did not end its line
	skip      bool   // the line begun is not wanted
}

// Read gives the wanted lines.
func (l *lean) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		piece, err := l.lines.ReadSlice('\n')
		if !l.inLine {
			l.skip = l.unwanted(piece)
		}
		l.inLine = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !l.inLine && len(piece) == 0 {
			return 0, err
		}
		if !l.skip {
			l.rest = piece
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// unwanted says whether a line, of which the beginning is given, can be left out.
func (l *lean) unwanted(line []byte) bool {
	if bytes.HasPrefix(line, []byte("# HELP ")) {
		return true
	}
	if kind, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
		l.histogram = ""
		if fields := bytes.Fields(kind); len(fields) == 2 && string(fields[1]) == "histogram" {
			l.histogram = string(fields[0]) + "_bucket"
		}
		return false
	}
	after, ok := bytes.CutPrefix(line, []byte(l.histogram))
	return l.histogram != "" && ok && len(after) > 0 && (after[0] == '{' || after[0] == ' ')
}

func (f Families) add(name string, m *dto.Metric) {
	put := func(name string, value float64) {
		f.series[name] = append(f.series[name], sample{labels: m.GetLabel(), value: value})
	}
	switch {
	case m.Counter != nil:
		put(name, m.GetCounter().GetValue())
	case m.Gauge != nil:
		put(name, m.GetGauge().GetValue())
	case m.Untyped != nil:
		put(name, m.GetUntyped().GetValue())
	case m.Histogram != nil:
		put(name+"_sum", m.GetHistogram().GetSampleSum())
		put(name+"_count", float64(m.GetHistogram().GetSampleCount()))
	case m.Summary != nil:
		put(name+"_sum", m.GetSummary().GetSampleSum())
		put(name+"_count", float64(m.GetSummary().GetSampleCount()))
	}
}

// Sum adds a metric over all its label sets that satisfy every condition. ok is
// false when there is none, or when the sum is no number: unknown is not zero.
func (f Families) Sum(name string, where ...Label) (sum float64, ok bool) {
	for _, s := range f.series[name] {
		if s.satisfies(where) {
			sum, ok = sum+s.value, true
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, false
	}
	return sum, ok
}

// Mean is Sum divided by the number of label sets, for metrics that are shares.
func (f Families) Mean(name string, where ...Label) (mean float64, ok bool) {
	sum, ok := f.Sum(name, where...)
	if !ok {
		return 0, false
	}
	n := 0
	for _, s := range f.series[name] {
		if s.satisfies(where) {
			n++
		}
	}
	return sum / float64(n), true
}

// Label gives a label's value in the first of the metric's samples that has it.
func (f Families) Label(name, label string) (string, bool) {
	for value := range f.labels(name, label) {
		return value, true
	}
	return "", false
}

// Labels gives a label's value in every sample of the metric that has it, in the
// order of the scrape.
func (f Families) Labels(name, label string) []string {
	return slices.Collect(f.labels(name, label))
}

// Has says whether any metric's name begins with prefix.
func (f Families) Has(prefix string) bool {
	for name := range f.series {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (f Families) labels(name, label string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range f.series[name] {
			if value, ok := s.label(label); ok && !yield(value) {
				return
			}
		}
	}
}

func (s sample) label(name string) (string, bool) {
	for _, pair := range s.labels {
		if pair.GetName() == name {
			return pair.GetValue(), true
		}
	}
	return "", false
}

func (s sample) satisfies(where []Label) bool {
	for _, w := range where {
		if value, ok := s.label(w.Name); !ok || value != w.Value {
			return false
		}
	}
	return true
}
