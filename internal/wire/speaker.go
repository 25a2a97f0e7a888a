package wire

import "slices"

// Event is one event of a stream.
type Event struct {
	Name string // of a server-sent event, "" for none
	Data []byte // JSON
	// Text says that it carries the text of a chunk.
	Text bool
}

// Speaker writes one answer of an API whose answers are more than a row of
// chunks. It remembers what it has said, so it is for one answer.
type Speaker interface {
	// Open gives what comes before all text, once; u is the usage of the prompt, nil for none.
	Open(u *Usage) []Event
	// Say gives the events of a chunk, and before them those that its channel
	// needs. The last chunk has Finish, and Usage unless none is to be said.
	Say(c *Chunk) []Event
	// Close gives what follows the last chunk; u is nil for no usage.
	Close(finish string, u *Usage, t *Timings) []Event
	// Fail gives the event of a failure.
	Fail(p *Problem) []Event
	// Ping gives the event that keeps a connection open; none for a comment.
	Ping() []Event
	// Document is the whole answer in one.
	Document(a *Answer) []byte
}

// NewSpeaker makes a speaker of an API; nil for the two that are chunks.
func NewSpeaker(s Stream) Speaker {
	switch s.API {
	case Responses:
		return &responseSpeaker{stream: s}
	case Messages:
		return &messageSpeaker{stream: s}
	case OllamaChat:
		return &ollamaSpeaker{stream: s}
	case Generate:
		return &generateSpeaker{}
	}
	return nil
}

// object is a JSON object in the making.
type object []byte

func (o object) key(name string) object {
	if len(o) == 0 {
		o = append(o, '{')
	} else {
		o = append(o, ',')
	}
	return append(AppendString(o, name), ':')
}

func (o object) text(name, value string) object { return AppendString(o.key(name), value) }

// raw adds a value that is JSON.
func (o object) raw(name, value string) object { return append(o.key(name), value...) }

func (o object) number(name string, n int) object {
	return appendInt(o.key(name), n)
}

// known adds a count unless it is negative.
func (o object) known(name string, n int) object {
	if n < 0 {
		return o
	}
	return o.number(name, n)
}

// end gives the JSON.
func (o object) end() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(slices.Clip(o), '}')
}
