package fidelity_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/truth"
)

// framed measures a server of a framing whose requests end several times within the window, so that the ends of
// streams are measured too, and wants every event and number as the server has them.
func framed(t *testing.T, s truth.Script, more ...string) (*world, *speedmatrix.Cell) {
	t.Helper()
	w := bed{script: s, args: oneCell("0", "2", append([]string{"--max-output", "100"}, more...)...)}.measure(t)
	c := w.valid()
	w.exact(c)
	w.sameEvents(c)
	if *c.CompletedRequests < 4 {
		t.Errorf("%d requests completed in the window, want at least 4", *c.CompletedRequests)
	}
	if c.TokenSource != speedmatrix.TokensPerEventUsage {
		t.Errorf("the tokens are from %q", c.TokenSource)
	}
	return w, c
}

// pieces are sizes that have no common period with the events.
var pieces = []int{1, 61, 2, 17, 1, 1, 90, 3, 5, 140, 7, 11, 4}

func TestFraming(t *testing.T) {
	t.Run("A01 256 streams whose reads end inside a JSON string", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Gap: every(78 * ms), TokensPerEvent: 4, Framing: truth.Framing{Split: []int{150, 71}}}, args: oneCell("0", "256")}.measure(t)
		c := w.valid()
		w.exact(c)
		w.sameEvents(c)
		if n := c.Requests; n.Failed != 0 || n.Sent != 256 {
			t.Errorf("%+v, want 256 sent and none failed", *n)
		}
	})
	t.Run("A02 reads of any size carry the start of the next line", func(t *testing.T) {
		t.Parallel()
		framed(t, truth.Script{Framing: truth.Framing{Split: pieces}})
	})
	t.Run("A04 one data line of a megabyte", func(t *testing.T) {
		t.Parallel()
		var words strings.Builder
		for i := 0; words.Len() < 1<<20; i++ {
			words.WriteString(truth.Word(1<<21, i))
		}
		long := words.String()
		_, c := framed(t, truth.Script{Text: func(req, token int) string {
			if token == 70 && req%3 == 0 {
				return long
			}
			return truth.Word(req, token)
		}})
		near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
	})
	t.Run("A05 line ends of every kind, CRLF cut between reads", func(t *testing.T) {
		t.Parallel()
		crlf, mixed := []string{"\r\n"}, []string{"\r\n", "\r", "\n", "\r\n", "\r", "\r", "\r", "\r\n"}
		for _, f := range []truth.Framing{{Endings: crlf}, {Endings: crlf, Split: []int{222, 1}}, {Ending: "\r", Split: pieces}, {Endings: mixed, Split: pieces}} {
			framed(t, truth.Script{Framing: f}, "--max-output", "64")
		}
	})
	t.Run("A07 comments and other fields before the first token", func(t *testing.T) {
		t.Parallel()
		_, c := framed(t, truth.Script{PrefillBase: 100 * ms, Framing: truth.Framing{Ping: 7 * ms, Comments: 2, Fields: true}})
		near(t, "the first TTFT", c.TTFT.Min, 100)
		near(t, "longest gap", c.EventGap.Max, 20)
	})
	t.Run("A08 several events in one read", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Framing: truth.Framing{EventsPerWrite: 4}}, args: oneCell("0", "2", "--max-output", "100")}.measure(t)
		c := w.valid()
		w.exact(c)
		w.sameEvents(c)
		near(t, "events per read", c.Client.EventsPerRead, 4)
		near(t, "coalesced share", c.Client.CoalescedShare, 1)
		near(t, "total tok/s", c.TotalTokensPerSecond, *c.OutputTokens / *c.WindowSeconds)
	})
	t.Run("A10 characters of four bytes cut between reads", func(t *testing.T) {
		t.Parallel()
		emoji := func(_, token int) string { return []string{" 😀", " é", " 漢字", " 🏳️‍🌈"}[token%4] }
		framed(t, truth.Script{Text: emoji, Framing: truth.Framing{Split: pieces}})
		// By the server's tokenizer the text itself is what is counted.
		w := bed{script: truth.Script{Text: emoji, Usage: truth.UsageFinal, Tokenize: true, Framing: truth.Framing{Split: pieces}}}.measure(t)
		if c := w.valid(); c.TokenSource != speedmatrix.TokensTokenizer {
			t.Errorf("the tokens are from %q", c.TokenSource)
		} else {
			from, to := windowOf(c)
			near(t, "tokens", c.OutputTokens, float64(w.textTokens(c, emoji, from, to)))
		}
	})
	t.Run("A11 reads that end at a blank inside the text", func(t *testing.T) {
		t.Parallel()
		framed(t, truth.Script{Text: func(int, int) string { return "  a  b  " }, Framing: truth.Framing{Split: pieces}})
	})
	t.Run("A13 the blank line comes late, and a number may be the start of a longer one", func(t *testing.T) {
		t.Parallel()
		framed(t, truth.Script{Framing: truth.Framing{LateBlank: true}})
		number := func(_, _ int, data string) []string { return []string{"1234567890", data} }
		framed(t, truth.Script{Framing: truth.Framing{LateBlank: true, Split: pieces}, Reshape: number})
	})
	t.Run("A14 usage null in every event", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{Usage: truth.UsageNull, Text: sameLength}, args: oneCell("0", "2", "--max-output", "100")}.measure(t)
		c := w.valid()
		w.exact(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, *c.OutputTokens / *c.WindowSeconds)
	})
	t.Run("A16 an event stream that says it is something else", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []string{"application/json", "text/html; charset=utf-8"} {
			w, _ := framed(t, truth.Script{Framing: truth.Framing{ContentType: kind}})
			if !w.warnedRun("content_type") {
				t.Errorf("no warning of %q: %v", kind, w.run.Warnings)
			}
		}
		if w, _ := framed(t, truth.Script{}); w.warnedRun("content_type") {
			t.Errorf("a warning of an event stream: %v", w.run.Warnings)
		}
	})
	t.Run("A17 prompts of 50K tokens at 6 requests", func(t *testing.T) {
		t.Parallel()
		w := bed{script: truth.Script{PrefixCache: true, PrefillPerToken: 2 * time.Microsecond},
			args: oneCell("50K", "6")}.measure(t)
		c := w.valid()
		w.exact(c)
		w.sameEvents(c)
		near(t, "total tok/s", c.TotalTokensPerSecond, *c.OutputTokens / *c.WindowSeconds)
		near(t, "reader lag p99", c.Client.ReaderLagP99Micros, 0)
	})
}

// sameLength is a text whose length is the same for each token.
func sameLength(int, int) string { return " word" }

// textTokens counts the text of each request in a window by the server's tokenizer.
func (w *world) textTokens(c *speedmatrix.Cell, text func(req, token int) string, from, to int64) (n int) {
	w.t.Helper()
	for _, list := range w.answers(c.Key()) {
		for _, a := range list {
			var all strings.Builder
			for i, e := range a.served.Events {
				if from < e.AtNS && e.AtNS <= to {
					all.WriteString(text(a.served.ID, i))
				}
			}
			n += truth.CountTokens(all.String())
		}
	}
	return n
}

// warnedRun says whether the run has a warning of a code.
func (w *world) warnedRun(code string) bool {
	for _, x := range w.run.Warnings {
		if x.Code == code {
			return true
		}
	}
	return false
}

// before puts further events before each.
func before(data ...string) func(req, event int, data string) []string {
	return func(_, _ int, own string) []string { return append(data[:len(data):len(data)], own) }
}

// instead replaces one event by others.
func instead(of string, data ...string) func(req, event int, data string) []string {
	return func(_, _ int, own string) []string {
		if own == of {
			return data
		}
		return []string{own}
	}
}

func TestOddFraming(t *testing.T) {
	for name, s := range map[string]truth.Script{
		"a byte order mark":                        {Framing: truth.Framing{BOM: true}},
		"a byte order mark in pieces":              {Framing: truth.Framing{BOM: true, Split: []int{1, 1, 1, 50}}},
		"data in two lines":                        {Framing: truth.Framing{TwoLines: true}},
		"no blank behind the colon":                {Framing: truth.Framing{NoBlank: true}},
		"no blank line at the end":                 {Framing: truth.Framing{NoFinalBlank: true}},
		"no line end at the end":                   {Framing: truth.Framing{NoFinalEnding: true}},
		"no [DONE]":                                {Framing: truth.Framing{NoDone: true}},
		"no [DONE] and no line end":                {Framing: truth.Framing{NoDone: true, NoFinalEnding: true}},
		"comments between all events":              {Framing: truth.Framing{Comments: 3}},
		"one JSON a line":                          {Framing: truth.Framing{NDJSON: true}},
		"one JSON a line, in pieces":               {Framing: truth.Framing{NDJSON: true, Split: pieces}},
		"a body that the connection's end ends":    {Framing: truth.Framing{Unchunked: true}},
		"trailers":                                 {Framing: truth.Framing{Trailers: true}},
		"blanks around [DONE]":                     {Reshape: instead("[DONE]", "  [DONE]\t")},
		"[DONE] twice":                             {Reshape: instead("[DONE]", "[DONE]", "[DONE]")},
		"events that say nothing":                  {Reshape: before("{}", "", `{"type":"ping"}`)},
		"events that are no JSON":                  {Reshape: before("\x00", "null", "keep-alive", `"text"`, "[]")},
		"a NUL byte in the text":                   {Text: func(req, token int) string { return truth.Word(req, token) + "\x00" }},
		"line ends and quotes in the text":         {Text: func(int, int) string { return "\r\n\"\\\u2028\n" }},
		"a text that looks like framing":           {Text: func(int, int) string { return "\n\ndata: [DONE]\n\n" }},
		"the error field is null":                  {Reshape: func(_, _ int, d string) []string { return []string{with(d, `"error":null`)} }},
		"fields that nobody knows":                 {Reshape: func(_, _ int, d string) []string { return []string{with(d, `"x":[{"choices":[1]},null,1e400]`)} }},
		"blanks all over the JSON":                 {Reshape: func(_, _ int, d string) []string { return []string{strings.ReplaceAll(d, `":`, "\" :\t")} }},
		"a connection that ends after each answer": {CloseAfterStream: true, CloseDelay: 2 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			framedLoosely(t, s)
		})
	}
}

// with adds a member to the JSON object of an event.
func with(data, member string) string {
	if !strings.HasPrefix(data, "{") {
		return data
	}
	return fmt.Sprintf("{%s,%s", member, data[1:])
}

// framedLoosely is framed without a say in warnings.
func framedLoosely(t *testing.T, s truth.Script) {
	t.Helper()
	w := bed{script: s, args: oneCell("0", "2", "--max-output", "100")}.measure(t)
	c := w.cell(0, 2)
	if c.Status != speedmatrix.StatusValid {
		t.Fatalf("%s: %s", c.Status, c.Reason)
	}
	w.verified()
	w.exact(c)
	w.sameEvents(c)
	if *c.CompletedRequests < 4 || c.Requests.Failed > 0 {
		t.Errorf("%d requests completed in the window, %d failed", *c.CompletedRequests, c.Requests.Failed)
	}
}

// sliced cuts what a server writes into pieces of these sizes, in turn, a nanosecond apart, below HTTP.
type sliced struct {
	net.Listener
	sizes []int
}

func (l *sliced) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slicedConn{Conn: c, sizes: l.sizes}, nil
}

type slicedConn struct {
	net.Conn
	sizes []int
	next  int
}

func (c *slicedConn) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if n > 0 {
			<-time.After(time.Nanosecond)
		}
		size := min(c.sizes[c.next%len(c.sizes)], len(b)-n)
		c.next++
		if _, err := c.Conn.Write(b[n : n+size]); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// The packets of the network end anywhere: inside headers, chunk sizes, chunk ends and the events.
func TestPacketsEndAnywhere(t *testing.T) {
	for _, sizes := range [][]int{{1, 30, 2, 7}, {64}, {100, 1}} {
		w := bed{args: oneCell("0", "2", "--max-output", "100"),
			wrap: func(l net.Listener) net.Listener { return &sliced{l, sizes} }}.measure(t)
		c := w.valid()
		from, to := windowOf(c)
		near(t, "output tokens", c.OutputTokens, float64(w.account.TokensBetween(from-50, to-50)))
		for _, list := range w.answers(c.Key()) {
			for _, a := range list {
				for i, e := range w.events(c.Key(), a.row.Request) {
					s := a.served.Events[i]
					// The account has the time of the first piece.
					if late := e.TimeNS - s.AtNS; late < 0 || late > 200 || int(e.TextLength) != s.Length || int(*e.Tokens) != s.Tokens {
						t.Fatalf("pieces of %v: event %d is %+v, the server sent %+v", sizes, i, e, s)
					}
				}
			}
		}
	}
}
