package compare_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"speedmatrix/internal/compare"
	"speedmatrix/internal/runfile"
)

// BenchmarkThousandRuns reads and compares 1,000 run directories, 500 on each side.
func BenchmarkThousandRuns(b *testing.B) {
	data, err := os.ReadFile("../../examples/rtx3090-agents-a1-4b-fp8/run.json")
	if err != nil {
		b.Fatal(err)
	}
	var paths []string
	for i := range 1000 {
		dir := filepath.Join(b.TempDir(), strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "run.json"), data, 0o644); err != nil {
			b.Fatal(err)
		}
		paths = append(paths, dir)
	}
	b.ReportAllocs()
	for b.Loop() {
		runs, _, err := runfile.LoadAll(paths)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := compare.New([]compare.Input{{Runs: runs[:500]}, {Runs: runs[500:]}}, compare.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
