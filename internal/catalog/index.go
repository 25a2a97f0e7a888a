package catalog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"speedmatrix"
)

// Index knows every run of a site by its entry, whatever its visibility, and answers the questions of pages and programs.
// Its methods may be called at the same time.
type Index struct {
	mu       sync.RWMutex
	sequence int64
	rows     []row
	byID     map[string]int32
	names    [kinds]names
	shapes   map[string]*shape
	// statuses are all statuses; a row keeps the place of each.
	statuses []speedmatrix.Status
}

// kind is a property whose values many runs share, each kept once.
type kind int

const (
	models kind = iota
	machines
	engines
	engineVersions
	quantizations
	methods
	owners
	ownerNames
	sources
	origins
	weightHashes
	modifications
	drafts
	kinds
)

// names are the values of a property.
type names struct {
	text []string
	id   map[string]uint32
	// listed counts the listed runs that have each.
	listed []int32
}

func (n *names) intern(text string) uint32 {
	if id, ok := n.id[text]; ok {
		return id
	}
	id := uint32(len(n.text))
	n.text = append(n.text, text)
	n.listed = append(n.listed, 0)
	n.id[text] = id
	return id
}

// shape is the plan of a matrix, which many runs share: the cells in order, and the prefill sizes.
type shape struct {
	cells   []shapeCell
	prefill []shapePrefill
	// at finds a cell; rising lists the cells of a context by their number of requests at once.
	at     map[[2]int]int
	rising map[int][]int
}

type shapeCell struct {
	context, concurrency int
	label                string
}

type shapePrefill struct {
	context int
	label   string
}

// The speeds of a cell, in the order in which a row keeps them.
const (
	speedTotal = iota
	speedHalf
	speedPerRequest
	speedTTFT
	speedBetween
	speedsPerCell
)

// row is an entry in little room: 100,000 of them with 48 cells fit into about 150 MB.
type row struct {
	id, runID, eventsHash, documentHash string
	sequence                            int64
	measured, received, published       int64 // microseconds since 1970; 0 is none
	value                               [kinds]uint32
	version, repeats, reproductions     int32
	level                               Level
	visibility                          Visibility
	shape                               *shape
	speeds                              []float32 // speedsPerCell of each cell
	status                              []uint8
	prefill                             []float32
}

// NewIndex makes an index without a run.
func NewIndex() *Index {
	x := &Index{byID: map[string]int32{}, shapes: map[string]*shape{}, statuses: append(speedmatrix.Statuses(), "")}
	for k := range x.names {
		x.names[k].id = map[string]uint32{}
	}
	return x
}

// Sequence is that of the latest change that the index knows.
func (x *Index) Sequence() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.sequence
}

// Len is the number of runs, whatever their visibility.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.rows)
}

// Load brings the index up to date with a store.
func (x *Index) Load(ctx context.Context, s Store) error {
	for e, err := range s.Since(ctx, x.Sequence()) {
		if err != nil {
			return fmt.Errorf("read the runs of the store: %w", err)
		}
		x.Apply(e)
	}
	return nil
}

// Follow keeps the index up to date with a store that others write too, until the context ends. What fails is told and tried
// again.
func (x *Index) Follow(ctx context.Context, s Store, every time.Duration, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := x.Load(ctx, s); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// Apply takes over a change: an entry, or a removed run with its ID and Sequence alone. One that is older than what the
// index knows of the run changes nothing.
func (x *Index) Apply(e Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sequence = max(x.sequence, e.Sequence)
	i, known := x.byID[e.ID]
	if known && x.rows[i].sequence >= e.Sequence {
		return
	}
	if known {
		x.count(&x.rows[i], -1)
	}
	if e.Version == 0 {
		if known {
			x.remove(i)
		}
		return
	}
	if !known {
		i = int32(len(x.rows))
		x.rows = append(x.rows, row{})
		x.byID[e.ID] = i
	}
	x.rows[i] = x.compact(&e)
	x.count(&x.rows[i], 1)
}

// count adds a run to the numbers of those that share its properties.
func (x *Index) count(r *row, n int32) {
	if !r.visibility.Listed() {
		return
	}
	for k := range x.names {
		x.names[k].listed[r.value[k]] += n
	}
}

// remove takes a row out; the last one fills its place.
func (x *Index) remove(i int32) {
	last := int32(len(x.rows) - 1)
	delete(x.byID, x.rows[i].id)
	if i != last {
		x.rows[i] = x.rows[last]
		x.byID[x.rows[i].id] = i
	}
	x.rows[last] = row{}
	x.rows = x.rows[:last]
}

func (x *Index) compact(e *Entry) row {
	r := row{id: e.ID, runID: e.RunID, eventsHash: e.EventsHash, documentHash: e.DocumentHash, sequence: e.Sequence,
		measured: micros(e.MeasuredAt), received: micros(e.ReceivedAt), published: micros(e.PublishedAt),
		version: int32(e.Version), repeats: int32(e.Repeats), reproductions: int32(e.Reproductions), level: e.Level, visibility: e.Visibility}
	for k, text := range [kinds]string{models: e.Model, machines: e.Hardware, engines: e.Engine, engineVersions: e.EngineVersion,
		quantizations: e.Quantization, methods: e.Method, owners: e.Owner, ownerNames: e.OwnerName, sources: e.Source,
		origins: e.Origin, weightHashes: e.Weights, modifications: e.Modified, drafts: e.Speculative} {
		r.value[k] = x.names[k].intern(text)
	}
	r.shape = x.shapeOf(e)
	r.speeds = make([]float32, 0, len(e.Cells)*speedsPerCell)
	r.status = make([]uint8, len(e.Cells))
	for i, c := range e.Cells {
		r.speeds = append(r.speeds, c.Total, c.Half, c.PerRequest, c.TTFT, c.Between)
		r.status[i] = uint8(max(0, slices.Index(x.statuses, c.Status)))
	}
	r.prefill = make([]float32, len(e.Prefill))
	for i, p := range e.Prefill {
		r.prefill[i] = p.TokensPerSecond
	}
	return r
}

func (x *Index) shapeOf(e *Entry) *shape {
	key := make([]byte, 0, 16*len(e.Cells))
	for _, c := range e.Cells {
		key = fmt.Appendf(key, "%s=%dx%d ", c.Label, c.Context, c.Concurrency)
	}
	for _, p := range e.Prefill {
		key = fmt.Appendf(key, "%s=%d ", p.Label, p.Context)
	}
	if s, ok := x.shapes[string(key)]; ok {
		return s
	}
	s := &shape{at: map[[2]int]int{}, rising: map[int][]int{}}
	for i, c := range e.Cells {
		s.cells = append(s.cells, shapeCell{c.Context, c.Concurrency, c.Label})
		s.at[[2]int{c.Context, c.Concurrency}] = i
		s.rising[c.Context] = append(s.rising[c.Context], i)
	}
	for _, cells := range s.rising {
		slices.SortFunc(cells, func(a, b int) int { return cmp.Compare(s.cells[a].concurrency, s.cells[b].concurrency) })
	}
	for _, p := range e.Prefill {
		s.prefill = append(s.prefill, shapePrefill{p.Context, p.Label})
	}
	x.shapes[string(key)] = s
	return s
}

// entry makes the whole entry of a row again.
func (x *Index) entry(r *row) *Entry {
	e := &Entry{ID: r.id, Version: int(r.version), Sequence: r.sequence, RunID: r.runID, EventsHash: r.eventsHash, DocumentHash: r.documentHash,
		Visibility: r.visibility, Level: r.level, Reproductions: int(r.reproductions), Repeats: int(r.repeats),
		MeasuredAt: fromMicros(r.measured), ReceivedAt: fromMicros(r.received), PublishedAt: fromMicros(r.published),
		Model: x.text(models, r), Hardware: x.text(machines, r), Engine: x.text(engines, r), EngineVersion: x.text(engineVersions, r),
		Quantization: x.text(quantizations, r), Method: x.text(methods, r), Owner: x.text(owners, r), OwnerName: x.text(ownerNames, r),
		Source: x.text(sources, r), Origin: x.text(origins, r), Weights: x.text(weightHashes, r), Modified: x.text(modifications, r),
		Speculative: x.text(drafts, r), Cells: make([]Cell, len(r.status)), Prefill: make([]Prefill, len(r.prefill))}
	e.ModelKey, e.HardwareKey = Key(e.Model), Key(e.Hardware)
	for i, c := range r.shape.cells {
		v := r.speeds[i*speedsPerCell:]
		e.Cells[i] = Cell{Context: c.context, Label: c.label, Concurrency: c.concurrency, Status: x.statuses[r.status[i]],
			Total: v[speedTotal], Half: v[speedHalf], PerRequest: v[speedPerRequest], TTFT: v[speedTTFT], Between: v[speedBetween]}
	}
	for i, p := range r.shape.prefill {
		e.Prefill[i] = Prefill{Context: p.context, Label: p.label, TokensPerSecond: r.prefill[i]}
	}
	return e
}

func (x *Index) text(k kind, r *row) string { return x.names[k].text[r.value[k]] }

// speed is a number of a cell, NaN where there is none.
func (r *row) speed(context, concurrency, which int) float64 {
	i, ok := r.shape.at[[2]int{context, concurrency}]
	if !ok {
		return math.NaN()
	}
	return float64(r.speeds[i*speedsPerCell+which])
}

// prefillSpeed is the prefill speed at a context, NaN where there is none.
func (r *row) prefillSpeed(context int) float64 {
	for i, p := range r.shape.prefill {
		if p.context == context {
			return float64(r.prefill[i])
		}
	}
	return math.NaN()
}

// users is the greatest measured number of requests at once that, with all smaller ones, each keep the floor at a context;
// NaN where none was measured there.
func (r *row) users(context int, floor float64) float64 {
	cells, ok := r.shape.rising[context]
	if !ok {
		return math.NaN()
	}
	most := 0.0
	for _, i := range cells {
		if !(float64(r.speeds[i*speedsPerCell+speedPerRequest]) >= floor) { // NaN ends it too
			break
		}
		most = float64(r.shape.cells[i].concurrency)
	}
	return most
}


func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
