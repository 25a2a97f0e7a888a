package bench

import (
	"context"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/load"
	"speedmatrix/internal/machine"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/stats"
)

// evidence gathers what the attempt left behind.
func (w *watcher) evidence(ctx context.Context) *Evidence {
	out := w.p.Outcome()
	e := &Evidence{Context: w.spec.Context, Concurrency: w.spec.Concurrency, Outcome: out, LiveCounter: w.d.o.Server.LiveCounter(),
		Counter: w.d.o.Server.CounterName(), TokensPerEvent: w.d.o.Habits.TokensPerEvent, TemplateTokens: w.d.o.Habits.TemplateTokens,
		BlockTokens: w.d.o.KVBlockTokens, WholeLife: w.spec.WholeLife}
	if !speedmatrix.CapsOutput(w.d.o.Params.Extra) {
		e.MaxTokens = w.spec.MaxTokens
	}
	if w.openErr != nil {
		for i := range w.spec.Concurrency {
			r := failedRecord(PrefillSpec{Request: int32(i)}, out.StopNS, w.openErr)
			r.Row.Stream, r.Row.Purpose, r.Row.PlannedNS = int32(i), PurposeLaunch, out.LaunchNS
			e.Requests = append(e.Requests, r)
		}
	}
	e.FillError = fillsFailedReason(w.fills)
	if w.streams == nil {
		return e
	}
	logs := w.streams.Logs()
	for _, log := range logs {
		e.Requests = append(e.Requests, record(log))
	}
	e.Scrapes = w.d.scraper.since(launched(e.Requests))
	w.countTexts(ctx, e, logs)
	e.Client = w.quality(logs)
	if len(logs) > 0 {
		e.Text = oneLine(logs[0].Text())
	}
	return e
}

// countTexts asks the server's tokenizer for the tokens of the window's text, for requests without a count.
func (w *watcher) countTexts(ctx context.Context, e *Evidence, logs []*load.Log) {
	if w.d.o.Habits.UsageEveryEvent || !w.d.o.Habits.Tokenizer {
		return
	}
	win, ok := snap(e)
	if !ok {
		return
	}
	for i, log := range logs {
		if log.Usage.Completion >= 0 {
			continue
		}
		text := log.TextBetween(win.start, win.end)
		if len(text) == 0 {
			continue
		}
		n, err := w.d.o.Server.CountText(context.WithoutCancel(ctx), string(text))
		if err != nil {
			return
		}
		tokens := int32(math.Round(float64(n) * float64(lengthOf(log, win)) / float64(len(text)))) // a stream keeps only so much text
		e.Requests[i].Row.WindowTokens = &tokens
	}
}

// lengthOf is the length of a request's text in the window, that which was not kept included.
func lengthOf(log *load.Log, w window) (length int) {
	for e := range log.Events() {
		if w.holds(e.At) {
			length += e.Length
		}
	}
	return length
}

// launched is when the first request was to be sent.
func launched(requests []Recorded) int64 {
	at := int64(math.MaxInt64)
	for _, r := range requests {
		if r.Row.Purpose == PurposeLaunch {
			at = min(at, r.Row.PlannedNS)
		}
	}
	return at
}

// quality gathers how well the client could time the cell.
func (w *watcher) quality(logs []*load.Log) *speedmatrix.ClientQuality {
	out := qualityOf(w.streams.Quality(), &w.late, logs)
	if w.usage != nil && w.usageEnd != nil {
		addUsage(out, w.usage, w.usageEnd)
	}
	return out
}

// qualityOf words a quality of streams; wakes is how late this program woke from its own sleeps meanwhile.
func qualityOf(q load.Quality, wakes *stamp.Histogram, logs []*load.Log) *speedmatrix.ClientQuality {
	out := &speedmatrix.ClientQuality{StampSource: StampUser, Reader: string(q.Engine), UnstampedReads: int(q.Unstamped), Replays: q.Replays}
	if q.Kernel {
		out.StampSource = StampKernel
	}
	if q.EventReads > 0 {
		out.EventsPerRead = new(float64(q.Events) / float64(q.EventReads))
		out.CoalescedShare = new(float64(q.CoalescedReads) / float64(q.EventReads))
		// A bound of p99 must hold where the share of such events is 1 in 100 by a hair, so it is taken a little above.
		out.StampBoundP99Micros = new(float64(q.StampBound(0.995)) / 1e3)
	}
	lag := q.Lag
	if lag == nil || lag.Count() == 0 {
		// Without the kernel's stamps a read's own lateness is unknown: that of this goroutine's wakes stands for it.
		lag = wakes
	}
	if lag.Count() > 0 {
		out.ReaderLagP99Micros = new(float64(lag.Quantile(0.99)) / 1e3)
	}
	var late []float64
	for _, l := range logs {
		if l.Purpose == PurposeLaunch && l.PlannedNS > 0 && l.DepartedNS > 0 {
			late = append(late, float64(l.DepartedNS-l.PlannedNS)/1e3)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		out.SendLateP99Micros = new(stats.Quantile(late, 0.99))
	}
	return out
}

// addUsage adds what this program and its machine used between two samples.
func addUsage(out *speedmatrix.ClientQuality, begun, ended *machine.Usage) {
	if cores, share, ok := ended.Since(*begun); ok {
		out.CPUShare, out.MachineCPUShare = &cores, &share
	}
	if pause, ok := ended.LongestPause(*begun); ok {
		out.GCPauseMaxMicros = new(float64(pause) / 1e3)
	}
}

// sampleUsage reads this process's and the machine's use of the CPU.
func sampleUsage() *machine.Usage {
	u := machine.Sample()
	return &u
}

// oneLine is the first words of a text, on one line.
func oneLine(text []byte) string {
	fields := strings.Fields(string(text[:min(len(text), 600)]))
	line := []rune(strings.Join(fields, " "))
	if len(line) > 160 {
		line = append(line[:159], '…')
	}
	return string(line)
}
