package report

import (
	"bytes"
	"io"
	"testing"
)

func BenchmarkHTML(b *testing.B) {
	run := fullRun()
	b.ReportAllocs()
	for b.Loop() {
		if err := HTML(io.Discard, Build(run), HTMLOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHTMLOfAMeasuredRunWithOneCellsRows(b *testing.B) {
	run, rows := measuredRun()
	for b.Loop() {
		if err := HTML(io.Discard, Build(run), HTMLOptions{Rows: rows}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCard(b *testing.B) {
	d := Build(fullRun())
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := Card(&out, d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(out.Len()), "bytes")
}
