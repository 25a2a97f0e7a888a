package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"speedmatrix"
)

// A fact with a meaning is shown by a name for people.
func TestEveryKeyOfTheVocabularyHasALabel(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../facts.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]label{"Engine": engineLabels, "Model": modelLabels, "Hardware": hardwareLabels}
	elsewhere := []string{speedmatrix.ModelName, speedmatrix.ModelQuantization} // the title and the engine's section
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			for prefix, labels := range lists {
				if !strings.HasPrefix(name.Name, prefix) {
					continue
				}
				key, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				seen++
				if !slices.ContainsFunc(labels, func(l label) bool { return l.key == key }) && (prefix != "Model" || !slices.Contains(elsewhere, key)) {
					t.Errorf("%s (%s) is shown by its key", name.Name, key)
				}
			}
		}
		return true
	})
	if seen < 60 {
		t.Errorf("%d keys were found", seen)
	}
}
