package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// defaultLimit is the length of a page, mostApart that of the list of runs that are not comparable.
const (
	defaultLimit = 50
	mostLimit    = 200
	mostApart    = 50
	defaultFloor = 20
	mostWords    = 12
)

// property is what a facet counts and a filter restricts.
type property int

const (
	byModel property = iota
	byHardware
	byEngine
	byVersion
	byQuantization
	byMethod
	byLevel
	byModified
	byDate
	byCell
	byRest
	properties
)

// filter is one condition of a query.
type filter struct {
	of   property
	pass func(i int32) bool
}

// in makes a condition that a row's value is one of those whose key is asked for.
func (x *Index) in(of property, k kind, key string, keyOf func(string) string) filter {
	column := x.value[k]
	var ids []uint32
	for id, text := range x.names[k].text {
		if keyOf(text) == key {
			ids = append(ids, uint32(id))
		}
	}
	switch len(ids) {
	case 0:
		return filter{of, func(int32) bool { return false }}
	case 1:
		id := ids[0]
		return filter{of, func(i int32) bool { return column[i] == id }}
	}
	return filter{of, func(i int32) bool { return slices.Contains(ids, column[i]) }}
}

func same(text string) string { return text }

// filters are the conditions of a query, the comparability of runs apart.
func (x *Index) filters(q *Query) (list []filter) {
	for _, f := range []struct {
		of    property
		k     kind
		key   string
		keyOf func(string) string
	}{
		{byModel, models, q.Model, Key}, {byHardware, machines, q.Hardware, Key}, {byEngine, engines, q.Engine, Key},
		{byVersion, engineVersions, q.EngineVersion, same}, {byQuantization, quantizations, q.Quantization, strings.ToLower},
		{byMethod, methods, q.Method, same}, {byRest, ownerNames, q.Owner, same}, {byRest, sources, q.Source, same},
		{byRest, weightHashes, q.Weights, same},
	} {
		if f.key != "" {
			list = append(list, x.in(f.of, f.k, f.keyOf(f.key), f.keyOf))
		}
	}
	words := strings.Fields(strings.ToLower(q.Text))
	for _, word := range words[:min(len(words), mostWords)] {
		list = append(list, x.word(word))
	}
	if q.Level > 0 {
		list = append(list, filter{byLevel, func(i int32) bool { return x.level[i] >= q.Level }})
	}
	if q.Modified != "" {
		wantStock := q.Modified == "stock"
		list = append(list, filter{byModified, func(i int32) bool { return (x.value[modifications][i] == 0) == wantStock }})
	}
	if !q.After.IsZero() {
		after := q.After.UnixMicro()
		list = append(list, filter{byDate, func(i int32) bool { return x.measured[i] >= after }})
	}
	if !q.Before.IsZero() {
		before := q.Before.UnixMicro()
		list = append(list, filter{byDate, func(i int32) bool { return x.measured[i] < before }})
	}
	if q.HasCell {
		total := x.order(&Query{Sort: ByTotal, Context: q.Context, Concurrency: q.Concurrency})
		list = append(list, filter{byCell, func(i int32) bool { return total[i] == total[i] }})
	}
	return list
}

// searched are the properties that words of a search stand in; a word that begins with a dash stands in flags alone.
var searched = []kind{models, machines, engines, engineVersions, quantizations, ownerNames, modifications, drafts}

// word is the condition that a word stands in what names a run.
func (x *Index) word(word string) filter {
	if strings.HasPrefix(word, "-") {
		found := x.holding(flags, word)
		return filter{byRest, func(i int32) bool {
			for _, f := range x.rows[i].flags {
				if found[f] {
					return true
				}
			}
			return false
		}}
	}
	type column struct {
		values []uint32
		found  []bool
	}
	var columns []column
	for _, k := range searched {
		if found := x.holding(k, word); slices.Contains(found, true) {
			columns = append(columns, column{x.value[k], found})
		}
	}
	return filter{byRest, func(i int32) bool {
		for _, c := range columns {
			if c.found[c.values[i]] {
				return true
			}
		}
		return false
	}}
}

// holding says which values of a property hold a word, whatever its case.
func (x *Index) holding(k kind, word string) []bool {
	found := make([]bool, len(x.names[k].text))
	for id, text := range x.names[k].text {
		found[id] = strings.Contains(strings.ToLower(text), word)
	}
	return found
}

// Incomparable says why a run is not comparable with most; "" where it is.
func (e *Entry) Incomparable() string {
	switch {
	case e.Origin == "predicted":
		return "predicted, not measured"
	case e.Modified != "":
		return e.Modified
	case e.Speculative != "":
		return "speculative decoding"
	case e.Method != "standard/1":
		return "method " + e.Method
	case e.Level < Recomputed:
		return "not recomputed: " + strings.ToLower(e.Level.String())
	}
	return ""
}

// Find gives a page of the listed runs that match. Its error says which part of the query is wrong.
func (x *Index) Find(q Query) (Page, error) {
	q.Limit = cmp.Or(q.Limit, defaultLimit)
	if err := q.check(); err != nil {
		return Page{}, err
	}
	from, back, err := parseCursor(q.Cursor, keyOf(&q))
	if err != nil {
		return Page{}, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := scan{x: x, filters: x.filters(&q), values: x.order(&q), from: from, all: q.All,
		top: first{n: q.Limit + 1, back: back}, aside: first{n: mostApart}}
	if q.Cursor != "" {
		s.aside.n = 0
	}
	s.reasons = make([]int, len(x.names[reasons].text))
	for i := int32(len(x.rows)) - 1; i >= 0; i-- { // the newest first: the last page of them all is seldom asked for
		s.row(i)
	}
	page := Page{Total: s.total, ApartTotal: x.facets(reasons, s.reasons, same)}
	top := page.cut(s.top.sorted(), &q, from != nil && !back, back)
	for _, p := range top {
		page.Entries = append(page.Entries, x.entry(p.row))
	}
	for _, p := range s.aside.sorted() {
		page.Apart = append(page.Apart, Apart{x.entry(p.row), x.text(reasons, p.row)})
	}
	return page, nil
}

// Newest gives at most n listed runs that match, comparable or not, the newest first, and how many there are in all.
func (x *Index) Newest(q Query, n int) (newest []*Entry, total int, err error) {
	q.Sort, q.All, q.Limit = ByNewest, true, defaultLimit
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := scan{x: x, filters: x.filters(&q), values: x.order(&q), all: true, top: first{n: n}}
	for i := int32(len(x.rows)) - 1; i >= 0; i-- {
		s.row(i)
	}
	for _, p := range s.top.sorted() {
		newest = append(newest, x.entry(p.row))
	}
	return newest, s.total, nil
}

// cut takes a page out of the places that were found, which are one more where there are more, and sets the cursors to its
// neighbours; later says that it is not the first, back that it was asked for from behind.
func (page *Page) cut(top []place, q *Query, later, back bool) []place {
	more := len(top) > q.Limit
	switch {
	case more && back:
		top = top[1:]
	case more:
		top = top[:q.Limit]
	}
	if len(top) == 0 {
		return nil
	}
	if more || back {
		page.Next = cursor(&top[len(top)-1], keyOf(q), false)
	}
	if later || back && more {
		page.Previous = cursor(&top[0], keyOf(q), true)
	}
	return top
}

// scan is a walk over all rows for a page.
type scan struct {
	x          *Index
	filters    []filter
	values     []float64
	from       *place
	top, aside first
	all        bool
	total      int
	reasons    []int
}

func (s *scan) row(i int32) {
	x := s.x
	if !x.listed[i] {
		return
	}
	for _, f := range s.filters {
		if !f.pass(i) {
			return
		}
	}
	published := x.published[i]
	if reason := x.reason[i]; reason != 0 && !s.all {
		s.reasons[reason]++
		if v := float64(published); s.aside.open(v, published) {
			s.aside.offer(place{v, published, x.rows[i].id, i})
		}
		return
	}
	s.total++
	value := s.values[i]
	if !s.top.open(value, published) {
		return
	}
	p := place{value, published, x.rows[i].id, i}
	if s.from == nil || !s.top.back && s.from.before(&p) || s.top.back && p.before(s.from) {
		s.top.offer(p)
	}
}

// open says whether a place with these may be among the first; it saves looking at what stands far away in memory.
func (f *first) open(value float64, published int64) bool {
	if len(f.heap) < f.n {
		return true
	}
	if f.n == 0 {
		return false
	}
	last := &f.heap[0]
	if f.back {
		return true
	}
	switch vn, ln := value != value, last.value != last.value; {
	case vn != ln:
		return ln
	case !vn && value != last.value:
		return value > last.value
	}
	return published >= last.published
}

// check refuses what no list can be ordered or cut by.
func (q *Query) check() error {
	switch q.Sort {
	case "", ByNewest, ByUsers, ByPrefill:
	case ByTotal, ByPerRequest, ByTTFT:
		if q.Concurrency < 1 {
			return errors.New("an order by a cell needs its number of requests at once")
		}
	default:
		return fmt.Errorf("there is no order %q", q.Sort)
	}
	if q.HasCell && q.Concurrency < 1 {
		return errors.New("a cell needs its number of requests at once")
	}
	if q.Modified != "" && q.Modified != "stock" && q.Modified != "modified" {
		return fmt.Errorf("hardware is stock or modified, not %q", q.Modified)
	}
	if q.Limit < 1 || q.Limit > mostLimit {
		return fmt.Errorf("a page has 1 to %d runs", mostLimit)
	}
	return nil
}
