package load

import "speedmatrix"

// Follower reads the text of a stream while it grows. It is for one goroutine
// and never makes the stream wait.
type Follower struct {
	stream *stream
	record *record
	walk   walker
	text   *cursor
}

// Piece is a piece of text of one request and one channel. It never ends within
// a character.
type Piece struct {
	Request int32
	Channel speedmatrix.Channel
	Text    []byte // not to be changed
}

// Next gives the next recorded text; ok is false when there is nothing new. Many
// events may come as one piece. Call it until ok is false, later again.
func (f *Follower) Next() (piece Piece, ok bool) {
	for {
		if f.record == nil && !f.enter(f.stream.records.Load()) {
			return Piece{}, false
		}
		// The order matters: once there is a next record, this one is complete.
		next := f.record.next.Load()
		if piece, ok := f.gather(); ok {
			return piece, true
		}
		if !f.enter(next) {
			return Piece{}, false
		}
	}
}

// enter moves to the start of a record, if there is one.
func (f *Follower) enter(r *record) bool {
	if r == nil {
		return false
	}
	f.record, f.walk, f.text = r, r.walk(), r.text.start()
	return true
}

// gather joins the text of the next events of one channel as far as it lies in
// one page.
func (f *Follower) gather() (piece Piece, ok bool) {
	inPage := false
	for e, more := f.walk.peek(); more; e, more = f.walk.peek() {
		n := f.text.available(e.length())
		switch {
		case n == 0: // only a count, or text beyond the limit
		case piece.Text == nil:
			piece = Piece{Request: f.record.request, Channel: e.channel()}
			piece.Text, inPage = f.text.view(n)
		case !inPage || e.channel() != piece.Channel || n > len(f.text.page.bytes)-f.text.pos:
			return piece, true
		default:
			f.text.skip(n)
			piece.Text = piece.Text[:len(piece.Text)+n]
		}
		f.walk.step()
	}
	return piece, piece.Text != nil
}
