package runfile

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func TestMachineRowsComeBackAsTheyWere(t *testing.T) {
	d := create(t)
	if rows, err := d.Machine(); err != nil || rows != nil {
		t.Errorf("a run without samples has %v, %v", rows, err)
	}
	full := speedmatrix.MachineRow{TimeNS: 1_800_000_000_123_456_789, Cell: "decode-16k-x8"}
	v := reflect.ValueOf(&full).Elem()
	for _, f := range v.Fields() {
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	full.Power, full.GPU, full.MemoryUsed, full.PowerCap = new(348.25), new(int32(3)), new(int64(24<<30)), new(true)
	// Zeros are known, and null is not zero.
	rows := []speedmatrix.MachineRow{full, {TimeNS: 5}, {TimeNS: 6, CPUBusy: new(0.0), PowerCap: new(false)}}
	if err := d.SaveMachine(rows); err != nil {
		t.Fatal(err)
	}
	got, err := d.Machine()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Errorf("saved (−), read (+):\n%s", diff)
	}
}

func TestALossOfTelemetryIsWrittenAsEmptyLists(t *testing.T) {
	run := fullRun(t)
	run.Telemetry = &speedmatrix.Telemetry{Of: speedmatrix.TelemetryOfClient}
	if err := Validate(encoded(t, run)); err != nil {
		t.Error(err)
	}
	run.Telemetry = nil
	if err := Validate(encoded(t, run)); err != nil {
		t.Error(err)
	}
}
