package truth

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/stamp"
)

// AccountPath is the route on which a BeatServer gives its account, as gob.
const AccountPath = "/account"

// Beat says what a BeatServer does: it answers every streamed chat or completion
// with max_tokens tokens, one each Gap, on a beat that all streams share.
type Beat struct {
	// Address is where it listens; "" is a free port of 127.0.0.1.
	Address string
	// Gap is the time between two tokens of a stream.
	Gap time.Duration
	// Spread sends the tokens of the streams evenly through the gap. Without it
	// they go all together, as those of an engine's step do.
	Spread bool
	// Wait is what passes between a request's arrival and the beat of its first token, at least.
	Wait time.Duration
	// Clock stamps the account; nil is a new one.
	Clock *stamp.Clock
}

// BeatRequest is the account of one request. Times are on the server's clock.
type BeatRequest struct {
	// Seed is the request's field of that name, which tells requests apart.
	Seed int
	// ArrivedNS is the stamp of the read that brought the request's last byte;
	// Kernel says whether it and the clock of the sends are the kernel's best.
	ArrivedNS int64
	Kernel    bool
	// Sent has one entry for each token.
	Sent []Sent
}

// Sent is the system call that sent a token: the token left between its two ends.
type Sent struct{ BeganNS, EndedNS int64 }

// BeatServer is a ground truth server that does nothing but keep time, so
// cheaply that a client on the same machine can be measured: one goroutine
// sends the tokens of all streams, each by one write of bytes made beforehand,
// and reads the clock right before and right after it.
type BeatServer struct {
	beat     Beat
	listener net.Listener
	began    int64
	closing  chan struct{}
	wake     chan struct{} // capacity 1
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]struct{}
	requests []*BeatRequest
	queue    beatQueue
	events   map[beatKind]*beatEvents
	joined   int
}

// StartBeat serves a beat. The error is a *speedmatrix.Error.
func StartBeat(b Beat) (*BeatServer, error) {
	l, err := listenAt(cmp.Or(b.Address, freePort))
	if err != nil {
		return nil, err
	}
	if b.Clock == nil {
		b.Clock = stamp.NewClock()
	}
	b.Gap = max(b.Gap, time.Microsecond)
	s := &BeatServer{beat: b, listener: l, began: b.Clock.Now(), closing: make(chan struct{}), wake: make(chan struct{}, 1),
		conns: map[net.Conn]struct{}{}, events: map[beatKind]*beatEvents{}}
	s.running.Go(s.accept)
	s.running.Go(s.pace)
	return s, nil
}

// freePort lets the system choose a port.
const freePort = "127.0.0.1:0"

func listenAt(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &speedmatrix.Error{
			Kind: speedmatrix.KindInternal, What: "the ground truth server cannot listen on " + address,
			Next: "Look whether this machine lets programs listen on its loopback interface.", Err: err,
		}
	}
	return l, nil
}

// URL is the base URL of the server.
func (s *BeatServer) URL() string { return "http://" + s.listener.Addr().String() }

// Account copies what happened until now, in order of arrival.
func (s *BeatServer) Account() []BeatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]BeatRequest, len(s.requests))
	for i, r := range s.requests {
		all[i] = *r
		all[i].Sent = append([]Sent(nil), r.Sent...)
	}
	return all
}

// Close cuts everything and waits until every goroutine of the server has ended.
func (s *BeatServer) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	s.running.Wait()
}

// accept serves connections until the listener closes.
func (s *BeatServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.running.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

// serve answers the requests of a connection, one after the other.
func (s *BeatServer) serve(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	conn := stamp.Wrap(c, s.beat.Clock)
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if r.URL.Path == AccountPath {
			s.tell(conn)
			return
		}
		if s.route(conn, r) != nil {
			return
		}
	}
}

// tell sends the account and ends the connection's answers.
func (s *BeatServer) tell(conn net.Conn) {
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"); err == nil {
		_ = gob.NewEncoder(conn).Encode(s.Account()) // who has gone wants no account
	}
}

// join puts a stream on the beat.
func (s *BeatServer) join(t *beatStream, kind beatKind) {
	s.mu.Lock()
	s.requests = append(s.requests, t.request)
	if s.events[kind] == nil {
		s.events[kind] = newBeatEvents(kind)
	}
	t.events = s.events[kind]
	t.events.grow(t.total)
	t.due = s.first(s.joined)
	s.joined++
	s.queue.add(t)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// golden is the fractional part of the golden ratio: multiples of it lie evenly
// in any interval, however many there are.
const golden = 0.6180339887498949

// first is the first beat, once the wait is over, of the stream that joined as that number.
func (s *BeatServer) first(number int) int64 {
	gap, phase := int64(s.beat.Gap), int64(0)
	if s.beat.Spread {
		turns := float64(number) * golden
		phase = int64((turns - float64(int64(turns))) * float64(gap))
	}
	elapsed := s.beat.Clock.Now() + int64(s.beat.Wait) - s.began - phase
	return s.began + phase + (elapsed/gap+1)*gap
}

// FetchAccount gets the account of a BeatServer in another process.
func FetchAccount(url string) ([]BeatRequest, error) {
	answer, err := http.Get(url + AccountPath)
	if err != nil {
		return nil, fmt.Errorf("the ground truth server gives no account: %w", err)
	}
	defer answer.Body.Close()
	var all []BeatRequest
	if err := gob.NewDecoder(answer.Body).Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the ground truth server's account cannot be read: %w", err)
	}
	return all, nil
}
