package fidelity_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
)

// The faults of llm-inference-bench in what it knows of the server, what it keeps, and where it runs.
func TestTheRunAroundTheCells(t *testing.T) {
	t.Run("W19 every planned cell is in the document, with its reason", caseW19EveryPlannedCellIsInTheDocumentWithItsReason)
	t.Run("W20 engines of other kinds are drained and their queues seen", caseW20EnginesOfOtherKindsAreDrainedAndTheirQueuesSeen)
	t.Run("W21 a hybrid model's blocks are no budget", caseW21AHybridModelsBlocksAreNoBudget)
	t.Run("W22 the program is built for Windows and macOS too", caseW22TheProgramIsBuiltForWindowsAndMacosToo)
	t.Run("W23 cold times to first token, and requests that end", caseW23ColdTimesToFirstTokenAndRequestsThatEnd)
	t.Run("W24 a shared machine and the client's own load are told", caseW24ASharedMachineAndTheClientsOwnLoadAreTold)
	t.Run("W25 whatever the standard allows is read", caseW25WhateverTheStandardAllowsIsRead)
	t.Run("W26 what was measured is kept in fields, each with its source", caseW26WhatWasMeasuredIsKeptInFieldsEachWithItsSource)
	t.Run("W28 sending a long prompt is no part of the time to first token", caseW28SendingALongPromptIsNoPartOfTheTimeToFirstToken)
	t.Run("W29 nobody but the server is asked for anything", caseW29NobodyButTheServerIsAskedForAnything)
}

func caseW19EveryPlannedCellIsInTheDocumentWithItsReason(t *testing.T) {
	t.Parallel()
	s := truth.Script{MaxLength: 32 << 10, KVTokens: 20 << 10, PrefixCache: true}
	w := bed{script: s, args: []string{"--contexts", "0,4K,64K", "--concurrency", "1,2,8", "--prefill", "4K,64K", "--duration", "5s", "--max-time", "25s"}}.measure(t)
	data, err := json.Marshal(w.run)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Plan  struct{ Contexts, Concurrency, Prefill []int }
		Cells []struct {
			Phase, Status, Reason string
			Context, Concurrency  int
		}
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	times := map[[3]any]int{}
	seen := map[string]bool{}
	for _, c := range document.Cells {
		times[[3]any{c.Phase, c.Context, c.Concurrency}]++
		seen[c.Status] = true
		if c.Status == "" || (c.Reason == "") != (c.Status == "Valid") {
			t.Errorf("%+v", c)
		}
	}
	for _, context := range document.Plan.Contexts {
		for _, n := range document.Plan.Concurrency {
			if times[[3]any{"decode", context, n}] != 1 {
				t.Errorf("decode %d × %d is there %d times", context, n, times[[3]any{"decode", context, n}])
			}
		}
	}
	for _, context := range document.Plan.Prefill {
		if times[[3]any{"prefill", context, 1}] != 1 {
			t.Errorf("prefill %d is there %d times", context, times[[3]any{"prefill", context, 1}])
		}
	}
	if len(document.Cells) != 11 {
		t.Errorf("%d cells, want 11", len(document.Cells))
	}
	for _, status := range []speedmatrix.Status{speedmatrix.StatusValid, speedmatrix.StatusSkipped, speedmatrix.StatusOverCapacity, speedmatrix.StatusExceedsModelLength} {
		if !seen[string(status)] {
			t.Errorf("no cell is %s: %v", status, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func caseW20EnginesOfOtherKindsAreDrainedAndTheirQueuesSeen(t *testing.T) {
	t.Parallel()
	for _, s := range []truth.Script{{Engine: truth.Plain, MaxRunning: 3}, {Engine: truth.LlamaCpp, MaxRunning: 3, MaxLength: 8192, Lockstep: true}} {
		s.Gap = every(25 * ms)
		w := bed{script: s, args: oneCell("0", "2,3,6")}.measure(t)
		w.is(w.cell(0, 2), speedmatrix.StatusValid)
		w.is(w.cell(0, 3), speedmatrix.StatusValid)
		if c := w.cell(0, 6); s.Engine == truth.Plain {
			w.is(c, speedmatrix.StatusRequestsQueued)
			about(t, "queued share", c.QueuedShare, 0.5, 0.02)
		} else if c.Status == speedmatrix.StatusValid {
			t.Errorf("6 requests of 3 slots are %s: %s", c.Status, c.Reason)
		}
		end := int64(0)
		for _, n := range []int{2, 3} {
			c := w.cell(0, n)
			for _, list := range w.answers(c.Key()) {
				if list[0].served.ArrivedNS < end {
					t.Errorf("%s began before the cell before had ended", c.Key())
				}
			}
			for _, list := range w.answers(c.Key()) {
				end = max(end, list[len(list)-1].served.EndedNS)
			}
			near(t, "total tok/s", c.TotalTokensPerSecond, float64(40*n))
		}
	}
}

func caseW21AHybridModelsBlocksAreNoBudget(t *testing.T) {
	t.Parallel()
	s := truth.Script{MaxLength: 8 << 10, KVTokens: 32 << 10, Metrics: truth.Metrics{
		Rewrite: relabelled(`num_gpu_blocks="2048"`, `num_gpu_blocks="36864",mamba_block_size="528"`)}}
	w := bed{script: s, args: oneCell("4K", "4,16")}.measure(t)
	w.is(w.cell(4096, 4), speedmatrix.StatusValid)
	w.is(w.cell(4096, 16), speedmatrix.StatusOverCapacity, "of 32,768 tokens of KV cache")
}

func caseW22TheProgramIsBuiltForWindowsAndMacosToo(t *testing.T) {
	for _, system := range []string{"windows", "darwin", "linux"} {
		for dir, missing := range undeclared(t, system) {
			t.Errorf("%s on %s lacks %v", dir, system, missing)
		}
	}
	t.Log("without a GPU's vendor there is no telemetry yet on any system")
}

func caseW23ColdTimesToFirstTokenAndRequestsThatEnd(t *testing.T) {
	t.Parallel()
	w := bed{script: cached(), args: []string{"--contexts", "0,1K", "--concurrency", "2", "--prefill", "1K", "--duration", "5s", "--max-output", "64"}}.measure(t)
	w.readCold(w.prefill(1024), cached(), 3)
	if c := w.prefill(1024); c.TTFTKind != speedmatrix.TTFTCold {
		t.Errorf("the prefills are called %s", c.TTFTKind)
	}
	for context, kind := range map[int]speedmatrix.TTFTKind{0: speedmatrix.TTFTCold, 1024: speedmatrix.TTFTWarm} {
		c := w.cell(context, 2)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		if *c.CompletedRequests < 6 || c.TTFTKind != kind {
			t.Errorf("%s: %d requests completed, TTFT %s, want %s", c.Key(), *c.CompletedRequests, c.TTFTKind, kind)
		}
	}
	t.Log("arrival rates, mixed lengths and turns are not measured, and nothing claims so: all requests of a cell are alike")
}

func caseW24ASharedMachineAndTheClientsOwnLoadAreTold(t *testing.T) {
	t.Parallel()
	// The system counts the processor's time in ticks, so the window must take some of it.
	work := make([]byte, 1<<20)
	w := bed{script: truth.Script{Gap: func(truth.Step) time.Duration {
		_ = sha256.Sum256(work)
		return 20 * ms
	}}}.measure(t)
	c := w.valid()
	if !w.run.Server.SameMachine {
		t.Error("the server on this machine's loopback is taken for another machine's")
	}
	if q := c.Client; q.CPUShare == nil || q.MachineCPUShare == nil || q.SendLateP99Micros == nil || q.ReaderLagP99Micros == nil || q.StampSource == "" {
		t.Errorf("%+v", q)
	}
}

func caseW25WhateverTheStandardAllowsIsRead(t *testing.T) {
	t.Parallel()
	for i, f := range []truth.Framing{{NoBlank: true}, {NoBlank: true, Ending: "\r", BOM: true}, {TwoLines: true, Comments: 1, Fields: true}, {NDJSON: true}} {
		api := []string{"chat", "completions"}[i%2]
		w := bed{script: truth.Script{Framing: f, StopAfter: short(70)}, args: oneCell("0", "2", "--api", api)}.measure(t)
		c := w.valid()
		w.exact(c)
		if n := c.Requests; n.Failed > 0 || n.Completed < 6 {
			t.Errorf("%s, %+v: %+v", api, f, *n)
		}
	}
}

func caseW26WhatWasMeasuredIsKeptInFieldsEachWithItsSource(t *testing.T) {
	t.Parallel()
	s := truth.Script{Model: "org/model-30b", MaxLength: 32 << 10, KVTokens: 64 << 10, PrefixCache: true, Tokenize: true}
	w := bed{script: s, args: oneCell("0", "1", "--state", `hardware.gpu=RTX 3090`, "--state", "engine.kv_dtype=int4")}.measure(t)
	w.valid()
	for facts, want := range map[*speedmatrix.Facts]map[string][2]string{
		&w.run.Engine: {speedmatrix.EngineName: {"vLLM", "GET /version"}, speedmatrix.EngineVersion: {"0.12.0", "GET /version"},
			speedmatrix.EngineKVTokens: {"65536", "GET /metrics"}, speedmatrix.EngineKVType: {"int4", speedmatrix.SourceUser}, speedmatrix.EnginePrefixCaching: {"true", "GET /metrics"}},
		&w.run.Model:    {speedmatrix.ModelServedName: {"org/model-30b", "GET /v1/models"}, speedmatrix.ModelMaxLength: {"32768", "GET /v1/models"}},
		&w.run.Hardware: {speedmatrix.HardwareGPU: {"RTX 3090", speedmatrix.SourceUser}},
	} {
		for key, value := range want {
			if got := facts.Text(key); got != value[0] || (*facts)[key].Source != value[1] {
				t.Errorf("%s is %q from %q, want %q from %q", key, got, (*facts)[key].Source, value[0], value[1])
			}
		}
	}
	if m := w.run.Method; m.Name == "" || m.Salt == "" || m.Temperature == "" || m.MaxOutput == 0 || w.run.Tool.Version == "" {
		t.Errorf("method %+v, tool %+v", m, w.run.Tool)
	}
}

func caseW28SendingALongPromptIsNoPartOfTheTimeToFirstToken(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Tokenize: true, MaxLength: 64 << 10, PrefixCache: true, PrefillPerToken: 10 * time.Microsecond}, args: oneCell("16K", "4"), dial: slowUplink}.measure(t)
	c := w.valid()
	w.exact(c)
	if c.Send == nil || *c.Send.Min < 40 {
		t.Errorf("sending took %+v", c.Send)
	}
}

func caseW29NobodyButTheServerIsAskedForAnything(t *testing.T) {
	t.Parallel()
	p := &tap{}
	w := bed{dial: p.dial}.measure(t)
	w.valid()
	for _, address := range p.dialled {
		if address != local {
			t.Errorf("a connection to %s", address)
		}
	}
	// Of all that a run is made of only these two can send a request, to the server that the user named.
	clients := map[string]bool{}
	for path, file := range code(t, "bench", "dialect", "load", "probe", "prompt", "report", "runfile", "sse", "stamp", "verify") {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "http" && slices.Contains([]string{"Client", "Transport", "DefaultClient", "Get", "Post"}, s.Sel.Name) {
					clients[strings.Split(path, "/")[1]] = true
				}
			}
			return true
		})
	}
	if got := slices.Sorted(maps.Keys(clients)); !slices.Equal(got, []string{"load", "probe"}) {
		t.Errorf("packages with a client of HTTP: %v", got)
	}
}

// slowUplink dials connections on which every write takes a while.
func slowUplink(n *memnet.Network) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := n.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &slowSender{c}, nil
	}
}

type slowSender struct{ net.Conn }

func (s *slowSender) Write(b []byte) (int, error) {
	<-time.After(20*ms + time.Duration(len(b))*time.Microsecond)
	return s.Conn.Write(b)
}

// undeclared lists by folder the names that only files for other systems declare and files for this one use.
func undeclared(t *testing.T, system string) map[string][]string {
	t.Helper()
	missing := map[string][]string{}
	ctx := build.Default
	ctx.GOOS, ctx.CgoEnabled = system, false
	err := filepath.WalkDir("..", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() == "testdata" {
			return err
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		here, elsewhere, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if fits, err := ctx.MatchFile(dir, filepath.Base(name)); err != nil || !fits {
				declared(file, elsewhere)
				continue
			}
			declared(file, here)
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					used[id.Name] = true
				}
				return true
			})
		}
		for name := range elsewhere {
			if used[name] && !here[name] {
				missing[dir] = append(missing[dir], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

// declared adds the functions, types, variables and constants of a file's top level.
func declared(file *ast.File, into map[string]bool) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				into[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					into[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						into[name.Name] = true
					}
				}
			}
		}
	}
}
