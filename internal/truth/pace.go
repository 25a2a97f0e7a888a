package truth

import (
	"time"

	"speedmatrix/internal/stamp"
)

// roundTokens is how many tokens are sent before others may have the lock.
const roundTokens = 4096

// beatStream is one answer on the beat.
type beatStream struct {
	conn    *stamp.Conn
	request *BeatRequest
	events  *beatEvents
	total   int
	tail    []byte
	due     int64      // of the next token
	ended   chan error // capacity 1
}

// pace sends each token when it is due, until the server closes.
func (s *BeatServer) pace() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		wait := s.round()
		s.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.closing:
			return
		}
	}
}

// round sends what is due and gives the time until more is; s.mu is held.
func (s *BeatServer) round() time.Duration {
	now := s.beat.Clock.Now()
	for range roundTokens {
		t := s.queue.first()
		if t == nil {
			return time.Hour
		}
		if t.due > now {
			if now = s.beat.Clock.Now(); t.due > now {
				return time.Duration(t.due - now)
			}
		}
		s.queue.take()
		if s.send(t) {
			t.due += int64(s.beat.Gap)
			s.queue.add(t)
		}
	}
	return 0
}

// send sends a stream's next token and says whether another one follows.
func (s *BeatServer) send(t *beatStream) bool {
	token := len(t.request.Sent)
	data := t.events.tokens[token]
	last := token == t.total-1
	if last {
		data = append(data[:len(data):len(data)], t.tail...)
	}
	_, err := t.conn.Write(data)
	if err == nil {
		t.request.Sent = append(t.request.Sent, Sent{t.conn.WriteBegan(), t.conn.LastWrite()})
	}
	if err != nil || last {
		t.ended <- err
		return false
	}
	return true
}

// beatQueue is a queue ordered by due times, which mostly come in order.
type beatQueue struct {
	list []*beatStream
	head int
}

func (q *beatQueue) first() *beatStream {
	if q.head == len(q.list) {
		return nil
	}
	return q.list[q.head]
}

func (q *beatQueue) take() {
	q.list[q.head] = nil
	q.head++
	if q.head > len(q.list)/2 && q.head > 1024 {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
}

// add puts a stream behind all that are due no later.
func (q *beatQueue) add(t *beatStream) {
	q.list = append(q.list, t)
	for i := len(q.list) - 1; i > q.head && q.list[i-1].due > t.due; i-- {
		q.list[i], q.list[i-1] = q.list[i-1], q.list[i]
	}
}
