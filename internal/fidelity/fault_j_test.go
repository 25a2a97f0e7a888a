package fidelity_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// relabelled changes the labels of the KV cache in a scrape.
func relabelled(pairs ...string) func(int, string) string {
	change := strings.NewReplacer(pairs...)
	return func(_ int, text string) string { return change.Replace(text) }
}

// changed gives every value of a metric in a scrape another text.
func changed(name string, to func(value float64) string) func(int, string) string {
	line := regexp.MustCompile(`(?m)^(` + regexp.QuoteMeta(name) + `(?:\{[^}]*\})?) (\S+)$`)
	return func(_ int, text string) string {
		return line.ReplaceAllStringFunc(text, func(all string) string {
			part := line.FindStringSubmatch(all)
			value, err := strconv.ParseFloat(part[2], 64)
			if err != nil {
				panic(err)
			}
			return part[1] + " " + to(value)
		})
	}
}

// page is what a reverse proxy answers whose server is away.
const page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"

// took is how long the run went on.
func (w *world) took() time.Duration { return w.run.FinishedAt.Sub(w.run.StartedAt) }

func TestCapacityFromMetrics(t *testing.T) {
	// The truth: 65,536 tokens, so 8 prompts of 4K fit and 17 do not.
	server := truth.Script{MaxLength: 8 << 10, KVTokens: 64 << 10, Tokenize: true}
	tests := []struct {
		name    string
		rewrite func(int, string) string
		budget  int
		warning string
	}{
		{"J01 a block size that is of another group of layers", relabelled(`block_size="16"`, `block_size="4"`), 64 << 10, ""},
		{"J01 blocks that are counted for each group", relabelled(`num_gpu_blocks="4096"`, `num_gpu_blocks="73728"`), 64 << 10, ""},
		{"J01 Mamba layers and no size in tokens", relabelled(`block_size="16"`, `block_size="4",mamba_block_size="512"`, `kv_cache_size_tokens="65536",`, ""), 0, "kv_unknown"},
		{"J01 a sliding window and no size in tokens", relabelled(`block_size="16"`, `block_size="16",sliding_window="1024"`, `kv_cache_size_tokens="65536",`, ""), 0, "kv_unknown"},
		{"J01 a product below one request", relabelled(`block_size="16"`, `block_size="1"`, `kv_cache_size_tokens="65536",`, ""), 0, "kv_unknown"},
		{"J01 the number of longest requests", relabelled(`block_size="16"`, `block_size="4",kv_cache_max_concurrency="8.0"`, `kv_cache_size_tokens="65536",`, ""), 64 << 10, ""},
		{"J01 blocks of full attention alone", relabelled(`kv_cache_size_tokens="65536",`, ""), 64 << 10, "kv_from_blocks"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := server
			s.Metrics.Rewrite = tt.rewrite
			w := bed{script: s, args: oneCell("4K", "8,17")}.measure(t)
			if got, _ := w.run.Engine.Int(speedmatrix.EngineKVTokens); got != tt.budget {
				t.Errorf("KV cache of %d tokens, want %d: %v", got, tt.budget, w.run.Warnings)
			}
			for _, code := range []string{"kv_unknown", "kv_from_blocks"} {
				if (w.warning(code) != "") != (code == tt.warning) {
					t.Errorf("warning %s: %q", code, w.warning(code))
				}
			}
			w.is(w.cell(4096, 8), speedmatrix.StatusValid)
			w.exact(w.cell(4096, 8))
			if large := w.cell(4096, 17); tt.budget > 0 {
				w.is(large, speedmatrix.StatusOverCapacity, "of 65,536 tokens of KV cache")
			} else if large.Attempts == 0 {
				t.Errorf("17 requests were not tried: %s", large.Reason)
			}
		})
	}
}

func TestServerMetrics(t *testing.T) {
	t.Run("J03 scrapes stand on the run's clock, and no other service is asked", caseJ03ScrapesStandOnTheRunsClockAndNoOtherServiceIsAsked)
	t.Run("J04 a counter since the start of the server is no increase", caseJ04ACounterSinceTheStartOfTheServerIsNoIncrease)
	t.Run("J04 counters that begin anew in the window", caseJ04CountersThatBeginAnewInTheWindow)
	t.Run("J07 a byte counter of the bus that wraps", caseJ07AByteCounterOfTheBusThatWraps)
	t.Run("J15 what was not reached is not listed", caseJ15WhatWasNotReachedIsNotListed)
}

func caseJ03ScrapesStandOnTheRunsClockAndNoOtherServiceIsAsked(t *testing.T) {
	t.Parallel()
	p := &tap{}
	w := bed{dial: p.dial}.measure(t)
	c := w.valid()
	from, to := windowOf(c)
	within := 0
	for _, row := range w.store.server {
		if row.SentNS < w.run.StartedAt.UnixNano() || row.ReceivedNS < row.SentNS || row.ReceivedNS > w.run.FinishedAt.UnixNano() {
			t.Errorf("a scrape from %d to %d", row.SentNS, row.ReceivedNS)
		}
		if row.MiddleNS() > from && row.MiddleNS() <= to {
			within++
		}
	}
	if within != 5 {
		t.Errorf("%d scrapes in a window of 5 s, want 5", within)
	}
	for _, r := range p.requests(t) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "query") {
			t.Errorf("asked for %s", r.URL)
		}
	}
}

func caseJ04ACounterSinceTheStartOfTheServerIsNoIncrease(t *testing.T) {
	t.Parallel()
	for _, each := range []int{1, 7, 30} {
		s := truth.Script{Metrics: truth.Metrics{Rewrite: changed("vllm:num_preemptions_total", func(float64) string { return "7.0" }),
			Fail: func(scrape int) *wire.Problem {
				if scrape > 12 && scrape%each != 0 {
					return &wire.Problem{Status: http.StatusBadGateway, Raw: page, ContentType: "text/html"}
				}
				return nil
			}}}
		w := bed{script: s}.measure(t)
		c := w.cell(0, 2)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		known := 0
		for _, row := range w.store.server {
			if row.Cell == c.Key() && row.Preemptions != nil && row.SentNS >= w.answers(c.Key())[0][0].row.PlannedNS {
				known++
			}
		}
		if got := c.Preemptions; (got != nil) != (known >= 2) || got != nil && *got != 0 {
			t.Errorf("%v preemptions by %d scrapes", got, known)
		}
	}
}

func caseJ04CountersThatBeginAnewInTheWindow(t *testing.T) {
	t.Parallel()
	again := changed("vllm:generation_tokens_total", func(v float64) string { return fmt.Sprint(int(v) % 190) })
	preempted := changed("vllm:num_preemptions_total", func(float64) string { return "3.0" })
	w := bed{script: truth.Script{Metrics: truth.Metrics{Rewrite: func(scrape int, text string) string {
		if scrape%2 == 0 {
			text = preempted(scrape, text)
		}
		return again(scrape, text)
	}}}}.measure(t)
	c := w.valid()
	w.exact(c)
	if c.CounterCheck != nil || c.Preemptions != nil {
		t.Errorf("counter check %+v, preemptions %v", c.CounterCheck, c.Preemptions)
	}
}

func caseJ07AByteCounterOfTheBusThatWraps(t *testing.T) {
	t.Log("no counter of the bus is read: of the machine only its CPU, memory and this program's pauses are")
}

func caseJ15WhatWasNotReachedIsNotListed(t *testing.T) {
	t.Parallel()
	for _, s := range []truth.Script{{Metrics: truth.Metrics{Off: true}}, {Engine: truth.Plain}} {
		w := bed{script: s}.measure(t)
		w.exact(w.valid())
		if told := w.run.Engine.Text(speedmatrix.EngineMetrics); told != "" {
			t.Errorf("metrics %q, though none were read", told)
		}
		if warned := w.warning("no_metrics") + w.warning("no_figures"); (warned != "") != (s.Engine == truth.VLLM) {
			t.Errorf("the warning that the server's queue is not seen: %q", warned)
		}
		if len(w.store.server) > 0 {
			t.Errorf("%d rows of scrapes", len(w.store.server))
		}
	}
	w := bed{}.measure(t)
	if told := w.run.Engine.Text(speedmatrix.EngineMetrics); told == "" || w.warning("no_figures") != "" {
		t.Errorf("metrics %q, %v", told, w.run.Warnings)
	}
}

func TestMetricsBehindAProxy(t *testing.T) {
	html := &wire.Problem{Status: http.StatusBadGateway, Raw: page, ContentType: "text/html"}
	fine := *html
	fine.Status = http.StatusOK
	tests := []struct {
		name    string
		problem *wire.Problem
		before  time.Duration
	}{
		{"J06 502 and a page", html, 0},
		{"J06 200 and a page", &fine, 0},
		{"J06 200 and nothing", &wire.Problem{Status: 200, Raw: "\n", ContentType: "text/plain"}, 0},
		{"J06 200 and half a text", &wire.Problem{Status: 200, Raw: "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0", ContentType: "text/plain"}, 0},
		{"J06 429", &wire.Problem{Status: http.StatusTooManyRequests, RetryAfter: "60"}, 0},
		{"J06 no answer for a minute", html, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name+" from the beginning", func(t *testing.T) {
			t.Parallel()
			w := bed{script: truth.Script{Metrics: truth.Metrics{Before: tt.before, Fail: func(int) *wire.Problem { return tt.problem }}}}.measure(t)
			w.exact(w.valid())
			if took := w.took(); took > 80*second {
				t.Errorf("it took %v", took)
			}
			if w.warning("no_metrics") == "" {
				t.Errorf("no warning: %v", w.run.Warnings)
			}
		})
		t.Run(tt.name+" from the window on", func(t *testing.T) {
			t.Parallel()
			begun := time.Duration(0)
			w := &world{}
			b := bed{script: truth.Script{Metrics: truth.Metrics{}}}
			b.during = func(x *world) { w = x }
			b.script.Metrics.Fail = func(int) *wire.Problem {
				n := 0
				for _, r := range w.server.Account().Requests {
					if r.MaxTokens > 4000 && r.Class == truth.Running && r.Tokens > 100 {
						n++
					}
				}
				if begun == 0 && n == 2 {
					begun = 1
				}
				if begun == 0 {
					return nil
				}
				return tt.problem
			}
			b.measure(t)
			c := w.valid("unread figures")
			w.exact(c)
			if took := w.took(); took > 100*second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// The same figures, written in every way that the text format allows, are the same figures.
func TestFiguresAreReadHoweverTheyAreWritten(t *testing.T) {
	number := regexp.MustCompile(`(?m) (\S+)$`)
	every := func(to string) func(int, string) string {
		return func(_ int, text string) string {
			var out strings.Builder
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, "#") {
					line = number.ReplaceAllStringFunc(line, func(v string) string {
						x, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
						return " " + fmt.Sprintf(to, x)
					})
				}
				out.WriteString(line)
			}
			return out.String()
		}
	}
	doubled := func(_ int, text string) string {
		var out strings.Builder
		for line := range strings.Lines(text) {
			out.WriteString(line)
			if !strings.HasPrefix(line, "#") {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	more := strings.Repeat("other_metric_total{path=\"a\\\"b\\n\"} 1e300\n", 2_000)
	tests := []struct {
		name    string
		rewrite func(int, string) string
		engines int
		kv      bool // the KV use stays known
	}{
		{"exponents", every("%.16e"), 1, true},
		{"time stamps", every("%g 1790000000000"), 1, true},
		{"plus signs and blanks", every("  +%g"), 1, true},
		{"two engines", nil, 2, true},
		{"eight engines, most of them idle", nil, 8, true},
		{"a model under two names", relabelled(`model_name="truth"`, `model_name="other"`), 2, true},
		{"no help and no types", func(_ int, text string) string { return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "") }, 1, true},
		{"families of others, thousands of lines", func(_ int, text string) string { return more + text }, 1, true},
		{"an end mark", func(_ int, text string) string { return text + "# EOF\n" }, 1, true},
		{"every sample twice", doubled, 1, true},
		{"a KV use that is no number", changed("vllm:kv_cache_usage_perc", func(float64) string { return "NaN" }), 1, false},
		{"an infinite KV use", changed("vllm:kv_cache_usage_perc", func(float64) string { return "+Inf" }), 1, false},
	}
	for _, tt := range tests {
		t.Run("J06 "+tt.name, func(t *testing.T) {
			t.Parallel()
			w := bed{script: truth.Script{KVTokens: 64 << 10, Metrics: truth.Metrics{Rewrite: tt.rewrite, Engines: tt.engines}}}.measure(t)
			c := w.valid()
			w.exact(c)
			near(t, "active requests", c.ActiveRequestsMean, 2)
			near(t, "queued share", c.QueuedShare, 0)
			if k := c.CounterCheck; k == nil || k.ServerTokens != k.ClientTokens {
				t.Errorf("counter check %+v", k)
			}
			row := w.store.server[len(w.store.server)/2]
			if (row.KVUsage != nil) != tt.kv {
				t.Errorf("KV use %v", row.KVUsage)
			}
		})
	}
}

// Whatever scrapes fail, however long, the numbers are the streams' own and the run ends in time.
func TestFailingScrapesChangeNoNumber(t *testing.T) {
	type trial struct {
		From, For, Status int
		Slow              time.Duration
	}
	several(t, 4, func(rt *rapid.T) trial {
		return trial{rapid.IntRange(0, 60).Draw(rt, "from"), rapid.IntRange(1, 80).Draw(rt, "for"), rapid.SampledFrom([]int{200, 404, 500, 502, 503}).Draw(rt, "status"),
			time.Duration(rapid.IntRange(0, 1200).Draw(rt, "slow")) * ms}
	}, func(t *testing.T, x trial) {
		w := bed{script: truth.Script{Metrics: truth.Metrics{Before: x.Slow, Fail: func(scrape int) *wire.Problem {
			if scrape < x.From || scrape >= x.From+x.For {
				return nil
			}
			return &wire.Problem{Status: x.Status, Raw: page, ContentType: "text/html"}
		}}}}.measure(t)
		c := w.cell(0, 2)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		if took := w.took(); took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}
