package wire

import (
	"math"
	"strconv"
	"strings"
)

// ExpositionType is the content type of Exposition.
const ExpositionType = "text/plain; version=0.0.4; charset=utf-8"

// What is escaped in the text of help and in the values of labels.
var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// Exposition builds the Prometheus text of /metrics. The zero value is empty.
type Exposition struct {
	buf  []byte
	name string
}

// Family begins a metric family; kind is "counter", "gauge" or "histogram".
func (x *Exposition) Family(name, kind, help string) {
	x.name = name
	x.buf = append(x.buf, "# HELP "+name+" "...)
	x.buf = append(x.buf, helpEscapes.Replace(help)...)
	x.buf = append(x.buf, "\n# TYPE "+name+" "+kind+"\n"...)
}

// Sample adds a value of the family with labels given as name, value, name, value…
func (x *Exposition) Sample(value float64, labels ...string) { x.sample("", value, labels) }

// Suffixed adds a value under the family's name and a suffix, as histograms have them.
func (x *Exposition) Suffixed(suffix string, value float64, labels ...string) {
	x.sample(suffix, value, labels)
}

func (x *Exposition) sample(suffix string, value float64, labels []string) {
	x.buf = append(x.buf, x.name...)
	x.buf = append(x.buf, suffix...)
	for i := 0; i+1 < len(labels); i += 2 {
		x.buf = append(x.buf, "{,"[min(i, 1)])
		x.buf = append(x.buf, labels[i]...)
		x.buf = append(x.buf, `="`...)
		x.buf = append(x.buf, labelEscapes.Replace(labels[i+1])...)
		x.buf = append(x.buf, '"')
	}
	if len(labels) > 1 {
		x.buf = append(x.buf, '}')
	}
	x.buf = append(x.buf, ' ')
	x.buf = appendValue(x.buf, value)
	x.buf = append(x.buf, '\n')
}

// appendValue writes whole numbers with one decimal, as the Python client does.
func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(b, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// Bytes is the text so far.
func (x *Exposition) Bytes() []byte { return x.buf }
