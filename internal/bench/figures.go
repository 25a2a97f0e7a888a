package bench

import (
	"fmt"
	"math"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stats"
)

// usualBlock is the block of a prefix cache that does not tell its size, in tokens.
const usualBlock = 16

// coldLimit is how many cached tokens a cold prompt may have: the chat template and one block.
func coldLimit(template, block int) int {
	if block <= 0 {
		block = usualBlock
	}
	return template + block
}

// ttftKind says whether the launch was cold or warm; see docs/method.md.
func ttftKind(e *Evidence, ttft *speedmatrix.Distribution) speedmatrix.TTFTKind {
	known, cold, warm := cachedLaunches(e)
	switch {
	case known > 0 && cold == known:
		return speedmatrix.TTFTCold
	case known > 0 && warm == known:
		return speedmatrix.TTFTWarm
	case known > 0:
		return speedmatrix.TTFTMixed
	case e.Context == 0 || e.FillTTFT == 0:
		return speedmatrix.TTFTCold
	case ttft != nil && ttft.P50 != nil && *ttft.P50 < float64(e.FillTTFT)/1e6/2:
		return speedmatrix.TTFTWarm
	}
	return speedmatrix.TTFTUnknown
}

// cachedLaunches counts the launched requests that report cached tokens, and those of them that were cold or warm.
func cachedLaunches(e *Evidence) (known, cold, warm int) {
	for _, r := range e.Requests {
		row := &r.Row
		if row.Purpose != PurposeLaunch || row.CachedTokens == nil {
			continue
		}
		prompt := int32(e.Context)
		if row.PromptTokens != nil {
			prompt = *row.PromptTokens
		}
		known++
		if int(*row.CachedTokens) <= coldLimit(e.TemplateTokens, e.BlockTokens) {
			cold++
		} else if 2**row.CachedTokens > prompt {
			warm++
		}
	}
	return known, cold, warm
}

func countRequests(requests []Recorded) *speedmatrix.RequestCounts {
	n := &speedmatrix.RequestCounts{Sent: len(requests)}
	for _, r := range requests {
		switch speedmatrix.RequestClass(r.Row.Class) {
		case speedmatrix.RequestCompleted:
			n.Completed++
		case speedmatrix.RequestCut:
			n.Cut++
		default:
			n.Failed++
		}
	}
	return n
}

func firstError(requests []Recorded) string {
	at, text := int64(math.MaxInt64), ""
	for _, r := range requests {
		if r.Row.Class == string(speedmatrix.RequestFailed) && r.Row.EndedNS != nil && *r.Row.EndedNS < at {
			at, text = *r.Row.EndedNS, r.Row.Error
			if r.Row.HTTPStatus >= 400 {
				text = fmt.Sprintf("HTTP %d: %s", r.Row.HTTPStatus, r.Row.Error)
			}
		}
	}
	return text
}

func stepSeconds(steps map[Step]time.Duration) *speedmatrix.StepSeconds {
	sec := func(list ...Step) (sum float64) {
		for _, s := range list {
			sum += steps[s].Seconds()
		}
		return sum
	}
	return &speedmatrix.StepSeconds{Drain: sec(StepDrain), Fill: sec(StepFill), Launch: sec(StepLaunch), Ramp: sec(StepRamp),
		Window: sec(StepWindow, StepSettle), Stop: sec(StepStop, StepEmpty)}
}

func appendKnown(list []float64, v *int32) []float64 {
	if v == nil {
		return list
	}
	return append(list, float64(*v))
}

func median(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := stats.Median(values)
	return &m
}

func distribution(values []float64, of string) *speedmatrix.Distribution {
	if len(values) == 0 {
		return nil
	}
	s := stats.Summarize(values)
	return &speedmatrix.Distribution{P50: s.P50, P90: s.P90, P95: s.P95, P99: s.P99, Min: s.Min, Max: s.Max, Mean: s.Mean, N: s.N, Of: of}
}

// sendTimes are the times from the start of the requests to their last byte in the socket, and those to open
// connections, in ms.
func sendTimes(requests []Recorded) (send, connect *speedmatrix.Distribution) {
	var sends, connects []float64
	for _, r := range requests {
		if r.Row.SendNS != nil {
			sends = append(sends, float64(*r.Row.SendNS)/1e6)
		}
		if r.Row.ConnectNS != nil {
			connects = append(connects, float64(*r.Row.ConnectNS)/1e6)
		}
	}
	return distribution(sends, "requests"), distribution(connects, "requests")
}
