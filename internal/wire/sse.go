package wire

import (
	"fmt"
	"net/http"
)

// EventStream is the content type of server-sent events.
const EventStream = "text/event-stream; charset=utf-8"

// AppendEvent appends one server-sent event with the given data, which must
// hold no line end.
func AppendEvent(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, '\n', '\n')
}

// EventWriter writes server-sent events to an HTTP answer, each in one write
// of its own to the connection. It is for one goroutine.
type EventWriter struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	buf  []byte
	open bool
}

// NewEventWriter makes a writer on an answer of which nothing has been sent.
func NewEventWriter(w http.ResponseWriter) *EventWriter {
	return &EventWriter{w: w, ctl: http.NewResponseController(w)}
}

// Open sends the status line and the headers now; without it they go with the first event.
func (e *EventWriter) Open() error {
	e.headers()
	return e.flush()
}

// Event sends one event.
func (e *EventWriter) Event(data []byte) error {
	e.buf = AppendEvent(e.buf[:0], data)
	return e.Raw(e.buf)
}

// Done sends the last event of a stream.
func (e *EventWriter) Done() error {
	e.buf = append(e.buf[:0], "data: "+Done+"\n\n"...)
	return e.Raw(e.buf)
}

// Comment sends a comment line, which receivers ignore.
func (e *EventWriter) Comment(text string) error {
	e.buf = append(e.buf[:0], ": "...)
	e.buf = append(e.buf, text...)
	e.buf = append(e.buf, '\n', '\n')
	return e.Raw(e.buf)
}

// Raw sends bytes as they are, in one write.
func (e *EventWriter) Raw(b []byte) error {
	e.headers()
	if _, err := e.w.Write(b); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return e.flush()
}

func (e *EventWriter) flush() error {
	if err := e.ctl.Flush(); err != nil {
		return fmt.Errorf("flush an event: %w", err)
	}
	return nil
}

// headers sets the headers of a stream that the handler has not set itself.
func (e *EventWriter) headers() {
	if e.open {
		return
	}
	e.open = true
	h := e.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", EventStream)
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	e.w.WriteHeader(http.StatusOK)
}
