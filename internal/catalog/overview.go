package catalog

import "math"

// Subject is what runs are grouped by.
type Subject int

// The subjects. Those beside a model are the machines that it ran on, beside a hardware the models that ran on it, beside
// an engine its versions.
const (
	OfModels Subject = iota
	OfHardware
	OfEngines
)

// kinds gives the property of a subject, and that of those beside it.
func (s Subject) kinds() (own, beside kind) {
	switch s {
	case OfHardware:
		return machines, models
	case OfEngines:
		return engines, engineVersions
	}
	return models, machines
}

// Spot is a decode cell.
type Spot struct{ Context, Concurrency int }

// Overview is a group with what its comparable runs reach.
type Overview struct {
	Group
	// Latest is the newest comparable run, nil without one.
	Latest *Entry
	// Beside counts the others that its comparable runs are of: see Subject.
	Beside int
	// Reach is the total tok/s of the comparable runs at each spot that was asked for.
	Reach []Reach
}

// Reach is the least and the greatest of some numbers, both NaN without any.
type Reach struct{ Least, Most float64 }

func (r *Reach) add(v float64) {
	switch {
	case math.IsNaN(v):
	case math.IsNaN(r.Least):
		r.Least, r.Most = v, v
	default:
		r.Least, r.Most = min(r.Least, v), max(r.Most, v)
	}
}

// Overview lists at most so many groups, those with most runs first, in one walk over all runs, and says how many there are.
func (x *Index) Overview(of Subject, most int, at ...Spot) (list []Overview, total int) {
	own, beside := of.kinds()
	groups := x.groups(own)
	list = make([]Overview, min(most, len(groups)))
	place := map[string]int{}
	for i := range list {
		list[i].Group, list[i].Reach = groups[i], make([]Reach, len(at))
		for j := range at {
			list[i].Reach[j] = Reach{math.NaN(), math.NaN()}
		}
		place[groups[i].Key] = i
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	w := walk{x: x, list: list, group: x.places(own, place), beside: x.alike(beside), newest: x.order(&Query{Sort: ByNewest}),
		latest: make([]int32, len(list)), seen: map[uint64]bool{}}
	for _, s := range at {
		w.totals = append(w.totals, x.order(&Query{Sort: ByTotal, Context: s.Context, Concurrency: s.Concurrency}))
	}
	for i := range w.latest {
		w.latest[i] = -1
	}
	for i := range x.rows {
		if x.listed[i] && x.reason[i] == 0 {
			w.row(int32(i), x.value[own][i], x.value[beside][i])
		}
	}
	for i, row := range w.latest {
		if row >= 0 {
			list[i].Latest = x.entry(row)
		}
	}
	return list, len(groups)
}

// walk is the state of an overview.
type walk struct {
	x      *Index
	list   []Overview
	group  []int    // by value of the subject, the place in list, −1 where it is not listed
	beside []uint32 // by value of those beside, the first value with the same key
	newest []float64
	totals [][]float64
	latest []int32 // by place in list
	seen   map[uint64]bool
}

func (w *walk) row(i int32, own, beside uint32) {
	at := w.group[own]
	if at < 0 {
		return
	}
	g := &w.list[at]
	if pair := uint64(at)<<32 | uint64(w.beside[beside]); beside != 0 && !w.seen[pair] {
		w.seen[pair] = true
		g.Beside++
	}
	for j, total := range w.totals {
		g.Reach[j].add(total[i])
	}
	if was := w.latest[at]; was < 0 || w.newest[i] > w.newest[was] {
		w.latest[at] = i
	}
}

// places gives, by value of a property, the place of its key.
func (x *Index) places(k kind, place map[string]int) []int {
	list := make([]int, len(x.names[k].text))
	for id, text := range x.names[k].text {
		at, there := place[Key(text)]
		if !there || text == "" {
			at = -1
		}
		list[id] = at
	}
	return list
}

// alike gives, by value of a property, the first value that has the same key.
func (x *Index) alike(k kind) []uint32 {
	first, list := map[string]uint32{}, make([]uint32, len(x.names[k].text))
	for id, text := range x.names[k].text {
		if k != engineVersions {
			text = Key(text)
		}
		if _, there := first[text]; !there {
			first[text] = uint32(id)
		}
		list[id] = first[text]
	}
	return list
}
