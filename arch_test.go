//go:build !race

package speedmatrix_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// place is a row of the import table: which of our packages a package may
// import beyond itself, and why it is so. "*" is every row further down that
// is not for tests alone; "root" is the vocabulary.
type place struct{ name, may, why string }

// places is the house, from the roof down: a row imports rows beneath it
// only. A row may stand here before its package exists.
var places = []place{
	{"cmd/speedmatrix", "cli", "main hands the process to cli and exits with its code"},
	{"bench/ceiling", "*", "prints what the client can do"},
	{"bench/compare", "*", "shows by simulation what comparisons find and what they do not"},
	{"bench/engines", "*", "measures real engines and holds the runs against their own account"},
	{"bench/engines/agree", "*", "see bench/engines"},
	{"bench/footprint", "*", "prints what the program itself takes"},
	{"bench/kill", "*", "kills runs and resumes them"},
	{"bench/peers/truth", "*", "serves the ground truth to clients of others"},
	{"bench/liveview", "*", "prints what the live view costs"},
	{"bench/pacing", "*", "prints how late the simulated server's steps are"},
	{"bench/telemetry", "*", "prints what sampling the machine costs"},
	{"bench/vocab", "*", "writes the simulated server's vocabulary"},
	{"bench/site", "*", "fills a results site and asks it"},
	{"bench/starved", "*", "starves the client and looks for a Valid cell that is wrong"},
	{"bench/sitekill", "*", "kills a results site while runs are uploaded to it"},
	{"bench/stamps", "*", "prints the error of the stamps"},
	{"fidelity", "*", "tests alone: the program held against every known fault of programs of its kind"},
	{"cli", "*", "the one place that knows flags, environment, files and signals, and wires the rest"},
	{"site", "root account capacity catalog chart compare ingest redact report runfile trust unit", "pages of a results site over interfaces; they know no database and no files"},
	{"api", "root account blob catalog compare ingest runfile trust unit", "the results site for programs; it renders nothing"},
	{"ops", "", leaf},
	{"ingest", "root account blob catalog redact runfile trust unit verify", "how a run enters a site and changes there"},
	{"trust", "root capacity catalog stats unit verify", "the ladder follows from a document, its rows and the entries of other runs"},
	{"store", "root account catalog store/db unit", "a database of runs knows nothing of pages"},
	{"store/db", "", "the queries as sqlc writes them"},
	{"account/accounttest", "account", "accounts in memory, for tests"},
	{"account", "unit", "who may do what knows no runs"},
	{"catalog/catalogtest", "root catalog", "a store in memory and invented runs, for tests"},
	{"catalog", "root stats unit", "entries of runs and the questions asked of them, in memory"},
	{"blob", "", leaf},
	{"siteclient", "", "the site's API as a program calls it, generated from its contract"},
	{"fleet", "root bench dialect load loop prompt stamp unit", "several machines measure as one client does"},
	{"tui", "root stats unit", "the live view is a pure model of what it is told"},
	{"calibrate", "root engine predict profile runfile stats unit", "a run becomes a profile through the same engine that predicts"},
	{"predict", "root bench dialect engine load loop memnet profile prompt simserver stamp stats unit", "a prediction is a real run against a simulated engine"},
	{"report", "root capacity chart compare stats unit", "a report is made from a document and an interface of rows; it opens no folder"},
	{"chart", "unit", "numbers become SVG without knowing what they mean"},
	{"compare", "root stats unit", "runs are compared by their documents"},
	{"capacity", "root stats unit", "capacity follows from a document"},
	{"exporter", "root unit", "a run in the forms of other tools"},
	{"importer", "root runfile stamp stats unit yamldoc", "other tools' files become runs"},
	{"bench", "root dialect findings load loop machine prompt stamp stats truth unit", "a run owns the interfaces it needs; it writes no files and starts no server but the ground truth of its self-check"},
	{"verify", "root unit", "verify recomputes every number from the rows alone, so it never imports what produced them"},
	{"findings", "root unit", "what makes a run unrepresentative follows from its document and the samples of the machine"},
	{"probe", "root dialect load metricstext prompt sse stamp stats unit", "probe learns what a server is by asking it"},
	{"launch", "root unit", "launch starts and stops a server and knows nothing of requests"},
	{"load", "root dialect sse stamp unit", "load streams against a target and knows nothing of plans"},
	{"dialect", "root sse", "dialect knows bodies and events, no connections"},
	{"machine", "root metricstext stamp unit", "machine observes; it measures no server"},
	{"simserver", "root engine metricstext profile prompt sse unit wire", "the engine behind HTTP; it must not share code with the client that measures it"},
	{"truth", "root prompt sse stamp unit wire", "a server that tests trust shares nothing with the client but its clock"},
	{"runfile", "root", "runfile is the one package that opens run directories"},
	{"engine", "root profile", "the simulated engine is pure"},
	{"profile", "root unit yamldoc", "machines and models are data"},
	{"prompt/pack", "prompt", "a tool that packs the texts for embedding"},
	{"prompt", "root unit", "texts of exact length, no requests"},
	{"redact", "", leaf},
	{"stamp", "", leaf},
	{"sse", "", leaf},
	{"stats", "", leaf},
	{"loop", "", leaf},
	{"unit", "", leaf},
	{"wire", "", leaf},
	{"yamldoc", "", leaf},
	{"metricstext", "", leaf},
	{"memnet", "", leaf},
	{"golden", "", leaf},
	{"need", "", leaf},
	{"root", "", "the vocabulary imports the standard library only"},
}

const leaf = "a leaf imports nothing of ours"

// onlyInTests are packages that the program itself never imports.
var onlyInTests = []string{"account/accounttest", "catalog/catalogtest", "golden", "need"}

// helpersOfTests may be imported by any test, whatever row it stands in.
var helpersOfTests = []string{"account/accounttest", "catalog/catalogtest", "golden", "memnet", "need", "simserver", "truth"}

// module is a module of others and the one package of ours that may import
// it, so that it can be exchanged in one place.
type module struct{ path, owner string }

var modules = []module{
	{"charm.land/bubbles/v2", "tui"},
	{"charm.land/bubbletea/v2", "tui"},
	{"charm.land/lipgloss/v2", "tui"},
	{"github.com/coreos/go-oidc/v3", "account"},
	{"github.com/danielgtaylor/huma/v2", "api"},
	{"github.com/goccy/go-yaml", "yamldoc"},
	{"github.com/jackc/pgx/v5", "store"},
	{"github.com/minio/minio-go/v7", "blob"},
	{"github.com/muesli/cancelreader", "cli"},
	{"github.com/nats-io/nats-server/v2", "fleet"},
	{"github.com/nats-io/nats.go", "fleet"},
	{"github.com/oapi-codegen/runtime", "siteclient"},
	{"github.com/oklog/ulid/v2", "unit"},
	{"github.com/parquet-go/parquet-go", "runfile"},
	{"github.com/pressly/goose/v3", "store"},
	{"github.com/prometheus/client_golang", "ops"},
	{"github.com/prometheus/client_model", "metricstext"},
	{"github.com/prometheus/common", "metricstext"},
	{"github.com/santhosh-tekuri/jsonschema/v6", "runfile"},
	{"github.com/shirou/gopsutil/v4", "machine"},
	{"github.com/spf13/cobra", "cli"},
	{"github.com/spf13/pflag", "cli"},
	{"golang.org/x/image", "chart"},
	{"golang.org/x/oauth2", "account"},
	{"golang.org/x/sys", "cli"},
	{"golang.org/x/term", "cli"},
	{"golang.org/x/time", "api"},
	{"gonum.org/v1/gonum", "stats"},
	{"modernc.org/sqlite", "store"},
	{"mvdan.cc/sh/v3", "launch"},
}

// modulesOfTests may be imported by every test, and by tests alone.
var modulesOfTests = []string{
	"github.com/chromedp/cdproto",
	"github.com/chromedp/chromedp",
	"github.com/google/go-cmp",
	"github.com/rogpeppe/go-internal",
	"pgregory.net/rapid",
}

// source is one parsed Go file of the repository.
type source struct {
	path      string // slashed, from the root
	pkg       string // as the import table names it
	test      bool
	generated bool
	file      *ast.File
	fset      *token.FileSet
}

// at names the place of a node for a message.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

// lines is the number of lines from the start of a node to its end.
func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// sources parses every Go file, whatever system it is built for.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); entry.IsDir() && name != "." && err == nil {
			return fs.SkipDir // a module of its own
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		all = append(all, source{
			path: slashed, pkg: packageOf(path.Dir(slashed)), test: strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(file), file: file, fset: fset,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go file found: the test does not run at the root")
	}
	return all
}

// packageOf names a folder as the import table does.
func packageOf(dir string) string {
	if dir == "." {
		return "root"
	}
	return strings.TrimPrefix(dir, "internal/")
}

// row is the place of a package in the table, or -1.
func row(name string) int {
	return slices.IndexFunc(places, func(p place) bool { return p.name == name })
}

func TestTheImportTablePointsDown(t *testing.T) {
	for i, p := range places {
		if row(p.name) != i {
			t.Errorf("%s stands in the table twice", p.name)
		}
		for name := range strings.FieldsSeq(p.may) {
			if name != "*" && row(name) <= i {
				t.Errorf("%s may import %s, which is not a row beneath it", p.name, name)
			}
		}
	}
	for _, m := range modules {
		if row(m.owner) < 0 {
			t.Errorf("%s belongs to %s, which is not in the table", m.path, m.owner)
		}
	}
}

func TestImportsKeepToTheTable(t *testing.T) {
	for _, s := range sources(t) {
		if row(s.pkg) < 0 {
			t.Errorf("%s: package %s has no place in the import table", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if reason := objection(s, name); reason != "" {
				t.Errorf("%s imports %s: %s", s.at(spec), name, reason)
			}
		}
	}
}

// objection says why a file may not import a path; empty if it may.
func objection(s source, name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case name == "C":
		return "the program is built without cgo"
	case first == "speedmatrix" && rest == "":
		return ofOurs(s, "root")
	case first == "speedmatrix":
		return ofOurs(s, packageOf(rest))
	case strings.Contains(first, "."):
		return ofOthers(s, name)
	}
	return ""
}

func ofOurs(s source, name string) string {
	from, to := row(s.pkg), row(name)
	p := places[from]
	switch {
	case to < 0:
		return "it has no place in the import table"
	case s.test && (from == to || from < to || slices.Contains(helpersOfTests, name)):
		return ""
	case s.test:
		return "imports point down, in tests as well"
	case slices.Contains(onlyInTests, name):
		return "it is for tests alone"
	case slices.Contains(strings.Fields(p.may), name), p.may == "*" && from < to:
		return ""
	}
	return fmt.Sprintf("%s. It may import of ours: %s", p.why, cmp.Or(p.may, "nothing"))
}

func ofOthers(s source, name string) string {
	within := func(module string) bool { return name == module || strings.HasPrefix(name, module+"/") }
	if slices.ContainsFunc(modulesOfTests, within) {
		if s.test {
			return ""
		}
		return "this module is for tests alone"
	}
	i := slices.IndexFunc(modules, func(m module) bool { return within(m.path) })
	switch {
	case i < 0:
		return "the module is not in the table of arch_test.go: give it the one package that may import it"
	case modules[i].owner != s.pkg:
		return "only " + modules[i].owner + " may import this module, so that it can be exchanged in one place"
	}
	return ""
}

func TestTheTableObjects(t *testing.T) {
	tests := []struct {
		pkg, imports string
		test, want   bool
	}{
		{pkg: "verify", imports: "speedmatrix/internal/stats", want: true},
		{pkg: "verify", imports: "speedmatrix/internal/stats", test: true},
		{pkg: "verify", imports: "speedmatrix"},
		{pkg: "sse", imports: "speedmatrix", want: true},
		{pkg: "load", imports: "speedmatrix/internal/bench", test: true, want: true},
		{pkg: "load", imports: "speedmatrix/internal/truth", test: true},
		{pkg: "cli", imports: "speedmatrix/internal/unit"},
		{pkg: "cli", imports: "speedmatrix/internal/golden", want: true},
		{pkg: "cli", imports: "speedmatrix/internal/nowhere", want: true},
		{pkg: "store", imports: "modernc.org/sqlite"},
		{pkg: "site", imports: "modernc.org/sqlite", want: true},
		{pkg: "site", imports: "modernc.org/sqlite", test: true, want: true},
		{pkg: "site", imports: "example.com/unknown", want: true},
		{pkg: "stats", imports: "pgregory.net/rapid", want: true},
		{pkg: "stats", imports: "pgregory.net/rapid", test: true},
		{pkg: "stats", imports: "C", want: true},
		{pkg: "stats", imports: "net/http"},
	}
	for _, tt := range tests {
		reason := objection(source{pkg: tt.pkg, test: tt.test}, tt.imports)
		if got := reason != ""; got != tt.want {
			t.Errorf("%s (test %v) imports %s: objection %q, want one: %v", tt.pkg, tt.test, tt.imports, reason, tt.want)
		}
	}
}

func TestDirectModulesAreInTheTable(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(modulesOfTests)
	for _, m := range modules {
		known = append(known, m.path)
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(words) != 2 || !strings.HasPrefix(words[1], "v") {
			continue // a line of another kind, or "// indirect" after the version
		}
		if !slices.Contains(known, words[0]) {
			t.Errorf("go.mod requires %s, which has no owner in the table of arch_test.go", words[0])
		}
	}
}
