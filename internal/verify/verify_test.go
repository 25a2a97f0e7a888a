package verify

import (
	"testing"
)

func TestAGoodRunAgreesWithItsRows(t *testing.T) {
	run, rows := goodRun()
	report := check(t, run, rows)
	wantNone(t, report)
	if report.Cells != 4 || len(report.Unchecked) > 0 {
		t.Errorf("%d cells checked, unchecked %q", report.Cells, report.Unchecked)
	}
	if report.Numbers < 180 {
		t.Errorf("only %d numbers compared", report.Numbers)
	}
}
