package load

import (
	"bytes"
	"cmp"
	"errors"
	"io"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/sse"
)

const (
	// readBytes is the buffer of one read of a body.
	readBytes = 4 << 10
	// oddBytes bounds a body that is neither an event stream nor JSON, wholeBytes a JSON document.
	oddBytes   = 64 << 10
	wholeBytes = 32 << 20
	// surprises kept of a request, and bytes kept of each.
	keptSurprises = 3
	surpriseBytes = 1 << 10
	// blanks may come before a body: white space, and the bytes of a byte order mark.
	blanks = " \t\r\n\ufeff"
)

// read reads a body to its end.
func (x *exchange) read(body io.Reader) {
	s, conn := x.stream, x.live.conn.Load()
	reads := conn.Reads()
	for !x.stop {
		n, err := body.Read(s.buf)
		if n > 0 {
			before := reads
			reads = conn.Reads()
			at, _ := conn.LastRead()
			s.reading(reads-before, int64(n) > conn.LastSize(), at)
			x.take(s.buf[:n], at)
			x.publish()
		}
		if err != nil {
			x.whole = errors.Is(err, io.EOF)
			x.end(err)
			x.publish()
			return
		}
	}
}

// take handles the bytes of one read.
func (x *exchange) take(chunk []byte, at int64) {
	s := x.stream
	if room := errorBytes - len(s.head); room > 0 {
		s.head = append(s.head, chunk[:min(room, len(chunk))]...)
	}
	s.frames.Push(chunk, at)
	x.drain()
	if !s.framed {
		x.frame(at)
	}
}

// drain decodes the events that are complete.
func (x *exchange) drain() {
	s := x.stream
	for !x.stop && s.frames.Next(&s.event) {
		x.decode(s.event.Data, s.event.At)
	}
}

// frame makes sure of the framing from the first byte of a body that is not
// blank: servers and proxies send another one than the dialect's, and a content
// type that is wrong. at is the stamp of the read that brought it.
func (x *exchange) frame(at int64) {
	s := x.stream
	raw := s.frames.Raw()
	if s.framed = raw == nil; s.framed {
		return
	}
	begin := bytes.TrimLeft(raw, blanks)
	if len(begin) > 0 && sse.FramingOf(begin[0]) != s.framing {
		s.use(sse.FramingOf(begin[0]))
		s.frames.Push(raw, at)
		x.drain()
		s.framed = s.frames.Raw() == nil
	}
	switch {
	case s.framed || x.stop:
	case s.framing == sse.EventStream && len(raw) > oddBytes:
		x.fail(FailureEmpty, x.emptyWords())
	case len(raw) > wholeBytes:
		x.fail(FailureLost, "the answer is one JSON document of more than 32 MiB")
	}
}

// end handles the end of the body: what is left of it, then why it ended.
func (x *exchange) end(err error) {
	s := x.stream
	if s.framing == sse.EventStream && !isEventStream(x.contentType) {
		x.log.Misnamed = cmp.Or(x.contentType, "none")
	}
	for !x.stop && s.frames.End(&s.event) {
		x.decode(s.event.Data, s.event.At)
	}
	if s.framing == sse.Lines && !x.stop && errors.Is(err, io.EOF) {
		x.document()
	}
	switch {
	case x.stop || x.finished || x.ctx.Err() != nil:
	case !errors.Is(err, io.EOF):
		x.fail(FailureLost, lostWords("the stream broke off", err))
	case x.log.FirstNS != 0 || x.counted > 0:
		x.fail(FailureLost, "the stream ended without a finish reason or [DONE]")
	}
}

// document decodes an answer that was not streamed.
func (x *exchange) document() {
	s := x.stream
	whole := s.frames.Raw()
	if len(whole) == 0 {
		return
	}
	at, _ := x.live.conn.Load().LastRead()
	s.decoder.Document(whole, s.decoded)
	x.handle(whole, at)
}

// decode decodes one event and handles it.
func (x *exchange) decode(data []byte, at int64) {
	x.stream.decoder.Decode(data, x.stream.decoded)
	x.handle(data, at)
}

// handle takes over what the decoded event says; raw is its bytes.
func (x *exchange) handle(raw []byte, at int64) {
	ev, l := x.stream.decoded, x.log
	x.live.event.Store(at)
	if ev.Usage != nil {
		newer(&l.Usage, ev.Usage)
	}
	if ev.Timings != nil {
		l.HasTimings, l.Timings = true, *ev.Timings
	}
	x.recordEvent(ev, at)
	if ev.Surprise {
		x.surprised(raw)
	}
	if len(ev.FinishReason) > 0 && !x.finished {
		l.FinishReason, l.FinishNS = string(ev.FinishReason), at
		x.finished = true
		x.endSoon(finishGrace)
	}
	if ev.Done {
		x.finished = true
		l.EndedNS = at
		x.endSoon(doneGrace)
	}
	if ev.Error != "" {
		x.fail(FailureEvent, ev.Error)
	}
}

// newer takes over what a newer usage says.
func newer(u, from *dialect.Usage) {
	take := func(to *int, value int) {
		if value >= 0 {
			*to = value
		}
	}
	take(&u.Prompt, from.Prompt)
	take(&u.Cached, from.Cached)
	take(&u.Completion, from.Completion)
	take(&u.Reasoning, from.Reasoning)
}

// surprised keeps the first few events that could not be understood.
func (x *exchange) surprised(raw []byte) {
	x.log.Surprises++
	if len(x.log.surprises) < keptSurprises {
		x.log.surprises = append(x.log.surprises, string(raw[:min(len(raw), surpriseBytes)]))
	}
}

// recordEvent records an event that carries text or raises the count.
func (x *exchange) recordEvent(ev *dialect.Event, at int64) {
	text := len(ev.Content)+len(ev.Reasoning)+len(ev.Tool) > 0
	tokens := x.liveCount(ev, text)
	if !text && tokens <= x.counted {
		return
	}
	if tokens >= 0 {
		x.stream.count(max(tokens-x.counted, 0))
		x.counted = max(x.counted, tokens)
	}
	x.stream.counting(text)
	entry := Event{At: at, Tokens: tokens}
	if !text {
		if l := x.log; l.FinishNS != 0 {
			// The server was done then: what it counts afterwards had been generated.
			entry.At = max(l.FinishNS, l.LastNS)
		}
		x.record.append(entry)
		return
	}
	if x.log.FinishNS != 0 && x.log.EndedNS == 0 {
		x.endSoon(finishGrace) // one of several choices goes on
	}
	x.sawText(ev, at)
	x.piece(&entry, speedmatrix.ChannelReasoning, ev.Reasoning)
	x.piece(&entry, speedmatrix.ChannelContent, ev.Content)
	x.piece(&entry, speedmatrix.ChannelTool, ev.Tool)
}

// liveCount is the count that the event carries, −1 for none. A count that comes
// only with the end, after text without one, says nothing of when its tokens
// arrived: it is the usage and no count.
func (x *exchange) liveCount(ev *dialect.Event, text bool) int {
	tokens := ev.Tokens
	last := !text || len(ev.FinishReason) > 0
	if tokens >= 0 && last && x.plain > 0 && x.withCount == 0 {
		return -1
	}
	switch {
	case !text:
	case tokens >= 0:
		x.withCount++
	default:
		x.plain++
	}
	return tokens
}

// sawText notes the times of an event with text.
func (x *exchange) sawText(ev *dialect.Event, at int64) {
	l := x.log
	if l.FirstNS == 0 {
		l.FirstNS = at
		x.live.first.Store(at)
	}
	if l.FirstVisibleNS == 0 && len(ev.Content) > 0 {
		l.FirstVisibleNS = at
	}
	l.LastNS = at
}

// piece records the text of one channel; the first of an event carries its
// count, the others are marked as continued.
func (x *exchange) piece(e *Event, channel speedmatrix.Channel, text []byte) {
	if len(text) == 0 {
		return
	}
	e.Channel, e.Length = channel, len(text)
	x.record.append(*e)
	x.stream.keep(&x.record.text, text)
	e.Tokens, e.Continued = -1, true
}

// publish shows observers what was recorded.
func (x *exchange) publish() {
	x.record.publish()
	x.live.last.Store(x.log.LastNS)
	x.stream.publish()
}
