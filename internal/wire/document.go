package wire

import (
	"net/http"
	"strconv"
)

// Model is one entry of GET /v1/models.
type Model struct {
	ID      string
	OwnedBy string
	// Root is the name the weights were loaded under, "" for null.
	Root string
	// MaxLength is max_model_len; 0 leaves it out.
	MaxLength int
	Created   int64
	// Meta is a JSON object for the field of that name (llama.cpp), "" for none.
	Meta string
}

// Models is the document of GET /v1/models.
func Models(list ...Model) []byte {
	b := []byte(`{"object":"list","data":[`)
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = AppendString(b, m.ID)
		b = append(b, `,"object":"model","created":`...)
		b = strconv.AppendInt(b, m.Created, 10)
		b = append(b, `,"owned_by":`...)
		b = AppendString(b, m.OwnedBy)
		if m.Root != "" {
			b = append(b, `,"root":`...)
			b = AppendString(b, m.Root)
			b = append(b, `,"parent":null`...)
		}
		if m.MaxLength > 0 {
			b = append(b, `,"max_model_len":`...)
			b = strconv.AppendInt(b, int64(m.MaxLength), 10)
		}
		if m.Meta != "" {
			b = append(b, `,"meta":`...)
			b = append(b, m.Meta...)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// Tokenized is vLLM's document of POST /tokenize. The ids are those of the tokens.
func Tokenized(ids []int, maxLength int) []byte {
	b := []byte(`{"count":`)
	b = strconv.AppendInt(b, int64(len(ids)), 10)
	b = append(b, `,"max_model_len":`...)
	b = strconv.AppendInt(b, int64(maxLength), 10)
	b = append(b, `,"tokens":`...)
	b = appendInts(b, ids)
	return append(b, `,"token_strs":null}`...)
}

// LlamaTokenized is llama.cpp's document of POST /tokenize.
func LlamaTokenized(ids []int) []byte {
	return append(appendInts([]byte(`{"tokens":`), ids), '}')
}

func appendInts(b []byte, list []int) []byte {
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// Answer is an answer that is not streamed.
type Answer struct {
	Stream
	Text      string
	Reasoning string
	Finish    string
	Usage     *Usage
	Timings   *Timings
}

// Document is the JSON of the answer.
func (a *Answer) Document() []byte {
	b := append([]byte(nil), `{"id":`...)
	b = AppendString(b, a.ID)
	object, open, end := "chat.completion", `"message":{"role":"assistant","content":`, "}"
	if a.API == Completions {
		object, open, end = "text_completion", `"text":`, ""
	}
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, a.Created, 10)
	b = append(b, `,"model":`...)
	b = AppendString(b, a.Model)
	b = append(b, `,"choices":[{"index":0,`+open...)
	b = AppendString(b, a.Text)
	if a.Reasoning != "" && a.API == Chat {
		b = append(b, `,"reasoning":`...)
		b = AppendString(b, a.Reasoning)
	}
	b = append(b, end+`,"logprobs":null,"finish_reason":`...)
	b = AppendString(b, a.Finish)
	b = append(b, `}]`...)
	if a.Usage != nil {
		b = append(b, `,"usage":`...)
		b = AppendUsage(b, a.Usage)
	}
	if a.Timings != nil {
		b = append(b, `,"timings":`...)
		b = AppendTimings(b, a.Timings)
	}
	return append(b, '}')
}

// WriteJSON answers with a JSON document.
func WriteJSON(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // the client may be gone; there is nobody to tell
}
