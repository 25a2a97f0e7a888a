package runfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The types of Thrift's compact protocol.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

// The bounds of what a file says of itself. A reader makes room for as many elements as a list claims to have.
const (
	deepestThrift = 16
	mostThrift    = 1 << 16 // elements of all lists together
)

var errThrift = errors.New("what it says of itself does not hold together")

// thriftWalk goes over a struct in Thrift's compact protocol without keeping anything of it.
type thriftWalk struct {
	data     []byte
	at       int
	elements int
}

// thriftLength is how long the struct is with which the data begin, if a reader may decode it.
func thriftLength(data []byte) (int, error) {
	w := &thriftWalk{data: data}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	return w.at, nil
}

func (w *thriftWalk) next() (byte, error) {
	if w.at >= len(w.data) {
		return 0, errThrift
	}
	w.at++
	return w.data[w.at-1], nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := binary.Uvarint(w.data[w.at:])
	if n <= 0 {
		return 0, errThrift
	}
	w.at += n
	return v, nil
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.data)-w.at) {
		return errThrift
	}
	w.at += int(n)
	return nil
}

func (w *thriftWalk) structure(depth int) error {
	if depth > deepestThrift {
		return errThrift
	}
	for {
		b, err := w.next()
		if err != nil || b == thriftStop {
			return err
		}
		if b>>4 == 0 { // the field's number follows
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if err := w.value(b&15, depth, false); err != nil {
			return err
		}
	}
}

// value goes over a value; a truth value is a byte of its own within a list only.
func (w *thriftWalk) value(kind byte, depth int, listed bool) error {
	switch kind {
	case thriftTrue, thriftFalse:
		if !listed {
			return nil
		}
		return w.skip(1)
	case thriftByte:
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := w.varint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thriftList, thriftSet:
		return w.list(depth)
	case thriftMap:
		return w.pairs(depth)
	case thriftStruct:
		return w.structure(depth + 1)
	}
	return errThrift
}

func (w *thriftWalk) list(depth int) error {
	b, err := w.next()
	if err != nil {
		return err
	}
	n := uint64(b >> 4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	return w.several(n, depth, b&15)
}

func (w *thriftWalk) pairs(depth int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	b, err := w.next()
	if err != nil {
		return err
	}
	return w.several(n, depth, b>>4, b&15)
}

// several goes over n elements, each of values of these types.
func (w *thriftWalk) several(n uint64, depth int, kinds ...byte) error {
	if depth > deepestThrift {
		return errThrift
	}
	if n > mostThrift || w.elements+int(n) > mostThrift {
		return fmt.Errorf("%w: too many parts", errThrift)
	}
	w.elements += int(n)
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, depth+1, true); err != nil {
				return err
			}
		}
	}
	return nil
}
