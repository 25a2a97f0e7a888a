package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Source takes secrets and identities out of a file of another program. Of JSON only strings change, each judged by
// the name of its field too, and numbers whose field says that they are none to be shown; every other byte stays. Of
// anything else it is Text.
func (r *Redactor) Source(data []byte) []byte {
	if text := bytes.TrimSpace(data); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		if out, err := newSourceJSON(r, data).redact(); err == nil {
			return out
		}
	}
	return []byte(r.Text(string(data)))
}

// sourceJSON goes through the tokens of a JSON text and writes it again.
type sourceJSON struct {
	*copying
	data   []byte
	tokens *json.Decoder
	out    bytes.Buffer
	open   []opened
}

// opened is an object or an array that is not closed yet.
type opened struct {
	object bool
	// above is the field in which it stands, field the one whose value comes next; "" in an object before a name.
	above, field string
	named        bool
}

func newSourceJSON(r *Redactor, data []byte) *sourceJSON {
	s := &sourceJSON{copying: newCopying(r), data: data, tokens: json.NewDecoder(bytes.NewReader(data)), open: []opened{{named: true}}}
	s.tokens.UseNumber()
	return s
}

func (s *sourceJSON) redact() ([]byte, error) {
	at := int64(0)
	for {
		token, err := s.tokens.Token()
		if errors.Is(err, io.EOF) {
			s.out.Write(s.data[at:])
			return s.out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		end := s.tokens.InputOffset()
		if err := s.write(s.data[at:end], token); err != nil {
			return nil, err
		}
		at = end
	}
}

// write writes a token, with the bytes before it, as it may be shown.
func (s *sourceJSON) write(text []byte, token json.Token) error {
	in := &s.open[len(s.open)-1]
	value, isText := token.(string)
	if isText && in.object && !in.named {
		in.named, in.field = true, value
		if value == "value" || value == "others" {
			in.field = in.above // a fact is known by its key
		}
		return s.change(text, value, s.name(value).clean)
	}
	switch v := token.(type) {
	case json.Delim:
		s.out.Write(text)
		s.enter(v, in)
		return nil
	case string:
		in.named = !in.object
		return s.change(text, v, s.r.field(in.field, v, s.name(in.field)))
	case json.Number:
		in.named = !in.object
		if n := s.name(in.field); n.named {
			s.out.Write(bytes.TrimSuffix(text, []byte(v.String())))
			return s.put(s.r.Mark(n.kind, v.String()))
		}
	}
	in.named = !in.object
	s.out.Write(text)
	return nil
}

// enter goes into an object or an array, or out of it.
func (s *sourceJSON) enter(d json.Delim, in *opened) {
	switch d {
	case '{', '[':
		in.named = !in.object
		s.open = append(s.open, opened{object: d == '{', above: in.field, field: in.field, named: d == '['})
	default:
		s.open = s.open[:len(s.open)-1]
	}
}

// change writes a string in the place of another, the bytes themselves where they are the same.
func (s *sourceJSON) change(text []byte, from, to string) error {
	if from == to {
		s.out.Write(text)
		return nil
	}
	s.out.Write(text[:bytes.IndexByte(text, '"')])
	return s.put(to)
}

func (s *sourceJSON) put(text string) error {
	quoted, err := json.Marshal(text)
	s.out.Write(quoted)
	return err
}
