package dialect

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// plain is an event in values of its own, for comparing.
type plain struct {
	Content, Reasoning, Tool, Finish string
	Tokens                           int
	Usage                            *Usage
	Timings                          *Timings
	Done, Failed, Surprise           bool
}

// plainOf copies an event out of its decoder.
func plainOf(ev *Event) plain {
	p := plain{
		Content: string(ev.Content), Reasoning: string(ev.Reasoning), Tool: string(ev.Tool),
		Finish: string(ev.FinishReason), Tokens: ev.Tokens,
		Done: ev.Done, Failed: ev.Error != "", Surprise: ev.Surprise,
	}
	if ev.Usage != nil {
		u := *ev.Usage
		p.Usage = &u
	}
	if ev.Timings != nil {
		t := *ev.Timings
		p.Timings = &t
	}
	return p
}

// raw is the text of a value; nil if it is absent.
type raw = json.RawMessage

// object is a JSON object, its values not yet read.
type object map[string]raw

// refer decodes an event the slow and plain way, with encoding/json. Its input
// is valid JSON in which no object has a name twice.
type refer struct {
	plain
	odd bool
}

// reference is what Decode must find in valid JSON.
func reference(data []byte) plain {
	var r refer
	root := r.object(data)
	choices, known := r.list(root["choices"])
	usage := Usage{-1, -1, -1, -1}
	for _, choice := range choices {
		known := r.choice(choice, &usage)
		r.odd = r.odd || !known
	}
	r.usage(root["usage"], &usage)
	r.usage(r.object(root["x_groq"])["usage"], &usage)
	r.timings(root["timings"])
	r.count(usage)
	known = known || r.Usage != nil || r.Timings != nil
	r.Failed = fails(root, known)
	r.Surprise = r.odd || !known && !r.Failed
	return r.plain
}

// count sets what follows from usage and timings together.
func (r *refer) count(usage Usage) {
	r.Tokens = usage.Completion
	if r.Timings != nil && usage.Cached < 0 {
		usage.Cached = r.Timings.CachedTokens
	}
	if r.Timings != nil && r.Tokens < 0 {
		r.Tokens = r.Timings.PredictedTokens
	}
	if r.Usage != nil {
		r.Usage = &usage
	}
}

// fails tells whether a document is or has an error.
func fails(root object, known bool) bool {
	message := root["message"]
	return says(root["error"]) || !known && (says(root["detail"]) || isString(message) && says(message))
}

// says tells whether a value stands for an error.
func says(v raw) bool {
	s := string(v)
	return s != "" && s != "null" && s != "false" && s != `""`
}

func (r *refer) object(v raw) object {
	var o object
	if json.Unmarshal(v, &o) != nil && v != nil {
		r.odd = true
	}
	return o
}

func (r *refer) list(v raw) ([]raw, bool) {
	var l []raw
	if json.Unmarshal(v, &l) != nil && v != nil {
		r.odd = true
	}
	return l, l != nil
}

func (r *refer) text(v raw) string {
	var s string
	if json.Unmarshal(v, &s) != nil && v != nil {
		r.odd = true
	}
	return s
}

// choice tells whether it knows the choice; null is nothing to know.
func (r *refer) choice(v raw, usage *Usage) bool {
	c := r.object(v)
	if c == nil {
		return true
	}
	r.usage(c["usage"], usage)
	delta, message := r.object(c["delta"]), r.object(c["message"])
	if delta == nil {
		delta = message
	}
	content := r.parts(delta["content"], true)
	if content == "" {
		content = r.parts(c["text"], true)
	}
	r.Content += content + r.parts(delta["refusal"], true)
	first, second := r.parts(delta["reasoning_content"], false), r.parts(delta["reasoning"], false)
	if first == second {
		second = ""
	}
	r.Reasoning += first + second
	calls, _ := r.list(delta["tool_calls"])
	for _, call := range calls {
		r.function(r.object(call)["function"])
	}
	r.function(delta["function_call"])
	if finish := c["finish_reason"]; isString(finish) && len(finish) > 2 {
		r.Finish = r.text(finish)
	}
	_, d := c["delta"]
	_, m := c["message"]
	_, t := c["text"]
	_, f := c["finish_reason"]
	return d || m || t || f
}

// parts is the text of a string or of a list of parts. The reasoning among the
// parts of content goes to its own channel.
func (r *refer) parts(v raw, content bool) string {
	if len(v) == 0 || v[0] != '[' {
		return r.text(v)
	}
	var all strings.Builder
	list, _ := r.list(v)
	for _, item := range list {
		if isString(item) {
			all.WriteString(r.text(item))
			continue
		}
		part := r.object(item)
		all.WriteString(r.text(part["text"]))
		if content {
			r.Reasoning += r.parts(part["thinking"], false)
		}
	}
	return all.String()
}

func (r *refer) function(v raw) {
	f := r.object(v)
	r.Tool += r.text(f["name"])
	if arguments := f["arguments"]; len(arguments) > 0 && arguments[0] == '{' {
		r.Tool += string([]rune(string(arguments)))
	} else {
		r.Tool += r.text(arguments)
	}
}

func (r *refer) usage(v raw, into *Usage) {
	u := r.object(v)
	if u == nil {
		return
	}
	r.Usage = into
	prompt, completion, total := count(u["prompt_tokens"]), count(u["completion_tokens"]), count(u["total_tokens"])
	if completion < 0 && prompt >= 0 && total >= prompt {
		completion = total - prompt
	}
	cached := count(r.object(u["prompt_tokens_details"])["cached_tokens"])
	if cached < 0 {
		cached = count(u["prompt_cache_hit_tokens"])
	}
	reasoning := max(count(u["reasoning_tokens"]), count(r.object(u["completion_tokens_details"])["reasoning_tokens"]))
	*into = Usage{
		max(into.Prompt, prompt), max(into.Cached, cached),
		max(into.Completion, completion), max(into.Reasoning, reasoning),
	}
}

func (r *refer) timings(v raw) {
	t := r.object(v)
	if t == nil {
		return
	}
	r.Timings = &Timings{
		count(t["prompt_n"]), count(t["cache_n"]), count(t["predicted_n"]),
		number(t["prompt_ms"]), number(t["predicted_ms"]),
	}
}

// count is a whole number from 0 to 2⁵³, else −1.
func count(v raw) int {
	const largest = 1 << 53
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		if n > largest || v[0] == '-' {
			return -1
		}
		return int(n)
	}
	f := number(v)
	if f > largest || f != float64(int64(f)) {
		return -1
	}
	return int(f)
}

// number is a number without a sign, else −1.
func number(v raw) float64 {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || v[0] == '-' {
		return -1
	}
	return f
}

// repeats tells whether an object of the document has a name twice.
func repeats(data []byte) bool {
	values := json.NewDecoder(bytes.NewReader(data))
	values.UseNumber()
	found := false
	var walk func()
	walk = func() {
		token, err := values.Token()
		open, isOpen := token.(json.Delim)
		if err != nil || !isOpen {
			return
		}
		names := map[string]bool{}
		for values.More() {
			if open == '{' {
				name, _ := values.Token()
				text, _ := name.(string)
				found = found || names[text]
				names[text] = true
			}
			walk()
		}
		_, _ = values.Token()
	}
	walk()
	return found
}
