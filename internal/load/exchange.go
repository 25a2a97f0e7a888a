package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/unit"
)

// Why we ended a request: the causes of its context.
var (
	errCut     = errors.New("cut")
	errIdle    = errors.New("idle limit")
	errTimeout = errors.New("header limit")
	errGrace   = errors.New("grace over")
)

// How long an answer that is complete is read on, for the usage after a finish
// reason, and for the end of the body, without which the connection cannot be
// used again.
const (
	finishGrace = 5 * time.Second
	doneGrace   = 250 * time.Millisecond
)

// errorBytes is how much is kept of the body of an HTTP error.
const errorBytes = 2 << 10

// live is what observers and the watchdog see of a request under way.
type live struct {
	cancel context.CancelCauseFunc
	start  int64
	conn   atomic.Pointer[stamp.Conn] // that it went out on last
	wrote  atomic.Bool                // all of it, or all but what net/http still buffers
	// Times on the client's clock, 0 is not yet; event is the newest event, text or not.
	departed, written, headers, first, last, event atomic.Int64
	over                                           atomic.Bool
}

// writtenNS is when the last byte was in the socket, 0 if it is not.
func (l *live) writtenNS() int64 {
	if at := l.written.Load(); at != 0 || !l.wrote.Load() {
		return at
	}
	if at := l.conn.Load().LastWrite(); at >= l.start {
		return at
	}
	return 0
}

// exchange is one request and its answer, in the hands of its stream's goroutine.
type exchange struct {
	stream *stream
	ctx    context.Context
	live   *live
	log    *Log
	record *record
	// release frees the context of a request that has ended.
	release context.CancelCauseFunc

	heard atomic.Bool // a byte of an answer came on the connection
	// sends counts the connections tried, spare says that the newest was opened before this request.
	sends int
	spare bool

	counted     int  // largest cumulative count so far
	plain       int  // events with text and without a count
	withCount   int  // events with text and a count
	finished    bool // a finish reason or the end mark came
	stop        bool // nothing more is to be read
	whole       bool // the answer was read to its proper end
	grace       *time.Timer
	contentType string // of the answer
}

// exchange sends one request and returns when it has ended.
func (s *stream) exchange(ctx context.Context, r Request) *Log {
	x := s.begin(ctx, r)
	defer x.release(nil)
	resp, err := x.send()
	if err != nil {
		x.unanswered(err)
	} else {
		x.receive(resp)
	}
	if !x.whole {
		s.drop()
	}
	x.settle()
	s.ended(x)
	return x.log
}

// begin makes the exchange and shows it to observers.
func (s *stream) begin(ctx context.Context, r Request) *exchange {
	now := s.client.options.Clock.Now()
	if r.PlannedNS == 0 {
		r.PlannedNS = now
	}
	ctx, cancel := context.WithCancelCause(ctx)
	x := &exchange{
		stream: s,
		ctx:    ctx,
		live:   &live{cancel: cancel, start: now},
		record: s.newRecord(r.ID), release: cancel,
	}
	if s.ends != nil {
		x.live.cancel = func(cause error) { cancel(cause); s.ends(x) }
	}
	x.log = &Log{
		Request: r, Stream: s.index, StartNS: now, ConnectNS: -1, record: x.record,
		Usage: dialect.Usage{Prompt: -1, Cached: -1, Completion: -1, Reasoning: -1},
	}
	s.line.connect.Store(-1)
	s.requests.Add(1)
	s.current.Store(x.live)
	return x
}

// send sends the request and gives the answer's head, once more if the
// connection opened earlier turns out to be dead.
func (x *exchange) send() (*http.Response, error) {
	resp, err := x.attempt()
	if err != nil && x.unheard(err) {
		x.stream.drop()
		return x.attempt()
	}
	return resp, err
}

// unheard says whether the request died on a connection opened earlier before
// any byte of an answer, so that sending it again is safe and likely to help.
func (x *exchange) unheard(err error) bool {
	var dial *dialError
	return x.ctx.Err() == nil && x.sends > 0 && x.spare && !x.heard.Load() && !errors.As(err, &dial)
}

// attempt sends the request once, on the open connection or on a new one.
func (x *exchange) attempt() (*http.Response, error) {
	s := x.stream
	spare := s.usable()
	if !spare {
		if err := s.open(x.ctx); err != nil {
			return nil, err
		}
	}
	x.goesOn(s.line.newest.Load(), spare)
	t, body := &s.client.target, x.log.Body
	req := &http.Request{
		Method: http.MethodPost, URL: t.endpoint, Host: t.host, Header: t.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
	trace := &httptrace.ClientTrace{
		WroteHeaders:         x.departs,
		WroteRequest:         func(info httptrace.WroteRequestInfo) { x.live.wrote.Store(info.Err == nil) },
		GotFirstResponseByte: func() { x.heard.Store(true) },
	}
	return s.conn.RoundTrip(req.WithContext(httptrace.WithClientTrace(x.ctx, trace)))
}

// goesOn notes the connection that the request goes out on; spare says that it
// was opened before the request.
func (x *exchange) goesOn(conn *stamp.Conn, spare bool) {
	x.sends++
	x.spare = spare
	x.heard.Store(false)
	x.live.wrote.Store(false)
	x.live.conn.Store(conn)
	x.stream.took(conn)
}

// departs notes when the request first left for the socket: its headers lie in
// the buffer that is written next. Sending it again does not count.
func (x *exchange) departs() {
	x.live.departed.CompareAndSwap(0, x.stream.client.options.Clock.Now())
}

// receive reads the answer.
func (x *exchange) receive(resp *http.Response) {
	defer resp.Body.Close()
	if !x.answered(resp) {
		body, err := io.ReadAll(io.LimitReader(resp.Body, errorBytes+1))
		x.whole = err == nil && len(body) <= errorBytes
		x.refused(resp, body[:min(len(body), errorBytes)])
		return
	}
	x.read(resp.Body)
}

// answered notes the headers of an answer and says whether it is a good one.
func (x *exchange) answered(resp *http.Response) bool {
	conn := x.live.conn.Load()
	x.log.HTTPStatus = resp.StatusCode
	x.log.HeadersNS, _ = conn.LastRead()
	x.log.WrittenNS = written(conn, x.log.HeadersNS)
	x.log.SendNS = x.log.WrittenNS - x.log.StartNS
	x.live.written.Store(x.log.WrittenNS)
	x.live.headers.Store(x.log.HeadersNS)
	x.contentType = resp.Header.Get("Content-Type")
	x.stream.reset()
	x.stream.readNS = x.log.WrittenNS // no event is older
	return resp.StatusCode/100 == 2
}

// isEventStream says whether a content type is that of server-sent events.
func isEventStream(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && media == "text/event-stream"
}

// written is when the last byte of a request whose answer has come was in the
// socket. A fast answer overtakes the goroutine that writes: where the end of
// the last write is not yet noted, or noted late, its beginning stands for it.
func written(conn *stamp.Conn, headers int64) int64 {
	began, ended := conn.WriteBegan(), conn.LastWrite()
	if ended < began || ended > headers {
		return min(began, headers)
	}
	return ended
}

// refused keeps the server's words of an HTTP error, of which body is the beginning.
func (x *exchange) refused(resp *http.Response, body []byte) {
	words := dialect.ErrorText(body)
	if to := resp.Header.Get("Location"); words == "" && to != "" {
		words = "redirects to " + to
	}
	if words == "" {
		words = fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	x.log.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), x.stream.client.options.Clock)
	x.fail(FailureHTTP, words)
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(value string, clock *stamp.Clock) time.Duration {
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 1e6) * float64(time.Second))
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(date.Sub(clock.Time(clock.Now())), 0)
	}
	return 0
}

// unanswered notes why there was no answer.
func (x *exchange) unanswered(err error) {
	if x.log.WrittenNS = x.live.writtenNS(); x.log.WrittenNS > 0 {
		x.log.SendNS = x.log.WrittenNS - x.log.StartNS
	}
	if x.ctx.Err() == nil {
		failure, words := whyUnanswered(err)
		x.fail(failure, words)
	}
}

// fail makes the request a failed one; the first reason counts.
func (x *exchange) fail(failure Failure, words string) {
	x.stop = true
	if x.log.Failure == FailureNone {
		x.log.Failure, x.log.Error = failure, x.stream.client.options.Hide(words)
	}
}

// endSoon lets the answer end within d by itself, or ends it.
func (x *exchange) endSoon(d time.Duration) {
	if x.grace == nil {
		x.grace = time.AfterFunc(d, func() { x.live.cancel(errGrace) })
		return
	}
	x.grace.Reset(d)
}

// settle decides how the request ended and completes its log.
func (x *exchange) settle() {
	if x.grace != nil {
		x.grace.Stop()
	}
	l := x.log
	now := x.stream.client.options.Clock.Now()
	if l.EndedNS == 0 {
		l.EndedNS = now
	}
	l.EndedNS = max(l.EndedNS, l.LastNS)
	l.ConnectNS = x.stream.line.connect.Load()
	l.DepartedNS = x.live.departed.Load()
	l.Replays = max(x.sends-1, 0)
	l.Body = nil // prompts are large, logs are many
	x.completeUsage()
	x.classify()
}

// completeUsage takes from llama.cpp's timings what the usage left out.
func (x *exchange) completeUsage() {
	l := x.log
	if !l.HasTimings {
		return
	}
	take := func(to *int, value int) {
		if *to < 0 && value >= 0 {
			*to = value
		}
	}
	take(&l.Usage.Completion, l.Timings.PredictedTokens)
	take(&l.Usage.Cached, l.Timings.CachedTokens)
	if l.Timings.PromptTokens >= 0 {
		take(&l.Usage.Prompt, l.Timings.PromptTokens+max(l.Timings.CachedTokens, 0))
	}
}

// classify gives the log its class.
func (x *exchange) classify() {
	l := x.log
	limits := x.stream.client.options.Limits
	token := l.FirstNS != 0 || x.counted > 0 || l.Usage.Completion > 0
	if l.Failure == FailureNone && x.finished && token {
		l.Class = speedmatrix.RequestCompleted
		return
	}
	if l.Failure == FailureNone && !x.finished && x.ctx.Err() != nil {
		switch context.Cause(x.ctx) {
		case errIdle:
			x.fail(FailureIdle, "no event for "+unit.Duration(limits.Idle))
		case errTimeout:
			x.fail(FailureTimeout, x.overdue(limits.Header))
		default:
			l.Class = speedmatrix.RequestCut
			return
		}
	}
	if l.Failure == FailureNone {
		x.fail(FailureEmpty, x.emptyWords())
	}
	l.Class = speedmatrix.RequestFailed
}

// overdue words the header limit, by what it was that did not come.
func (x *exchange) overdue(limit time.Duration) string {
	if x.log.HeadersNS != 0 {
		return fmt.Sprintf("no first event within %s of the answer's headers", unit.Duration(limit))
	}
	return "no answer within " + unit.Duration(limit)
}

// emptyWords says what came in the place of a token.
func (x *exchange) emptyWords() string {
	if x.log.FinishReason != "" {
		return fmt.Sprintf("the answer ended with finish reason %q and without a token", x.log.FinishReason)
	}
	if words := dialect.ErrorText(x.stream.head); words != "" && x.live.event.Load() == 0 {
		return "the answer is no event stream: " + words
	}
	return "the answer ended without a token"
}
