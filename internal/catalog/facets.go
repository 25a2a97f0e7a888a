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
	// Total is how many runs match the whole query.
	Total int
}

// Facets counts the properties of the runs that match a query.
func (x *Index) Facets(q Query) Facets {
	x.mu.RLock()
	defer x.mu.RUnlock()
	filters := x.filters(&q)
	counts := [properties][]int{}
	of := [...]struct {
		p property
		k kind
	}{{byModel, models}, {byHardware, machines}, {byEngine, engines}, {byVersion, engineVersions}, {byQuantization, quantizations}, {byMethod, methods}, {byModified, modifications}}
	for _, c := range of {
		counts[c.p] = make([]int, len(x.names[c.k].text))
	}
	counts[byLevel] = make([]int, Reproduced+1)
	total := 0
	for i := range x.rows {
		r := &x.rows[i]
		if !r.visibility.Listed() {
			continue
		}
		only, ok := failing(filters, r)
		if !ok {
			continue
		}
		if only == properties {
			total++
		}
		for _, c := range of {
			if only == properties || only == c.p {
				counts[c.p][r.value[c.k]]++
			}
		}
		if only == properties || only == byLevel {
			counts[byLevel][r.level]++
		}
	}
	out := Facets{Total: total, Levels: levelFacets(counts[byLevel]), Modified: x.modifiedFacets(counts[byModified])}
	out.Models, out.Hardware = x.facets(models, counts[byModel], Key), x.facets(machines, counts[byHardware], Key)
	out.Engines, out.Versions = x.facets(engines, counts[byEngine], same), x.facets(engineVersions, counts[byVersion], same)
	out.Quantizations, out.Methods = x.facets(quantizations, counts[byQuantization], same), x.facets(methods, counts[byMethod], same)
	return out
}

// failing gives the one property whose conditions a row does not meet, properties where it meets all; ok is false where it
// fails several, or one that is no facet.
func failing(filters []filter, r *row) (only property, ok bool) {
	only = properties
	for _, f := range filters {
		if f.pass(r) {
			continue
		}
		if f.of == byRest || (only != properties && only != f.of) {
			return only, false
		}
		only = f.of
	}
	return only, true
}

func (x *Index) facets(k kind, counts []int, keyOf func(string) string) (list []Facet) {
	for id, n := range counts {
		if n > 0 && x.names[k].text[id] != "" {
			list = append(list, Facet{Key: keyOf(x.names[k].text[id]), Name: x.names[k].text[id], N: n})
		}
	}
	sortFacets(list)
	return list
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
	return []Facet{{"stock", "stock", stock}, {"modified", "unlocked or modified", changed}}
}

// Suggestion is a name that was perhaps meant.
type Suggestion struct {
	// Kind is "model", "hardware", "engine" or "uploader".
	Kind, Key, Name string
	N               int
}

// Suggest gives at most n names of models, hardware, engines and uploaders of listed runs in which every word of a text
// stands, those that begin with it first, then those with most runs.
func (x *Index) Suggest(text string, n int) []Suggestion {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	type ranked struct {
		Suggestion
		rank int
	}
	var all []ranked
	for _, of := range []struct {
		k     kind
		name  string
		keyOf func(string) string
	}{{models, "model", Key}, {machines, "hardware", Key}, {engines, "engine", same}, {ownerNames, "uploader", same}} {
		for id, name := range x.names[of.k].text {
			if x.names[of.k].listed[id] == 0 || name == "" {
				continue
			}
			if rank := rankOf(strings.ToLower(name), words); rank >= 0 {
				all = append(all, ranked{Suggestion{of.name, of.keyOf(name), name, int(x.names[of.k].listed[id])}, rank})
			}
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name))
	})
	out := make([]Suggestion, 0, min(n, len(all)))
	for _, r := range all[:min(n, len(all))] {
		out = append(out, r.Suggestion)
	}
	return out
}

// rankOf is 0 where a name begins with the first word, 1 where it stands in it, -1 where any word does not.
func rankOf(name string, words []string) int {
	for _, w := range words {
		if !strings.Contains(name, w) {
			return -1
		}
	}
	if strings.HasPrefix(name, words[0]) {
		return 0
	}
	return 1
}

// Group is a model, a hardware or an engine with the number of its listed runs and the day of the newest.
type Group struct {
	Key, Name string
	N         int
	Newest    time.Time
}

// Models lists the models of listed runs, those with most first.
func (x *Index) Models() []Group { return x.groups(models, Key) }

// Hardware lists the machines of listed runs, those with most first.
func (x *Index) Hardware() []Group { return x.groups(machines, Key) }

// Engines lists the engines of listed runs, those with most first.
func (x *Index) Engines() []Group { return x.groups(engines, same) }

func (x *Index) groups(k kind, keyOf func(string) string) []Group {
	x.mu.RLock()
	defer x.mu.RUnlock()
	newest := make([]int64, len(x.names[k].text))
	for i := range x.rows {
		if r := &x.rows[i]; r.visibility.Listed() {
			newest[r.value[k]] = max(newest[r.value[k]], r.measured)
		}
	}
	var list []Group
	for id, n := range x.names[k].listed {
		if n > 0 {
			list = append(list, Group{Key: keyOf(x.names[k].text[id]), Name: x.names[k].text[id], N: int(n), Newest: fromMicros(newest[id])})
		}
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name)) })
	return list
}

// Get gives a run's entry, whatever its visibility.
func (x *Index) Get(id string) (*Entry, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.byID[id]
	if !ok {
		return nil, false
	}
	return x.entry(&x.rows[i]), true
}

// OwnedBy gives all runs of an account, newest first.
func (x *Index) OwnedBy(owner string) []*Entry {
	return x.all(func(r *row) bool { return x.text(owners, r) == owner && owner != "" })
}

// WithVisibility gives all runs of a visibility, newest first.
func (x *Index) WithVisibility(v Visibility) []*Entry {
	return x.all(func(r *row) bool { return r.visibility == v })
}

// Neighbours gives the listed runs of the same model and hardware as an entry, itself apart.
func (x *Index) Neighbours(e *Entry) []*Entry {
	return x.all(func(r *row) bool {
		return r.visibility.Listed() && r.id != e.ID && x.text(models, r) == e.Model && x.text(machines, r) == e.Hardware
	})
}

func (x *Index) all(pass func(*row) bool) (list []*Entry) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range x.rows {
		if pass(&x.rows[i]) {
			list = append(list, x.entry(&x.rows[i]))
		}
	}
	slices.SortFunc(list, func(a, b *Entry) int { return strings.Compare(b.ID, a.ID) })
	return list
}
