package bench

import (
	"context"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/unit"
)

// Server is what the driver asks of the server besides its answers.
type Server interface {
	Scrape(ctx context.Context) speedmatrix.ServerRow
	// Gauges says whether Scrape tells the running requests.
	Gauges() bool
	LiveCounter() bool
	CounterName() string
	// CountText gives the tokens of generated text; used only if the habits say that there is a tokenizer.
	CountText(ctx context.Context, text string) (int, error)
	// Ping sends a request for one token and gives its time to first token.
	Ping(ctx context.Context) (time.Duration, error)
}

// Texts gives the prompts of a run.
type Texts interface {
	// Prepare makes the head, so that Prompt costs no time afterwards; it may ask the server's tokenizer.
	Prepare(ctx context.Context, h Head) error
	// Prompt is the head with that tail.
	Prompt(h Head, tail int) string
	// Counted takes in how many tokens the server counted in a prompt of the head.
	Counted(h Head, tokens int)
	// Forget drops the heads of a context.
	Forget(context int)
}

// DriverOptions are what a driver works with.
type DriverOptions struct {
	Client  *load.Client
	Server  Server
	Dialect dialect.Dialect
	// Params are the options that the server accepts, its model and the sampling.
	Params dialect.Params
	Clock  *stamp.Clock
	Texts  Texts
	Habits speedmatrix.Habits
	// KVBlockTokens is the block of the prefix cache; 0 unknown.
	KVBlockTokens int
	// Watch is told of the cell in progress, may be nil. It must return at once.
	Watch func(Glance)
}

// Glance is the state of the cell in progress, for a live view.
type Glance struct {
	Key         string
	Step        Step
	SinceNS     int64
	NowNS       int64
	TokensPerS  float64
	Share       float64
	Producing   int
	Concurrency int
	Gauges      Gauges
}

// Driver is the real Lab: it sends requests and watches them.
type Driver struct {
	o       DriverOptions
	scraper *scraper
	pings   pings
	skip    chan struct{}
}

// NewDriver starts the scraper, which runs until ctx ends; call wait after that.
func NewDriver(ctx context.Context, o DriverOptions) (d *Driver, wait func()) {
	d = &Driver{o: o, scraper: newScraper(o.Server), skip: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	if o.Server.Gauges() || o.Server.CounterName() != "" {
		wg.Go(func() { d.scraper.run(ctx) })
	}
	return d, wg.Wait
}

// Forget drops the heads of a context.
func (d *Driver) Forget(context int) { d.o.Texts.Forget(context) }

// Now is the driver's clock.
func (d *Driver) Now() int64 { return d.o.Clock.Now() }

// Scrapes gives all scrapes so far.
func (d *Driver) Scrapes() []speedmatrix.ServerRow { return d.scraper.since(0) }

// Cell is the key of the cell in progress, "" between cells; safe for concurrent use.
func (d *Driver) Cell() string { return d.scraper.marked() }

// SkipCell ends the cell in progress.
func (d *Driver) SkipCell() {
	select {
	case d.skip <- struct{}{}:
	default:
	}
}

// The tries and the pause between them before a server counts as gone.
const (
	aliveTries = 5
	alivePause = 2 * time.Second
)

// Alive opens a connection; after a failure it tries again for up to ten seconds. What the server answers does not
// matter: one that refuses requests is there all the same.
func (d *Driver) Alive(ctx context.Context) error {
	var err error
	for range aliveTries {
		if err = d.connect(ctx); err == nil {
			return nil
		}
		pause(ctx, alivePause)
	}
	return err
}

// fewest is the limit of output tokens of a request whose first token alone counts.
func (d *Driver) fewest() int { return max(d.o.Habits.LeastOutputTokens, 1) }

// body makes the request body of one prompt.
func (d *Driver) body(h Head, tail, maxTokens int) []byte {
	p := d.o.Params
	p.Prompt, p.MaxTokens, p.Stream = d.o.Texts.Prompt(h, tail), maxTokens, true
	body, err := d.o.Dialect.Body(p)
	if err != nil {
		// Params were marshalled in the probe's trials already; only the prompt differs.
		panic("bench: request body: " + err.Error())
	}
	return body
}

// AwaitEmpty waits until the server runs nothing but the base load, or says what it still ran when the time was over.
func (d *Driver) AwaitEmpty(ctx context.Context, rules Rules) (empty bool, left string) {
	rules.Concurrency = 1
	p := NewProtocol(rules, d.Now())
	w := &watcher{d: d, p: p}
	defer d.scraper.hurry(false)
	for ctx.Err() == nil {
		d.scraper.hurry(true)
		a := p.Next(d.Now(), w.observe(ctx))
		if p.Step() > StepDrain {
			out := p.Outcome()
			return out.Ending == "", out.left("")
		}
		w.perform(ctx, a)
		w.sleep(ctx, a.WakeNS)
	}
	return false, "interrupted"
}

// Prefill sends one prompt for one token, on an empty server.
func (d *Driver) Prefill(ctx context.Context, spec PrefillSpec) Prefilled {
	out := Prefilled{Head: spec.Head}
	if err := d.o.Texts.Prepare(ctx, spec.Head); err != nil {
		out.Recorded = failedRecord(spec, d.Now(), err)
		out.Drained = true
		return out
	}
	d.scraper.mark(spec.Key)
	defer d.scraper.mark("")
	d.unskip()
	if out.Drained, out.Left = d.AwaitEmpty(ctx, spec.Rules); out.Drained {
		out.Recorded, out.Skipped = d.sendSkippable(ctx, spec)
	}
	select {
	case <-d.skip:
		out.Skipped = true
	default:
	}
	return out
}

// sendSkippable sends a prefill, which the user may skip.
func (d *Driver) sendSkippable(ctx context.Context, spec PrefillSpec) (r Recorded, skipped bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan *load.Log, 1)
	go func() { answered <- d.send(ctx, spec) }()
	select {
	case log := <-answered:
		return record(log), false
	case <-d.skip:
		cancel()
		return record(<-answered), true
	}
}

// unskip forgets a wish to skip that came before there was anything to skip.
func (d *Driver) unskip() {
	select {
	case <-d.skip:
	default:
	}
}

// send sends a prefill. One that has no token within the limit has failed.
func (d *Driver) send(ctx context.Context, spec PrefillSpec) *load.Log {
	limited, cancel := context.WithTimeout(ctx, spec.Rules.FillLimit)
	defer cancel()
	log := d.o.Client.Do(limited, load.Request{ID: spec.Request, Head: int32(spec.Head.Stream), Tail: int32(spec.Tail),
		Purpose: PurposeFill, Body: d.body(spec.Head, spec.Tail, d.fewest()), PlannedNS: d.Now()})
	untold(log)
	if log.Class == speedmatrix.RequestCut && log.FirstNS == 0 && limited.Err() != nil && ctx.Err() == nil {
		log.Class, log.Failure, log.Error = speedmatrix.RequestFailed, load.FailureTimeout, "no token within "+unit.Duration(spec.Rules.FillLimit)
	}
	if log.Usage.Prompt > 0 {
		d.o.Texts.Counted(spec.Head, log.Usage.Prompt)
	}
	return log
}

// untold completes the log of a prefill whose one token has no text, as the mark that opens a reasoning has none: it
// came with the event that counts it, or with the finish reason.
func untold(log *load.Log) {
	length := log.Failure == load.FailureEmpty && log.FinishReason == "length"
	if log.FirstNS != 0 || log.FinishNS == 0 || log.Class != speedmatrix.RequestCompleted && !length {
		return
	}
	log.FirstNS = log.FinishNS
	for e := range log.Events() {
		log.FirstNS = e.At
		break
	}
	log.Class, log.Failure, log.Error = speedmatrix.RequestCompleted, load.FailureNone, ""
}

// failedRecord is the row of a request that could not be made.
func failedRecord(spec PrefillSpec, now int64, err error) Recorded {
	return Recorded{Row: speedmatrix.RequestRow{Request: spec.Request, Stream: -1, Purpose: PurposeFill, PlannedNS: now, EndedNS: &now,
		Class: string(speedmatrix.RequestFailed), Error: err.Error()}, Events: func(func(speedmatrix.EventRow) bool) {}}
}

// record turns a log into rows.
func record(log *load.Log) Recorded {
	row := log.Row()
	return Recorded{Row: row, Events: func(yield func(speedmatrix.EventRow) bool) {
		for e := range log.Events() {
			out := speedmatrix.EventRow{Request: row.Request, Stream: row.Stream, TimeNS: e.At, TextLength: int32(e.Length),
				Channel: e.Channel.String(), Continued: e.Continued}
			if e.Tokens >= 0 {
				n := int32(e.Tokens)
				out.Tokens = &n
			}
			if !yield(out) {
				return
			}
		}
	}}
}

// Decode measures one attempt at a decode cell.
func (d *Driver) Decode(ctx context.Context, spec *DecodeSpec) *DecodeResult {
	result := &DecodeResult{}
	for _, h := range spec.Heads {
		if err := d.o.Texts.Prepare(ctx, h); err != nil {
			return unprepared(spec, err)
		}
	}
	d.scraper.mark(spec.Key)
	defer d.scraper.mark("")
	defer d.scraper.hurry(false)
	d.unskip()
	w := newWatcher(d, spec)
	w.drive(ctx)
	result.Fills = w.fills
	result.Evidence = w.evidence(ctx)
	result.Loops = w.loopEvidence
	return result
}

// unprepared is the result of a cell whose prompts could not be made.
func unprepared(spec *DecodeSpec, err error) *DecodeResult {
	return &DecodeResult{Evidence: &Evidence{Context: spec.Context, Concurrency: spec.Concurrency, FillError: err.Error(),
		Outcome: Outcome{Ending: EndedFillFailed, Steps: map[Step]time.Duration{}}}}
}
