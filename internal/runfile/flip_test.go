//go:build !race

package runfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
)

// Under the race detector the same fault in the file ends the process from inside the runtime (a nil slice of a length is
// checked there with a throw), where without it the reader recovers from a panic; so this test is for builds without it.
func TestNoBitFlipAnywhereMakesTheReaderPanic(t *testing.T) {
	d := create(t)
	if err := d.SaveServer([]speedmatrix.ServerRow{{SentNS: 1, Cell: "a", Running: new(2.0)}, {SentNS: 2}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.Path(), serverName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		flipped := slices.Clone(whole)
		flipped[rapid.IntRange(0, len(whole)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := os.WriteFile(path, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _ = d.Server()
	})
}
