package cli_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/truth"
)

// circumstances are what a run was measured in.
type circumstances struct {
	script  truth.Script
	command string
	env     []string
	gpu     string
	args    []string // further ones of run
}

func usual() circumstances {
	return circumstances{script: steady(), command: "/opt/python /opt/bin/vllm serve m --max-num-seqs 16 --port 8000", env: []string{"OMP_NUM_THREADS=4"}, gpu: "RTX 3090"}
}

// set begins the circumstances; what was before has ended.
func (w *world) set(c circumstances) {
	if w.server != nil {
		w.server.Close()
	}
	w.truth(local, c.script)
	w.gpu = c.gpu
	w.listening = func(context.Context, int) *launch.Process {
		if c.command == "" {
			return nil
		}
		return &launch.Process{PIDs: []int{7}, Args: strings.Fields(c.command), Env: c.env}
	}
}

func TestARunGoesOnInTheSameCircumstancesOnly(t *testing.T) {
	tests := []struct {
		name   string
		change func(c *circumstances)
		says   string // why it does not go on; "" if it does
	}{
		{"nothing", func(*circumstances) {}, ""},
		{"where it listens", func(c *circumstances) {
			c.command = "vllm serve m --max-num-seqs=16 --host 0.0.0.0 --port 8000 --api-key k"
		}, ""},
		{"its process cannot be seen", func(c *circumstances) {
			c.command, c.args = "", []string{"--state", "engine.running_limit_requests=16"}
		}, ""},
		{"KV cache by less than a percent", func(c *circumstances) { c.script.KVTokens -= 512 }, ""},
		{"version", func(c *circumstances) { c.script.Version = "0.33.0" }, "engine.version 0.32.0 → 0.33.0"},
		{"length", func(c *circumstances) { c.script.MaxLength = 4 << 10 }, "model.max_length_tokens 8192 → 4096"},
		{"KV cache", func(c *circumstances) { c.script.KVTokens = 32 << 10 }, "engine.kv_cache_tokens 65536 → 32768"},
		{"running limit", func(c *circumstances) { c.command = strings.Replace(c.command, "16", "8", 1) }, "launch command: --max-num-seqs 16 → 8"},
		{"option", func(c *circumstances) { c.command += " --enforce-eager" }, "launch command: --enforce-eager added"},
		{"model", func(c *circumstances) { c.command = strings.Replace(c.command, "serve m", "serve n", 1) }, "launch command: model m → n"},
		{"environment", func(c *circumstances) { c.env = []string{"OMP_NUM_THREADS=8"} }, "engine.environment OMP_NUM_THREADS=4 → OMP_NUM_THREADS=8"},
		{"GPU", func(c *circumstances) { c.gpu = "RTX 4090" }, "hardware.gpu RTX 3090 → RTX 4090"},
		{"served model", func(c *circumstances) { c.script.Model = "other" }, `the server knows no model "steady"`},
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.set(usual())
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		w.main(small("--contexts", "0", "--prefill", "none")...)
		w.ended(130)
		for _, tt := range tests {
			dir := strings.ReplaceAll(tt.name, " ", "-")
			if err := os.CopyFS(dir, os.DirFS("run")); err != nil {
				t.Fatal(err)
			}
			c := usual()
			tt.change(&c)
			w.set(c)
			w.main(slices.Concat([]string{"run", "--resume", dir}, c.args)...)
			if tt.says == "" {
				w.ended(0)
			} else {
				w.ended(4, tt.says)
			}
			if doc := w.document(dir); (doc.Plan.Resumed == 1) != (tt.says == "") {
				t.Errorf("%s: resumed %d times", tt.name, doc.Plan.Resumed)
			}
			w.signals = make(chan os.Signal, 4)
		}
		if warned := w.document("KV-cache-by-less-than-a-percent").Warnings; !slices.ContainsFunc(warned, func(x speedmatrix.Warning) bool {
			return x.Message == "the KV cache held 65536 tokens and holds 65024 since the run went on"
		}) {
			t.Errorf("the KV cache changed, and the warnings are %v", warned)
		}
	})
}

// What was stated stays stated, and what was not kept must be given again.
func TestAResumptionTakesOverWhatWasStatedAndAsksForWhatWasNotKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		const body = `{"user":"annegret","top_p":0.5}`
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		w.main(small("--state", "model.max_length_tokens=2048", "--state", "hardware.gpu=X", "--body", body)...)
		w.ended(130)
		w.main("run", "--resume", "run")
		w.ended(2, "the run's --body held something secret, which was not kept", "Give --body again")
		w.main("run", "--resume", "run", "--body", `{"top_p":0.6}`)
		w.ended(2, "--body is not what the run was begun with")
		w.main("run", "--resume", "run", "--body", body)
		w.ended(0)
		doc := w.document("run")
		if doc.Model["max_length_tokens"].Source != speedmatrix.SourceUser || doc.Hardware.Text("gpu") != "X" || doc.Method.Body["user"] != "«redacted: user name»" {
			t.Errorf("model %v, hardware %v, body %v", doc.Model, doc.Hardware, doc.Method.Body)
		}
	})
}

// A run whose server was at an address that is nobody's business goes on where that address is given again.
func TestAnAddressThatWasNotKeptIsAskedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const address = "10.20.30.40:8000"
		w.truth(address, steady())
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		args := small()
		args[1] = address
		w.main(args...)
		w.ended(130)
		if !strings.Contains(w.out.String(), "Server   vLLM 0.32.0 at http://"+address) {
			t.Errorf("the user's own address is not shown:\n%s", w.out.String())
		}
		if url := w.document("run").Server.URL; strings.Contains(url, "10.20") || !strings.HasSuffix(url, ":8000") {
			t.Errorf("the run says %s", url)
		}
		w.main("run", "--resume", "run")
		w.ended(2, "the run does not say at which address its server was", "speedmatrix run http://HOST:PORT --resume run")
		w.main("run", address, "--resume", "run")
		w.ended(0)
	})
}

func TestOneProcessAtATimeMeasuresIntoADirectory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.truth(local, steady())
		w.later(50*time.Second, func() { w.signals <- os.Interrupt })
		w.main(small()...)
		w.ended(130)
		other, err := runfile.Open("run")
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Lock(); err != nil {
			t.Fatal(err)
		}
		w.main("run", "--resume", "run")
		w.ended(6, "another process is measuring into run")
		w.main("report", "run")
		w.ended(0)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		w.later(5*time.Second, func() {
			if err := other.Lock(); err == nil {
				t.Error("a directory that a run goes on in could be locked")
			}
		})
		w.main("run", "--resume", "run")
		w.ended(0)
	})
}
