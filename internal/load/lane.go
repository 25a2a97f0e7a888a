package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"speedmatrix/internal/stamp"
)

// errAgain is what a connection of a poller gives instead of waiting.
const errAgain = syscall.EAGAIN

// mostHead bounds the head of an answer.
const mostHead = 1 << 20

// lane is a stream in the hands of a loop.
type lane struct {
	loop     *loop
	stream   *stream
	conn     *stamp.Conn // nil while none is open
	openedNS int64
	x        *exchange // under way, nil without one
	body     []byte    // of the request under way
	sent     int       // bytes of its head and body in the socket
	size     int       // bytes of both, 0 before it is sent
	first    Request
	launched bool
	ended    bool

	answer *http.Response // of the request under way, nil before its head is whole
	good   bool           // its body is to be read
	head   []byte         // what has arrived of the head, or of the body of a refusal
	cutter bodyCutter
}

// start begins a request: on the open connection, or on a new one.
func (n *lane) start(r Request) {
	if n.loop.streams.ctx.Err() != nil {
		n.end()
		return
	}
	n.body = r.Body
	n.x = n.stream.begin(n.loop.streams.ctx, r)
	if n.conn == nil {
		n.dial(n.x)
		return
	}
	n.send(true)
}

// dial opens a connection for a request, or for none, and goes on when it is open.
func (n *lane) dial(x *exchange) {
	ctx := n.loop.streams.ctx
	if x != nil {
		ctx = x.ctx
	}
	n.loop.helpers.Go(func() {
		n.loop.dials <- struct{}{}
		defer func() { <-n.loop.dials }()
		conn, err := n.stream.line.dialPlain(ctx, "tcp", n.loop.client.target.address)
		n.loop.post(func() { n.dialed(x, conn, err) })
	})
}

// send sends the request under way on the open connection.
func (n *lane) send(spare bool) {
	n.x.goesOn(n.conn, spare)
	n.sent, n.answer, n.head, n.cutter = 0, nil, n.head[:0], bodyCutter{line: n.cutter.line[:0]}
	n.x.departs()
	n.flush()
}

// flush puts what is left of the request into the socket, as far as there is room.
func (n *lane) flush() {
	head := n.loop.client.target.appendHead(n.loop.write[:0], len(n.body))
	n.size = len(head) + len(n.body)
	for n.sent < n.size {
		var part []byte
		if n.sent < len(head) {
			room := loopWrite - len(head)
			part = append(head, n.body[:min(len(n.body), max(room, 0))]...)[n.sent:]
		} else {
			part = n.body[n.sent-len(head):]
		}
		written, err := n.conn.Write(part)
		n.sent += written
		switch {
		case errors.Is(err, errAgain):
			return
		case err != nil:
			n.unwritten(err)
			return
		}
	}
	n.x.live.wrote.Store(true)
}

// unwritten handles a request that the connection does not take: an answer may
// lie in it all the same.
func (n *lane) unwritten(err error) {
	x := n.x
	n.receive(true)
	if n.x == x && n.answer == nil && n.conn != nil {
		n.lost(err)
	}
}

// sending says whether part of the request waits for room.
func (n *lane) sending() bool { return n.x != nil && n.conn != nil && n.sent < n.size }

// ready goes on with what the poller tells.
func (n *lane) ready(e event) {
	if e.out && n.sending() {
		n.flush()
	}
	if e.in || e.gone {
		n.receive(e.gone)
	}
}

// receive reads what has arrived, to the end where the other side has closed.
func (n *lane) receive(gone bool) {
	for n.conn != nil {
		conn := n.conn
		size, err := conn.Read(n.loop.read)
		if size > 0 {
			at, _ := conn.LastRead()
			n.got(n.loop.read[:size], at)
		}
		switch {
		case n.conn != conn || errors.Is(err, errAgain):
			return
		case err != nil:
			n.lost(err)
			return
		case size < len(n.loop.read) && !gone:
			return // the socket is empty
		}
	}
}

// got takes the bytes of one read.
func (n *lane) got(b []byte, at int64) {
	x := n.x
	if x == nil {
		n.drop() // an answer to no request
		return
	}
	x.heard.Store(true)
	reads := int64(1)
	for len(b) > 0 && n.x == x {
		var data []byte
		if n.answer == nil {
			b = n.readHead(b)
			continue
		}
		var err error
		if data, b, err = n.cutter.next(b); err != nil {
			x.end(err)
			x.publish()
			n.finish(false)
			return
		}
		if len(data) > 0 {
			n.data(data, at, reads)
			reads = 0
		}
		if n.x == x && (x.stop || n.cutter.state == bodyDone) {
			n.bodyEnded(len(b) == 0)
			return
		}
	}
	if n.x == x {
		x.publish()
	}
}

// data takes a piece of the body.
func (n *lane) data(data []byte, at, reads int64) {
	if !n.good {
		n.head = append(n.head, data[:min(len(data), errorBytes-len(n.head))]...)
		if len(n.head) == errorBytes {
			n.x.stop = true
		}
		return
	}
	n.stream.reading(reads, false, at)
	n.x.take(data, at)
}

// bodyEnded handles the end of the body, or that no more of it is wanted.
func (n *lane) bodyEnded(clean bool) {
	x := n.x
	keep := clean && n.cutter.state == bodyDone && !n.answer.Close && n.sent == n.size
	switch {
	case !n.good:
		x.refused(n.answer, n.head)
	case n.cutter.state == bodyDone:
		x.end(io.EOF)
	}
	x.publish()
	n.finish(keep)
}

// readHead takes bytes of the answer's head and gives those behind it.
func (n *lane) readHead(b []byte) []byte {
	had := len(n.head)
	n.head = append(n.head, b...)
	size := headSize(n.head, had)
	if size == 0 {
		if len(n.head) > mostHead {
			n.unanswered(errors.New("the head of the answer is longer than 1 MiB"))
		}
		return nil
	}
	rest := b[size-had:]
	answer, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(n.head[:size]), 16), &http.Request{Method: http.MethodPost})
	if err != nil {
		n.unanswered(fmt.Errorf("the answer is no HTTP: %w", err))
		return nil
	}
	n.head = n.head[:0]
	if answer.StatusCode/100 == 1 && answer.StatusCode != http.StatusSwitchingProtocols {
		return rest
	}
	n.answer, n.good = answer, n.x.answered(answer)
	n.cutter.state, n.cutter.left = bodyLength, answer.ContentLength
	switch {
	case len(answer.TransferEncoding) > 0:
		n.cutter.state = chunkSize
	case answer.ContentLength < 0:
		n.cutter.state = bodyToClose
	case answer.ContentLength == 0:
		n.cutter.state = bodyDone
		n.bodyEnded(len(rest) == 0)
	}
	return rest
}

// headSize is the length of a head up to the blank line that ends it, 0 if that
// has not come. The bytes before from were looked at before.
func headSize(b []byte, from int) int {
	for i := max(from-3, 0); ; {
		end := bytes.IndexByte(b[i:], '\n')
		if end < 0 {
			return 0
		}
		i += end + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}

// lost handles the end of the connection.
func (n *lane) lost(err error) {
	x := n.x
	switch {
	case x == nil:
		n.drop()
		if !n.launched {
			n.dial(nil) // so that the launch finds it open
		}
	case n.answer == nil && x.unheard(err):
		n.drop()
		n.dial(x)
	case n.answer == nil:
		n.unanswered(err)
	case !n.good:
		x.refused(n.answer, n.head)
		n.finish(false)
	default:
		if errors.Is(err, io.EOF) && n.cutter.state != bodyToClose {
			err = io.ErrUnexpectedEOF
		}
		x.end(err)
		x.publish()
		n.finish(false)
	}
}

// unanswered ends a request whose answer did not begin.
func (n *lane) unanswered(err error) {
	n.x.unanswered(err)
	n.finish(false)
}

// drop closes the connection.
func (n *lane) drop() {
	if n.conn != nil {
		_ = n.conn.Close() // it is of no more use, however it ends
		n.conn = nil
	}
}

// cut ends a request whose context has ended.
func (n *lane) cut(x *exchange) {
	if n.x != x {
		return
	}
	if n.answer == nil {
		x.unanswered(context.Cause(x.ctx))
	} else {
		x.end(context.Cause(x.ctx))
		x.publish()
	}
	n.finish(false)
}
