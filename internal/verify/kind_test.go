package verify

import (
	"testing"

	"speedmatrix"
)

func TestTheKindOfTTFT(t *testing.T) {
	const none = -1
	tests := map[string]struct {
		context int
		cached  [2]int
		fills   []float64 // TTFT of the row's fills before the launch, in ms
		want    speedmatrix.TTFTKind
	}{
		"template and a block":         {1024, [2]int{26, 0}, nil, speedmatrix.TTFTCold},
		"most of the prompt":           {1024, [2]int{900, 501}, nil, speedmatrix.TTFTWarm},
		"half is not most":             {1024, [2]int{900, 500}, nil, speedmatrix.TTFTMixed},
		"one cold, one warm":           {1024, [2]int{900, 0}, nil, speedmatrix.TTFTMixed},
		"only one reports":             {1024, [2]int{900, none}, []float64{250}, speedmatrix.TTFTWarm},
		"no fill":                      {1024, [2]int{none, none}, nil, speedmatrix.TTFTCold},
		"far quicker than the fills":   {1024, [2]int{none, none}, []float64{500, 401, 300}, speedmatrix.TTFTWarm},
		"not much quicker":             {1024, [2]int{none, none}, []float64{500, 400, 300}, speedmatrix.TTFTUnknown},
		"context 0":                    {0, [2]int{none, none}, []float64{500}, speedmatrix.TTFTCold},
		"context 0 with cached tokens": {0, [2]int{900, 900}, nil, speedmatrix.TTFTWarm},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run, cell, key := bare(2)
			cell.Context = test.context
			run.Engine = speedmatrix.Facts{speedmatrix.EngineKVBlockTokens: {Value: 16.0}}
			run.Server.Habits.TemplateTokens = 10
			rows := newMemory()
			// The launches have a TTFT of 200 ms.
			for i := range 2 {
				r := launch(int32(i), int32(i), 10)
				r.PromptTokens = whole(1000)
				if test.cached[i] != none {
					r.CachedTokens = whole(test.cached[i])
				}
				rows.put(key, r, every(210, 100, 10, 4)...)
			}
			for i, ttft := range append(test.fills, 1) {
				fill := speedmatrix.RequestRow{Request: int32(10 + i), Stream: -1, Purpose: "fill", WrittenNS: at(-9000), FirstNS: at(-9000 + ttft), Class: "completed"}
				if i == len(test.fills) {
					// One after the launch says nothing.
					fill.WrittenNS, fill.FirstNS = at(7000), at(7001)
				}
				rows.put(key, fill)
			}
			if got, _ := recompute(t, run, rows); got.TTFTKind != test.want {
				t.Errorf("%q, want %q", got.TTFTKind, test.want)
			}
		})
	}
}

func TestTheKindIsNotJudgedWhenFillsMayBeMissing(t *testing.T) {
	run, _, key := bare(1)
	rows := newMemory()
	rows.put(key, launch(0, 0, 10), every(210, 100, 10, 4)...)
	run.Cells = append(run.Cells, speedmatrix.Cell{Phase: speedmatrix.PhasePrefill, ContextLabel: "1K", Context: 1024, PromptTokensPerSecond: new(1.0)})
	if got, _ := recompute(t, run, rows); got.TTFTKind != "" {
		t.Errorf("%q", got.TTFTKind)
	}
}
