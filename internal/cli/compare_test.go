package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/truth"
)

// keeps writes a run with one decode cell for each speed.
func (w *world) keeps(name string, change func(*speedmatrix.Run), totals ...float64) {
	w.t.Helper()
	run := &speedmatrix.Run{Schema: speedmatrix.Schema, ID: name, Origin: speedmatrix.OriginMeasured, StartedAt: time.Now().UTC(),
		Tool: speedmatrix.Tool{Name: "speedmatrix", Version: "0.1.0"}, Method: speedmatrix.Method{Name: speedmatrix.MethodStandard, DurationSeconds: 30},
		Model: speedmatrix.Facts{speedmatrix.ModelName: {Value: "Tiny", Source: "test"}}}
	for i, v := range totals {
		run.Cells = append(run.Cells, speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: "16K", Context: 16 << 10, Concurrency: 1 << i,
			Status: speedmatrix.StatusValid, TTFTKind: speedmatrix.TTFTUnknown, TotalTokensPerSecond: &v, PerRequestTokensPerSecond: new(v / float64(int(1)<<i))})
	}
	if change != nil {
		change(run)
	}
	dir, err := runfile.Create(name)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := dir.SaveRun(run); err != nil {
		w.t.Fatal(err)
	}
}

func TestRunsAreCompared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.keeps("a", nil, 100, 180)
		w.keeps("b", func(r *speedmatrix.Run) { r.Engine = speedmatrix.Facts{speedmatrix.EngineVersion: {Value: "2"}} }, 90, 181)
		w.main("compare", "a", "b")
		w.ended(0)
		w.golden("compare.txt", w.out.String())
		if text := w.err.String(); text != "" {
			t.Errorf("standard error: %s", text)
		}
		w.main("compare", "a/run.json", "b", "--markdown")
		w.ended(0)
		w.golden("compare.md", w.out.String())
		w.main("compare", "a", "b", "--json")
		w.ended(0)
		var c compare.Comparison
		if err := json.Unmarshal([]byte(w.out.String()), &c); err != nil || c.Schema != compare.Schema || len(c.Pairs) != 1 || c.Sides[1].IDs[0] != "b" {
			t.Errorf("%v\n%s", err, w.out.String())
		}
		w.main("compare", "a", "b", "--svg")
		w.ended(0)
		if !strings.HasPrefix(w.out.String(), "<svg") {
			t.Errorf("%.100s", w.out.String())
		}
		w.main("compare", "a", "b", "--html", "page.html", "--json")
		w.ended(0, "page.html")
		if page, err := os.ReadFile("page.html"); err != nil || !strings.Contains(string(page), "Comparison: Tiny") {
			t.Errorf("%v %.100s", err, page)
		}
	})
}

func TestRepeatsStandWithCommas(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i, v := range []float64{100, 101, 99.5} {
			w.keeps("a"+string(rune('1'+i)), nil, v)
			w.keeps("b"+string(rune('1'+i)), nil, v*1.2)
		}
		w.keeps("with,comma", nil, 100)
		w.main("compare", "a1,a2, a3", "b1,b2,b3", "with,comma", "--json")
		w.ended(0)
		var c compare.Comparison
		if err := json.Unmarshal([]byte(w.out.String()), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Sides) != 3 || c.Sides[0].Measurements != 3 || c.Pairs[0].Cells[0].Differences[compare.Total].Basis != compare.BasisRepeats {
			t.Errorf("%+v", c.Sides)
		}
		w.main("compare", "a1,a2,a3", "b1,b2,b3", "--paired", "--json")
		w.ended(0)
		if !strings.Contains(w.out.String(), `"basis": "pairs"`) {
			t.Error("--paired pairs nothing")
		}
	})
}

func TestALimitEndsWithItsOwnCode(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.keeps("a", nil, 100, 180)
		w.keeps("b", nil, 90, 181)
		w.main("compare", "a", "b", "--fail-if", "total < -2%")
		w.ended(7, "a limit of --fail-if is broken total < -2%: decode 16K × 1 is −10.0 %, measured once each and without an interval")
		w.main("compare", "a", "b", "--fail-if", "total < -2% @16K x2", "--fail-if", "total < -50%")
		w.ended(0)
		w.main("compare", "a", "b", "--fail-if", "ttft > 5%")
		w.ended(2, "cannot be decided")
		w.main("compare", "a", "b", "--fail-if", "total < -2%", "--run-noise", "5%")
		w.ended(0)
	})
}

func TestWhatCannotBeCompared(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.keeps("a", nil, 100)
		w.keeps("quick", func(r *speedmatrix.Run) { r.Method.Name, r.Method.DurationSeconds = speedmatrix.MethodQuick, 5 }, 100)
		if err := os.WriteFile("other.json", []byte(`{"schema": "speedmatrix.run/9"}`), 0o600); err != nil {
			w.t.Fatal(err)
		}
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{}, 2, "a comparison needs two sides or more, but was given 0"},
			{[]string{"a"}, 2, "was given 1"},
			{[]string{"a", "b"}, 6, "there is no run b"},
			{[]string{"a", "other.json"}, 6, `other.json: the run has the schema "speedmatrix.run/9"`},
			{[]string{"a", "quick"}, 2, "different methods, so their numbers do not compare: name is standard/1 in A, quick/1 in B; duration_seconds is 30 in A, 5 in B"},
			{[]string{"a", "quick", "--allow", "method.nam"}, 2, "Did you mean method.name?"},
			{[]string{"a", "quick", "--allow", "method"}, 0, ""},
			{[]string{"a", "a", "--fail-if", "totl < 1%"}, 2, `there is no number "totl"`},
			{[]string{"a", "a", "--json", "--markdown"}, 2, "a comparison has one form on standard output"},
			{[]string{"a", "a", "--quick"}, 2, "--quick is about measuring, but runs that exist are compared"},
			{[]string{"a", "a", "--html", "no/where.html"}, 6, "the page cannot be written"},
			{[]string{"--interleave", "x"}, 2, "takes the URLs of two servers, but was given 1"},
			{[]string{"--interleave", "x", "y", "--repeat", "1"}, 2, "needs two rounds at least"},
		} {
			w.main(append([]string{"compare"}, c.args...)...)
			w.ended(c.code, c.says)
		}
	})
}

// other is where a second server listens.
const other = "127.0.0.1:8001"

// lockstep is a server that gives each request a token every gap.
func lockstep(gap time.Duration) truth.Script {
	s := steady()
	s.Lockstep, s.Gap = true, func(truth.Step) time.Duration { return gap }
	return s
}

func TestTwoServersAreMeasuredInAlternation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, lockstep(20*time.Millisecond))
		w.truth(other, lockstep(25*time.Millisecond))
		args := []string{"compare", "--interleave", local, other, "--contexts", "0", "--concurrency", "1,2", "--prefill", "1K", "--quick", "--repeat", "2", "--out", "both"}
		w.main(args...)
		w.ended(0, "a comparison finds a change of")
		dirs, err := filepath.Glob("both/*")
		if err != nil || len(dirs) != 2 {
			t.Fatalf("%v %v", dirs, err)
		}
		a, b := w.document(dirs[0]), w.document(dirs[1])
		if a.Interleaved == nil || a.Interleaved.Side != "A" {
			a, b, dirs[0], dirs[1] = b, a, dirs[1], dirs[0]
		}
		if a.Interleaved.With != b.ID || b.Interleaved.With != a.ID || b.Interleaved.Side != "B" || len(a.Repeats) != 1 || len(b.Repeats) != 1 {
			t.Errorf("%+v %+v", a.Interleaved, b.Interleaved)
		}
		for _, dir := range dirs {
			out := w.out.String()
			w.main("verify", dir)
			w.ended(0)
			w.out.buffer.Reset()
			_, _ = w.out.Write([]byte(out))
		}
		shown := w.out.String()
		if !strings.Contains(shown, "B is slower in both cells (−20.0 %)") || !strings.Contains(shown, "compared round by round") {
			t.Errorf("%s", shown)
		}
		w.main("compare", dirs[0], dirs[1])
		w.ended(0)
		if w.out.String() != shown {
			t.Errorf("comparing the directories shows something else:\n%s", w.out.String())
		}
	})
}

func TestAServerThatIsNotThereLeavesNothing(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.truth(local, lockstep(20*time.Millisecond))
		w.main("compare", "--interleave", local, other, "--contexts", "0", "--concurrency", "1")
		w.ended(3)
		w.nothingLeft()
	})
}
