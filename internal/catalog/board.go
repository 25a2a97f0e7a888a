package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// BoardQuery asks for the order of machines by one number of one model.
type BoardQuery struct {
	// Model is a key. Weights is the hash of the files to compare; "" is that of the most runs.
	Model, Weights string
	// Engine is a key, "" for any.
	Engine string
	// By is ByTotal, ByPerRequest, ByTTFT, ByUsers or ByPrefill, "" is ByTotal; it is read at Context and Concurrency, and
	// ByUsers at Floor, as in Query.
	By                   Sort
	Context, Concurrency int
	Floor                float64
}

// leastRepeats is how often a cell of a run on a board was measured.
const leastRepeats = 3

// Board is an order of machines, and what it leaves out.
type Board struct {
	// Model and Weights are what was asked for.
	Model   Named
	Weights string
	// Variants are all weights of the model's listed runs, those of most runs first: Key is the hash, "" where it is not known.
	Variants []Facet
	// Rows are one for each machine; those whose runs lack the number come last, without a rank.
	Rows []BoardRow
	// Compared is how many runs the rows stand for, Of all listed runs of the model.
	Compared, Of int
	// Apart are runs that are not compared, the newest 50; ApartTotal counts all by reason.
	Apart      []Apart
	ApartTotal []Facet
}

// BoardRow is a machine with the best of its runs.
type BoardRow struct {
	// Rank counts from 1, 0 where the run lacks the number. Shared says that the row's interval reaches that of the row
	// above, so that both have one rank.
	Rank   int
	Shared bool
	Entry  *Entry
	// Runs are the machine's compared runs.
	Runs int
	// Value is what is ranked, NaN where the run lacks it; Low and High its 95 % interval, Value where there is none.
	Value, Low, High float64
}

// Board ranks machines: runs of the same weights that are comparable and measured at least three times, one row for each
// machine, its best run, and one rank for rows whose intervals meet. Its error says which part of the query is wrong.
func (x *Index) Board(q BoardQuery) (Board, error) {
	q.By = cmp.Or(q.By, ByTotal)
	list := Query{Model: q.Model, Engine: q.Engine, Sort: q.By, Context: q.Context, Concurrency: q.Concurrency, Floor: q.Floor, Limit: defaultLimit}
	if q.By == ByNewest {
		return Board{}, errors.New("a board ranks by a number")
	}
	if q.Model == "" {
		return Board{}, errors.New("a board needs a model")
	}
	if err := list.check(); err != nil {
		return Board{}, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	matching := x.matching(&list)
	b := Board{Weights: q.Weights, Of: len(matching)}
	b.Variants = x.variants(matching)
	if b.Weights == "" {
		b.Weights = mostOf(b.Variants)
	}
	if len(matching) > 0 {
		name := x.text(models, matching[len(matching)-1])
		b.Model = Named{Key(name), name}
	}
	values, groups := x.order(&list), map[uint32][]int32{}
	aside, weights := first{n: mostApart}, x.names[weightHashes].id[b.Weights]
	left := map[barred]int{}
	for _, i := range matching {
		if why := x.bar(i, weights); why != (barred{}) {
			left[why]++
			if v := float64(x.published[i]); aside.open(v, x.published[i]) {
				aside.offer(place{v, x.published[i], x.rows[i].id, i})
			}
			continue
		}
		b.Compared++
		groups[x.value[machines][i]] = append(groups[x.value[machines][i]], i)
	}
	for _, runs := range groups {
		b.Rows = append(b.Rows, x.boardRow(runs, values, &q))
	}
	rank(b.Rows, q.By == ByTTFT)
	for _, p := range aside.sorted() {
		b.Apart = append(b.Apart, Apart{x.entry(p.row), x.says(x.bar(p.row, weights))})
	}
	for why, n := range left {
		b.ApartTotal = append(b.ApartTotal, Facet{Key: x.says(why), Name: x.says(why), N: n})
	}
	sortFacets(b.ApartTotal)
	return b, nil
}

// matching are the listed rows that meet a query's conditions.
func (x *Index) matching(q *Query) (list []int32) {
	filters := x.filters(q)
	for i := range int32(len(x.rows)) {
		if !x.listed[i] {
			continue
		}
		if only, ok := failing(filters, i); ok && only == properties {
			list = append(list, i)
		}
	}
	return list
}

// variants counts the weights of runs.
func (x *Index) variants(rows []int32) (list []Facet) {
	counts := map[uint32]int{}
	for _, i := range rows {
		counts[x.value[weightHashes][i]]++
	}
	for id, n := range counts {
		hash := x.names[weightHashes].text[id]
		list = append(list, Facet{Key: hash, Name: hash, N: n})
	}
	sortFacets(list)
	return list
}

// mostOf is the known hash of most runs, "" where none is known.
func mostOf(variants []Facet) string {
	for _, v := range variants {
		if v.Key != "" {
			return v.Key
		}
	}
	return ""
}

// barred is why a run has no rank on a board: the place of the reason why it is not comparable, or what the board itself wants
// and it has not: known weights, the same ones, or repeats, of which it has so many. The zero value is a run with a rank.
type barred struct {
	reason         uint32
	unknown, other bool
	repeats        int32
}

func (x *Index) bar(i int32, weights uint32) barred {
	own := x.value[weightHashes][i]
	switch {
	case x.reason[i] != 0:
		return barred{reason: x.reason[i]}
	case own == 0:
		return barred{unknown: true}
	case own != weights:
		return barred{other: true}
	case x.rows[i].repeats < leastRepeats:
		return barred{repeats: max(1, x.rows[i].repeats)}
	}
	return barred{}
}

// says is the reason in words.
func (x *Index) says(b barred) string {
	switch {
	case b.reason != 0:
		return x.names[reasons].text[b.reason]
	case b.unknown:
		return "hash of the weights not known"
	case b.other:
		return "other weights"
	case b.repeats > 1:
		return fmt.Sprintf("measured %d times, fewer than %d", b.repeats, leastRepeats)
	}
	return "one sample"
}

// boardRow is the best of a machine's runs.
func (x *Index) boardRow(runs []int32, values []float64, q *BoardQuery) BoardRow {
	best := runs[0]
	for _, i := range runs[1:] {
		a := place{values[i], x.published[i], x.rows[i].id, i}
		b := place{values[best], x.published[best], x.rows[best].id, best}
		if a.before(&b) {
			best = i
		}
	}
	row := BoardRow{Entry: x.entry(best), Runs: len(runs), Value: values[best]}
	if q.By == ByTTFT {
		row.Value = -row.Value
	}
	row.Low, row.High = row.Value, row.Value
	if half := x.rows[best].speed(q.Context, q.Concurrency, speedHalf); q.By == ByTotal && half == half {
		row.Low, row.High = row.Value-half, row.Value+half
	}
	return row
}

// rank sorts the rows of a board and gives each its place; least says that less is better.
func rank(rows []BoardRow, least bool) {
	slices.SortFunc(rows, func(a, b BoardRow) int {
		an, bn := math.IsNaN(a.Value), math.IsNaN(b.Value)
		switch {
		case an && bn:
			return cmp.Compare(a.Entry.Hardware, b.Entry.Hardware)
		case an:
			return 1
		case bn:
			return -1
		case least:
			return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Entry.ID, b.Entry.ID))
		}
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Entry.ID, b.Entry.ID))
	})
	for i := range rows {
		r := &rows[i]
		if math.IsNaN(r.Value) {
			break
		}
		r.Rank = i + 1
		if i == 0 {
			continue
		}
		above := rows[i-1]
		if least && r.Low <= above.High || !least && r.High >= above.Low {
			r.Rank, r.Shared = above.Rank, true
		}
	}
}
