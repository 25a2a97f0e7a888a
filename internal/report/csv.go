package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
)

// CSV writes one row for each cell of the run with every field of it, under names
// that say their unit and never change their order. Numbers are raw, unrounded, with a
// point; unknown is empty; lists are JSON. The speeds and times of a cell whose status
// shows none are empty; what it was judged by stays. Text that a spreadsheet would
// take for a formula begins with an apostrophe. It fails only if w does.
func CSV(w io.Writer, d *Document) error {
	out := csv.NewWriter(w)
	columns := csvColumns()
	head := make([]string, len(columns))
	for i, column := range columns {
		head[i] = column.name
	}
	if err := out.Write(head); err != nil {
		return err
	}
	record := make([]string, len(columns))
	for _, m := range d.Measurements {
		for i, column := range columns {
			record[i] = ""
			if m.ShowsSpeed || !column.speed {
				record[i] = column.value(csvRow{run: d.Run, m: m, c: m.Cell})
			}
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvRow is what a column may take its value from.
type csvRow struct {
	run *speedmatrix.Run
	m   *Measurement
	c   *speedmatrix.Cell
}

// csvColumn is one column; speed marks what only a cell that shows its speed gives.
type csvColumn struct {
	name  string
	speed bool
	value func(csvRow) string
}

func csvColumns() []csvColumn {
	return slices.Concat(identityColumns(), speedColumns(), latencyColumns(), countColumns(), stepColumns(), clientColumns(), listColumns(), machineColumns())
}

func identityColumns() []csvColumn {
	return []csvColumn{
		words("run_id", func(r csvRow) string { return r.run.ID }),
		words("origin", func(r csvRow) string { return string(r.run.Origin) }),
		words("method", func(r csvRow) string { return r.run.Method.Name }),
		words("key", func(r csvRow) string { return r.m.Key }),
		words("phase", func(r csvRow) string { return string(r.c.Phase) }),
		words("context_label", func(r csvRow) string { return r.c.ContextLabel }),
		{"context", false, func(r csvRow) string { return strconv.Itoa(r.c.Context) }},
		{"concurrency", false, func(r csvRow) string { return strconv.Itoa(r.c.Concurrency) }},
		words("status", func(r csvRow) string { return string(r.c.Status) }),
		words("reason", func(r csvRow) string { return r.c.Reason }),
	}
}

func speedColumns() []csvColumn {
	return []csvColumn{
		speedOf("total_tokens_per_second", func(c *speedmatrix.Cell) *float64 { return c.TotalTokensPerSecond }),
		speedOf("interval_95_low", func(c *speedmatrix.Cell) *float64 {
			return part(c.Interval95, func(i *speedmatrix.Interval) float64 { return i.Low })
		}),
		speedOf("interval_95_high", func(c *speedmatrix.Cell) *float64 {
			return part(c.Interval95, func(i *speedmatrix.Interval) float64 { return i.High })
		}),
		speedOf("per_request_tokens_per_second", func(c *speedmatrix.Cell) *float64 { return c.PerRequestTokensPerSecond }),
		speedOf("prompt_tokens_per_second", func(c *speedmatrix.Cell) *float64 { return c.PromptTokensPerSecond }),
	}
}

func latencyColumns() []csvColumn {
	return slices.Concat(
		distribution("ttft_ms", true, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.TTFT }),
		[]csvColumn{words("ttft_kind", func(r csvRow) string { return string(r.c.TTFTKind) })},
		distribution("visible_ttft_ms", true, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.VisibleTTFT }),
		distribution("time_between_tokens_ms", true, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.TimeBetweenTokens }),
		distribution("event_gap_ms", true, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.EventGap }),
		distribution("send_ms", false, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.Send }),
		distribution("connect_ms", false, func(c *speedmatrix.Cell) *speedmatrix.Distribution { return c.Connect }),
	)
}

func countColumns() []csvColumn {
	context := func(name string, of func(*speedmatrix.ContextTokens) float64) csvColumn {
		return numeric(name, func(c *speedmatrix.Cell) *float64 { return part(c.ContextTokens, of) })
	}
	requests := func(name string, of func(*speedmatrix.RequestCounts) int) csvColumn {
		return numeric(name, func(c *speedmatrix.Cell) *float64 {
			return part(c.Requests, func(n *speedmatrix.RequestCounts) float64 { return float64(of(n)) })
		})
	}
	return []csvColumn{
		context("context_tokens_start", func(t *speedmatrix.ContextTokens) float64 { return t.Start }),
		context("context_tokens_mean", func(t *speedmatrix.ContextTokens) float64 { return t.Mean }),
		context("context_tokens_end", func(t *speedmatrix.ContextTokens) float64 { return t.End }),
		numeric("prompt_tokens", func(c *speedmatrix.Cell) *float64 { return c.PromptTokens }),
		numeric("cached_tokens", func(c *speedmatrix.Cell) *float64 { return c.CachedTokens }),
		numeric("active_requests_mean", func(c *speedmatrix.Cell) *float64 { return c.ActiveRequestsMean }),
		whole("completed_requests", func(c *speedmatrix.Cell) *int { return c.CompletedRequests }),
		whole("failed_requests", func(c *speedmatrix.Cell) *int { return c.FailedRequests }),
		requests("requests_sent", func(n *speedmatrix.RequestCounts) int { return n.Sent }),
		requests("requests_completed", func(n *speedmatrix.RequestCounts) int { return n.Completed }),
		requests("requests_cut", func(n *speedmatrix.RequestCounts) int { return n.Cut }),
		requests("requests_failed", func(n *speedmatrix.RequestCounts) int { return n.Failed }),
		numeric("output_tokens", func(c *speedmatrix.Cell) *float64 { return c.OutputTokens }),
		words("token_source", func(r csvRow) string { return string(r.c.TokenSource) }),
		{"window_started_at", false, func(r csvRow) string { return instant(r.c.WindowStartedAt) }},
		numeric("window_seconds", func(c *speedmatrix.Cell) *float64 { return c.WindowSeconds }),
		numeric("queued_share", func(c *speedmatrix.Cell) *float64 { return c.QueuedShare }),
		whole("preemptions", func(c *speedmatrix.Cell) *int { return c.Preemptions }),
		numeric("tokens_per_event", func(c *speedmatrix.Cell) *float64 { return c.TokensPerEvent }),
		numeric("accepted_tokens_per_step", func(c *speedmatrix.Cell) *float64 { return c.AcceptedTokensPerStep }),
		{"attempts", false, func(r csvRow) string { return strconv.Itoa(r.c.Attempts) }},
	}
}

func stepColumns() []csvColumn {
	step := func(name string, of func(*speedmatrix.StepSeconds) float64) csvColumn {
		return numeric("step_seconds_"+name, func(c *speedmatrix.Cell) *float64 { return part(c.StepSeconds, of) })
	}
	check := func(name string, of func(*speedmatrix.CounterCheck) float64) csvColumn {
		return numeric("counter_check_"+name, func(c *speedmatrix.Cell) *float64 { return part(c.CounterCheck, of) })
	}
	return []csvColumn{
		step("drain", func(s *speedmatrix.StepSeconds) float64 { return s.Drain }),
		step("fill", func(s *speedmatrix.StepSeconds) float64 { return s.Fill }),
		step("launch", func(s *speedmatrix.StepSeconds) float64 { return s.Launch }),
		step("ramp", func(s *speedmatrix.StepSeconds) float64 { return s.Ramp }),
		step("window", func(s *speedmatrix.StepSeconds) float64 { return s.Window }),
		step("stop", func(s *speedmatrix.StepSeconds) float64 { return s.Stop }),
		words("counter_check_counter", func(r csvRow) string {
			if r.c.CounterCheck == nil {
				return ""
			}
			return r.c.CounterCheck.Counter
		}),
		check("span_seconds", func(k *speedmatrix.CounterCheck) float64 { return k.SpanSeconds }),
		check("uncertainty_seconds", func(k *speedmatrix.CounterCheck) float64 { return k.UncertaintySeconds }),
		check("server_tokens", func(k *speedmatrix.CounterCheck) float64 { return k.ServerTokens }),
		check("client_tokens", func(k *speedmatrix.CounterCheck) float64 { return k.ClientTokens }),
	}
}

func clientColumns() []csvColumn {
	pointer := func(name string, of func(*speedmatrix.ClientQuality) *float64) csvColumn {
		return numeric("client_"+name, func(c *speedmatrix.Cell) *float64 {
			if c.Client == nil {
				return nil
			}
			return of(c.Client)
		})
	}
	counted := func(name string, of func(*speedmatrix.ClientQuality) int) csvColumn {
		return numeric("client_"+name, func(c *speedmatrix.Cell) *float64 {
			return part(c.Client, func(q *speedmatrix.ClientQuality) float64 { return float64(of(q)) })
		})
	}
	return []csvColumn{
		words("client_stamp_source", func(r csvRow) string {
			if r.c.Client == nil {
				return ""
			}
			return r.c.Client.StampSource
		}),
		words("client_reader", func(r csvRow) string {
			if r.c.Client == nil {
				return ""
			}
			return r.c.Client.Reader
		}),
		pointer("events_per_read", func(q *speedmatrix.ClientQuality) *float64 { return q.EventsPerRead }),
		pointer("coalesced_share", func(q *speedmatrix.ClientQuality) *float64 { return q.CoalescedShare }),
		counted("unstamped_reads", func(q *speedmatrix.ClientQuality) int { return q.UnstampedReads }),
		pointer("reader_lag_p99_us", func(q *speedmatrix.ClientQuality) *float64 { return q.ReaderLagP99Micros }),
		pointer("stamp_bound_p99_us", func(q *speedmatrix.ClientQuality) *float64 { return q.StampBoundP99Micros }),
		pointer("send_late_p99_us", func(q *speedmatrix.ClientQuality) *float64 { return q.SendLateP99Micros }),
		counted("replays", func(q *speedmatrix.ClientQuality) int { return q.Replays }),
		pointer("cpu_cores", func(q *speedmatrix.ClientQuality) *float64 { return q.CPUShare }),
		pointer("machine_cpu_share", func(q *speedmatrix.ClientQuality) *float64 { return q.MachineCPUShare }),
		pointer("gc_pause_max_us", func(q *speedmatrix.ClientQuality) *float64 { return q.GCPauseMaxMicros }),
	}
}

func listColumns() []csvColumn {
	return []csvColumn{
		{"prefill_samples", true, func(r csvRow) string { return jsonList(r.c.PrefillSamples) }},
		{"loops", false, func(r csvRow) string { return jsonList(r.c.Loops) }},
		{"warnings", false, func(r csvRow) string { return jsonList(r.c.Warnings) }},
		words("first_error", func(r csvRow) string { return r.c.FirstError }),
		words("text_sample", func(r csvRow) string { return r.c.TextSample }),
	}
}

// machineColumns come last: they were added when files with the others were about already.
func machineColumns() []csvColumn {
	clock := func(name string, of func(*speedmatrix.ClockSummary) float64) csvColumn {
		return numeric("gpu_clock_mhz_"+name, func(c *speedmatrix.Cell) *float64 { return part(c.GPUClock, of) })
	}
	throttle := func(name string, of func(*speedmatrix.Throttle) float64) csvColumn {
		return numeric("throttle_"+name, func(c *speedmatrix.Cell) *float64 { return part(c.Throttle, of) })
	}
	return []csvColumn{
		speedOf("energy_joules_per_output_token", func(c *speedmatrix.Cell) *float64 { return c.EnergyPerOutputToken }),
		speedOf("energy_joules_per_prompt_token", func(c *speedmatrix.Cell) *float64 { return c.EnergyPerPromptToken }),
		numeric("gpu_power_watts_mean", func(c *speedmatrix.Cell) *float64 { return c.GPUPower }),
		clock("median", func(k *speedmatrix.ClockSummary) float64 { return k.Median }),
		clock("min", func(k *speedmatrix.ClockSummary) float64 { return k.Min }),
		clock("max", func(k *speedmatrix.ClockSummary) float64 { return k.Max }),
		clock("drop_share", func(k *speedmatrix.ClockSummary) float64 { return k.DropShare }),
		words("throttle_verdict", func(r csvRow) string {
			if r.c.Throttle == nil {
				return ""
			}
			return string(r.c.Throttle.Verdict)
		}),
		throttle("hardware_slowdown_share", func(t *speedmatrix.Throttle) float64 { return t.HardwareSlowdownShare }),
		throttle("thermal_share", func(t *speedmatrix.Throttle) float64 { return t.ThermalShare }),
		throttle("power_cap_share", func(t *speedmatrix.Throttle) float64 { return t.PowerCapShare }),
	}
}

// words is a column of text.
func words(name string, of func(csvRow) string) csvColumn {
	return csvColumn{name: name, value: func(r csvRow) string { return noFormula(Clean(of(r))) }}
}

// numeric is a column of numbers.
func numeric(name string, of func(*speedmatrix.Cell) *float64) csvColumn {
	return csvColumn{name: name, value: func(r csvRow) string { return raw(of(r.c)) }}
}

func speedOf(name string, of func(*speedmatrix.Cell) *float64) csvColumn {
	column := numeric(name, of)
	column.speed = true
	return column
}

func whole(name string, of func(*speedmatrix.Cell) *int) csvColumn {
	return numeric(name, func(c *speedmatrix.Cell) *float64 {
		return part(of(c), func(n *int) float64 { return float64(*n) })
	})
}

// distribution is the columns of a distribution: its quantiles, its number and kind of samples.
func distribution(name string, speed bool, of func(*speedmatrix.Cell) *speedmatrix.Distribution) []csvColumn {
	quantile := func(suffix string, pick func(*speedmatrix.Distribution) *float64) csvColumn {
		column := numeric(name+"_"+suffix, func(c *speedmatrix.Cell) *float64 {
			if d := of(c); d != nil {
				return pick(d)
			}
			return nil
		})
		column.speed = speed
		return column
	}
	samples := words(name+"_of", func(r csvRow) string {
		if d := of(r.c); d != nil {
			return d.Of
		}
		return ""
	})
	samples.speed = speed
	return []csvColumn{
		quantile("p50", func(d *speedmatrix.Distribution) *float64 { return d.P50 }),
		quantile("p90", func(d *speedmatrix.Distribution) *float64 { return d.P90 }),
		quantile("p95", func(d *speedmatrix.Distribution) *float64 { return d.P95 }),
		quantile("p99", func(d *speedmatrix.Distribution) *float64 { return d.P99 }),
		quantile("min", func(d *speedmatrix.Distribution) *float64 { return d.Min }),
		quantile("max", func(d *speedmatrix.Distribution) *float64 { return d.Max }),
		quantile("mean", func(d *speedmatrix.Distribution) *float64 { return d.Mean }),
		quantile("n", func(d *speedmatrix.Distribution) *float64 { n := float64(d.N); return &n }),
		samples,
	}
}

// part is a number of something that may be unknown.
func part[T any](of *T, pick func(*T) float64) *float64 {
	if of == nil {
		return nil
	}
	v := pick(of)
	return &v
}

func raw(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

func instant(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// jsonList is JSON, or empty for an empty list.
func jsonList[T any](items []T) string {
	if len(items) == 0 {
		return ""
	}
	data, err := json.Marshal(items)
	if err != nil {
		return noFormula(Clean(fmt.Sprint(items)))
	}
	return Clean(string(data))
}

// noFormula puts an apostrophe before text that a spreadsheet would compute.
func noFormula(s string) string {
	first := []rune(strings.TrimLeft(s, " '\""))
	if len(first) > 0 && strings.ContainsRune("=+-@＝＋－＠|%", first[0]) {
		return "'" + s
	}
	return s
}
