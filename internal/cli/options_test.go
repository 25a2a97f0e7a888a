package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// option is an option of run, and what it must do.
type option struct {
	name  string
	args  []string
	files map[string]string
	env   map[string]string
	serve func(s *truth.Script)
	check func(t *testing.T, w *world, doc *speedmatrix.Run)
}

// options of run, each measured with once. A small matrix is given before the options, which may replace it.
var options = []option{
	{name: "max-time", args: []string{"--max-time", "1m"}, check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		skipped, prefix := cellsOf(doc, speedmatrix.StatusSkipped), "--max-time 60 s leaves"
		if len(skipped) == 0 || len(cellsOf(doc, speedmatrix.StatusValid)) == 0 || doc.Plan.MaxSeconds != 60 {
			t.Errorf("skipped %v of %d cells", skipped, len(doc.Cells))
		}
		if c := doc.FindCell(speedmatrix.PhaseDecode, 0, 1); c.Status != speedmatrix.StatusValid {
			t.Errorf("the first cell is %s", c.Status)
		}
		if !strings.Contains(w.out.String(), prefix+" out") || !strings.HasPrefix(skipped[0].Reason, prefix+" no room for it") {
			t.Errorf("the reason is %q, said:\n%s", skipped[0].Reason, w.out.String())
		}
		if took := doc.FinishedAt.Sub(doc.StartedAt); took > 100*time.Second {
			t.Errorf("it took %s", took)
		}
	}},
	{name: "repeat", args: []string{"--repeat", "3", "--contexts", "0"}, check: func(t *testing.T, _ *world, doc *speedmatrix.Run) {
		c := doc.FindCell(speedmatrix.PhaseDecode, 0, 2)
		if len(doc.Repeats) != 2 || doc.Method.Repeat != 3 || c.Repeats == nil || c.Repeats.TotalTokensPerSecond.N != 3 {
			t.Errorf("%d repeats, spread %+v", len(doc.Repeats), c.Repeats)
		}
	}},
	{name: "precision", args: []string{"--precision", "2%", "--contexts", "0", "--concurrency", "1"}, check: func(t *testing.T, _ *world, doc *speedmatrix.Run) {
		// Without it the window lasts until 1,024 tokens at 50 tok/s: 20.5 s.
		if c := doc.FindCell(speedmatrix.PhaseDecode, 0, 1); doc.Method.Precision != 0.02 || *c.WindowSeconds > 15 || *c.WindowSeconds < 5 {
			t.Errorf("precision %v, window %v s", doc.Method.Precision, *c.WindowSeconds)
		}
	}},
	{name: "prompts shared", args: pair("--prompts", "shared"), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		if heads := w.heads(t); doc.Method.Prompts != "shared" || heads[500] != 1 {
			t.Errorf("prompts %q; %v heads differ in so many first characters", doc.Method.Prompts, heads)
		}
	}},
	{name: "prompts shared-prefix", args: pair("--prompts", "shared-prefix"), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		if heads := w.heads(t); doc.Method.Prompts != "shared-prefix" || heads[500] != 1 || heads[4000] < 2 {
			t.Errorf("prompts %q; %v heads differ in so many first characters", doc.Method.Prompts, heads)
		}
	}},
	{name: "prompts distinct, by default", args: pair(), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		if heads := w.heads(t); doc.Method.Prompts != "distinct" || heads[500] < 2 {
			t.Errorf("prompts %q; %v heads differ in so many first characters", doc.Method.Prompts, heads)
		}
	}},
	{name: "text", args: pair("--text", "lights.txt"), files: map[string]string{"lights.txt": paragraphs(1000)},
		check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
			if doc.Method.Text != "lights.txt" || doc.Method.TextSHA256 == "" {
				t.Errorf("the text is %q", doc.Method.Text)
			}
			if p := w.longestPrompt(); !strings.Contains(p, "the keeper of light number") {
				t.Errorf("a prompt is %.300q", p)
			}
		}},
	{name: "body", args: brief("--body", `{"top_p":0.5,"chat_template_kwargs":{"enable_thinking":false}}`), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		for field, want := range map[string]string{"top_p": "0.5", "chat_template_kwargs": `{"enable_thinking":false}`} {
			if got := w.field(field); got != want {
				t.Errorf("%s is sent as %s, want %s", field, got, want)
			}
		}
		if doc.Method.Body["top_p"] != 0.5 {
			t.Errorf("the run says %v", doc.Method.Body)
		}
	}},
	{name: "state", args: brief("--state", `hardware.gpu="RTX 3090"`, "--state", "engine.kv_dtype=int4", "--state", "model.max_length_tokens=2048",
		"--state", "launch_command=serve --fast"), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		for _, f := range []struct {
			facts     speedmatrix.Facts
			key, want string
		}{{doc.Hardware, "gpu", "RTX 3090"}, {doc.Engine, "kv_dtype", "int4"}, {doc.Model, "max_length_tokens", "2048"}} {
			if f.facts.Text(f.key) != f.want || f.facts[f.key].Source != speedmatrix.SourceUser {
				t.Errorf("%s is %+v", f.key, f.facts[f.key])
			}
		}
		if doc.LaunchCommand == nil || doc.LaunchCommand.Value != "serve --fast" || !strings.Contains(w.out.String(), "up to 2,048 tokens") {
			t.Errorf("the launch command is %+v; said:\n%s", doc.LaunchCommand, w.out.String())
		}
	}},
	{name: "temperature, max-output and salt", args: brief("--temperature", "0.25", "--max-output", "500", "--salt", "pepper"),
		check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
			if doc.Method.Temperature != "0.25" || doc.Method.MaxOutput != 500 || doc.Method.Salt != "pepper" || w.field("temperature") != "0.25" {
				t.Errorf("method %+v, sent %s", doc.Method, w.field("temperature"))
			}
			for _, r := range w.server.Account().Requests {
				if r.MaxTokens > 1024 {
					t.Errorf("a request asks for %d tokens", r.MaxTokens)
				}
			}
		}},
	{name: "temperature of the server", args: brief("--temperature", "server"), check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
		if doc.Method.Temperature != "server" || w.field("temperature") != "" {
			t.Errorf("%q, sent %s", doc.Method.Temperature, w.field("temperature"))
		}
	}},
	{name: "quick", args: brief(), check: func(t *testing.T, _ *world, doc *speedmatrix.Run) {
		if c := doc.FindCell(speedmatrix.PhaseDecode, 0, 1); doc.Method.Name != speedmatrix.MethodQuick || *c.WindowSeconds > 5.1 {
			t.Errorf("method %s, window %v s", doc.Method.Name, *c.WindowSeconds)
		}
	}},
	{name: "compat", args: []string{"--method", "compat/llm-inference-bench", "--prefill", "none", "--contexts", "1K"}, check: func(t *testing.T, _ *world, doc *speedmatrix.Run) {
		if m := doc.Method; m.Name != speedmatrix.MethodCompat || m.Prompts != "shared" || m.KVPlan != "reserve" {
			t.Errorf("method %+v", m)
		}
	}},
	{name: "kv-plan reserve", args: []string{"--kv-plan", "reserve", "--contexts", "1K", "--concurrency", "1,8", "--quick"}, check: func(t *testing.T, _ *world, doc *speedmatrix.Run) {
		c := doc.FindCell(speedmatrix.PhaseDecode, 1024, 8)
		if c.Status != speedmatrix.StatusOverCapacity || c.Reason != "8 × (1,024 + 8,192) tokens reserved need 73,728 of 65,536" {
			t.Errorf("%s: %s", c.Status, c.Reason)
		}
	}},
	{name: "completions", args: brief("--api", "completions"), check: onlyAPI("completions", wire.Completions)},
	spoken("responses", wire.Responses, nil),
	spoken("anthropic", wire.Messages, locked),
	spoken("ollama", wire.OllamaChat, nil),
	spoken("tgi", wire.Generate, nil),
	{name: "any API", args: brief("--api", "auto"), check: onlyAPI("chat", wire.Chat)},
	{name: "key in a file", args: brief("--api-key-file", "key"), files: map[string]string{"key": "opensesame\n"}, serve: locked},
	{name: "key in the environment", args: brief(), env: map[string]string{"OPENAI_API_KEY": "opensesame"}, serve: locked},
	{name: "key in a header", args: brief("--header", "authorization: Bearer opensesame"), env: map[string]string{"OPENAI_API_KEY": "other"},
		serve: locked},
	{name: "plan file", args: []string{"--plan", "plan.yaml", "--repeat", "1"}, files: map[string]string{"plan.yaml": planYAML},
		check: func(t *testing.T, w *world, doc *speedmatrix.Run) {
			if m := doc.Method; m.Temperature != "0.5" || m.Salt != "from plan" || m.Repeat != 1 || m.DurationSeconds != 6 || w.field("top_k") != "7" {
				t.Errorf("method %+v, top_k %s", m, w.field("top_k"))
			}
			if doc.Hardware.Text("gpu") != "RTX 3090" || doc.Engine.Text("note") != "tuned" {
				t.Errorf("hardware %v, engine %v", doc.Hardware, doc.Engine)
			}
			if !slices.Equal(doc.Plan.Contexts, []int{0, 1024}) || !slices.Equal(doc.Plan.Prefill, []int{2048}) {
				t.Errorf("plan %+v; the command line rules the contexts, the file the rest", doc.Plan)
			}
		}},
}

// brief makes a run of one cell of 5 s.
func brief(args ...string) []string {
	return append(args, "--contexts", "0", "--concurrency", "1", "--prefill", "none", "--quick")
}

// pair makes a run of one cell of 5 s with two streams whose prompts have heads.
func pair(args ...string) []string {
	return append(args, "--contexts", "1K", "--concurrency", "2", "--prefill", "none", "--quick")
}

// locked is a server that wants a key.
func locked(s *truth.Script) { s.Auth = "opensesame" }

// spoken measures through one of the further APIs, with a key that is right for its service and another that is not.
func spoken(name string, api wire.API, serve func(s *truth.Script)) option {
	return option{name: name, args: brief("--api", name), env: map[string]string{"ANTHROPIC_API_KEY": "opensesame", "OPENAI_API_KEY": "other"},
		serve: func(s *truth.Script) {
			s.APIs = []wire.API{api}
			if serve != nil {
				serve(s)
			}
		}, check: onlyAPI(name, api)}
}

// onlyAPI wants every request to be of one API, and every cell Valid.
func onlyAPI(name string, api wire.API) func(t *testing.T, w *world, doc *speedmatrix.Run) {
	return func(t *testing.T, w *world, doc *speedmatrix.Run) {
		for _, r := range w.server.Account().Requests {
			// One that is refused only asks whether an endpoint is there.
			if r.API != api && r.Status != 400 && r.Status != 404 && r.Status != 422 {
				t.Fatalf("request %d is of %s", r.ID, r.API)
			}
		}
		if doc.Method.API != name || doc.Server.API != name {
			t.Errorf("API %q, the server's %q", doc.Method.API, doc.Server.API)
		}
		for i := range doc.Cells {
			if c := &doc.Cells[i]; c.Status != speedmatrix.StatusValid {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
	}
}

// planYAML is overruled where the command line says the same: contexts, concurrency and repeat.
const planYAML = `
contexts: [0, 4K]
duration: 6s
prefill: [2K]
temperature: 0.5
repeat: 3
salt: from plan
body:
  top_k: 7
state:
  hardware.gpu: RTX 3090
  engine.note: tuned
`

// Each option does what it says, and the run says that it was given.
func TestEachOptionIsMeasuredWith(t *testing.T) {
	for _, o := range options {
		t.Run(o.name, o.test)
	}
}

func (o option) test(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := steady()
		s.KeepPrompts = true
		if o.serve != nil {
			o.serve(&s)
		}
		w.truth(local, s)
		for name, text := range o.files {
			writeFile(t, name, text)
		}
		maps.Copy(w.env, o.env)
		args := []string{"run", local, "--contexts", "0,1K", "--concurrency", "1,2", "--out", "run"}
		if !slices.Contains(o.args, "--plan") {
			args = append(args, "--prefill", "1K")
		}
		w.main(append(args, o.args...)...)
		w.ended(0)
		doc := w.document("run")
		for i := range doc.Cells {
			if c := &doc.Cells[i]; c.Status == speedmatrix.StatusFailed || c.Status == speedmatrix.StatusInterrupted {
				t.Errorf("%s is %s: %s", c.Key(), c.Status, c.Reason)
			}
		}
		if o.check != nil {
			o.check(t, w, doc)
		}
		w.main("verify", "run")
		w.ended(0)
	})
}

func cellsOf(doc *speedmatrix.Run, status speedmatrix.Status) (list []speedmatrix.Cell) {
	for _, c := range doc.Cells {
		if c.Status == status {
			list = append(list, c)
		}
	}
	return list
}

// measuring gives the requests whose prompts are of about 1K: those of the matrix, and none of the warm-up.
func (w *world) measuring() (list []truth.Request) {
	for _, r := range w.server.Account().Requests {
		if r.PromptTokens > 900 && r.PromptTokens < 1200 {
			list = append(list, r)
		}
	}
	return list
}

// heads counts the different beginnings of the decode cells' prompts, of 500 and of 4,000 characters.
func (w *world) heads(t *testing.T) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for _, n := range []int{500, 4000} {
		seen := map[string]bool{}
		for _, r := range w.measuring() {
			if r.MaxTokens > 1 {
				seen[r.Prompt[:min(n, len(r.Prompt))]] = true
			}
		}
		counts[n] = len(seen)
	}
	return counts
}

func (w *world) longestPrompt() (longest string) {
	for _, r := range w.measuring() {
		if len(r.Prompt) > len(longest) {
			longest = r.Prompt
		}
	}
	return longest
}

// field is a field as the last request sent it, "" if it did not.
func (w *world) field(name string) string {
	requests := w.server.Account().Requests
	return string(requests[len(requests)-1].Fields[name])
}

// clockTime is the time before a line: two that are less than a millisecond apart may show different seconds.
var clockTime = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d`)

// Nothing but the URL (and a salt, for equal prompts): a server of llama.cpp's kind with four slots and a model of 8K is measured whole, by the
// contexts and concurrencies that suit it, and its figures are those of the script.
func TestDefaultsSuitTheServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, truth.Script{Engine: truth.LlamaCpp, Version: "b10434", MaxLength: 8 << 10, MaxRunning: 4, PrefixCache: true,
			Tokenize: true, HonourIgnoreEOS: true, PrefillPerToken: 100 * time.Microsecond,
			Gap: func(truth.Step) time.Duration { return 25 * time.Millisecond }})
		w.main("run", local, "--salt", "salt")
		w.ended(0)
		runs, err := os.ReadDir("runs")
		if err != nil || len(runs) != 1 {
			t.Fatalf("%v %v", runs, err)
		}
		id := runs[0].Name()
		doc := w.document("runs/" + id)
		if doc.ID != id || !strings.HasPrefix(id, "20000101T") {
			t.Errorf("the run %q lies in %q", doc.ID, id)
		}
		if got, want := fmt.Sprint(doc.Plan.Contexts, doc.Plan.Concurrency, doc.Plan.Prefill), "[0 1024 2048 4096 7168] [1 2 4] [1024 2048 4096 7168]"; got != want {
			t.Errorf("the plan is %s, want %s", got, want)
		}
		for i := range doc.Cells {
			c := &doc.Cells[i]
			if c.Status != speedmatrix.StatusValid || len(c.Warnings) > 0 {
				t.Errorf("%s is %s: %s %v", c.Key(), c.Status, c.Reason, c.Warnings)
				continue
			}
			if k := c.CounterCheck; k != nil && k.ClientTokens != k.ServerTokens {
				t.Errorf("%s: we counted %v tokens, the engine %v", c.Key(), k.ClientTokens, k.ServerTokens)
			}
			if c.Phase == speedmatrix.PhaseDecode && (*c.TimeBetweenTokens.P50 != 25 || *c.PerRequestTokensPerSecond != 40) {
				t.Errorf("%s: %v ms a token, %v tok/s each", c.Key(), *c.TimeBetweenTokens.P50, *c.PerRequestTokensPerSecond)
			}
			if c.Phase == speedmatrix.PhasePrefill && (*c.PromptTokensPerSecond < 9999 || *c.PromptTokensPerSecond > 10001) {
				t.Errorf("%s: %v tok/s", c.Key(), *c.PromptTokensPerSecond)
			}
		}
		shown := strings.ReplaceAll(w.withoutReport(doc), id, "ID")
		w.golden("defaults.txt", clockTime.ReplaceAllString(shown, "HH:MM:SS"))
		w.main("report", "runs/"+id, "--json")
		var again speedmatrix.Run
		if err := json.Unmarshal([]byte(w.out.String()), &again); err != nil || again.ID != id {
			t.Errorf("report --json: %v", err)
		}
		w.main("verify", "runs/"+id)
		w.ended(0)
	})
}
