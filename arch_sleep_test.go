//go:build !race

package speedmatrix_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"testing"
)

// onTheRealClock are the packages whose tests cannot live in a bubble, and why.
var onTheRealClock = map[string]string{
	"stamp": "kernel time stamps exist on real sockets alone",
}

// A test that sleeps on the real clock is slow where all goes well and fails
// where the machine is busy; inside a bubble of testing/synctest a sleep costs
// nothing and is exact.
func TestNoTestSleepsOnTheRealClock(t *testing.T) {
	folders := map[string][]source{}
	for _, s := range sources(t) {
		if s.test && !s.generated && onTheRealClock[s.pkg] == "" {
			folders[path.Dir(s.path)] = append(folders[path.Dir(s.path)], s)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		for _, where := range realSleeps(folders[dir]) {
			t.Errorf("%s: time.Sleep outside a synctest.Test bubble", where)
		}
	}
}

// use is a mention of a name in the tests of a package.
type use struct {
	where  string
	name   string // "" for time.Sleep
	within string // the function that mentions it
	bubble bool   // lexically inside a bubble
}

// realSleeps follows the test functions of one package by name: a function is
// inside if it is mentioned, and every mention is in a bubble or in a function
// that is inside itself.
func realSleeps(files []source) []string {
	openers := bubbleOpeners(files)
	var uses []use
	for _, s := range files {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				uses = append(uses, usesIn(s, f, openers)...)
			}
		}
	}
	inside := map[string]bool{}
	for {
		before := len(inside)
		for _, u := range uses {
			if u.name != "" && !inside[u.name] && alwaysInside(uses, u.name, inside) {
				inside[u.name] = true
			}
		}
		if len(inside) == before {
			break
		}
	}
	var wrong []string
	for _, u := range uses {
		if u.name == "" && !u.bubble && !inside[u.within] {
			wrong = append(wrong, u.where)
		}
	}
	return wrong
}

func alwaysInside(uses []use, name string, inside map[string]bool) bool {
	return !slices.ContainsFunc(uses, func(u use) bool {
		return u.name == name && u.within != name && !u.bubble && !inside[u.within]
	})
}

// bubbleOpeners are the functions, other than tests themselves, that run what
// they are given in a bubble.
func bubbleOpeners(files []source) []string {
	var names []string
	for _, s := range files {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil || len(f.Name.Name) > 4 && f.Name.Name[:4] == "Test" {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && selects(call.Fun, "synctest", "Test") {
					names = append(names, f.Name.Name)
				}
				return true
			})
		}
	}
	return names
}

// usesIn lists the sleeps of a function and the names that it mentions.
func usesIn(s source, f *ast.FuncDecl, openers []string) []use {
	var uses []use
	var visit func(n ast.Node, bubble bool)
	visit = func(n ast.Node, bubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if !opens(x, openers) {
					return true
				}
				visit(x.Fun, bubble)
				for _, arg := range x.Args {
					visit(arg, true)
				}
				return false
			case *ast.SelectorExpr:
				if selects(x, "time", "Sleep") {
					uses = append(uses, use{s.at(x), "", f.Name.Name, bubble})
				}
			case *ast.Ident:
				uses = append(uses, use{s.at(x), x.Name, f.Name.Name, bubble})
			}
			return true
		})
	}
	visit(f.Body, false)
	return uses
}

func opens(call *ast.CallExpr, openers []string) bool {
	id, ok := call.Fun.(*ast.Ident)
	return selects(call.Fun, "synctest", "Test") || ok && slices.Contains(openers, id.Name)
}

func TestSleepsAreTracedThroughHelpers(t *testing.T) {
	const code = `package p

func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(1); serve() })
	bubble(t, func() { time.Sleep(1) })
}

func bubble(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }

func serve() { pause() }

func pause() { time.Sleep(1) }

func TestOutside(t *testing.T) { late() }

func late() {
	time.Sleep(1)
}

func TestItself(t *testing.T) {
	time.Sleep(1)
}
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p_test.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := realSleeps([]source{{path: "p_test.go", test: true, file: file, fset: fset}})
	if want := []string{"p_test.go:17", "p_test.go:21"}; !slices.Equal(got, want) {
		t.Errorf("sleeps on the real clock at %q, want %q", got, want)
	}
}
