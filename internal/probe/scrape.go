package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

// metricNames are the names under which an engine gives its figures in /metrics; "" is
// a figure that it does not give.
type metricNames struct {
	running, waiting, kvUsage, preemptions string
	generated, prompted, hits, queries     string
	drafts, accepted                       string
	// live says that generated moves while a request runs, not only at its end.
	live bool
	// route is where they are; "" is /metrics.
	route string
	// once restricts the sums, where it occurs: some engines repeat a figure for each of their processes.
	once  metricstext.Label
	where []metricstext.Label
}

// olderVLLM gives the names that vLLM used before, where the newer are missing.
var olderVLLM = map[string]string{
	"vllm:kv_cache_usage_perc":        "vllm:gpu_cache_usage_perc",
	"vllm:prefix_cache_hits_total":    "vllm:gpu_prefix_cache_hits_total",
	"vllm:prefix_cache_queries_total": "vllm:gpu_prefix_cache_queries_total",
}

// at is the route of the figures.
func (n *metricNames) at() string { return orText(n.route, "/metrics") }

// present gives the names of those figures that are in the scrape.
func (n metricNames) present(seen metricstext.Families) metricNames {
	if _, ok := seen.Sum(n.running, n.once); ok && n.once.Name != "" {
		n.where = []metricstext.Label{n.once}
	}
	for _, name := range n.all() {
		if _, ok := seen.Sum(*name); ok {
			continue
		}
		older := olderVLLM[*name]
		if _, ok := seen.Sum(older); !ok {
			older = ""
		}
		*name = older
	}
	return n
}

func (n *metricNames) all() []*string {
	return []*string{
		&n.running, &n.waiting, &n.kvUsage, &n.preemptions, &n.generated, &n.prompted,
		&n.hits, &n.queries, &n.drafts, &n.accepted,
	}
}

// tells lists what can be read, for people.
func (n *metricNames) tells() string {
	var parts []string
	add := func(name, what string) {
		if name != "" {
			parts = append(parts, what)
		}
	}
	add(n.running, "running")
	add(n.waiting, "queue")
	add(n.kvUsage, "KV use")
	add(n.preemptions, "preemptions")
	add(n.queries, "prefix hits")
	add(n.generated, "tokens")
	return strings.Join(parts, ", ")
}

// Gauges says whether the number of running requests can be scraped. The number waiting
// may still be null: llama.cpp tells it only with --metrics.
func (s *Server) Gauges() bool { return s.metrics.running != "" || s.slots.on }

// CounterName names the source of ServerRow.GenerationTokens; "" is none.
func (s *Server) CounterName() string {
	if s.slots.on {
		return slotsCounter
	}
	return s.metrics.generated
}

// LiveCounter says whether that counter moves while requests run. One that does not
// gives 0 or a spike over a short window.
func (s *Server) LiveCounter() bool { return s.slots.on || s.metrics.live && s.metrics.generated != "" }

// Scrape reads the server's figures once: gauges and counters summed over their label
// sets, shares as means, drafts as rounds of drafting. What is not known is null; if
// the scrape fails everything is null and Error says why.
func (s *Server) Scrape(ctx context.Context) speedmatrix.ServerRow {
	row := speedmatrix.ServerRow{SentNS: s.options.Clock.Now()}
	var err error
	switch {
	case s.slots.on:
		err = s.scrapeSlots(ctx, &row)
	case s.metrics.tells() != "":
		err = s.scrapeMetrics(ctx, &row)
	}
	row.ReceivedNS = s.options.Clock.Now()
	if err == nil && !s.Gauges() && s.CounterName() == "" {
		err = errNoFigures
	}
	if err != nil {
		return speedmatrix.ServerRow{SentNS: row.SentNS, ReceivedNS: row.ReceivedNS, Error: err.Error()}
	}
	return row
}

// errNoFigures is a scrape of a server that has nothing to scrape.
var errNoFigures = errors.New("this server publishes no figures")

func (s *Server) scrapeMetrics(ctx context.Context, row *speedmatrix.ServerRow) error {
	seen, err := s.http.metricsAt(ctx, s.metrics.at())
	if err != nil {
		return err
	}
	n := &s.metrics
	read := func(of func(string, ...metricstext.Label) (float64, bool), name string) *float64 {
		if value, ok := of(name, n.where...); ok {
			return &value
		}
		return nil
	}
	row.Running = read(seen.Sum, n.running)
	row.GenerationTokens = read(seen.Sum, n.generated)
	row.Waiting = read(seen.Sum, n.waiting)
	row.KVUsage = read(seen.Mean, n.kvUsage)
	row.Preemptions = read(seen.Sum, n.preemptions)
	row.PromptTokens = read(seen.Sum, n.prompted)
	row.PrefixHits = read(seen.Sum, n.hits)
	row.PrefixQueries = read(seen.Sum, n.queries)
	row.Drafts = read(seen.Sum, n.drafts)
	row.DraftsAccepted = read(seen.Sum, n.accepted)
	if row.Running == nil && n.running != "" {
		return fmt.Errorf("%s: %s is missing", n.at(), n.running)
	}
	return nil
}

// Busy says how many requests run and wait now. known is false when the server does
// not tell or does not answer. Where only the waiting ones are unknown they count as 0.
func (s *Server) Busy(ctx context.Context) (running, waiting float64, known bool) {
	row := s.Scrape(ctx)
	if row.Running == nil {
		return 0, 0, false
	}
	if row.Waiting != nil {
		waiting = *row.Waiting
	}
	return *row.Running, waiting, true
}
