package fidelity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/sse"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

// short ends every request after so many tokens, so that streams restart within the window.
func short(tokens int) func(truth.Call) int { return func(truth.Call) int { return tokens } }

// sameConnections fails the test unless every stream sent all its requests on one connection of its own.
func (w *world) sameConnections(c *speedmatrix.Cell) {
	w.t.Helper()
	owner := map[int]int32{}
	for stream, list := range w.answers(c.Key()) {
		for _, a := range list {
			if a.served.Connection != list[0].served.Connection {
				w.t.Errorf("stream %d changed from connection %d to %d", stream, list[0].served.Connection, a.served.Connection)
			}
		}
		if other, taken := owner[list[0].served.Connection]; taken {
			w.t.Errorf("streams %d and %d share a connection", stream, other)
		}
		owner[list[0].served.Connection] = stream
	}
}

func TestTrapsOfTheStandardLibrary(t *testing.T) {
	t.Run("K01 no stream opens a connection between two requests", caseK01NoStreamOpensAConnectionBetweenTwoRequests)
	t.Run("K02 nothing bounds the whole of a long answer", caseK02NothingBoundsTheWholeOfALongAnswer)
	t.Run("K03 an event larger than a scanner's 64 KB", caseK03AnEventLargerThanAScanners64Kb)
	t.Run("K04 no request asks for compression", caseK04NoRequestAsksForCompression)
	t.Run("K05 HTTP/1.1 also where TLS offers HTTP/2", caseK05Http11AlsoWhereTlsOffersHttp2)
	t.Run("K06 the reader stamps and appends, and makes no garbage", caseK06TheReaderStampsAndAppendsAndMakesNoGarbage)
	t.Run("K07 one processor and a busy collector change no number", caseK07OneProcessorAndABusyCollectorChangeNoNumber)
	t.Run("K08 cut streams leave the next cell warm and the server empty", caseK08CutStreamsLeaveTheNextCellWarmAndTheServerEmpty)
	t.Run("K09 the wall clock steps during the run", caseK09TheWallClockStepsDuringTheRun)
}

func caseK01NoStreamOpensAConnectionBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	p := &tap{before: 70 * ms}
	w := bed{script: truth.Script{StopAfter: short(30)}, args: oneCell("0", "16"), dial: p.dial}.measure(t)
	c := w.valid()
	w.exact(c)
	w.sameConnections(c)
	if c.Connect != nil || c.Requests.Sent < 100 {
		t.Errorf("%d requests, time to connect %+v", c.Requests.Sent, c.Connect)
	}
}

func caseK02NothingBoundsTheWholeOfALongAnswer(t *testing.T) {
	t.Parallel()
	// One request of 61 s, with a silence just under the limit between two events.
	w := bed{script: truth.Script{Gap: every(900 * ms), Stall: func(_, token int) time.Duration {
		if token == 40 {
			return 119 * second
		}
		return 0
	}}, args: []string{"--contexts", "0", "--concurrency", "1", "--prefill", "none", "--duration", "60s"}}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "longest gap", c.EventGap.Max, 119_900)
	if w.cut(c.Key()) != 1 || c.Requests.Sent != 1 {
		t.Errorf("requests %+v", *c.Requests)
	}
	w = bed{script: truth.Script{Stall: func(req, token int) time.Duration {
		if token == 100 {
			return 121 * second
		}
		return 0
	}}, args: oneCell("0", "1", "--duration", "60s")}.measure(t)
	w.failed(w.cell(0, 1), "no event for 2 min")
}

func caseK03AnEventLargerThanAScanners64Kb(t *testing.T) {
	t.Parallel()
	w := bed{script: truth.Script{Text: func(req, token int) string {
		if token%50 != 49 {
			return truth.Word(req, token)
		}
		var b strings.Builder
		for i := range 20_000 {
			b.WriteString(truth.Word(req*1000+token, i))
		}
		return b.String()
	}}}.measure(t)
	w.exact(w.valid())
	longest := int32(0)
	for _, e := range w.store.events["decode-0-x2"] {
		longest = max(longest, e.TextLength)
	}
	if longest < 64<<10 {
		t.Errorf("the longest event has %d bytes of text", longest)
	}
}

func caseK04NoRequestAsksForCompression(t *testing.T) {
	t.Parallel()
	p := &tap{}
	w := bed{dial: p.dial}.measure(t)
	w.valid()
	for _, r := range p.requests(t) {
		if got := r.Header.Values("Accept-Encoding"); len(got) > 0 {
			t.Errorf("%s %s accepts %q", r.Method, r.URL, got)
		}
	}
}

func caseK05Http11AlsoWhereTlsOffersHttp2(t *testing.T) {
	t.Parallel()
	offered, protocol := overTLS(t)
	if len(offered) != 1 || offered[0] != "http/1.1" || protocol != "HTTP/1.1" {
		t.Errorf("offered %q, spoken %q", offered, protocol)
	}
	p := &tap{}
	bed{dial: p.dial}.measure(t).valid()
	for _, r := range p.requests(t) {
		if r.Proto != "HTTP/1.1" || r.Header.Get("Upgrade") != "" {
			t.Errorf("%s %s %s, upgrade %q", r.Method, r.URL, r.Proto, r.Header.Get("Upgrade"))
		}
	}
}

func caseK06TheReaderStampsAndAppendsAndMakesNoGarbage(t *testing.T) {
	data := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":9,"total_tokens":16,"completion_tokens":7}}` + "\n\n")
	var reader sse.Reader
	var raw sse.Event
	var event dialect.Event
	decoder := dialect.Chat().NewDecoder()
	read := func() {
		reader.Push(data, 1)
		for reader.Next(&raw) {
			decoder.Decode(raw.Data, &event)
		}
	}
	read()
	if string(event.Content) != " word" || event.Tokens != 7 {
		t.Fatalf("%+v", event)
	}
	if n := testing.AllocsPerRun(1000, read); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	// Loops, tokenizers and statistics are looked into by others, from behind.
	for _, name := range []string{"speedmatrix/internal/loop", "speedmatrix/internal/stats", "speedmatrix/internal/prompt"} {
		if files := importers(t, name, "load", "dialect", "sse", "stamp"); len(files) > 0 {
			t.Errorf("the reader's path imports %s: %v", name, files)
		}
	}
}

func caseK07OneProcessorAndABusyCollectorChangeNoNumber(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	w := bed{script: truth.Script{StopAfter: short(100)}, args: oneCell("0", "8")}.measure(t)
	c := w.valid()
	w.exact(c)
	if c.Client.GCPauseMaxMicros == nil || *c.Client.GCPauseMaxMicros <= 0 {
		t.Errorf("the longest pause is %v", c.Client.GCPauseMaxMicros)
	}
	// The limit of the container rules the number of processors unless somebody turns that off.
	off := []metrics.Sample{{Name: "/godebug/non-default-behavior/containermaxprocs:events"}}
	if metrics.Read(off); off[0].Value.Kind() == metrics.KindUint64 && off[0].Value.Uint64() > 0 {
		t.Error("the number of processors does not follow the container's limit")
	}
}

func caseK08CutStreamsLeaveTheNextCellWarmAndTheServerEmpty(t *testing.T) {
	t.Parallel()
	p := &tap{before: 400 * ms}
	w := bed{dial: p.dial, args: oneCell("0", "2,4")}.measure(t)
	first, second := w.cell(0, 2), w.cell(0, 4)
	for _, c := range []*speedmatrix.Cell{first, second} {
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		if c.Connect != nil || *c.TTFT.Min != 5 {
			t.Errorf("%s: connections took %+v, TTFT from %v ms", c.Key(), c.Connect, *c.TTFT.Min)
		}
	}
	ended := int64(0)
	for _, list := range w.answers(first.Key()) {
		for _, a := range list {
			ended = max(ended, a.served.EndedNS)
		}
	}
	for _, list := range w.answers(second.Key()) {
		if list[0].served.ArrivedNS <= ended {
			t.Error("a request of the next cell came while one of the cell before still ran")
		}
	}
}

func caseK09TheWallClockStepsDuringTheRun(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	w := bed{change: func(env *cli.Env) {
		start := time.Now()
		env.Clock = func() *stamp.Clock {
			return stamp.NewClockOn(func() int64 {
				step := time.Duration(0)
				switch ran := time.Since(start); {
				case ran > 8*second:
					step = -time.Hour
				case ran > 6*second:
					step = 3 * second
				}
				return time.Now().Add(step).UnixNano()
			})
		}
	}}.measure(t)
	c := w.valid()
	w.exact(c)
	if w.run.Client.ClockSteps != 2 || !strings.Contains(w.warning("clock"), "stepped 2 times") {
		t.Errorf("%d steps, %q", w.run.Client.ClockSteps, w.warning("clock"))
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("the test itself took %v", took)
	}
	for _, where := range wallClocks(t, "load", "dialect", "sse", "bench", "probe") {
		if strings.HasSuffix(where, "bench/telemetry.go: UnixNano") {
			continue // a window's beginning, published as a date, is only held against rows of the same scale
		}
		t.Errorf("%s: a duration must not come from the wall clock", where)
	}
}

// Whatever the number of streams, the length of answers and the time to connect: connections are kept, and opening
// them costs no request any time.
func TestConnectionsCostNoRequestAnyTime(t *testing.T) {
	type trial struct {
		Connect     time.Duration
		Tokens, Max int
	}
	several(t, 4, func(rt *rapid.T) trial {
		return trial{time.Duration(rapid.IntRange(0, 900).Draw(rt, "connect")) * ms, rapid.IntRange(4, 120).Draw(rt, "tokens"), rapid.IntRange(1, 9).Draw(rt, "streams")}
	}, func(t *testing.T, x trial) {
		p := &tap{before: x.Connect}
		w := bed{script: truth.Script{StopAfter: short(x.Tokens)}, dial: p.dial, args: oneCell("0", strconv.Itoa(x.Max))}.measure(t)
		c := w.cell(0, x.Max)
		w.is(c, speedmatrix.StatusValid)
		w.exact(c)
		w.sameConnections(c)
		if c.Connect != nil {
			t.Errorf("a request waited for its connection: %+v", c.Connect)
		}
	})
}

// overTLS sends one request over TLS to a server that would rather speak HTTP/2, and gives what the client offered and
// what was spoken.
func overTLS(t *testing.T) (offered []string, protocol string) {
	t.Helper()
	certificate := ownCertificate(t)
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		l, err := network.Listen("127.0.0.1:443")
		if err != nil {
			t.Fatal(err)
		}
		server := truth.New(truth.Script{StopAfter: short(3)})
		handler := server.Handler()
		config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				offered = hello.SupportedProtos
				return nil, nil
			}}
		web := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			protocol = r.Proto
			handler.ServeHTTP(rw, r)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = web.Serve(tls.NewListener(l, config)) })
		client, err := load.New(load.Options{BaseURL: &url.URL{Scheme: "https", Host: "127.0.0.1"}, Dial: network.DialContext,
			TLS: &tls.Config{InsecureSkipVerify: true}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := dialect.Chat().Body(dialect.Params{Model: "truth", Prompt: "go", MaxTokens: 3, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		if log := client.Do(t.Context(), load.Request{Body: body}); log.Class != speedmatrix.RequestCompleted {
			t.Errorf("%s: %s", log.Class, log.Error)
		}
		_ = web.Shutdown(context.WithoutCancel(t.Context()))
		server.Close()
		serving.Wait()
	})
	return offered, protocol
}

// ownCertificate makes a certificate that nobody vouches for.
func ownCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// code parses the files of packages, tests left out.
func code(t *testing.T, packages ...string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range packages {
		err := filepath.WalkDir(filepath.Join("..", name), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			files[filepath.ToSlash(path)] = file
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatal("no files")
	}
	return files
}

// importers lists the files of packages that import a path.
func importers(t *testing.T, name string, packages ...string) (list []string) {
	t.Helper()
	for path, file := range code(t, packages...) {
		for _, spec := range file.Imports {
			if spec.Path.Value == `"`+name+`"` {
				list = append(list, path)
			}
		}
	}
	return list
}

// wallClocks lists the files of packages that take the wall clock's reading of now as a number.
func wallClocks(t *testing.T, packages ...string) (list []string) {
	t.Helper()
	for path, file := range code(t, packages...) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (strings.HasPrefix(s.Sel.Name, "Unix") && s.Sel.Name != "Unix" || s.Sel.Name == "Round") {
				if x, isName := s.X.(*ast.Ident); !isName || x.Name != "math" {
					list = append(list, path+": "+s.Sel.Name)
				}
			}
			return true
		})
	}
	return list
}
