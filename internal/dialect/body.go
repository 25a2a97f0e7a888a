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

// streamOptions is the stream_options object.
type streamOptions struct {
	IncludeUsage    bool `json:"include_usage,omitzero"`
	ContinuousUsage bool `json:"continuous_usage_stats,omitzero"`
}

// body builds a request body: the parameters that are set, the text, and the
// user's own fields, which replace ours. The order of the fields is always the
// same.
func body(p Params, text member) ([]byte, error) {
	members := make([]member, 0, 9+len(p.Extra))
	add := func(wanted bool, key string, value any) {
		if _, replaced := p.Extra[key]; wanted && !replaced {
			members = append(members, member{key, value})
		}
	}
	options := streamOptions{p.IncludeUsage, p.ContinuousUsage}
	add(p.Model != "", "model", p.Model)
	add(true, text.key, text.value)
	add(p.MaxTokens > 0, "max_tokens", p.MaxTokens)
	add(p.Temperature != nil, "temperature", p.Temperature)
	add(p.Stream, "stream", true)
	add(p.Stream && options != streamOptions{}, "stream_options", options)
	add(p.IgnoreEOS, "ignore_eos", true)
	add(p.TimingsPerToken, "timings_per_token", true)
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		members = append(members, member{key, p.Extra[key]})
	}
	return encode(members, len(p.System)+len(p.Prompt))
}

// encode writes the members as one JSON object. Each value is encoded once and
// straight to its place: a prompt may have megabytes.
func encode(members []member, size int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(size + size/16 + 512)
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
	for _, m := range members {
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
