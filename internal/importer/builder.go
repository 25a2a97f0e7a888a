package importer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// builder collects what the files of a tool say.
type builder struct {
	run     *speedmatrix.Run
	options Options
	file    string
	// percentiles waits for the summary that it belongs to.
	percentiles []tree
}

// The most that a matrix of a file may hold.
const (
	mostCells       = 10_000
	mostConcurrency = 1_000_000
	mostContext     = 100_000_000
)

func newBuilder(o Options) *builder {
	return &builder{options: o, run: &speedmatrix.Run{Schema: speedmatrix.Schema, Origin: speedmatrix.OriginImported,
		Method: speedmatrix.Method{Repeat: 1}, Model: speedmatrix.Facts{}, Hardware: speedmatrix.Facts{}, Engine: speedmatrix.Facts{}}}
}

// tool names the tool that measured; files of two tools are no one run.
func (b *builder) tool(name, version string) error {
	if b.run.Tool.Name != "" && b.run.Tool.Name != name {
		return fmt.Errorf("it is of %s, the files before it of %s; import them apart", name, b.run.Tool.Name)
	}
	b.run.Tool.Name, b.run.Tool.Version = name, cmp.Or(b.run.Tool.Version, version)
	if b.run.Method.Name == "" {
		b.run.Method.Name = "imported/" + name
	}
	return nil
}

// model names the model; files of two models are no one run.
func (b *builder) model(key, value string) error {
	if value == "" {
		return nil
	}
	if old := b.run.Model.Text(key); old != "" && old != value {
		return fmt.Errorf("it is of the model %q, the files before it of %q; import them apart", value, old)
	}
	b.run.Model.Set(key, value, b.source())
	return nil
}

// source is where facts of the file come from.
func (b *builder) source() string { return "imported file" }

// fact keeps what the file states, unless it is empty.
func (b *builder) fact(facts speedmatrix.Facts, key string, value any) {
	if s, ok := value.(string); ok && strings.TrimSpace(s) == "" {
		return
	}
	if f, ok := value.(*float64); ok {
		if f == nil {
			return
		}
		value = *f
	}
	facts.Set(key, value, b.source())
}

// warn says once what the source's numbers mean.
func (b *builder) warn(code, message string) {
	w := speedmatrix.Warning{Code: code, Message: message}
	if !slices.Contains(b.run.Warnings, w) {
		b.run.Warnings = append(b.run.Warnings, w)
	}
}

// wholeRun warns that a speed covers ramp and drain.
func (b *builder) wholeRun() {
	b.warn("imported definition", b.run.Tool.Name+" divides all output tokens by the time from the first request to the last answer: ramp and drain count, so its total is lower than a sustained one")
}

// cell makes a cell whose numbers are still to be filled in.
func (b *builder) cell(phase speedmatrix.Phase, context, concurrency int) (*speedmatrix.Cell, error) {
	switch {
	case context < 0 || context > mostContext:
		return nil, fmt.Errorf("a context of %d tokens is no length", context)
	case concurrency < 1 || concurrency > mostConcurrency:
		return nil, fmt.Errorf("%d simultaneous requests are no number of requests", concurrency)
	}
	return &speedmatrix.Cell{Phase: phase, ContextLabel: unit.FormatTokens(context), Context: context, Concurrency: concurrency,
		Status: speedmatrix.StatusValid, TTFTKind: speedmatrix.TTFTUnknown}, nil
}

// add puts a cell into the matrix, or into the next repeat where its place is taken.
func (b *builder) add(c *speedmatrix.Cell) error {
	if len(b.run.Cells)+len(b.run.Repeats) >= mostCells {
		return fmt.Errorf("it has more than %d cells", mostCells)
	}
	if err := sane(c); err != nil {
		return err
	}
	if b.run.FindCell(c.Phase, c.Context, c.Concurrency) == nil {
		b.run.Cells = append(b.run.Cells, *c)
		return nil
	}
	for i := range b.run.Repeats {
		taken := slices.ContainsFunc(b.run.Repeats[i].Cells, func(o speedmatrix.Cell) bool { return o.Key() == c.Key() })
		if !taken {
			b.run.Repeats[i].Cells = append(b.run.Repeats[i].Cells, *c)
			return nil
		}
	}
	b.run.Repeats = append(b.run.Repeats, speedmatrix.Repeat{Index: len(b.run.Repeats) + 2, Cells: []speedmatrix.Cell{*c}})
	return nil
}

// sane refuses numbers that no measurement gives.
func sane(c *speedmatrix.Cell) error {
	for name, v := range map[string]*float64{"total tok/s": c.TotalTokensPerSecond, "per request tok/s": c.PerRequestTokensPerSecond,
		"prompt tok/s": c.PromptTokensPerSecond, "the output tokens": c.OutputTokens, "the time": c.WindowSeconds} {
		if v != nil && (*v < 0 || math.IsNaN(*v) || math.IsInf(*v, 0) || *v > 1e15) {
			return fmt.Errorf("%s of %s × %d is %g", name, c.ContextLabel, c.Concurrency, *v)
		}
	}
	return nil
}

// finish completes the run.
func (b *builder) finish(files []File) (*speedmatrix.Run, error) {
	run := b.run
	if len(b.percentiles) > 0 {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "percentiles of evalscope without their summary",
			Next: "Give benchmark_summary.json before benchmark_percentile.json."}
	}
	if len(run.Cells) == 0 {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the files hold no measurement", Next: "They may be of a test that failed: look into them."}
	}
	slices.SortStableFunc(run.Cells, func(x, y speedmatrix.Cell) int {
		return cmp.Or(cmp.Compare(phaseOrder(x.Phase), phaseOrder(y.Phase)), cmp.Compare(x.Context, y.Context), cmp.Compare(x.Concurrency, y.Concurrency))
	})
	run.Method.Repeat = len(run.Repeats) + 1
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Phase == speedmatrix.PhasePrefill {
			run.Plan.Prefill = append(run.Plan.Prefill, c.Context)
			continue
		}
		run.Plan.Contexts, run.Plan.Concurrency = append(run.Plan.Contexts, c.Context), append(run.Plan.Concurrency, c.Concurrency)
	}
	for _, list := range []*[]int{&run.Plan.Prefill, &run.Plan.Contexts, &run.Plan.Concurrency} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	run.ID = identity(run, files)
	return run, nil
}

func phaseOrder(p speedmatrix.Phase) int {
	if p == speedmatrix.PhasePrefill {
		return 0
	}
	return 1
}

// identity is the same for the same files, whenever they are imported.
func identity(run *speedmatrix.Run, files []File) string {
	sum := sha256.New()
	for _, f := range files {
		sum.Write(f.Data)
	}
	name := cmp.Or(run.Model.Text(speedmatrix.ModelName), run.Model.Text(speedmatrix.ModelServedName), "model")
	name = name[strings.LastIndexByte(name, '/')+1:]
	return fmt.Sprintf("imported-%s-%s-%s", slug(run.Tool.Name), slug(name), hex.EncodeToString(sum.Sum(nil))[:8])
}

// slug is text as a part of a file name.
func slug(text string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			out.WriteRune(r)
		case out.Len() > 0 && !strings.HasSuffix(out.String(), "-"):
			out.WriteByte('-')
		}
		if out.Len() >= 40 {
			break
		}
	}
	return strings.Trim(out.String(), "-.")
}

// names are the names that a distribution has in a file; "" is not there.
type names struct{ p50, p90, p95, p99, least, most, mean string }

// The names of most tools.
var (
	commonNames  = names{"p50", "p90", "p95", "p99", "min", "max", "mean"}
	averageNames = names{"p50", "p90", "p95", "p99", "min", "max", "avg"}
	medianNames  = names{"median", "p90", "p95", "p99", "min", "max", "mean"}
)

// distribution takes one over, its values times a factor; nil where nothing of it is there.
func (t tree) distribution(by names, factor float64, n int) *speedmatrix.Distribution {
	get := func(name string) *float64 {
		if name == "" {
			return nil
		}
		return t.at(name).scaled(factor)
	}
	d := speedmatrix.Distribution{P50: get(by.p50), P90: get(by.p90), P95: get(by.p95), P99: get(by.p99), Min: get(by.least), Max: get(by.most),
		Mean: get(by.mean), N: n, Of: "requests"}
	if d.P50 == nil && d.Mean == nil && d.Max == nil {
		return nil
	}
	return &d
}

// ofValues is the distribution of single values that a file lists.
func ofValues(values []float64, of string) *speedmatrix.Distribution {
	if len(values) == 0 {
		return nil
	}
	s := stats.Summarize(values)
	return &speedmatrix.Distribution{P50: s.P50, P90: s.P90, P95: s.P95, P99: s.P99, Min: s.Min, Max: s.Max, Mean: s.Mean, N: s.N, Of: of}
}

// numbers are the elements of an array that are numbers.
func (t tree) numbers() []float64 {
	var list []float64
	for _, v := range t.list() {
		if n := v.number(); n != nil {
			list = append(list, *n)
		}
	}
	return list
}

// counts records how many requests completed and failed; a cell of which none completed shows no speed.
func counts(c *speedmatrix.Cell, completed, failed *float64) {
	if completed != nil {
		c.CompletedRequests = new(int(*completed))
	}
	if failed != nil {
		c.FailedRequests = new(int(*failed))
	}
	if failed == nil || *failed <= 0 || completed == nil {
		return
	}
	if *completed <= 0 {
		c.Status, c.Reason = speedmatrix.StatusFailed, "by the source all requests failed"
		return
	}
	c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: "failed requests",
		Message: fmt.Sprintf("by the source %.0f of %.0f requests failed; its speeds are those of the others", *failed, *failed+*completed)})
}
