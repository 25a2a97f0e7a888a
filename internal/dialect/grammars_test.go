package dialect

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// grammars are the APIs beside OpenAI's chunks: what must be found in valid JSON
// by a fresh decoder, and the name under which shapes has the API's documents.
var grammars = []struct {
	dialect   Dialect
	reference func(data []byte) plain
	root      string
}{
	{Responses(), referenceOfResponses, "response-event"},
	{Anthropic(), referenceOfAnthropic, "message-event"},
	{Ollama(), referenceOfOllama, "ollama-line"},
	{TGI(), referenceOfTGI, "tgi-event"},
}

// referenceOf gives the reference of a dialect.
func referenceOf(d Dialect) func(data []byte) plain {
	for _, g := range grammars {
		if g.dialect == d {
			return g.reference
		}
	}
	return reference
}

func referenceOfResponses(data []byte) plain {
	var r refer
	root := r.object(data)
	kind := r.quiet(root["type"])
	fault := root["error"]
	usage, finish, whole := Usage{-1, -1, -1, -1}, "", root
	usage = r.inputOutput(root["usage"], usage)
	r.object(root["incomplete_details"])
	if response := r.object(root["response"]); response != nil {
		whole = merged(root, response)
		r.object(response["incomplete_details"])
		usage = r.inputOutput(response["usage"], usage)
		if says(response["error"]) {
			fault = response["error"]
		}
	}
	switch reason, status := r.reasonIn(root, whole), string(whole["status"]); {
	case reason == "max_output_tokens":
		finish = "length"
	case reason != "":
		finish = reason
	case kind == "response.incomplete", status == `"incomplete"`:
		finish = "incomplete"
	default:
		finish = "stop"
	}
	_, hasStatus := whole["status"]
	_, hasOutput := whole["output"]
	known := isString(root["type"]) || hasStatus || hasOutput || r.Usage != nil
	failed := false
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		r.Content = r.text(root["delta"])
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.reasoning.delta":
		r.Reasoning = r.text(root["delta"])
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
		"response.mcp_call_arguments.delta", "response.code_interpreter_call_code.delta":
		r.Tool = r.text(root["delta"])
	case "response.output_item.added":
		r.Tool = r.text(r.object(root["item"])["name"])
	case "response.completed", "response.incomplete":
		r.Done, r.Finish = true, finish
	case "response.failed", "response.cancelled", "error":
		failed = true
	}
	if root["type"] == nil {
		failed = r.wholeResponse(whole, finish)
	}
	if r.Usage != nil {
		r.Usage = &usage
	}
	r.Tokens = usage.Completion
	return r.conclude(root, known, failed, fault)
}

// reasonIn is the text of the reason of the last incomplete_details.
func (r *refer) reasonIn(root, whole object) string {
	for _, o := range []object{whole, root} {
		var details object
		if json.Unmarshal(o["incomplete_details"], &details) == nil {
			if _, ok := details["reason"]; ok {
				return r.quiet(details["reason"])
			}
		}
	}
	return ""
}

// merged is a and b, b's members in front.
func merged(a, b object) object {
	all := object{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// quiet is the text of a string, and empty for anything else without being odd.
func (r *refer) quiet(v raw) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

func (r *refer) wholeResponse(whole object, finish string) (failed bool) {
	switch string(whole["status"]) {
	case `"completed"`, `"incomplete"`:
		r.Finish = finish
	case `"failed"`, `"cancelled"`:
		failed = true
	}
	items, _ := r.list(whole["output"])
	for _, v := range items {
		item := r.object(v)
		if string(item["type"]) == `"reasoning"` {
			r.Reasoning += r.parts(item["content"], false) + r.parts(item["summary"], false)
		} else {
			r.Content += r.parts(item["content"], true) + r.parts(item["summary"], true)
		}
		r.Tool += r.text(item["name"])
		arguments := item["arguments"]
		if input, ok := item["input"]; ok {
			arguments = input
		}
		r.arguments(arguments)
	}
	return failed
}

// arguments is the text of a call's arguments.
func (r *refer) arguments(v raw) {
	if len(v) > 0 && v[0] == '{' {
		r.Tool += string([]rune(string(v)))
		return
	}
	r.Tool += r.text(v)
}

// inputOutput reads a usage of the Responses API over what is known.
func (r *refer) inputOutput(v raw, u Usage) Usage {
	o := r.object(v)
	if o == nil {
		return u
	}
	r.Usage = &u
	set := func(into *int, v raw) {
		if v != nil {
			*into = count(v)
		}
	}
	set(&u.Prompt, o["input_tokens"])
	set(&u.Completion, o["output_tokens"])
	if d, ok := o["input_tokens_details"]; ok {
		u.Cached = count(r.object(d)["cached_tokens"])
	}
	if d, ok := o["output_tokens_details"]; ok {
		u.Reasoning = count(r.object(d)["reasoning_tokens"])
	}
	if total := count(o["total_tokens"]); u.Completion < 0 && u.Prompt >= 0 && total >= u.Prompt {
		u.Completion = total - u.Prompt
	}
	return u
}

// conclude sets what follows from the parts: an error, a surprise.
func (r *refer) conclude(root object, known, failed bool, fault raw) plain {
	r.Failed = failed || says(fault) ||
		!known && (says(root["detail"]) || isString(root["message"]) && says(root["message"]))
	r.Surprise = r.odd || !known && !r.Failed
	return r.plain
}

func referenceOfAnthropic(data []byte) plain {
	var r refer
	root := r.object(data)
	kind := r.quiet(root["type"])
	input, read, written, output := -1, -1, -1, -1
	usage := func(v raw) {
		u := r.object(v)
		if u == nil {
			return
		}
		r.Usage = &Usage{}
		for name, into := range map[string]*int{"input_tokens": &input, "cache_read_input_tokens": &read, "cache_creation_input_tokens": &written, "output_tokens": &output} {
			if v, ok := u[name]; ok {
				*into = count(v)
			}
		}
	}
	content, stop := root["content"], root["stop_reason"]
	rootUsage := root["usage"]
	if kind == "message_start" {
		r.object(rootUsage)
		if r.object(rootUsage) != nil {
			r.Usage = &Usage{}
		}
		usage(r.object(root["message"])["usage"])
		output = -1
	} else {
		usage(rootUsage)
	}
	switch kind {
	case "content_block_start":
		r.block(r.object(root["content_block"]), false)
	case "content_block_delta":
		r.block(r.object(root["delta"]), false)
	case "message_delta":
		delta := r.object(root["delta"])
		usage(delta["usage"])
		if v, ok := delta["stop_reason"]; ok {
			stop = v
		}
		if delta != nil {
			r.Finish = stopReasonOf(r.quiet(stop))
		}
	case "message_stop":
		r.Done = true
	case "message":
		blocks, _ := r.list(content)
		for _, b := range blocks {
			r.block(r.object(b), true)
		}
		r.Finish = stopReasonOf(r.quiet(stop))
	}
	r.Tokens = output
	if r.Usage != nil {
		r.Usage = &Usage{-1, read, output, -1}
		if input >= 0 {
			r.Usage.Prompt = input + max(read, 0) + max(written, 0)
		}
	}
	return r.conclude(root, isString(root["type"]), kind == "error", root["error"])
}

func stopReasonOf(reason string) string {
	if name, ok := stopReasons[reason]; ok {
		return name
	}
	return reason
}

// block reads a content block or a delta of one.
func (r *refer) block(b object, whole bool) {
	r.Content += r.text(b["text"])
	r.Reasoning += r.text(b["thinking"])
	// The order of the three in one object is that of the text; a block has one.
	r.Tool += r.text(b["name"]) + r.text(b["partial_json"])
	if whole {
		r.arguments(b["input"])
	}
}

func referenceOfOllama(data []byte) plain {
	var r refer
	root := r.object(data)
	message := r.object(root["message"])
	r.Content = r.text(message["content"])
	if isString(root["response"]) {
		r.Content += r.text(root["response"])
	}
	r.Reasoning = r.text(message["thinking"]) + r.text(root["thinking"])
	calls, _ := r.list(message["tool_calls"])
	for _, call := range calls {
		r.function(r.object(call)["function"])
	}
	prompt, hasPrompt := root["prompt_eval_count"]
	eval, hasEval := root["eval_count"]
	if hasPrompt || hasEval {
		r.Usage = &Usage{count(prompt), -1, count(eval), -1}
	}
	r.Tokens = count(eval)
	read, hasRead := root["prompt_eval_duration"]
	wrote, hasWrote := root["eval_duration"]
	if hasRead || hasWrote {
		millis := func(v raw) float64 {
			if n := number(v); n >= 0 {
				return n / 1e6
			}
			return -1
		}
		r.Timings = &Timings{-1, -1, count(eval), millis(read), millis(wrote)}
	}
	if string(root["done"]) == "true" {
		r.Done, r.Finish = true, "stop"
		if reason := r.quiet(root["done_reason"]); reason != "" {
			r.Finish = reason
		}
	}
	_, hasDone := root["done"]
	known := hasDone || message != nil || isString(root["response"])
	return r.conclude(root, known, false, root["error"])
}

func referenceOfTGI(data []byte) plain {
	var r refer
	root := r.object(data)
	token, details := r.object(root["token"]), r.object(root["details"])
	known := token != nil || isString(root["generated_text"])
	usage := Usage{count(details["input_length"]), -1, count(details["generated_tokens"]), -1}
	r.Tokens = usage.Completion
	if token != nil {
		r.Tokens = max(1, count(root["index"]))
		if string(token["special"]) != "true" {
			r.Content = r.text(token["text"])
		}
	}
	if generated := root["generated_text"]; isString(generated) {
		r.Done, r.Finish = true, "stop"
		if token == nil {
			r.Content = r.text(generated)
		}
	}
	if details != nil {
		r.Usage = &usage
		switch reason := r.quiet(details["finish_reason"]); reason {
		case "":
		case "eos_token", "stop_sequence":
			r.Finish = "stop"
		default:
			r.Finish = reason
		}
	}
	return r.conclude(root, known, false, root["error"])
}

func TestEveryGrammarAgreesWithEncodingJSONOnRandomDocuments(t *testing.T) {
	for _, g := range grammars {
		t.Run(g.dialect.Name(), func(t *testing.T) {
			d := g.dialect.NewDecoder()
			var ev Event
			rapid.Check(t, func(t *rapid.T) {
				w := &writer{t: t}
				w.value(g.root)
				data := []byte(w.out.String())
				d.Reset()
				d.Decode(data, &ev)
				if diff := cmp.Diff(g.reference(data), plainOf(&ev)); diff != "" {
					t.Fatalf("%s\n(−encoding/json +walker):\n%s", data, diff)
				}
			})
		})
	}
}

// checkGrammar compares a fresh Decode with encoding/json on any bytes.
func checkGrammar(t rapid.TB, dialect Dialect, data []byte) {
	d := dialect.NewDecoder()
	var ev Event
	d.Decode(data, &ev)
	var want plain
	switch trimmed := strings.TrimSpace(string(data)); {
	case trimmed == "" && len(data) < 32:
		want = plain{Tokens: -1}
	case trimmed == "[DONE]" && len(data) < 32:
		want = plain{Tokens: -1, Done: true}
	case !json.Valid(data):
		want = plain{Tokens: -1, Surprise: true}
	case repeats(data):
		return
	default:
		want = referenceOf(dialect)(data)
	}
	if diff := cmp.Diff(want, plainOf(&ev)); diff != "" {
		t.Fatalf("%q\n(−encoding/json +walker):\n%s", data, diff)
	}
}
