package cli

import (
	"testing"

	"speedmatrix"
)

func TestTheLiveScreenNeedsATerminalOnBothSidesWithRoom(t *testing.T) {
	whole := Env{StdinTerminal: true, StdoutTerminal: true, Width: 80, Height: 24, Getenv: func(string) string { return "" }}
	for name, change := range map[string]func(e *Env, o *runOptions){
		"input is no terminal":  func(e *Env, _ *runOptions) { e.StdinTerminal = false },
		"output is no terminal": func(e *Env, _ *runOptions) { e.StdoutTerminal = false },
		"too narrow":            func(e *Env, _ *runOptions) { e.Width = 49 },
		"too low":               func(e *Env, _ *runOptions) { e.Height = 15 },
		"size unknown":          func(e *Env, _ *runOptions) { e.Width, e.Height = 0, 0 },
		"a terminal that cannot": func(e *Env, _ *runOptions) {
			e.Getenv = func(name string) string { return map[string]string{"TERM": "dumb"}[name] }
		},
		"events are wanted": func(_ *Env, o *runOptions) { o.events = true },
		"lines are wanted":  func(_ *Env, o *runOptions) { o.lines = true },
	} {
		env, o := whole, runOptions{}
		if !screenWanted(&env, &o) {
			t.Fatal("no screen where there is a terminal with room")
		}
		if change(&env, &o); screenWanted(&env, &o) {
			t.Errorf("%s: a screen", name)
		}
	}
}

func TestAMeasurementBesidesTheMatrixIsNamedByItsKey(t *testing.T) {
	for key, want := range map[string][2]string{
		"decode-0-x1":            {"", "decode-0-x1"},
		"prefill-16k":            {"", "prefill-16k"},
		"drift-decode-0-x1":      {"drift", "decode-0-x1"},
		"repeat-2-decode-16k-x8": {"repeat 2", "decode-16k-x8"},
	} {
		if again, cell := splitAside(key); again != want[0] || cell != want[1] {
			t.Errorf("%s: %q and %q", key, again, cell)
		}
	}
}

func TestTheScreenShowsTheNewestSampleOfEach(t *testing.T) {
	first := int32(0)
	rows := []speedmatrix.MachineRow{{CPUBusy: new(0.1)}, {GPU: &first, Power: new(100.0)}, {CPUBusy: new(0.5)}, {GPU: &first, Power: new(348.0), Clock: new(1890.0), MemoryUsed: new(int64(1 << 30))}}
	got := machineNow(rows, &speedmatrix.Telemetry{GPUs: []speedmatrix.GPU{{Index: 0, PowerLimit: new(350.0)}}})
	if *got.CPUShare != 0.5 || *got.PowerWatts != 348 || *got.ClockMHz != 1890 || *got.LimitWatts != 350 || *got.MemoryBytes != 1<<30 {
		t.Errorf("%+v", got)
	}
	if got := machineNow(nil, &speedmatrix.Telemetry{}); got.CPUShare != nil || got.PowerWatts != nil {
		t.Errorf("without samples: %+v", got)
	}
}

func TestALineOfALogIsShownWithoutWhatStandsBeforeIt(t *testing.T) {
	for line, want := range map[string]string{
		"(APIServer pid=23210) WARNING 12-01 11:33:46 [cpu.py:224] Triton is not installed": "WARNING Triton is not installed",
		"(EngineCore pid=7) INFO 12-01 11:33:46 [kv_cache_utils.py:2327] CPU KV cache size": "CPU KV cache size",
		"INFO:     Application startup complete.":                                           "Application startup complete.",
		"[2026-12-01 11:33:46 TP0] Load weight begin.":                                      "Load weight begin.",
		"[2026-12-01 11:33:46] server_args=x":                                               "server_args=x",
		"(APIServer pid=23210) INFO 12-01 11:33:04 [api_utils.py:347] ":                     "(APIServer pid=23210) INFO 12-01 11:33:04 [api_utils.py:347] ",
		"srv  load_model: loading model 'x.gguf'":                                           "srv  load_model: loading model 'x.gguf'",
		"[important] (pid=7) stays":                                                         "[important] (pid=7) stays",
	} {
		if got := message(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
