package verify

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
)

// unverifiable are numbers that no row tells: how long steps took, and what the program saw of itself.
var unverifiable = []string{"step_seconds.", "attempts", "client."}

// change is one number of a document and the way to change it a little.
type change struct {
	path  string
	apply func()
}

// changes lists all numbers and times below a value.
func changes(v reflect.Value, path string) []change {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return changes(v.Elem(), path)
	case reflect.Slice:
		var list []change
		for i := range v.Len() {
			list = append(list, changes(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return list
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			return []change{{path, func() { v.Set(reflect.ValueOf(v.Interface().(time.Time).Add(1))) }}}
		}
		var list []change
		for i := range v.NumField() {
			list = append(list, changes(v.Field(i), strings.TrimPrefix(path+"."+jsonName(v.Type().Field(i)), "."))...)
		}
		return list
	case reflect.Float64:
		return []change{{path, func() {
			if v.Float() == 0 {
				v.SetFloat(0.01)
			} else {
				v.SetFloat(v.Float() * 1.01)
			}
		}}}
	case reflect.Int:
		return []change{{path, func() { v.SetInt(v.Int() + 1) }}}
	}
	return nil
}

// places are the cells of the good run by what they are.
func places(run *speedmatrix.Run) map[string]*speedmatrix.Cell {
	return map[string]*speedmatrix.Cell{
		"prefill": &run.Cells[0], "decode": &run.Cells[1], "drift": &run.Drift.Cell, "repeat": &run.Repeats[0].Cells[0],
	}
}

func TestAChangeOfAnyPublishedNumberIsDetected(t *testing.T) {
	run, _ := goodRun()
	tried := 0
	for place, cell := range places(run) {
		for _, c := range changes(reflect.ValueOf(cell), "") {
			if !slices.ContainsFunc(unverifiable, func(p string) bool { return strings.HasPrefix(c.path, p) }) || c.path == "client.replays" {
				tried++
				t.Run(place+" "+c.path, func(t *testing.T) { wantDetected(t, place, c.path) })
			}
		}
	}
	// As many numbers as the cells of the good run publish: a walk that finds none proves nothing.
	if tried < 190 {
		t.Errorf("only %d numbers were changed", tried)
	}
}

// wantDetected changes one number of a fresh good run and checks it.
func wantDetected(t *testing.T, place, path string) {
	t.Helper()
	run, rows := goodRun()
	for _, c := range changes(reflect.ValueOf(places(run)[place]), "") {
		if c.path == path {
			c.apply()
		}
	}
	if report := check(t, run, rows); len(report.Disagreements) == 0 {
		t.Error("the change is not detected")
	}
}

func TestANumberTakenAwayFromAValidCellIsDetected(t *testing.T) {
	run, _ := goodRun()
	of := reflect.TypeFor[speedmatrix.Cell]()
	optional := append(slices.Clone(unverifiable), "step_seconds", "client", "counter_check")
	for i := range of.NumField() {
		name := jsonName(of.Field(i))
		if v := reflect.ValueOf(run.Cells[1]).Field(i); v.Kind() != reflect.Pointer || v.IsNil() || slices.Contains(optional, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			run, rows := goodRun()
			reflect.ValueOf(&run.Cells[1]).Elem().Field(i).SetZero()
			field := name
			if name == "window_started_at" {
				field = "window_seconds" // half a window is said of the other half
			}
			wantOne(t, check(t, run, rows), field)
		})
	}
}

func TestAChangeOfTheRunsOwnNumbersIsDetected(t *testing.T) {
	tests := map[string]func(*speedmatrix.Run){
		"drift.change":      func(r *speedmatrix.Run) { r.Drift.Change = new(0.01) },
		"drift.significant": func(r *speedmatrix.Run) { r.Drift.Significant = true },
		"cells (decode":     func(r *speedmatrix.Run) { r.Plan.Contexts = append(r.Plan.Contexts, 2048) },
		"cells (prefill":    func(r *speedmatrix.Run) { r.Cells = append(r.Cells, r.Cells[0]) },
		"plan":              func(r *speedmatrix.Run) { r.Plan.Prefill = nil },
		"repeats":           func(r *speedmatrix.Run) { r.Repeats[0].Cells = append(r.Repeats[0].Cells, r.Repeats[0].Cells[0]) },
		"drift.cell":        func(r *speedmatrix.Run) { r.Drift.Cell.Context = 512 },
		"token_source":      func(r *speedmatrix.Run) { r.Cells[1].TokenSource = speedmatrix.TokensFinalUsage },
		"ttft_kind":         func(r *speedmatrix.Run) { r.Cells[1].TTFTKind = speedmatrix.TTFTCold },
		"ttft_ms.of":        func(r *speedmatrix.Run) { r.Cells[1].TTFT.Of = "streams" },
		"prefill_samples":   func(r *speedmatrix.Run) { r.Cells[0].PrefillSamples = r.Cells[0].PrefillSamples[:3] },
		"connect_ms":        func(r *speedmatrix.Run) { r.Cells[1].Connect = nil },
		"window_seconds":    func(r *speedmatrix.Run) { r.Cells[1].WindowSeconds = nil },
	}
	for field, change := range tests {
		t.Run(field, func(t *testing.T) {
			run, rows := goodRun()
			change(run)
			wantOne(t, check(t, run, rows), field)
		})
	}
}

func TestAnEmptyDistributionEqualsNone(t *testing.T) {
	run, rows := goodRun()
	key := run.Cells[1].Key()
	for i := range rows.requests[key] {
		rows.requests[key][i].ConnectNS = nil
	}
	run.Cells[1].Connect = &speedmatrix.Distribution{Of: "requests"}
	wantNone(t, check(t, run, rows))
	run.Cells[1].Connect = nil
	wantNone(t, check(t, run, rows))
}
