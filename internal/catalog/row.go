package catalog

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
)

// row is what an entry has beside the columns, in little room: 100,000 of them with 48 cells fit into about 100 MB.
type row struct {
	id, runID string
	// eventsHash and documentHash are packed, see packHash.
	eventsHash, documentHash        string
	sequence, received              int64 // microseconds since 1970
	version, repeats, reproductions int32
	visibility                      Visibility
	shape                           *shape
	// status is the place of each cell's status, with hasSpeeds where it has numbers. speeds are those of such cells,
	// speedsPerCell each, then the prefill speeds.
	status []uint8
	speeds []float32
	flags  []uint32
}

const hasSpeeds = 0x80

// The speeds of a cell, in the order in which a row keeps them.
const (
	speedTotal = iota
	speedHalf
	speedPerRequest
	speedTTFT
	speedBetween
	speedsPerCell
)

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

// pack makes the row of an entry.
func (x *Index) pack(e *Entry) row {
	r := row{id: e.ID, runID: e.RunID, eventsHash: packHash(e.EventsHash), documentHash: packHash(e.DocumentHash), sequence: e.Sequence,
		received: micros(e.ReceivedAt), version: int32(e.Version), repeats: int32(e.Repeats), reproductions: int32(e.Reproductions),
		visibility: e.Visibility, shape: x.shapeOf(e), status: make([]uint8, len(e.Cells))}
	with := 0
	for i := range e.Cells {
		r.status[i] = uint8(max(0, slices.Index(x.statuses, e.Cells[i].Status)))
		if e.Cells[i].numbered() {
			r.status[i] |= hasSpeeds
			with++
		}
	}
	r.speeds = make([]float32, 0, with*speedsPerCell+len(e.Prefill))
	for i := range e.Cells {
		if c := &e.Cells[i]; c.numbered() {
			r.speeds = append(r.speeds, c.Total, c.Half, c.PerRequest, c.TTFT, c.Between)
		}
	}
	for _, p := range e.Prefill {
		r.speeds = append(r.speeds, p.TokensPerSecond)
	}
	for _, f := range e.Flags {
		r.flags = append(r.flags, x.names[flags].intern(f))
	}
	return r
}

// numbered says whether any number of the cell is known.
func (c *Cell) numbered() bool {
	for _, v := range []float32{c.Total, c.Half, c.PerRequest, c.TTFT, c.Between} {
		if v == v {
			return true
		}
	}
	return false
}

// packHash is a hash in half its room: a SHA-256 in hex as bytes, any other text as it is.
func packHash(text string) string {
	if len(text) == hex.EncodedLen(packedHash) {
		if raw, err := hex.DecodeString(text); err == nil && hex.EncodeToString(raw) == text {
			return string(raw)
		}
	}
	if len(text) == packedHash {
		return "=" + text
	}
	return text
}

const packedHash = 32

func unpackHash(packed string) string {
	switch {
	case len(packed) == packedHash:
		return hex.EncodeToString([]byte(packed))
	case len(packed) == packedHash+1 && packed[0] == '=':
		return packed[1:]
	}
	return packed
}

func (x *Index) shapeOf(e *Entry) *shape {
	key := make([]byte, 0, 16*len(e.Cells))
	for _, c := range e.Cells {
		key = fmt.Appendf(key, "%q=%dx%d ", c.Label, c.Context, c.Concurrency)
	}
	for _, p := range e.Prefill {
		key = fmt.Appendf(key, "%q=%d ", p.Label, p.Context)
	}
	if s, ok := x.shapes[string(key)]; ok {
		return s
	}
	s := &shape{at: map[[2]int]int{}, rising: map[int][]int{}}
	for i, c := range e.Cells {
		s.cells = append(s.cells, shapeCell{c.Context, c.Concurrency, c.Label})
		if _, twice := s.at[[2]int{c.Context, c.Concurrency}]; twice {
			continue // the first of its place counts, as on the run's page
		}
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
func (x *Index) entry(i int32) *Entry {
	r := &x.rows[i]
	e := &Entry{ID: r.id, Version: int(r.version), Sequence: r.sequence, RunID: r.runID, EventsHash: unpackHash(r.eventsHash),
		DocumentHash: unpackHash(r.documentHash), Visibility: r.visibility, Level: x.level[i], Reproductions: int(r.reproductions), Repeats: int(r.repeats),
		MeasuredAt: fromMicros(x.measured[i]), ReceivedAt: fromMicros(r.received), PublishedAt: fromMicros(x.published[i]),
		Model: x.text(models, i), Hardware: x.text(machines, i), Engine: x.text(engines, i), EngineVersion: x.text(engineVersions, i),
		Quantization: x.text(quantizations, i), Method: x.text(methods, i), Owner: x.text(owners, i), OwnerName: x.text(ownerNames, i),
		Source: x.text(sources, i), Origin: x.text(origins, i), Weights: x.text(weightHashes, i), Modified: x.text(modifications, i),
		Speculative: x.text(drafts, i), Cells: make([]Cell, len(r.status)), Prefill: make([]Prefill, len(r.shape.prefill))}
	e.ModelKey, e.HardwareKey = Key(e.Model), Key(e.Hardware)
	rest := r.speeds
	for j, c := range r.shape.cells {
		nan := float32(math.NaN())
		cell := Cell{Context: c.context, Label: c.label, Concurrency: c.concurrency, Status: x.statuses[r.status[j]&^hasSpeeds],
			Total: nan, Half: nan, PerRequest: nan, TTFT: nan, Between: nan}
		if r.status[j]&hasSpeeds != 0 {
			cell.Total, cell.Half, cell.PerRequest, cell.TTFT, cell.Between = rest[speedTotal], rest[speedHalf], rest[speedPerRequest], rest[speedTTFT], rest[speedBetween]
			rest = rest[speedsPerCell:]
		}
		e.Cells[j] = cell
	}
	for j, p := range r.shape.prefill {
		e.Prefill[j] = Prefill{Context: p.context, Label: p.label, TokensPerSecond: rest[j]}
	}
	for _, f := range r.flags {
		e.Flags = append(e.Flags, x.names[flags].text[f])
	}
	return e
}

// cellSpeed is a number of cell j of the shape, NaN where there is none.
func (r *row) cellSpeed(j, which int) float64 {
	if r.status[j]&hasSpeeds == 0 {
		return math.NaN()
	}
	before := 0
	for _, s := range r.status[:j] {
		before += int(s >> 7)
	}
	return float64(r.speeds[before*speedsPerCell+which])
}

// speed is a number of a cell, NaN where there is none.
func (r *row) speed(context, concurrency, which int) float64 {
	j, ok := r.shape.at[[2]int{context, concurrency}]
	if !ok {
		return math.NaN()
	}
	return r.cellSpeed(j, which)
}

// prefillSpeed is the prefill speed at a context, NaN where there is none.
func (r *row) prefillSpeed(context int) float64 {
	for j, p := range r.shape.prefill {
		if p.context == context {
			return float64(r.speeds[len(r.speeds)-len(r.shape.prefill)+j])
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
	for _, j := range cells {
		if !(r.cellSpeed(j, speedPerRequest) >= floor) { // NaN ends it too
			break
		}
		most = float64(r.shape.cells[j].concurrency)
	}
	return most
}

// ordered is the part of a row that a query sorts by: greater is earlier, NaN is last.
func (x *Index) valueOf(o *order, i int32) float64 {
	r := &x.rows[i]
	switch o.by {
	case ByTotal:
		return r.speed(o.context, o.concurrency, speedTotal)
	case ByPerRequest:
		return r.speed(o.context, o.concurrency, speedPerRequest)
	case ByTTFT:
		return -r.speed(o.context, o.concurrency, speedTTFT)
	case ByUsers:
		return r.users(o.context, o.floor)
	case ByPrefill:
		return r.prefillSpeed(o.context)
	}
	return float64(x.published[i])
}
