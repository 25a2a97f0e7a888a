package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"speedmatrix"
)

// Index knows every run of a site by its entry, whatever its visibility, and answers the questions of pages and programs.
// Its methods may be called at the same time.
//
// What lists filter and count by stands in columns, a number for each run; the rest of an entry is packed into a row.
type Index struct {
	mu       sync.RWMutex
	sequence int64
	rows     []row
	byID     map[string]int32
	names    [kinds]names
	shapes   map[string]*shape
	// statuses are all statuses; a row keeps the place of each.
	statuses []speedmatrix.Status

	columns
	orders orders
	listing
}

// columns hold a value for each row, in the order of rows.
type columns struct {
	value               [kinds][]uint32
	level               []Level
	listed              []bool
	measured, published []int64 // microseconds since 1970; 0 is none
	// reason is why a run stands apart, the place of "" where it does not.
	reason []uint32
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
	reasons
	flags
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

// NewIndex makes an index without a run.
func NewIndex() *Index {
	x := &Index{byID: map[string]int32{}, shapes: map[string]*shape{}, statuses: append(speedmatrix.Statuses(), "")}
	for k := range x.names {
		x.names[k].id = map[string]uint32{}
		x.names[k].intern("")
	}
	return x
}

// Sequence is that of the latest change that the index knows.
func (x *Index) Sequence() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.sequence
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
	i, known := x.byID[e.ID]
	if known && x.rows[i].sequence >= e.Sequence {
		return
	}
	x.sequence = max(x.sequence, e.Sequence)
	if known {
		x.count(i, -1)
	}
	if e.Version == 0 {
		if known {
			x.remove(i)
		}
		return
	}
	if !known {
		i = int32(len(x.rows))
		x.grow()
	}
	x.put(i, &e)
	x.byID[x.rows[i].id] = i
	x.count(i, 1)
}

// grow makes room for one more row.
func (x *Index) grow() {
	x.rows = append(x.rows, row{})
	for k := range flags {
		x.value[k] = append(x.value[k], 0)
	}
	x.level, x.listed, x.reason = append(x.level, 0), append(x.listed, false), append(x.reason, 0)
	x.measured, x.published = append(x.measured, 0), append(x.published, 0)
	x.orders.grow()
}

// put writes an entry into row i.
func (x *Index) put(i int32, e *Entry) {
	r := x.pack(e)
	x.rows[i] = r
	for k, text := range [flags]string{models: e.Model, machines: e.Hardware, engines: e.Engine, engineVersions: e.EngineVersion,
		quantizations: e.Quantization, methods: e.Method, owners: e.Owner, ownerNames: e.OwnerName, sources: e.Source,
		origins: e.Origin, weightHashes: e.Weights, modifications: e.Modified, drafts: e.Speculative, reasons: e.Incomparable()} {
		x.value[k][i] = x.names[k].intern(text)
	}
	x.reason[i] = x.value[reasons][i]
	x.level[i], x.listed[i] = e.Level, e.Visibility.Listed()
	x.measured[i], x.published[i] = micros(e.MeasuredAt), micros(e.PublishedAt)
	x.orders.put(i, func(o *order) float64 { return x.valueOf(o, i) })
}

// count adds a run to the numbers of those that share its properties.
func (x *Index) count(i int32, n int32) {
	if !x.listed[i] {
		return
	}
	for k := range flags {
		x.names[k].listed[x.value[k][i]] += n
	}
	x.listing.change(x.rows[i].id, n > 0)
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
	for k := range flags {
		x.value[k] = moved(x.value[k], i)
	}
	x.level, x.listed, x.reason = moved(x.level, i), moved(x.listed, i), moved(x.reason, i)
	x.measured, x.published = moved(x.measured, i), moved(x.published, i)
	x.orders.remove(i)
}

// moved is a column without value i, whose place the last one takes.
func moved[T any](column []T, i int32) []T {
	last := len(column) - 1
	column[i] = column[last]
	return column[:last]
}

// Len is the number of runs, whatever their visibility.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.rows)
}

// Get gives a run's entry, whatever its visibility.
func (x *Index) Get(id string) (*Entry, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.byID[id]
	if !ok {
		return nil, false
	}
	return x.entry(i), true
}

func (x *Index) text(k kind, i int32) string { return x.names[k].text[x.value[k][i]] }

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
