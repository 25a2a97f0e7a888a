package report

import (
	"strconv"
	"strings"

	"speedmatrix/internal/chart"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

func newComparedNumber(m compare.Metric, d *compare.Difference) ComparedNumber {
	n := ComparedNumber{Significant: d.Significant(), Step: chart.Differences / 2, Exact: changeFine(d.Change)}
	n.Both = atGlance(d.From) + " → " + atGlance(d.To)
	if d.Low != nil {
		n.Interval = strings.TrimSuffix(changeFine(*d.Low), " %") + " to " + changeFine(*d.High)
	}
	if d.Judgement == compare.Same {
		n.Change = "same"
		return n
	}
	ratio := d.To / d.From
	n.Change = changeAtGlance(d.Change, d.Low == nil)
	if !m.MoreIsBetter() {
		ratio = 1 / ratio
	}
	n.Step = chart.DifferenceStep(ratio)
	return n
}

// changeAtGlance is "+4 %", "+4.1 %" where it is known that well, or "× 3.1" from threefold.
func changeAtGlance(share float64, rough bool) string {
	switch {
	case share >= senseless:
		return changeFine(share)
	case share >= 2:
		return "× " + unit.Fixed(1+share, 1)
	case rough || share >= 0.1 || share <= -0.1:
		text := unit.Fixed(100*share, 0) + " %"
		if share > 0 {
			text = "+" + text
		}
		return text
	}
	return unit.Change(share)
}

// senseless is a change that no column could hold in percent.
const senseless = 1e5

// changeFine is a change as it is, as a factor where it has no sense as a share.
func changeFine(share float64) string {
	if share >= senseless {
		return "× " + strconv.FormatFloat(1+share, 'e', 1, 64)
	}
	return unit.ChangeFine(share)
}

// atGlance is a number without more digits than a glance takes in.
func atGlance(v float64) string {
	if v < 20 {
		return number(&v, oneDecimal)
	}
	return number(&v, count)
}
