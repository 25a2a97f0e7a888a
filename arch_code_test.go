//go:build !race

package speedmatrix_test

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// The budgets of a readable file, in lines, branches and parameters.
const (
	longestFile       = 400
	longestTestFile   = 600
	longestFunction   = 80
	usualFunction     = 40 // at least 95 of 100 functions are no longer
	mostPaths         = 15 // cyclomatic complexity
	mostParameters    = 4  // besides the receiver and a context
	shareUsuallyShort = 0.95
)

// knownMethods have a meaning that the standard library gives them.
var knownMethods = []string{
	"As", "Error", "Is", "MarshalJSON", "MarshalText", "Scan", "ServeHTTP", "String",
	"UnmarshalJSON", "UnmarshalText", "Unwrap", "Value",
}

func TestEveryPackageAndExportedNameIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		documented[path.Dir(s.path)] = documented[path.Dir(s.path)] || s.file.Doc != nil
		if s.generated {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no doc comment", s.at(decl), name)
			}
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

// undocumented lists the exported names of a declaration that say nothing
// about themselves.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !(d.Recv != nil && slices.Contains(knownMethods, d.Name.Name)) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

// undocumentedSpec lets the comment of a group of constants or variables
// speak for all of them, but wants one for each type.
func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// exportedReceiver is true for functions and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	kind := d.Recv.List[0].Type
	for {
		switch k := kind.(type) {
		case *ast.StarExpr:
			kind = k.X
		case *ast.IndexExpr:
			kind = k.X
		case *ast.IndexListExpr:
			kind = k.X
		case *ast.Ident:
			return k.IsExported()
		default:
			return true
		}
	}
}

func TestFilesAndFunctionsKeepToTheirBudgets(t *testing.T) {
	functions, long := 0, 0
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		limit := longestFile
		if s.test {
			limit = longestTestFile
		}
		if n := s.lines(s.file) + s.fset.Position(s.file.Package).Line - 1; n > limit {
			t.Errorf("%s: %d lines, at most %d", s.path, n, limit)
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				functions++
				if s.lines(f) > usualFunction {
					long++
				}
				checkFunction(t, s, f)
			}
		}
	}
	if float64(long) > (1-shareUsuallyShort)*float64(functions) {
		t.Errorf("%d of %d functions are longer than %d lines, at most 5 %%", long, functions, usualFunction)
	}
}

// caseLines are the lines of a test's subtests, each a function of its own.
func caseLines(s source, f *ast.FuncDecl) (lines int) {
	if !s.test {
		return 0
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		body, literal := call.Args[1].(*ast.FuncLit)
		if !ok || !literal || selector.Sel.Name != "Run" {
			return true
		}
		lines += s.lines(body)
		return false
	})
	return lines
}

func checkFunction(t *testing.T, s source, f *ast.FuncDecl) {
	t.Helper()
	if n := s.lines(f) - caseLines(s, f); n > longestFunction {
		t.Errorf("%s: %s has %d lines, at most %d", s.at(f), f.Name.Name, n, longestFunction)
	}
	if s.test {
		// A list of expectations in one test is long and plain; what counts is that the code is not.
		return
	}
	if n := paths(f); n > mostPaths {
		t.Errorf("%s: %s has cyclomatic complexity %d, at most %d", s.at(f), f.Name.Name, n, mostPaths)
	}
	if n := parameters(f.Type); n > mostParameters {
		t.Errorf("%s: %s has %d parameters, at most %d", s.at(f), f.Name.Name, n, mostParameters)
	}
}

// paths is the cyclomatic complexity of a function with the closures in it.
func paths(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// parameters counts what a caller has to think of: all but a context.
func parameters(f *ast.FuncType) int {
	n := 0
	for _, field := range f.Params.List {
		if selects(field.Type, "context", "Context") {
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
}

// selects tells whether an expression is pkg.name.
func selects(x ast.Expr, pkg, name string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func TestNoPackageHoldsState(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated || s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: no init: whoever needs it calls it", s.at(d))
				}
			case *ast.GenDecl:
				for _, name := range state(s, d) {
					t.Errorf("%s: package variable %s is not an error, an embedded file, a compiled expression or a table", s.at(d), name)
				}
			}
		}
	}
}

// state lists the variables of a declaration that may change or act.
func state(s source, d *ast.GenDecl) []string {
	if d.Tok != token.VAR {
		return nil
	}
	var names []string
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		if embeds(d.Doc) || embeds(v.Doc) {
			continue
		}
		for i, name := range v.Names {
			if name.Name != "_" && (i >= len(v.Values) || !fixed(s, name.Name, v.Values[i])) {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// fixedCalls make values that nobody changes.
var fixedCalls = [][2]string{
	{"errors", "New"}, {"fmt", "Errorf"}, {"regexp", "MustCompile"}, {"strings", "Fields"}, {"strings", "NewReplacer"},
	{"template", "Must"}, {"sync", "OnceValue"}, {"sync", "OnceValues"},
}

// fixed tells whether a value is one that a package may hold.
func fixed(s source, name string, value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CompositeLit:
		// A table, or a fixed value of one of our types; a client, a pool or a lock is state.
		of, selected := v.Type.(*ast.SelectorExpr)
		return !selected || ours(s, of)
	case *ast.UnaryExpr:
		literal, ok := v.X.(*ast.CompositeLit)
		return ok && (strings.HasPrefix(strings.ToLower(name), "err") || selects(literal.Type, "unicode", "RangeTable"))
	case *ast.CallExpr:
		if _, conversion := v.Fun.(*ast.ArrayType); conversion {
			return true
		}
		// The testing flags have to exist before a test binary reads its arguments.
		if s.pkg == "golden" && selects(v.Fun, "flag", "Bool") {
			return true
		}
		return slices.ContainsFunc(fixedCalls, func(c [2]string) bool { return selects(v.Fun, c[0], c[1]) })
	}
	return false
}

// ours tells whether a type's package is one of this module.
func ours(s source, of *ast.SelectorExpr) bool {
	id, ok := of.X.(*ast.Ident)
	return ok && slices.ContainsFunc(s.file.Imports, func(spec *ast.ImportSpec) bool {
		name := strings.Trim(spec.Path.Value, `"`)
		return (name == "speedmatrix" || strings.HasPrefix(name, "speedmatrix/")) && path.Base(name) == id.Name
	})
}
