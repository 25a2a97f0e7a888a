package runfile

import (
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"speedmatrix"
)

func TestThePageOfTheFormatNamesEveryFieldAndColumn(t *testing.T) {
	page, err := os.ReadFile("../../docs/run-format.md")
	if err != nil {
		t.Fatal(err)
	}
	root := readSchema(t)
	names := map[string]bool{}
	for name := range root.Properties {
		names[name] = true
	}
	for _, def := range root.Defs {
		for name := range def.Properties {
			names[name] = true
		}
	}
	for _, rows := range []*parquet.Schema{
		parquet.SchemaOf(speedmatrix.EventRow{}), parquet.SchemaOf(speedmatrix.RequestRow{}), parquet.SchemaOf(speedmatrix.ServerRow{}),
		parquet.SchemaOf(speedmatrix.MachineRow{}),
	} {
		for _, column := range rows.Columns() {
			names[column[0]] = true
		}
	}
	if len(names) < 150 {
		t.Fatalf("only %d names to look for", len(names))
	}
	for name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/run-format.md does not name `%s`", name)
		}
	}
}
