package site

import (
	"strconv"

	"speedmatrix/internal/catalog"
)

// usualContexts are offered where no run says what it has.
var usualContexts = []int{0, 16 << 10, 32 << 10, 64 << 10, 128 << 10}

// The names of the orders that a list has, with what they sort by.
var sortNames = map[catalog.Sort]string{catalog.ByTotal: "total tok/s", catalog.ByPerRequest: "per request tok/s", catalog.ByTTFT: "TTFT",
	catalog.ByUsers: "users that fit", catalog.ByPrefill: "prefill", catalog.ByNewest: "newest"}

// setSort gives the forms and heads that order the list.
func (v *browseView) setSort(f *catalog.Facets) {
	q := v.q
	by := q.Sort
	if by != catalog.ByPerRequest && by != catalog.ByTTFT {
		by = catalog.ByTotal
	}
	v.SortName, v.SortKey = sortNames[by], string(by)
	v.Contexts, v.Requests = axisOptions(f.Contexts, usualContexts, q.cell.context, contextLabel), axisOptions(f.Concurrencies, columnsOfThumb, q.cell.concurrency, strconv.Itoa)
	for _, s := range []catalog.Sort{catalog.ByTotal, catalog.ByPerRequest, catalog.ByTTFT, catalog.ByUsers, catalog.ByPrefill, catalog.ByNewest} {
		if s != by {
			v.Orders = append(v.Orders, linkView{sortNames[s], q.with("sort", string(s)), s == q.Sort})
		}
	}
	cell := q.cell.String()
	k := columnHead{Text: "Total tok/s", Second: cell, Link: q.with("sort", string(catalog.ByTotal)), Sorted: q.Sort == catalog.ByTotal}
	switch by {
	case catalog.ByPerRequest:
		k = columnHead{Text: "Per request tok/s", Second: cell, Link: q.with("sort", string(by)), Sorted: true}
	case catalog.ByTTFT:
		k = columnHead{Text: "TTFT", Second: cell, Link: q.with("sort", string(by)), Sorted: true, Least: true}
	}
	dated := columnHead{Text: "Measured", Link: q.with("sort", string(catalog.ByNewest))}
	if q.Sort == catalog.ByNewest {
		dated.Text, dated.Sorted = "Published", true
	}
	v.Heads = []columnHead{{Text: "Matrix", Hidden: true}, {Text: "Model", Left: true}, {Text: "Hardware, engine", Left: true}, k,
		{Text: "Users at", Second: floorText(q.floor) + " tok/s, " + contextLabel(q.users), Link: q.with("sort", string(catalog.ByUsers)), Sorted: q.Sort == catalog.ByUsers},
		{Text: "Prefill", Second: contextLabel(q.prefill), Link: q.with("sort", string(catalog.ByPrefill)), Sorted: q.Sort == catalog.ByPrefill},
		{Text: "Trust", Left: true}, dated, {Text: "Compare", Hidden: true}}
}

// axisOptions are the contexts or requests at once of the matching runs; many lists have few of them in common, so that the
// rare ones are left out.
func axisOptions(found []catalog.Facet, usual []int, chosen int, label func(int) string) []option {
	most := 0
	for _, f := range found {
		most = max(most, f.N)
	}
	var list []option
	for _, f := range found {
		if n, err := strconv.Atoi(f.Key); err == nil && (f.N*20 >= most || n == chosen) {
			list = append(list, option{Value: label(n), Text: label(n)})
		}
	}
	if len(list) == 0 {
		for _, n := range usual {
			list = append(list, option{Value: label(n), Text: label(n)})
		}
	}
	return options(list[:min(len(list), 40)], label(chosen))
}
