package runfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func TestManyRunsAreReadInTheirOrder(t *testing.T) {
	var paths []string
	for _, id := range []string{"c", "a", "b"} {
		dir := create(t)
		run := fullRun(t)
		run.ID = id
		if err := dir.SaveRun(run); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, dir.Path())
	}
	paths[1] = filepath.Join(paths[1], runName)
	runs, warnings, err := LoadAll(paths)
	if err != nil || len(warnings) > 0 || len(runs) != 3 {
		t.Fatal(runs, warnings, err)
	}
	for i, path := range paths {
		want, _, err := (&Dir{path: strings.TrimSuffix(path, "/"+runName)}).LoadRun()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, runs[i]); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if runs[0].ID != "c" || runs[2].ID != "b" {
		t.Error("the runs stand in another order")
	}
	if none, _, err := LoadAll(nil); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}

func TestWhatIsOddInManyRunsIsNamed(t *testing.T) {
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.json", `{"schema": "`+speedmatrix.Schema+`", "id": "x", "speed": 1}`)
	runs, warnings, err := LoadAll([]string{good})
	if err != nil || len(runs) != 1 || len(warnings) != 1 || !strings.HasPrefix(warnings[0].Message, good+": run.json has the field speed") {
		t.Errorf("%v %v %v", runs, warnings, err)
	}
	for name, path := range map[string]string{
		"there is no run": filepath.Join(folder, "gone"), "bad.json: ": file("bad.json", "{"), "there is no run.json in": folder,
		"more.json: ": file("more.json", `{"schema": "`+speedmatrix.Schema+`"} {}`),
	} {
		_, _, err := LoadAll([]string{good, path, good})
		wantOutput(t, err, name)
	}
}
