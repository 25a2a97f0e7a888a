package catalog

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func numbered(value int, name string, n int) Facet {
	key := strconv.Itoa(value)
	return Facet{Key: key, Name: cmp.Or(name, key), N: n}
}

// Suggestion is a name that was perhaps meant.
type Suggestion struct {
	// Kind is "model", "hardware", "engine", "uploader" or "flag".
	Kind, Key, Name string
	// N counts its listed runs; 0 for a flag.
	N int
}

// suggested are the properties whose names are suggested.
var suggested = []struct {
	k     kind
	name  string
	keyOf func(string) string
}{{models, "model", Key}, {machines, "hardware", Key}, {engines, "engine", Key}, {ownerNames, "uploader", same}}

// Suggest gives at most n names of models, hardware, engines and uploaders of listed runs in which every word of a text
// stands, those that begin with it first, then those with most runs; where the text begins with a dash, flags.
func (x *Index) Suggest(text string, n int) []Suggestion {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || n < 1 {
		return nil
	}
	words = words[:min(len(words), mostWords)]
	x.mu.RLock()
	defer x.mu.RUnlock()
	type ranked struct {
		Suggestion
		rank int
	}
	var all []ranked
	add := func(s Suggestion) {
		if rank := rankOf(strings.ToLower(s.Name), words); rank >= 0 {
			all = append(all, ranked{s, rank})
		}
	}
	if strings.HasPrefix(words[0], "-") {
		for _, f := range x.names[flags].text {
			add(Suggestion{Kind: "flag", Key: f, Name: f})
		}
	}
	for _, of := range suggested {
		for id, name := range x.names[of.k].text {
			if runs := x.names[of.k].listed[id]; runs > 0 && name != "" {
				add(Suggestion{of.name, of.keyOf(name), name, int(runs)})
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
func (x *Index) Models() []Group { return x.groups(models) }

// Hardware lists the machines of listed runs, those with most first.
func (x *Index) Hardware() []Group { return x.groups(machines) }

// Engines lists the engines of listed runs, those with most first.
func (x *Index) Engines() []Group { return x.groups(engines) }

func (x *Index) groups(k kind) []Group {
	x.mu.RLock()
	defer x.mu.RUnlock()
	newest := make([]int64, len(x.names[k].text))
	for i, id := range x.value[k] {
		if x.listed[i] {
			newest[id] = max(newest[id], x.measured[i])
		}
	}
	var list []Group
	at := map[string]int{}
	for id, n := range x.names[k].listed {
		name := x.names[k].text[id]
		if n == 0 || name == "" {
			continue
		}
		g := Group{Key: Key(name), Name: name, N: int(n), Newest: fromMicros(newest[id])}
		if j, there := at[g.Key]; there {
			list[j].N += g.N
			if g.Newest.After(list[j].Newest) {
				list[j].Newest = g.Newest
			}
			continue
		}
		at[g.Key] = len(list)
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name)) })
	return list
}

// OwnedBy gives all runs of an account, newest first.
func (x *Index) OwnedBy(owner string) []*Entry {
	return x.all(func(i int32) bool { return owner != "" && x.text(owners, i) == owner })
}

// WithVisibility gives all runs of a visibility, newest first.
func (x *Index) WithVisibility(v Visibility) []*Entry {
	return x.all(func(i int32) bool { return x.listed[i] == v.Listed() && x.rows[i].visibility == v })
}

// Neighbours gives the listed runs of the same model and hardware as an entry, itself apart, newest first.
func (x *Index) Neighbours(e *Entry) []*Entry {
	x.mu.RLock()
	model, there := x.names[models].id[e.Model]
	machine, there2 := x.names[machines].id[e.Hardware]
	x.mu.RUnlock()
	if !there || !there2 {
		return nil
	}
	return x.all(func(i int32) bool {
		return x.value[models][i] == model && x.value[machines][i] == machine && x.listed[i] && x.rows[i].id != e.ID
	})
}

func (x *Index) all(pass func(i int32) bool) (list []*Entry) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range int32(len(x.rows)) {
		if pass(i) {
			list = append(list, x.entry(i))
		}
	}
	slices.SortFunc(list, func(a, b *Entry) int { return strings.Compare(b.ID, a.ID) })
	return list
}

// Listed is a listed run and when it was published.
type Listed struct {
	ID          string
	PublishedAt time.Time
}

// listing keeps the IDs of listed runs in order, for lists of all of them; stale says that they are to be sorted anew.
type listing struct {
	ids   []string
	stale bool
}

func (l *listing) change(id string, added bool) {
	last := len(l.ids) - 1
	switch {
	case l.stale:
	case added && (last < 0 || id > l.ids[last]):
		l.ids = append(l.ids, id)
	case added:
		l.stale = true
	default:
		if at, there := slices.BinarySearch(l.ids, id); there {
			l.ids = slices.Delete(l.ids, at, at+1)
		}
	}
}

// ListedRuns gives n listed runs by their IDs, from place on, and the number of all.
func (x *Index) ListedRuns(place, n int) (runs []Listed, total int) {
	x.sortListing()
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := x.listing.ids
	from := min(max(place, 0), len(ids))
	for _, id := range ids[from:min(len(ids), from+max(n, 0))] {
		if i, there := x.byID[id]; there {
			runs = append(runs, Listed{id, fromMicros(x.published[i])})
		}
	}
	return runs, len(ids)
}

func (x *Index) sortListing() {
	x.mu.RLock()
	stale := x.listing.stale
	x.mu.RUnlock()
	if !stale {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listing = listing{}
	for i := range x.rows {
		if x.listed[i] {
			x.listing.ids = append(x.listing.ids, x.rows[i].id)
		}
	}
	slices.Sort(x.listing.ids)
}
