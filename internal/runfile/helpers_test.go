package runfile

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"speedmatrix"
)

// fullRun is a document in which every field has a value, filled in by reflection.
func fullRun(t *testing.T) *speedmatrix.Run {
	t.Helper()
	var r speedmatrix.Run
	fill(reflect.ValueOf(&r).Elem(), "")
	r.Schema = speedmatrix.Schema
	return &r
}

// enums are values of fields that the schema does not leave free.
var enums = map[string]string{
	"side": "A", "origin": string(speedmatrix.OriginMeasured), "phase": string(speedmatrix.PhaseDecode),
	"status": string(speedmatrix.StatusValid), "ttft_kind": string(speedmatrix.TTFTWarm),
	"token_source": string(speedmatrix.TokensFinalUsage), "channel": "reasoning",
	"of": speedmatrix.TelemetryOfServer, "verdict": string(speedmatrix.ThrottlePowerCap),
}

func fill(v reflect.Value, name string) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 11, 30, 20, 15, 0, 123456789, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i, f := range fieldList(v.Type()) {
			fill(v.Field(i), f)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]speedmatrix.Fact]() {
			v.Set(reflect.ValueOf([]speedmatrix.Fact{{Value: true, Source: "log"}}))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item, "value")
		v.SetMapIndex(reflect.ValueOf("key"), item)
	case reflect.Interface:
		v.Set(reflect.ValueOf(0.5))
	case reflect.String:
		text := "text <&> é"
		if e, ok := enums[name]; ok {
			text = e
		}
		v.SetString(text)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Int:
		v.SetInt(3)
	case reflect.Bool:
		v.SetBool(true)
	}
}

func fieldList(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func create(t *testing.T) *Dir {
	t.Helper()
	d, err := Create(t.TempDir() + "/runs/one")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantOutput asserts a *speedmatrix.Error of KindOutput that says all of want.
func wantOutput(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", want)
	}
	if kind := speedmatrix.KindOf(err); kind != speedmatrix.KindOutput {
		t.Errorf("kind %v, want KindOutput: %v", kind, err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
