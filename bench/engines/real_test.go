// Package engines holds the tests that measure a real engine.
package engines

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/need"
	"speedmatrix/internal/runfile"
)

// measure runs the program with those arguments and gives the run's document.
func measure(t *testing.T, program string, args ...string) *speedmatrix.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(program, append([]string{"run", "--out", out, "--quick", "--yes"}, args...)...)
	text, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", cmd, text)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if text, err := exec.Command(program, "verify", out).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, text)
	}
	dir, err := runfile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	run, warnings, err := dir.LoadRun()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the document: %v, warnings %v", err, warnings)
	}
	return run
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "speedmatrix")
	if text, err := exec.Command("go", "build", "-o", program, "speedmatrix/cmd/speedmatrix").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return program
}

// agrees checks a measured decode cell against the engine's own live counter: within 0.2 % or a token per stream,
// and one more for each second that a scrape may lie beside the instant.
func agrees(t *testing.T, c *speedmatrix.Cell) {
	t.Helper()
	k := c.CounterCheck
	if k == nil {
		t.Errorf("%s: no engine counter to compare with", c.Key())
		return
	}
	allowed := max(0.002*k.ServerTokens, float64(c.Concurrency)) + k.UncertaintySeconds/k.SpanSeconds*k.ServerTokens
	if math.Abs(k.ClientTokens-k.ServerTokens) > allowed {
		t.Errorf("%s: %.0f tokens counted, the engine's %s moved by %.0f, %.1f apart allowed", c.Key(), k.ClientTokens, k.Counter, k.ServerTokens, allowed)
	}
}

func TestRealLlamaCppAgreesWithItsOwnCounters(t *testing.T) {
	url, program := need.Setting(t, need.LlamaCPP), build(t)
	run := measure(t, program, url, "--contexts", "0,256,1K", "--prefill", "256,1K", "--concurrency", "1,2,4")
	measured := 0
	for i := range run.Cells {
		c := &run.Cells[i]
		switch {
		case c.Phase == speedmatrix.PhasePrefill:
			if c.Status != speedmatrix.StatusValid || c.TTFTKind != speedmatrix.TTFTCold || c.CachedTokens == nil ||
				*c.CachedTokens > float64(run.Server.Habits.TemplateTokens+16) {
				t.Errorf("%s: %s, %s, %v tokens cached; want a Valid cold sample (%s)", c.Key(), c.Status, c.TTFTKind, c.CachedTokens, c.Reason)
			}
		case c.Status == speedmatrix.StatusValid:
			measured++
			agrees(t, c)
			if c.PromptTokens == nil || c.Context > 0 && math.Abs(*c.PromptTokens-float64(c.Context)) > max(0.005*float64(c.Context), 8) {
				t.Errorf("%s: prompts of %v tokens", c.Key(), c.PromptTokens)
			}
			if c.Context >= 1024 && c.TTFTKind != speedmatrix.TTFTWarm {
				t.Errorf("%s: the launch was %s, want warm: the row's heads were filled", c.Key(), c.TTFTKind)
			}
		case c.Status != speedmatrix.StatusLooped:
			t.Errorf("%s: %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
	// A small model may loop now and then, but not everywhere.
	if measured < 6 {
		t.Errorf("%d of 9 decode cells were Valid", measured)
	}
}

func TestRealLlamaCppQueuesBeyondItsSlots(t *testing.T) {
	url, program := need.Setting(t, need.LlamaCPP), build(t)
	run := measure(t, program, url, "--contexts", "0", "--prefill", "none", "--concurrency", "4,7")
	room, crowd := run.FindCell(speedmatrix.PhaseDecode, 0, 4), run.FindCell(speedmatrix.PhaseDecode, 0, 7)
	if !slices.Contains([]speedmatrix.Status{speedmatrix.StatusValid, speedmatrix.StatusLooped}, room.Status) {
		t.Errorf("4 requests on 4 slots: %s: %s", room.Status, room.Reason)
	}
	if crowd.Status != speedmatrix.StatusRequestsQueued || crowd.QueuedShare == nil || *crowd.QueuedShare < 0.5 ||
		!strings.Contains(crowd.Reason, "% of the window") {
		t.Errorf("7 requests on 4 slots: %s: %s, share %v", crowd.Status, crowd.Reason, crowd.QueuedShare)
	}
}

// look runs speedmatrix probe and gives its document.
func look(t *testing.T, program, url string, args ...string) (doc struct {
	Title         string
	Model, Engine speedmatrix.Facts
}) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"probe", url, "--json", "--contexts", "0", "--concurrency", "1", "--prefill", "none"}, args...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	t.Logf("%s", text)
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// are fails the test where a fact has another value; "" is one that must not be known.
func are(t *testing.T, facts speedmatrix.Facts, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := facts.Text(key); got != value {
			t.Errorf("%s = %q (%s), want %q", key, got, facts[key].Source, value)
		}
	}
}

func TestRealLlamaCppIsKnown(t *testing.T) {
	url, program := need.Setting(t, need.LlamaCPP), build(t)
	doc := look(t, program, url)
	are(t, doc.Model, map[string]string{
		speedmatrix.ModelName: "SmolLM2-135M-Instruct.Q4_1.gguf", speedmatrix.ModelServedName: "smollm2-135m", speedmatrix.ModelQuantization: "Q4_1",
		speedmatrix.ModelFormat: "GGUF", speedmatrix.ModelMaxLength: "2048", speedmatrix.ModelTrainedLength: "8192", speedmatrix.ModelParameters: "134515008",
	})
	are(t, doc.Engine, map[string]string{
		speedmatrix.EngineName: "llama.cpp", speedmatrix.EngineRunningLimit: "4", speedmatrix.EngineKVTokens: "", speedmatrix.EngineSpeculative: "off",
		speedmatrix.EnginePrefixCaching: "true", speedmatrix.EngineTokenizer: "POST /v1/chat/completions/input_tokens", speedmatrix.EngineProxy: "",
	})
	if abort := doc.Engine.Text(speedmatrix.EngineAbort); !strings.HasPrefix(abort, "by closing the connection") {
		t.Errorf("abort: %q", abort)
	}
}

// elsewhere gives the URL of an engine that is too large to be set up for every test; see README.md.
func elsewhere(t *testing.T, name string) string {
	t.Helper()
	url := os.Getenv(name)
	if url == "" {
		t.Skipf("%s is not set: the base URL of an engine that README.md says how to start", name)
	}
	return url
}

func TestRealVLLMIsKnown(t *testing.T) {
	doc := look(t, build(t), elsewhere(t, "SPEEDMATRIX_TEST_VLLM"))
	are(t, doc.Model, map[string]string{speedmatrix.ModelName: "SmolLM2-135M-Instruct", speedmatrix.ModelServedName: "smollm2-135m", speedmatrix.ModelMaxLength: "8192",
		speedmatrix.ModelDType: "bfloat16", speedmatrix.ModelQuantization: ""})
	are(t, doc.Engine, map[string]string{
		speedmatrix.EngineName: "vLLM", speedmatrix.EngineVersion: "0.32.0", speedmatrix.EngineRunningLimit: "8", speedmatrix.EngineKVTokens: "46592",
		speedmatrix.EngineKVBlocks: "364", speedmatrix.EngineKVBlockTokens: "128", speedmatrix.EnginePrefixCaching: "true", speedmatrix.EngineSpeculative: "off",
		speedmatrix.EngineTensorParallel: "1", speedmatrix.EnginePipelineParallel: "1", speedmatrix.EngineDataParallel: "1", speedmatrix.EngineStepTokens: "2048",
		speedmatrix.EngineTokenizer: "POST /tokenize", speedmatrix.EngineCacheReset: "POST /reset_prefix_cache", speedmatrix.EngineAbortRoute: "POST /abort_requests",
		speedmatrix.EngineAPIs: "chat, completions, responses, anthropic",
	})
}

func TestRealOllamaIsKnown(t *testing.T) {
	doc := look(t, build(t), elsewhere(t, "SPEEDMATRIX_TEST_OLLAMA"))
	are(t, doc.Model, map[string]string{speedmatrix.ModelName: "smollm2-135m", speedmatrix.ModelServedName: "smollm2-135m:latest", speedmatrix.ModelMaxLength: "8192",
		speedmatrix.ModelTrainedLength: "8192", speedmatrix.ModelQuantization: "Q4_1", speedmatrix.ModelFormat: "GGUF", speedmatrix.ModelParameters: "134.52M"})
	are(t, doc.Engine, map[string]string{speedmatrix.EngineName: "Ollama", speedmatrix.EngineVersion: "", speedmatrix.EngineRunningLimit: "",
		speedmatrix.EngineMetrics: "", speedmatrix.EngineAPIs: "chat, completions, responses, anthropic, ollama"})
}

// LiteLLM stands in front of the llama.cpp of these tests.
func TestRealLiteLLMIsToldFromWhatStandsBehindIt(t *testing.T) {
	doc := look(t, build(t), elsewhere(t, "SPEEDMATRIX_TEST_LITELLM"))
	are(t, doc.Engine, map[string]string{speedmatrix.EngineProxy: "LiteLLM", speedmatrix.EngineProxyVersion: "1.106.12", speedmatrix.EngineName: "llama.cpp",
		speedmatrix.EngineProxyUpstream: "openai/smollm2-135m", speedmatrix.EngineMetrics: ""})
}

func TestRealLiteLLMIsMeasured(t *testing.T) {
	run := measure(t, build(t), elsewhere(t, "SPEEDMATRIX_TEST_LITELLM"), "--contexts", "0,512", "--prefill", "512", "--concurrency", "1,2")
	for i := range run.Cells {
		// A small model may loop now and then.
		if c := &run.Cells[i]; c.Status != speedmatrix.StatusValid && c.Status != speedmatrix.StatusLooped {
			t.Errorf("%s: %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
	are(t, run.Engine, map[string]string{speedmatrix.EngineProxy: "LiteLLM", speedmatrix.EngineName: "llama.cpp", speedmatrix.EngineMetrics: "",
		speedmatrix.EngineRunningLimit: "", speedmatrix.EngineKVTokens: "", speedmatrix.EngineThreads: ""})
	are(t, run.Model, map[string]string{speedmatrix.ModelName: "", speedmatrix.ModelServedName: "smollm2-135m", speedmatrix.ModelMaxLength: ""})
	if run.LaunchCommand != nil {
		t.Errorf("the proxy's command line was taken for the engine's: %v", run.LaunchCommand.Value)
	}
}

// vllm is how vLLM is started in the folder in which vllm.sh has installed it, on a free port.
func vllm(t *testing.T, options string) (command string) {
	t.Helper()
	folder := elsewhere(t, "SPEEDMATRIX_TEST_VLLM_FOLDER")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 "+
		"%[1]s/venv/bin/vllm serve %[1]s/SmolLM2-135M-Instruct --served-model-name smollm2-135m --host 127.0.0.1 --port %[2]s "+
		"--distributed-executor-backend uni --enforce-eager --max-model-len 2048 %[3]s", folder, port, options)
}

// vLLM counts a preemption when the request runs again: here one of the cells ends before that.
func TestRealVLLMRunsOutOfItsKVCache(t *testing.T) {
	run := measure(t, build(t), "--launch", vllm(t, "--max-num-seqs 8 --block-size 32 --num-gpu-blocks-override 72"),
		"--contexts", "512,1K", "--prefill", "none", "--concurrency", "1,2,4")
	if n, _ := run.Engine.Int(speedmatrix.EngineKVTokens); n != 2304 {
		t.Errorf("%d tokens of KV cache", n)
	}
	for _, want := range []struct {
		context, concurrency int
		status               speedmatrix.Status
		reason               string
		attempted            bool
	}{
		{512, 1, speedmatrix.StatusValid, "", true},
		{512, 4, speedmatrix.StatusOverCapacity, "", true},
		{1024, 2, speedmatrix.StatusOverCapacity, "", true},
		{1024, 4, speedmatrix.StatusOverCapacity, "4 prompts of 1K need 4,224 of 2,304 tokens of KV cache", false},
	} {
		c := run.FindCell(speedmatrix.PhaseDecode, want.context, want.concurrency)
		if c.Status != want.status || c.Attempts > 0 != want.attempted || !strings.Contains(c.Reason, want.reason) {
			t.Errorf("%s: %s: %s", c.Key(), c.Status, c.Reason)
		}
	}
}

func TestRealVLLMQueuesBeyondItsSlots(t *testing.T) {
	run := measure(t, build(t), "--launch", vllm(t, "--max-num-seqs 2"), "--contexts", "0", "--prefill", "none", "--concurrency", "2,5")
	room, crowd := run.FindCell(speedmatrix.PhaseDecode, 0, 2), run.FindCell(speedmatrix.PhaseDecode, 0, 5)
	if room.Status != speedmatrix.StatusValid || crowd.Status != speedmatrix.StatusRequestsQueued || *crowd.ActiveRequestsMean > 2.01 {
		t.Errorf("2 requests: %s, 5 requests: %s: %s, %v running", room.Status, crowd.Status, crowd.Reason, *crowd.ActiveRequestsMean)
	}
	if limit, _ := run.Engine.Int(speedmatrix.EngineRunningLimit); limit != 2 || run.Engine.Text(speedmatrix.EngineLaunched) != "true" {
		t.Errorf("engine %v", run.Engine)
	}
}
