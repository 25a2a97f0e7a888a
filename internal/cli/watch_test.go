package cli_test

import (
	"testing"

	"speedmatrix"
)

// What is read of this machine speaks of the server only where the server runs on it.
func TestTheMachineIsWatchedWhereTheServerIs(t *testing.T) {
	for _, c := range []struct {
		where string
		args  []string
		local bool
		port  int
		cpu   string
	}{
		{local, small(), true, 8000, "Test CPU"},
		{hosted, onHosted("--yes"), false, 80, ""},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			w.truth(c.where, steady())
			w.main(c.args...)
			w.ended(0)
			if len(w.watched) != 1 || w.watched[0].Local != c.local || w.watched[0].Port != c.port || w.watched[0].NoGPU != "" {
				t.Errorf("%s: watched %+v", c.where, w.watched)
			}
			doc := w.document("run")
			if got := doc.Hardware.Text(speedmatrix.HardwareCPU); got != c.cpu || doc.Telemetry == nil {
				t.Errorf("%s: CPU %q, telemetry %+v", c.where, got, doc.Telemetry)
			}
		})
	}
}
