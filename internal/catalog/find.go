package catalog

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// defaultLimit is the length of a page, mostApart that of the list of runs that are not comparable.
const (
	defaultLimit = 50
	mostApart    = 50
	defaultFloor = 20
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
	byRest
	properties
)

// filter is one condition of a query.
type filter struct {
	of   property
	pass func(*row) bool
}

// in makes a condition that a row's value is one of those whose key is asked for.
func (x *Index) in(of property, k kind, key string, keyOf func(string) string) filter {
	ids := map[uint32]bool{}
	for id, text := range x.names[k].text {
		if keyOf(text) == key {
			ids[uint32(id)] = true
		}
	}
	if len(ids) == 1 {
		for id := range ids {
			return filter{of, func(r *row) bool { return r.value[k] == id }}
		}
	}
	return filter{of, func(r *row) bool { return ids[r.value[k]] }}
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
		{byModel, models, q.Model, Key}, {byHardware, machines, q.Hardware, Key}, {byEngine, engines, q.Engine, same},
		{byVersion, engineVersions, q.EngineVersion, same}, {byQuantization, quantizations, q.Quantization, same},
		{byMethod, methods, q.Method, same}, {byRest, ownerNames, q.Owner, same}, {byRest, sources, q.Source, same},
	} {
		if f.key != "" {
			list = append(list, x.in(f.of, f.k, f.key, f.keyOf))
		}
	}
	for _, word := range strings.Fields(strings.ToLower(q.Text)) {
		list = append(list, x.word(word))
	}
	if q.Level > 0 {
		list = append(list, filter{byLevel, func(r *row) bool { return r.level >= q.Level }})
	}
	if q.Modified != "" {
		stock, wantStock := x.names[modifications].id[""], q.Modified == "stock"
		list = append(list, filter{byModified, func(r *row) bool { return (r.value[modifications] == stock) == wantStock }})
	}
	if !q.After.IsZero() {
		after := q.After.UnixMicro()
		list = append(list, filter{byRest, func(r *row) bool { return r.measured >= after }})
	}
	if !q.Before.IsZero() {
		before := q.Before.UnixMicro()
		list = append(list, filter{byRest, func(r *row) bool { return r.measured < before }})
	}
	if q.HasCell {
		list = append(list, filter{byRest, func(r *row) bool { return !math.IsNaN(r.speed(q.Context, q.Concurrency, speedTotal)) }})
	}
	return list
}

// word is the condition that a word stands in what names a run.
func (x *Index) word(word string) filter {
	var found [kinds][]bool
	searched := []kind{models, machines, engines, engineVersions, quantizations, ownerNames}
	for _, k := range searched {
		found[k] = make([]bool, len(x.names[k].text))
		for id, text := range x.names[k].text {
			found[k][id] = strings.Contains(strings.ToLower(text), word)
		}
	}
	return filter{byRest, func(r *row) bool {
		for _, k := range searched {
			if found[k][r.value[k]] {
				return true
			}
		}
		return false
	}}
}

// apart says why a run is not comparable with most; "" where it is.
func (x *Index) apart(r *row) string {
	switch {
	case x.text(origins, r) == "predicted":
		return "predicted, not measured"
	case x.text(modifications, r) != "":
		return x.text(modifications, r)
	case x.text(drafts, r) != "":
		return "speculative decoding"
	case x.text(methods, r) != "standard/1":
		return "method " + x.text(methods, r)
	case r.level < Recomputed:
		return "not recomputed: " + strings.ToLower(r.level.String())
	}
	return ""
}

// Comparable says whether a run stands among the comparable ones, and if not, why.
func (x *Index) Comparable(id string) (ok bool, reason string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, known := x.byID[id]
	if !known {
		return false, "not listed"
	}
	reason = x.apart(&x.rows[i])
	return reason == "", reason
}

// order gives what a query sorts by: greater is earlier, NaN is last.
func order(q *Query) func(*row) float64 {
	floor := cmp.Or(q.Floor, defaultFloor)
	switch q.Sort {
	case ByTotal:
		return func(r *row) float64 { return r.speed(q.Context, q.Concurrency, speedTotal) }
	case ByPerRequest:
		return func(r *row) float64 { return r.speed(q.Context, q.Concurrency, speedPerRequest) }
	case ByTTFT:
		return func(r *row) float64 { return -r.speed(q.Context, q.Concurrency, speedTTFT) }
	case ByUsers:
		return func(r *row) float64 { return r.users(q.Context, floor) }
	case ByPrefill:
		return func(r *row) float64 { return r.prefillSpeed(q.Context) }
	}
	return newest
}

func newest(r *row) float64 { return float64(r.published) }

// place is where a row stands in an order.
type place struct {
	value float64
	row   *row
}

// before says whether a stands before b: the greater value, NaN last, of equals the later run.
func (a place) before(b place) bool {
	an, bn := math.IsNaN(a.value), math.IsNaN(b.value)
	if an != bn {
		return bn
	}
	if !an && a.value != b.value {
		return a.value > b.value
	}
	return a.row.id > b.row.id
}

// first keeps the n first places that are offered to it, as a heap with the last of them on top.
type first struct {
	n    int
	heap []place
}

func (f *first) offer(p place) {
	if len(f.heap) < f.n {
		f.heap = append(f.heap, p)
		for i := len(f.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if !f.heap[up].before(f.heap[i]) {
				break
			}
			f.heap[up], f.heap[i] = f.heap[i], f.heap[up]
			i = up
		}
		return
	}
	if !p.before(f.heap[0]) {
		return
	}
	f.heap[0] = p
	for i := 0; ; {
		last := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < len(f.heap) && f.heap[last].before(f.heap[down]) {
				last = down
			}
		}
		if last == i {
			return
		}
		f.heap[i], f.heap[last] = f.heap[last], f.heap[i]
		i = last
	}
}

// sorted gives the kept places in order.
func (f *first) sorted() []place {
	slices.SortFunc(f.heap, func(a, b place) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return 0
	})
	return f.heap
}

// Find gives a page of the listed runs that match. Its error says which part of the query is wrong.
func (x *Index) Find(q Query) (Page, error) {
	q.Limit = cmp.Or(q.Limit, defaultLimit)
	if err := q.check(); err != nil {
		return Page{}, err
	}
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	filters, value := x.filters(&q), order(&q)
	page, top, aside := Page{}, first{n: q.Limit + 1}, first{n: mostApart}
	reasons := map[string]int{}
rows:
	for i := len(x.rows) - 1; i >= 0; i-- { // late runs first: the newest are found soon
		r := &x.rows[i]
		if !r.visibility.Listed() {
			continue
		}
		for _, f := range filters {
			if !f.pass(r) {
				continue rows
			}
		}
		if reason := x.apart(r); reason != "" && !q.All {
			reasons[reason]++
			aside.offer(place{newest(r), r})
			continue
		}
		page.Total++
		if p := (place{value(r), r}); after == nil || after.before(p) {
			top.offer(p)
		}
	}
	x.fill(&page, &q, top.sorted(), aside.sorted())
	for reason, n := range reasons {
		page.ApartTotal = append(page.ApartTotal, Facet{Key: reason, Name: reason, N: n})
	}
	sortFacets(page.ApartTotal)
	return page, nil
}

func (x *Index) fill(page *Page, q *Query, top, aside []place) {
	if len(top) > q.Limit {
		top = top[:q.Limit]
		page.Next = cursor(top[len(top)-1])
	}
	for _, p := range top {
		page.Entries = append(page.Entries, x.entry(p.row))
	}
	if q.Cursor != "" {
		return
	}
	for _, p := range aside {
		page.Apart = append(page.Apart, Apart{x.entry(p.row), x.apart(p.row)})
	}
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
	if q.Modified != "" && q.Modified != "stock" && q.Modified != "modified" {
		return fmt.Errorf("hardware is stock or modified, not %q", q.Modified)
	}
	if q.Limit < 1 || q.Limit > 200 {
		return errors.New("a page has 1 to 200 runs")
	}
	return nil
}

// cursor is a place as text: what stands after it is the next page, whatever comes in between.
func cursor(p place) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatUint(math.Float64bits(p.value), 16) + " " + p.row.id))
}

var errCursor = errors.New("the cursor is not one of this site's")

func parseCursor(text string) (*place, error) {
	if text == "" {
		return nil, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errCursor
	}
	bits, id, ok := strings.Cut(string(data), " ")
	value, err := strconv.ParseUint(bits, 16, 64)
	if !ok || err != nil {
		return nil, errCursor
	}
	return &place{math.Float64frombits(value), &row{id: id}}, nil
}

func sortFacets(list []Facet) {
	slices.SortFunc(list, func(a, b Facet) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
}
