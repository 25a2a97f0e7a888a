package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// versionOfTool is what the document says of the program that printed it.
var versionOfTool = regexp.MustCompile(`"(go|platform|version|revision)": "[^"]*"`)

// What a user sees of a server, to the letter: facts, sources, what is not known, the plan, each cell that would not run.
func TestProbeShowsWhatAServerIs(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.truth(local, steady())
		w.main("probe", "--contexts", "0,1K,4K,16K", "--concurrency", "1,8,64", "--salt", "salt", "--state", "engine.kv_dtype=fp8",
			"--state", "model.max_length_tokens=6000")
		w.ended(0)
		w.golden("probe.txt", w.out.String())
		if text := w.err.String(); text != "" {
			w.t.Errorf("standard error: %s", text)
		}
		w.nothingLeft()
	})
}

func TestProbePrintsOneDocument(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.main("probe", local, "--contexts", "0,16K", "--concurrency", "1", "--salt", "salt", "--json", "--quick")
		w.ended(0)
		var doc struct {
			Schema, Title string
			Model, Engine speedmatrix.Facts
			Unknown, APIs []string
			Plan          struct {
				Method          string
				ExpectedSeconds float64 `json:"expected_seconds"`
				ExpectedFrom    string  `json:"expected_from"`
				Cells           []struct{ Phase, Verdict, Status, Reason string }
			}
		}
		decoder := json.NewDecoder(strings.NewReader(w.out.String()))
		if err := decoder.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if _, err := decoder.Token(); err != io.EOF {
			t.Errorf("more than one document: %v", err)
		}
		if doc.Schema != "speedmatrix.probe/1" || doc.Title != "vLLM 0.32.0" || doc.Plan.Method != speedmatrix.MethodQuick {
			t.Errorf("%+v", doc)
		}
		if f := doc.Engine[speedmatrix.EngineKVTokens]; f.Source != "GET /metrics" || doc.Engine.Text(speedmatrix.EngineKVTokens) != "65536" {
			t.Errorf("KV cache %+v", f)
		}
		var verdicts strings.Builder
		for _, c := range doc.Plan.Cells {
			verdicts.WriteString(c.Phase + " " + c.Verdict + " " + c.Status + ";")
		}
		const refused = "refused Exceeds model length;"
		if want := "decode runs ;prefill " + refused + "decode " + refused; verdicts.String() != want {
			t.Errorf("the cells are %s, want %s", verdicts.String(), want)
		}
		if doc.Plan.ExpectedSeconds < 8 || doc.Plan.ExpectedSeconds > 12 || !strings.Contains(doc.Plan.ExpectedFrom, "tokens took") {
			t.Errorf("expected %v s from %q", doc.Plan.ExpectedSeconds, doc.Plan.ExpectedFrom)
		}
		w.golden("probe.json", versionOfTool.ReplaceAllString(w.out.String(), `"$1": "…"`))
	})
}

// The errors, and the exit codes, are those of run.
func TestProbeEndsAsRunDoes(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(w *world)
		args  []string
		code  int
		says  string
	}{
		{"nothing listens", func(*world) {}, []string{"probe", local}, 3, "no LLM server at http://127.0.0.1:8000 (connection refused)"},
		{"nothing on the usual ports", func(*world) {}, []string{"probe"}, 3, "no LLM server on this machine's usual ports"},
		{"no key", func(w *world) { w.answers(401, "application/json", `{"error":"no"}`) }, []string{"probe", local, "--json"}, 4, "wants a valid key"},
		{"an unknown model", func(w *world) { w.truth(local, steady()) }, []string{"probe", local, "--model", "x"}, 4, `knows no model "x"`},
		{"an unknown length", func(w *world) { w.truth(local, truth.Script{}) }, []string{"probe", local, "--contexts", "max"}, 2, `the context "max" needs`},
		{"a wrong flag", func(*world) {}, []string{"probe", "--contexts", "x"}, 2, "--contexts"},
		{"a duration too short", func(*world) {}, []string{"probe", "--duration", "1s"}, 2, "--quick"},
		{"never ready", func(w *world) { w.answers(503, "application/json", `{"error":"loading"}`) }, []string{"probe", local}, 5, "was not ready within 60 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				c.serve(w)
				w.main(c.args...)
				w.ended(c.code, c.says)
				if strings.Contains(strings.Join(c.args, " "), "--json") && w.out.String() != "" {
					t.Errorf("standard output: %s", w.out.String())
				}
				w.nothingLeft()
			})
		})
	}
}

// A plan file of run serves probe too, whatever else it holds, and a wrong one is named.
func TestProbeTakesThePlanOfRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		writeFile(t, "plan.yaml", "url: "+local+"\ncontexts: [0, 2K]\nconcurrency: [2]\nprefill: none\nout: elsewhere\nyes: true\n")
		w.main("probe", "--plan", "plan.yaml", "--salt", "salt")
		w.ended(0)
		if !strings.Contains(w.out.String(), "Plan     2 of 2 cells, about") || !strings.Contains(w.out.String(), "   2K    •") {
			t.Errorf("it said:\n%s", w.out.String())
		}
	})
}

// Secrets that a server echoes are not shown.
func TestProbeShowsNoKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.handles(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				_, _ = io.WriteString(rw, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
				return
			}
			rw.WriteHeader(500)
			_, _ = io.WriteString(rw, `{"error":{"message":"bad `+r.Header.Get("Authorization")+`"}}`)
		}))
		w.main("probe", local, "--api-key", "opensesame", "--contexts", "0", "--concurrency", "1")
		if text := w.out.String() + w.err.String(); strings.Contains(text, "opensesame") || !strings.Contains(text, "a trial request failed") {
			t.Errorf("it said:\n%s", text)
		}
	})
}

// A probe that the user ends says so and leaves nothing.
func TestProbeEndsAtAnInterrupt(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.answers(503, "application/json", `{"error":"loading"}`)
		w.later(10*time.Second, func() { w.signals <- nil })
		w.main("probe", local)
		w.ended(130, "interrupted")
		w.nothingLeft()
	})
}

func TestProbesHelpNamesItsFlagsAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.main("probe", "--help")
		w.ended(0)
		text := w.out.String()
		for _, flag := range []string{"--json", "--plan", "--model", "--contexts", "--state"} {
			if !strings.Contains(text, flag) {
				t.Errorf("%s is missing", flag)
			}
		}
		for _, flag := range []string{"--resume", "--out", "--events", "--yes"} {
			if bytes.Contains([]byte(text), []byte(flag+" ")) {
				t.Errorf("%s is shown", flag)
			}
		}
	})
}
