package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/importer"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/trust"
	"speedmatrix/internal/verify"
)

// seed is the archive of a published page, imported.
func seed(t testing.TB, name string) []byte {
	t.Helper()
	run, err := importer.Import([]importer.File{{Name: name, Data: readFile(t, "../report/testdata/seeds/"+name+".rtx3090.txt")}}, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if err := runfile.Encode(&document, run); err != nil {
		t.Fatal(err)
	}
	return archived(t, regular("run.json", document.Bytes()))
}

func keysOf(r trust.Report) (keys []string) {
	for _, d := range r.Doubts {
		keys = append(keys, d.Cell)
	}
	return keys
}

// latest gives the latest version of a run with its document and report.
func (w *world) latest(id string) (catalog.Record, *speedmatrix.Run, trust.Report) {
	w.t.Helper()
	record, err := w.store.Get(w.t.Context(), id, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	run, err := runfile.DecodeStrict(record.Document)
	if err != nil {
		w.t.Fatal(err)
	}
	var report trust.Report
	if err := json.Unmarshal(record.Checks, &report); err != nil {
		w.t.Fatal(err)
	}
	return record, run, report
}

func TestBothSeedsAreTakenAsStatedAndTheFalseLabelsAreNamed(t *testing.T) {
	w := newWorld(t)
	for name, doubts := range map[string][]string{"qwen3-coder-30b-a3b-awq": {"decode-128k-x1", "decode-136k-x1"}, "agents-a1-4b-fp8": nil} {
		r := w.receive(member("ada"), seed(t, name))
		e, _ := w.index.Get(r.ID)
		if r.Report.Level != catalog.Complete || !slices.Equal(keysOf(r.Report), doubts) || e.Source != "llm-inference-bench 0.8.0" || e.Modified == "" || e.EventsHash != "" || len(e.Cells) != 48 {
			t.Errorf("%s: level %s, doubts %v, %+v", name, r.Report.Level, keysOf(r.Report), e)
		}
	}
	w.tidy()
}

func TestTheUploaderDecidesAboutDoubtfulCells(t *testing.T) {
	const first = "decode-128k-x1"
	for choice, want := range map[string]struct {
		version   int
		status    speedmatrix.Status
		total     bool
		doubts    int
		corrected bool
		reason    string
	}{
		ingest.KeepLabel: {1, speedmatrix.StatusRequestsQueued, true, 2, false, "by the source"},
		ingest.ReadValid: {2, speedmatrix.StatusValid, true, 0, true, "label corrected by the uploader"},
		ingest.NoSpeed:   {2, speedmatrix.StatusRequestsQueued, false, 0, true, "taken back by the uploader"},
	} {
		t.Run(choice, func(t *testing.T) {
			w, ada := newWorld(t), member("ada")
			r := w.receive(ada, seed(t, "qwen3-coder-30b-a3b-awq"))
			e, err := w.Decide(t.Context(), ada, r.ID, choice)
			if err != nil || e.Version != want.version {
				t.Fatalf("version %d: %v", e.Version, err)
			}
			record, run, report := w.latest(r.ID)
			c := run.FindCell(speedmatrix.PhaseDecode, 128<<10, 1)
			if c.Key() != first || c.Status != want.status || (c.TotalTokensPerSecond != nil) != want.total || (c.OutputTokens != nil) != want.total || !strings.Contains(c.Reason, want.reason) {
				t.Errorf("%+v", c)
			}
			if len(report.Doubts) != want.doubts || report.Level != catalog.Complete || record.Entry.Level != catalog.Complete {
				t.Errorf("%d doubts, level %s", len(report.Doubts), report.Level)
			}
			if corrected := slices.ContainsFunc(report.Checks, func(c trust.Check) bool { return c.Code == "corrected" && len(c.Cells) == 2 }); corrected != want.corrected {
				t.Errorf("corrected: %v", corrected)
			}
			old, err := w.store.Get(t.Context(), r.ID, 1)
			if err != nil || !bytes.Contains(old.Document, []byte("18.4")) {
				t.Errorf("the first version is gone: %v", err)
			}
			if want.version == 2 && (record.Blobs[0].Hash == old.Blobs[0].Hash || record.Why == "" || !slices.Equal(w.history(r.ID), []string{"received", "edited"})) {
				t.Errorf("%+v, %q, %v", record.Blobs, record.Why, w.history(r.ID))
			}
			if file, err := w.blobs.Open(t.Context(), record.Blobs[0].Hash); err != nil {
				t.Errorf("the document is not among the files: %v", err)
			} else {
				_ = file.Close()
			}
			w.tidy()
			if err := w.Remove(t.Context(), ada, r.ID); err != nil {
				t.Fatal(err)
			}
			w.nothing()
		})
	}
}

func TestADecisionThatIsNone(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	r := w.receive(ada, seed(t, "qwen3-coder-30b-a3b-awq"))
	if _, err := w.Decide(t.Context(), ada, r.ID, "best"); codeOf(t, err) != "choice" {
		t.Errorf("%v", err)
	}
	sure := w.receive(ada, seed(t, "agents-a1-4b-fp8"))
	if e, err := w.Decide(t.Context(), ada, sure.ID, ingest.ReadValid); err != nil || e.Version != 1 {
		t.Errorf("nothing was doubtful: %+v %v", e, err)
	}
}

// A correction leaves the rows what they are, and they are read again.
func TestACorrectedRunIsRecomputedFromItsRows(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	r := w.receive(ada, changed(t, func(run map[string]any) {
		cell := cellOf(run, 1)
		cell["status"], cell["reason"], cell["queued_share"] = "Requests queued", "it waited", nil
	}))
	if len(r.Report.Doubts) != 1 || r.Report.Level != catalog.Complete {
		t.Fatalf("level %s, doubts %v", r.Report.Level, r.Report.Doubts)
	}
	if _, err := w.Decide(t.Context(), ada, r.ID, ingest.ReadValid); err != nil {
		t.Fatal(err)
	}
	_, _, report := w.latest(r.ID)
	if c := check(t, report, "recomputed"); c.Outcome != trust.Found || !strings.Contains(c.Detail, "queued_share") {
		t.Errorf("%+v", c)
	}
	w.tidy()
}

// matrix is the archive of a measured run of eight cells, whose totals are so many times those of the first.
func matrix(t testing.TB, id string, factor float64) []byte {
	doc := document(t, func(run map[string]any) {
		run["id"] = id
		one := cellOf(run, 0)
		var list []any
		for i, n := range []int{1, 2, 3, 4, 5, 6, 7, 8} {
			total := factor * 100 * float64(n)
			cell := with(one, "concurrency", n)
			cell["total_tokens_per_second"], cell["per_request_tokens_per_second"] = total, total/float64(n)
			cell["interval_95"] = map[string]any{"low": total * 0.99, "high": total * 1.01}
			cell["output_tokens"], cell["window_seconds"] = total*5, 5.0
			cell["time_between_tokens_ms"] = map[string]any{"p50": 1000 * float64(n) / total, "p90": nil, "p95": nil, "p99": nil, "min": nil, "max": nil, "mean": nil, "n": i + 1}
			list = append(list, cell)
		}
		run["cells"] = list
		run["plan"] = with(run["plan"].(map[string]any), "concurrency", []any{1, 2, 3, 4, 5, 6, 7, 8})
		run["launch_command"] = map[string]any{"value": "vllm serve x", "source": "process"}
		delete(run["engine"].(map[string]any), speedmatrix.EngineSimulated)
	})
	return archived(t, regular("run.json", doc), regular("machine.parquet", readFile(t, small+"/machine.parquet")))
}

// trusting takes the rows of every run for right, each with a hash of its own.
func trusting(o *ingest.Options) {
	o.Examine = func(_ context.Context, folder string) (ingest.Examination, error) {
		dir, err := runfile.Open(folder)
		if err != nil {
			return ingest.Examination{}, err
		}
		run, _, err := dir.LoadRun()
		return ingest.Examination{EventsHash: fmt.Sprintf("%064x", run.ID), Report: &verify.Report{Cells: 8, Numbers: 100}}, err
	}
}

func TestARunIsReproducedAsLongAsAnothersIsPublic(t *testing.T) {
	w := newWorld(t, trusting)
	ada, bob, eve := member("ada"), member("bob"), member("eve")
	levels := func() string {
		var words []string
		for _, name := range []string{"ada", "bob", "eve"} {
			for _, e := range w.index.OwnedBy("id-" + name) {
				words = append(words, fmt.Sprintf("%s %s by %d", name, e.Level, e.Reproductions))
			}
		}
		return strings.Join(words, ", ")
	}
	a := w.receive(ada, matrix(t, "run-of-ada", 1))
	w.set(ada, a.ID, catalog.Public)
	b := w.receive(bob, matrix(t, "run-of-bob", 1.008))
	if got, want := levels(), "ada Self-consistent by 0, bob Reproduced by 1"; got != want {
		t.Errorf("bob's draft: %s", got)
	}
	w.set(bob, b.ID, catalog.Public)
	if got, want := levels(), "ada Reproduced by 1, bob Reproduced by 1"; got != want {
		t.Errorf("bob's run is public: %s", got)
	}
	again := w.receive(bob, matrix(t, "another-of-bob", 1.001))
	w.set(bob, again.ID, catalog.Public)
	e := w.receive(eve, matrix(t, "run-of-eve", 1.5))
	w.set(eve, e.ID, catalog.Public)
	if got := levels(); !strings.HasPrefix(got, "ada Reproduced by 1,") || !strings.HasSuffix(got, "eve Self-consistent by 0") {
		t.Errorf("bob twice, and eve with other numbers: %s", got)
	}
	w.set(bob, b.ID, catalog.Withdrawn)
	if got := levels(); !strings.HasPrefix(got, "ada Reproduced by 1,") {
		t.Errorf("one of bob's is left: %s", got)
	}
	moderator := member("mod")
	moderator.Account.Role = "moderator"
	if err := w.Remove(t.Context(), moderator, again.ID); err != nil {
		t.Fatal(err)
	}
	if got := levels(); !strings.HasPrefix(got, "ada Self-consistent by 0") {
		t.Errorf("none of bob's is left: %s", got)
	}
	record, _, report := w.latest(a.ID)
	if report.Level != record.Entry.Level || len(report.Reproducers) != 0 {
		t.Errorf("the ladder says %s by %v, the entry %s", report.Level, report.Reproducers, record.Entry.Level)
	}
	if got := w.history(a.ID); !slices.Contains(got, "checked again") {
		t.Errorf("history: %v", got)
	}
}

func TestASentenceIsOneLineThatCanBeRead(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	r := w.receive(ada, packed(t, nil))
	if _, err := w.SetVisibility(t.Context(), ada, r.ID, ingest.Wish{Visibility: catalog.Public, Why: "  first\n\tof \u202ethree " + strings.Repeat("é", 400)}); err != nil {
		t.Fatal(err)
	}
	changes, err := w.store.History(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	why := changes[len(changes)-1].Why
	if !strings.HasPrefix(why, "first of three é") || len(why) > 510 || !strings.HasSuffix(why, "é…") {
		t.Errorf("%q", why)
	}
}
