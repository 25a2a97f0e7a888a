package catalog

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Facets are the values of each property with the number of runs that have it, each counted under the rest of a query: all
// listed runs, comparable or not.
type Facets struct {
	Models, Hardware, Engines, Versions, Quantizations, Methods, Levels, Modified []Facet
	// Since counts the runs that were measured at or after each of the times that were asked for.
	Since []int
	// Contexts and Concurrencies are those of matching runs, rising: Key is the number, Name what the most runs call it.
	Contexts, Concurrencies []Facet
	// Total is how many runs match the whole query, Oldest and Newest when the first and the last of them were measured.
	Total          int
	Oldest, Newest time.Time
}

// facetColumns are the properties that are counted by a column.
var facetColumns = [...]struct {
	p property
	k kind
}{{byModel, models}, {byHardware, machines}, {byEngine, engines}, {byVersion, engineVersions}, {byQuantization, quantizations}, {byMethod, methods}, {byModified, modifications}}

// facetCount is a walk over all rows for facets.
type facetCount struct {
	x      *Index
	counts [properties][]int
	shapes map[*shape]int
	times  []int64
	since  []int
	total  int
	// oldest and newest are microseconds since 1970, 0 for none.
	oldest, newest int64
}

// Facets counts the properties of the runs that match a query, and those measured since some times.
func (x *Index) Facets(q Query, since ...time.Time) Facets {
	x.mu.RLock()
	defer x.mu.RUnlock()
	c := facetCount{x: x, shapes: map[*shape]int{}, since: make([]int, len(since))}
	for _, t := range since {
		c.times = append(c.times, micros(t))
	}
	for _, of := range facetColumns {
		c.counts[of.p] = make([]int, len(x.names[of.k].text))
	}
	c.counts[byLevel] = make([]int, Reproduced+1)
	filters := x.filters(&q)
	for i := range int32(len(x.rows)) {
		if !x.listed[i] {
			continue
		}
		if only, ok := failing(filters, i); ok {
			c.row(i, only)
		}
	}
	out := Facets{Total: c.total, Oldest: fromMicros(c.oldest), Newest: fromMicros(c.newest), Since: c.since, Levels: levelFacets(c.counts[byLevel]), Modified: x.modifiedFacets(c.counts[byModified])}
	out.Models, out.Hardware = x.facets(models, c.counts[byModel], Key), x.facets(machines, c.counts[byHardware], Key)
	out.Engines, out.Versions = x.facets(engines, c.counts[byEngine], Key), x.facets(engineVersions, c.counts[byVersion], same)
	out.Quantizations, out.Methods = x.facets(quantizations, c.counts[byQuantization], strings.ToLower), x.facets(methods, c.counts[byMethod], same)
	out.Contexts, out.Concurrencies = axes(c.shapes)
	return out
}

// row counts a run that meets all conditions, or all but those of one property.
func (c *facetCount) row(i int32, only property) {
	x := c.x
	if only == properties {
		c.total++
		for _, of := range facetColumns {
			c.counts[of.p][x.value[of.k][i]]++
		}
		c.counts[byLevel][min(max(x.level[i], 0), Reproduced)]++
		c.shapes[x.rows[i].shape]++
		c.date(i)
		if at := x.measured[i]; at != 0 {
			c.newest = max(c.newest, at)
			if c.oldest == 0 || at < c.oldest {
				c.oldest = at
			}
		}
		return
	}
	switch only {
	case byLevel:
		c.counts[byLevel][min(max(x.level[i], 0), Reproduced)]++
	case byDate:
		c.date(i)
	case byCell:
		c.shapes[x.rows[i].shape]++
	default:
		for _, of := range facetColumns {
			if of.p == only {
				c.counts[only][x.value[of.k][i]]++
			}
		}
	}
}

func (c *facetCount) date(i int32) {
	for j, t := range c.times {
		if c.x.measured[i] >= t {
			c.since[j]++
		}
	}
}

// failing gives the one property whose conditions a row does not meet, properties where it meets all; ok is false where it
// fails several, or one that is no facet.
func failing(filters []filter, i int32) (only property, ok bool) {
	only = properties
	for _, f := range filters {
		if f.pass(i) {
			continue
		}
		if f.of == byRest || (only != properties && only != f.of) {
			return only, false
		}
		only = f.of
	}
	return only, true
}

// facets are the values of a property that were counted; values with the same key are one, named as most runs write it.
func (x *Index) facets(k kind, counts []int, keyOf func(string) string) (list []Facet) {
	at, most := map[string]int{}, map[string]int{}
	for id, n := range counts {
		text := x.names[k].text[id]
		if n == 0 || text == "" {
			continue
		}
		key := keyOf(text)
		if j, there := at[key]; there {
			list[j].N += n
			if n > most[key] || n == most[key] && text < list[j].Name {
				most[key], list[j].Name = n, text
			}
			continue
		}
		at[key], most[key] = len(list), n
		list = append(list, Facet{Key: key, Name: text, N: n})
	}
	sortFacets(list)
	return list
}

func sortFacets(list []Facet) {
	slices.SortFunc(list, func(a, b Facet) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
}

// levelFacets count the runs of each level and above.
func levelFacets(counts []int) (list []Facet) {
	n := 0
	for level := Reproduced; level >= Stated; level-- {
		n += counts[level]
		list = append(list, Facet{Key: string('0' + rune(level)), Name: level.String(), N: n})
	}
	return list
}

func (x *Index) modifiedFacets(counts []int) []Facet {
	stock, changed := 0, 0
	for id, n := range counts {
		if x.names[modifications].text[id] == "" {
			stock += n
		} else {
			changed += n
		}
	}
	return []Facet{{"stock", "stock", stock}, {"modified", "unlocked, modified or simulated", changed}}
}

// axes are the contexts and the requests at once of the matrices of counted shapes.
func axes(shapes map[*shape]int) (contexts, concurrencies []Facet) {
	type axis struct {
		runs  map[int]int
		label map[int]string
		best  map[int]int
	}
	across, down := map[int]int{}, axis{map[int]int{}, map[int]string{}, map[int]int{}}
	for s, n := range shapes {
		seen := map[int]bool{}
		for _, c := range s.cells {
			if !seen[-c.concurrency] {
				seen[-c.concurrency] = true
				across[c.concurrency] += n
			}
			if c.context == 0 && seen[0] || c.context > 0 && seen[c.context] {
				continue
			}
			seen[c.context] = true
			down.runs[c.context] += n
			if n > down.best[c.context] || n == down.best[c.context] && c.label < down.label[c.context] {
				down.best[c.context], down.label[c.context] = n, c.label
			}
		}
	}
	for context, n := range down.runs {
		contexts = append(contexts, numbered(context, down.label[context], n))
	}
	for requests, n := range across {
		concurrencies = append(concurrencies, numbered(requests, "", n))
	}
	for _, list := range [][]Facet{contexts, concurrencies} {
		slices.SortFunc(list, func(a, b Facet) int {
			return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), strings.Compare(a.Key, b.Key))
		})
	}
	return contexts, concurrencies
}
