package site

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/unit"
)

// registerLists adds home, the lists of runs, the boards, and what programs that walk the site read.
func (p *pages) registerLists(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}": p.home, "GET /runs": p.browse, "GET /runs.json": p.runsFile, "GET /runs.csv": p.runsFile, "GET /runs.atom": p.runsFile, "GET /runs.jsonl": p.documents,
		"GET /boards": p.boards, "GET /boards.json": p.boards, "GET /boards.csv": p.boards, "GET /boards/{cell}": p.board,
		"GET /search.json": p.search, "GET /sitemap.xml": p.sitemap, "GET /sitemap/{part}": p.sitemapPart, "GET /robots.txt": p.robots, "GET /llms.txt": p.llms,
	} {
		mux.HandleFunc(pattern, p.answer(handle))
	}
}

// The cell and the users' context of a list that names none.
const (
	usualFloor   = readingSpeed
	mostAsked    = 300 // characters of a parameter
	longestLimit = 200
)

// question is what the address of a list asks for.
type question struct {
	catalog.Query
	// cell is what the list shows of each run, users and prefill the contexts of those columns.
	cell           place
	users, prefill int
	floor          float64
	// facet is the property whose values are all shown, since the date as the address has it.
	facet, since string
	// params are the parameters that mean something, in one form for each question.
	params url.Values
}

// readQuestion reads the address of a list. What it cannot mean is refused with a sentence.
func readQuestion(v url.Values, now time.Time) (*question, error) {
	q := &question{params: url.Values{}, cell: usualLoad, users: usersContext, prefill: usualLoad.context, floor: usualFloor}
	text := func(name string) string {
		s := strings.TrimSpace(v.Get(name))
		if s != "" {
			s = clip(s, mostAsked)
			q.params.Set(name, s)
		}
		return s
	}
	q.Text, q.Model, q.Hardware, q.Engine, q.EngineVersion = text("q"), text("model"), text("gpu"), text("engine"), text("version")
	q.Quantization, q.Method, q.Owner, q.Modified, q.facet = text("quant"), text("method"), text("uploader"), text("mod"), text("facet")
	if engine, version, both := strings.Cut(q.Engine, " "); both {
		q.Engine, q.EngineVersion = engine, version
		q.params.Set("engine", engine)
		q.params.Set("version", version)
	}
	q.Sort, q.Cursor, q.All = catalog.Sort(text("sort")), text("cursor"), slices.Contains([]string{"1", "true", "on"}, text("all"))
	if q.Sort == "" {
		q.Sort = catalog.ByTotal
	}
	for _, read := range []func(*question, func(string) string) error{readCell, readTrust} {
		if err := read(q, text); err != nil {
			return nil, err
		}
	}
	return q, q.readDates(text, now)
}

// unreadable says which parameter of an address cannot be read.
func unreadable(name, value, want string) error {
	return &failure{status: http.StatusBadRequest, Title: "This list cannot be made", Says: fmt.Sprintf("The address says %s=%s. It takes %s.", name, clip(value, 60), want), Link: "/runs", LinkText: "All runs"}
}

func readCell(q *question, text func(string) string) error {
	if s := text("ctx"); s != "" {
		n, err := contextOf(s)
		if err != nil {
			return unreadable("ctx", s, "tokens of context, such as 16K")
		}
		q.cell.context, q.users, q.prefill = n, n, n
	}
	if s := text("n"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1<<20 {
			return unreadable("n", s, "a number of requests at once, such as 8")
		}
		q.cell.concurrency = n
	}
	if s := text("floor"); s != "" {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n > 0 && n <= 100000) {
			return unreadable("floor", s, "tok/s for each user, such as 20")
		}
		q.floor = n
	}
	q.HasCell = slices.Contains([]string{"1", "true", "on"}, text("cell"))
	q.Context, q.Concurrency, q.Floor = q.cell.context, q.cell.concurrency, q.floor
	switch q.Sort {
	case catalog.ByUsers:
		q.Context = q.users
	case catalog.ByPrefill:
		q.Context = q.prefill
	}
	if q.HasCell {
		q.Context = q.cell.context
	}
	return nil
}

// contextOf reads tokens of context as a label or a number of tokens, of at most 2³⁰.
func contextOf(s string) (int, error) {
	n, err := unit.ParseTokens(s)
	if err == nil && (n < 0 || n > 1<<30) {
		err = fmt.Errorf("%s is out of range", s)
	}
	return n, err
}

func readTrust(q *question, text func(string) string) error {
	s := text("trust")
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > int(catalog.Reproduced) {
		return unreadable("trust", s, "a level from 1 to 5")
	}
	q.Level = catalog.Level(n)
	return nil
}

// daysAgo are the spans of time that a list offers.
var daysAgo = []struct {
	key, name string
	days      int
}{{"7d", "Last 7 days", 7}, {"30d", "Last 30 days", 30}}

// readDates reads since and until: a day, or one of daysAgo.
func (q *question) readDates(text func(string) string, now time.Time) error {
	for name, to := range map[string]*time.Time{"since": &q.After, "until": &q.Before} {
		s := text(name)
		if s == "" {
			continue
		}
		t, err := time.Parse(time.DateOnly, s)
		for _, ago := range daysAgo {
			if ago.key == s {
				t, err = midnight(now).AddDate(0, 0, -ago.days), nil
			}
		}
		if err != nil {
			return unreadable(name, s, "a day such as 2026-11-30, 7d or 30d")
		}
		*to = t
	}
	q.since = q.params.Get("since")
	return nil
}

// midnight is the beginning of the day, so that a list is the same all day.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// with is the address of the list with parameters changed, in pairs of name and value, "" for none; it begins at the first page.
func (q *question) with(pairs ...string) string { return q.address("/runs", pairs...) }

func (q *question) address(path string, pairs ...string) string {
	v := url.Values{}
	maps.Copy(v, q.params)
	v.Del("cursor")
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Del(pairs[i])
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// kept are the parameters beside those that a form sets itself, for its hidden fields, in order.
func (q *question) kept(but ...string) (list []pair) {
	for name := range q.params {
		if name != "cursor" && !slices.Contains(but, name) {
			list = append(list, pair{name, q.params.Get(name)})
		}
	}
	slices.SortFunc(list, func(a, b pair) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// pair is a name with its value.
type pair struct{ Name, Value string }

// option is a choice in a form.
type option struct {
	Value, Text string
	On          bool
}

// contextLabel is tokens of context as lists write them.
func contextLabel(tokens int) string { return unit.FormatTokens(tokens) }

// options of a list of values, with the chosen one even where it is not among them.
func options(values []option, chosen string) []option {
	found := false
	for i := range values {
		values[i].On = values[i].Value == chosen
		found = found || values[i].On
	}
	if !found && chosen != "" {
		values = append(values, option{chosen, chosen, true})
	}
	return values
}
