package fidelity_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/stamp"
)

// stream is the bytes of an answer under construction.
type stream struct {
	t    *rapid.T
	body bytes.Buffer
	// said are the events in order; ends is where in the body the last data line of each is complete.
	said []load.Event
	ends []int
	text strings.Builder
	cr   bool // the last line end was a CR alone: a line that begins with LF would be taken for its second half
}

func (s *stream) chance(inTen int, what string) bool {
	return rapid.IntRange(1, 10).Draw(s.t, what) <= inTen
}

// line appends a line and gives where it is complete.
func (s *stream) line(text string) int {
	ends := []string{"\n", "\r\n", "\r"}
	if s.cr && text == "" {
		ends = ends[1:]
	}
	end := rapid.SampledFrom(ends).Draw(s.t, "line end")
	s.cr = end == "\r"
	s.body.WriteString(text)
	at := s.body.Len() + 1
	s.body.WriteString(end)
	return at
}

// noise appends what says nothing.
func (s *stream) noise() {
	for s.chance(3, "noise") {
		kind := rapid.SampledFrom([]string{": ping", ":", "event: message", "id: 1\x00", "retry: 5", "unknown: x", "data-not: {}"}).Draw(s.t, "kind")
		s.line(kind)
		if s.chance(5, "blank") && !strings.HasPrefix(kind, "data") {
			s.line("")
		}
	}
}

// event appends one event with a text and a count.
func (s *stream) event(tokens int) {
	s.noise()
	text := rapid.SampledFrom([]string{" a", "  ", "😀", "漢字 ", "\r\n\"\\", "data: [DONE]\n\n", "é\u2028x"}).Draw(s.t, "text")
	quoted, _ := json.Marshal(text)
	data := fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s}}],"usage":{"completion_tokens":%d}}`, quoted, tokens)
	s.said = append(s.said, load.Event{Length: len(text), Tokens: tokens, Channel: speedmatrix.ChannelContent})
	s.text.WriteString(text)
	s.ends = append(s.ends, s.data(data))
}

// data appends the data lines of one event and its blank line, and gives where the last data line is complete.
func (s *stream) data(data string) int {
	colon := rapid.SampledFrom([]string{"data:", "data: "}).Draw(s.t, "colon")
	if strings.HasPrefix(data, "{") && s.chance(2, "two lines") {
		s.line(colon + data[:1])
		data = data[1:]
	}
	end := s.line(colon + data)
	if s.chance(2, "a field behind the data") {
		s.line("id: 9")
	}
	s.line("")
	return end
}

// drawStream makes an answer; its last lines may lack their ends.
func drawStream(t *rapid.T) *stream {
	s := &stream{t: t}
	if s.chance(2, "mark") {
		s.body.WriteString("\ufeff")
	}
	n := rapid.IntRange(1, 8).Draw(t, "events")
	for i := range n {
		s.event(i + 1)
	}
	s.noise()
	s.data(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	if s.chance(7, "done") {
		s.data("[DONE]")
	}
	if s.chance(3, "unfinished") {
		s.body.Truncate(len(bytes.TrimRight(s.body.Bytes(), "\r\n")))
	}
	return s
}

// delivery is the bytes of an answer, where each byte of the body is in them, and where the network cuts them, the
// end included.
type delivery struct {
	raw         []byte
	where, cuts []int
	// torn says that an HTTP chunk may come in several packets: net/http gives its bytes at its end.
	torn bool
}

// wire puts a body into an HTTP answer, and cuts that.
func (s *stream) wire() *delivery {
	raw, where, chunks := s.raw()
	d := &delivery{raw: raw, where: where, torn: true}
	places := rapid.IntRange(1, len(raw)-1)
	switch {
	case len(chunks) == 0:
		d.torn = false
	case s.chance(5, "whole chunks"):
		d.torn, places = false, rapid.SampledFrom(chunks)
	}
	d.cuts = rapid.SliceOf(places).Draw(s.t, "cuts")
	if everywhere := len(chunks) == 0 || d.torn; everywhere && s.chance(1, "every byte") {
		for i := 1; i < len(raw); i++ {
			d.cuts = append(d.cuts, i)
		}
	}
	d.cuts = slices.Compact(slices.Sorted(slices.Values(append(d.cuts, len(raw)))))
	return d
}

// raw puts a body into an HTTP answer and gives where each byte of the body is, and where its chunks begin.
func (s *stream) raw() (raw []byte, where, chunks []int) {
	body := s.body.Bytes()
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	switch rapid.SampledFrom([]string{"length", "connection", "chunks"}).Draw(s.t, "body") {
	case "length":
		raw = fmt.Appendf(raw, "%sContent-Length: %d\r\n\r\n", head, len(body))
	case "connection":
		raw = fmt.Appendf(raw, "%sConnection: close\r\n\r\n", head)
	default:
		return s.chunked(head, body)
	}
	for i := range body {
		where = append(where, len(raw)+i)
	}
	return append(raw, body...), where, nil
}

// chunked cuts the body into HTTP chunks that end anywhere, some with an extension, with or without a trailer.
func (s *stream) chunked(head string, body []byte) (raw []byte, where, chunks []int) {
	raw = fmt.Appendf(raw, "%sTransfer-Encoding: chunked\r\n\r\n", head)
	for len(body) > 0 {
		chunks = append(chunks, len(raw))
		n := rapid.IntRange(1, min(len(body), 300)).Draw(s.t, "chunk")
		raw = fmt.Appendf(raw, "%x%s\r\n", n, rapid.SampledFrom([]string{"", ";x=y"}).Draw(s.t, "extension"))
		for i := range n {
			where = append(where, len(raw)+i)
		}
		raw = append(append(raw, body[:n]...), "\r\n"...)
		body = body[n:]
	}
	return append(raw, rapid.SampledFrom([]string{"0\r\n\r\n", "0\r\nX-Trailer: 1\r\n\r\n"}).Draw(s.t, "end")...), where, chunks
}

// The bytes of one answer may be cut anywhere, by HTTP and by the network, its lines may end in any way, and other
// lines may stand between its events: the events are the same, each with the stamp of the packet that completed it.
func TestAnyFramingGivesTheSameEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStream(rt)
		d := s.wire()
		var wrong error
		synctest.Test(t, func(t *testing.T) { wrong = s.sameHowever(t, d) })
		if wrong != nil {
			rt.Fatalf("%q cut at %v: %v", d.raw, d.cuts, wrong)
		}
	})
}

const between = ms // packets

// serve answers one request, a packet each millisecond.
func (d *delivery) serve(l net.Listener, began *time.Time) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	*began = time.Now()
	for i, from := 0, 0; i < len(d.cuts); i++ {
		time.Sleep(between)
		_, _ = c.Write(d.raw[from:d.cuts[i]])
		from = d.cuts[i]
	}
	time.Sleep(between)
}

// sameHowever says what is wrong with what a client makes of a delivery.
func (s *stream) sameHowever(t *testing.T, d *delivery) error {
	network, clock := memnet.New(), stamp.NewClock()
	l, err := network.Listen(local)
	if err != nil {
		return err
	}
	var began time.Time
	served := make(chan struct{})
	go func() {
		defer close(served)
		d.serve(l, &began)
	}()
	client, err := load.New(load.Options{BaseURL: &url.URL{Scheme: "http", Host: local}, Dialect: dialect.Chat(), Dial: network.DialContext, Clock: clock})
	if err != nil {
		return err
	}
	log := client.Do(t.Context(), load.Request{Body: []byte(`{}`)})
	_ = l.Close()
	<-served
	if log.Class != speedmatrix.RequestCompleted || log.FinishReason != "stop" {
		return fmt.Errorf("%s %s %q, finish reason %q", log.Class, log.Failure, log.Error, log.FinishReason)
	}
	if got := string(log.Text()); got != s.text.String() {
		return fmt.Errorf("the text is %q, want %q", got, s.text.String())
	}
	got := slices.Collect(log.Events())
	for i := range s.said {
		packet, exact := slices.BinarySearch(d.cuts, d.where[min(s.ends[i], len(d.where))-1])
		if exact {
			packet++ // a cut at a byte is before it
		}
		s.said[i].At = began.UnixNano() + int64(packet+1)*int64(between)
		if d.torn && i < len(got) && got[i].At > s.said[i].At {
			s.said[i].At = got[i].At
		}
	}
	if !slices.Equal(got, s.said) {
		return fmt.Errorf("the events are\n%+v, want\n%+v", got, s.said)
	}
	return nil
}
