package load

import (
	"bytes"
	"errors"
	"strconv"
)

// errFraming is for bytes that are no chunked body.
var errFraming = errors.New("malformed chunked encoding")

// bodyState is what comes next in a body.
type bodyState uint8

const (
	bodyLength bodyState = iota // so many bytes, then the end
	bodyToClose
	chunkSize // the line of a chunk's size
	chunkData
	chunkEnd // the line end after a chunk's data
	chunkTrailer
	bodyDone
)

// after is the state behind the last byte of data.
func (s bodyState) after() bodyState {
	if s == chunkData {
		return chunkEnd
	}
	return bodyDone
}

// mostChunkLine bounds a line of a chunked body that is no data.
const mostChunkLine = 4 << 10

// bodyCutter cuts the data of a body out of the bytes of a connection, however
// the network cut them.
type bodyCutter struct {
	state bodyState
	left  int64  // bytes of data until the end, or of the chunk
	line  []byte // the begin of a line whose end has not arrived
}

// next gives the next piece of data, which may be empty, and what follows it. It
// consumes everything up to the end of the body.
func (c *bodyCutter) next(b []byte) (data, rest []byte, err error) {
	switch c.state {
	case bodyToClose:
		return b, nil, nil
	case bodyLength, chunkData:
		n := min(int64(len(b)), c.left)
		if c.left -= n; c.left == 0 {
			c.state = c.state.after()
		}
		return b[:n], b[n:], nil
	}
	line, rest, whole := c.cut(b)
	if !whole {
		if len(c.line) > mostChunkLine {
			return nil, nil, errFraming
		}
		return nil, nil, nil
	}
	return nil, rest, c.took(line)
}

// cut cuts a line off; the slice is valid until the next call.
func (c *bodyCutter) cut(b []byte) (line, rest []byte, whole bool) {
	before, after, ok := bytes.Cut(b, []byte{'\n'})
	if !ok {
		c.line = append(c.line, b...)
		return nil, nil, false
	}
	line = before
	if len(c.line) > 0 {
		line = append(c.line, line...)
		c.line = line[:0]
	}
	return bytes.TrimSuffix(line, []byte{'\r'}), after, true
}

// took takes a line in.
func (c *bodyCutter) took(line []byte) error {
	switch c.state {
	case chunkEnd:
		if len(line) > 0 {
			return errFraming
		}
		c.state = chunkSize
	case chunkTrailer:
		if len(line) == 0 {
			c.state = bodyDone
		}
	default:
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, ok := hexadecimal(bytes.TrimSpace(size))
		if !ok {
			return errFraming
		}
		if c.left, c.state = n, chunkData; n == 0 {
			c.state = chunkTrailer
		}
	}
	return nil
}

// hexadecimal reads a chunk's size.
func hexadecimal(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int64(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | int64(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// appendHead appends the head of a request with a body of that length.
func (t *target) appendHead(dst []byte, length int) []byte {
	dst = append(dst, t.head...)
	dst = strconv.AppendInt(dst, int64(length), 10)
	return append(dst, "\r\n\r\n"...)
}
