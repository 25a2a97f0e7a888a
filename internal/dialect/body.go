package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"speedmatrix"
)

// member is one field of a request body.
type member struct {
	key   string
	value any
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// messages is the prompt as a chat.
func messages(p Params) []message {
	list := make([]message, 0, 2)
	if p.System != "" {
		list = append(list, message{Role: "system", Content: p.System})
	}
	return append(list, message{Role: "user", Content: p.Prompt})
}

// untemplated is the prompt where an API knows no roles.
func untemplated(p Params) string {
	if p.System == "" {
		return p.Prompt
	}
	return p.System + "\n\n" + p.Prompt
}

// body is a request body in the making: the fields that are set, and the user's
// own, which replace ours. The order of the fields is always the same.
type body struct {
	members []member
	extra   map[string]any
	size    int
}

func newBody(p Params) *body {
	return &body{members: make([]member, 0, 9+len(p.Extra)), extra: p.Extra, size: len(p.System) + len(p.Prompt)}
}

// add adds a field if it is wanted and the user has none of that name.
func (b *body) add(wanted bool, key string, value any) {
	if _, replaced := b.extra[key]; wanted && !replaced {
		b.members = append(b.members, member{key, value})
	}
}

// merge adds an object of settings, with the user's own of that name laid over
// it; any other value of the user replaces it.
func (b *body) merge(key string, settings map[string]any) {
	if own, ok := b.extra[key].(map[string]any); ok {
		maps.Copy(settings, own)
		b.extra = maps.Clone(b.extra)
		delete(b.extra, key)
	}
	b.add(len(settings) > 0, key, settings)
}

// encode writes the body as one JSON object. Each value is encoded once and
// straight to its place: a prompt may have megabytes.
func (b *body) encode() ([]byte, error) {
	for _, key := range slices.Sorted(maps.Keys(b.extra)) {
		b.members = append(b.members, member{key, b.extra[key]})
	}
	var out bytes.Buffer
	out.Grow(b.size + b.size/16 + 512)
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	write := func(v any) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		out.Truncate(out.Len() - 1) // Encode ends with a line feed
		return nil
	}
	between := byte('{')
	for _, m := range b.members {
		out.WriteByte(between)
		between = ','
		if err := write(m.key); err != nil {
			return nil, unsendable(m.key, err)
		}
		out.WriteByte(':')
		if err := write(m.value); err != nil {
			return nil, unsendable(m.key, err)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// unsendable is the error for a field that JSON cannot carry.
func unsendable(key string, err error) error {
	return &speedmatrix.Error{
		Kind: speedmatrix.KindUsage,
		What: fmt.Sprintf("the field %q of the request body cannot be written as JSON: %v", key, err),
		Next: "Give a value that JSON can carry: text, a finite number, true, false, null, a list or an object.",
		Err:  err,
	}
}
