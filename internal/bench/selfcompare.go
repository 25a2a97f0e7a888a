package bench

import (
	"math"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/truth"
)

// timedWithin is the longest call for which the token's departure counts as known.
const timedWithin = 100 * time.Microsecond

// selfComparison gathers what a client recorded beside what the server did, in ns.
type selfComparison struct {
	stampErrors, ttftErrors, ttfts, trueTTFTs, late []float64
	tokens, untimed, missing                        int
	sent                                            []int64 // departures of the tokens
	allFirst, anyLast                               int64   // between the two all streams produce
}

// compareSelf holds the logs against the server's account.
func compareSelf(logs []*load.Log, account []truth.BeatRequest) *selfComparison {
	bySeed := map[int]*truth.BeatRequest{}
	for i := range account {
		r := &account[i]
		bySeed[r.Seed] = r
	}
	c := &selfComparison{anyLast: math.MaxInt64}
	for _, log := range logs {
		if said := bySeed[int(log.Stream)+1]; log.Purpose == PurposeLaunch && said != nil {
			c.request(log, said)
		}
	}
	for i := range account {
		for _, s := range account[i].Sent {
			c.sent = append(c.sent, s.BeganNS)
		}
	}
	return c
}

// request compares one request with the server's account of it.
func (c *selfComparison) request(log *load.Log, said *truth.BeatRequest) {
	i := 0
	for e := range log.Events() {
		if i == len(said.Sent) {
			break
		}
		c.token(e.At, said.Sent[i])
		i++
	}
	c.missing += len(said.Sent) - i
	if i == 0 {
		return
	}
	ttft, want := log.FirstNS-log.WrittenNS, said.Sent[0].BeganNS-said.ArrivedNS
	c.ttfts, c.trueTTFTs = append(c.ttfts, float64(ttft)), append(c.trueTTFTs, float64(want))
	c.ttftErrors = append(c.ttftErrors, math.Abs(float64(ttft-want)))
	c.late = append(c.late, float64(max(said.ArrivedNS-log.PlannedNS, 0)))
	c.allFirst, c.anyLast = max(c.allFirst, log.FirstNS), min(c.anyLast, log.LastNS)
}

// within moves the ends of the time in which all streams produce inwards, so that they lie between two bursts of
// tokens in lockstep: within one it would be chance which side of an end the first and the last token are on.
func (c *selfComparison) within(d time.Duration) {
	c.allFirst += int64(d)
	c.anyLast -= int64(d)
}

// token compares one stamp with the call that sent the token.
func (c *selfComparison) token(at int64, sent truth.Sent) {
	c.tokens++
	if sent.EndedNS-sent.BeganNS > int64(timedWithin) && at >= sent.BeganNS && at <= sent.EndedNS {
		c.untimed++
		return
	}
	c.stampErrors = append(c.stampErrors, math.Abs(float64(at-sent.BeganNS)))
}

// evidence is what a cell would be judged by whose window lies where all streams produced.
func (c *selfComparison) evidence(l SelfLoad, logs []*load.Log, q *speedmatrix.ClientQuality) *Evidence {
	e := &Evidence{Concurrency: l.Streams, Client: q, Outcome: Outcome{Ending: EndedMeasured, PlannedStartNS: c.allFirst,
		PlannedEndNS: c.anyLast, StopNS: c.anyLast, LaunchNS: launchedAt(logs), DrainedAfter: true}}
	for _, log := range logs {
		e.Requests = append(e.Requests, record(log))
	}
	return e
}

func launchedAt(logs []*load.Log) int64 {
	at := int64(math.MaxInt64)
	for _, l := range logs {
		at = min(at, l.PlannedNS)
	}
	return at
}

// snappedRate is the rate of tokens between the first ones at or after two times, as the window of a cell is snapped.
func snappedRate(times []int64, from, to int64) (perSecond float64, ok bool) {
	slices.Sort(times)
	first, _ := slices.BinarySearch(times, from)
	last, _ := slices.BinarySearch(times, to)
	if last = min(last, len(times)-1); first >= last || times[first] == times[last] {
		return 0, false
	}
	// Tokens with the time of the start are excluded, those with that of the end included.
	begin, _ := slices.BinarySearch(times, times[first]+1)
	end, _ := slices.BinarySearch(times, times[last]+1)
	return float64(end-begin) / (float64(times[last]-times[first]) / 1e9), true
}

// micros is a quantile of times in ns, in µs; nil without any.
func micros(ns []float64, q float64) *float64 {
	if len(ns) == 0 {
		return nil
	}
	slices.Sort(ns)
	return new(stats.Quantile(ns, q) / 1e3)
}
