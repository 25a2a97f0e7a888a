package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shapes says for each name that a decoder knows, what stands under it.
var shapes = map[string]string{
	"root":     "choices:choices usage:usage x_groq:groq timings:timings error:any message:any detail:any id:any object:string",
	"groq":     "usage:usage id:any",
	"usage":    "prompt_tokens:count completion_tokens:count total_tokens:count prompt_cache_hit_tokens:count reasoning_tokens:count prompt_tokens_details:details completion_tokens_details:details x:any",
	"details":  "cached_tokens:count reasoning_tokens:count x:any",
	"timings":  "prompt_n:count cache_n:count predicted_n:count prompt_ms:number predicted_ms:number x:any",
	"choice":   "index:count delta:delta message:delta text:text finish_reason:string usage:usage x:any",
	"delta":    "role:string content:text refusal:text reasoning:text reasoning_content:text tool_calls:calls function_call:function x:any",
	"call":     "index:count id:string function:function x:any",
	"function": "name:string arguments:arguments x:any",
	"part":     "type:string text:string thinking:text x:any",

	"response-event": "type:response-type delta:string item:response-item response:response error:any message:any detail:any x:any",
	"response":       "status:response-status incomplete_details:incomplete usage:in-out output:response-items error:any x:any",
	"incomplete":     "reason:response-reason x:any",
	"in-out":         "input_tokens:count output_tokens:count total_tokens:count input_tokens_details:details output_tokens_details:details x:any",
	"response-item":  "type:item-type content:text summary:text name:string arguments:arguments x:any",
	"message-event":  "type:message-type delta:message-delta message:message content_block:block usage:message-usage error:any detail:any x:any",
	"message":        "role:string usage:message-usage content:blocks stop_reason:stop-reason x:any",
	"message-delta":  "stop_reason:stop-reason text:string x:any",
	"message-usage":  "input_tokens:count output_tokens:count cache_read_input_tokens:count cache_creation_input_tokens:count x:any",
	"block":          "type:string text:string thinking:string name:string x:any",
	"ollama-line":    "model:string message:ollama-message response:string thinking:string done:bool done_reason:string prompt_eval_count:count eval_count:count prompt_eval_duration:number eval_duration:number error:any detail:any x:any",
	"ollama-message": "role:string content:string thinking:string tool_calls:calls x:any",
	"tgi-event":      "index:count token:token generated_text:string details:tgi-details error:any error_type:any x:any",
	"token":          "id:count text:string logprob:number special:bool x:any",
	"tgi-details":    "finish_reason:tgi-reason generated_tokens:count input_length:count seed:count x:any",
}

// words are the values of members that have a few of their own.
var wordsOf = map[string][]string{
	"response-type": {
		`"response.created"`, `"response.output_text.delta"`, `"response.refusal.delta"`, `"response.reasoning_text.delta"`,
		`"response.reasoning_summary_text.delta"`, `"response.function_call_arguments.delta"`, `"response.output_item.added"`,
		`"response.completed"`, `"response.incomplete"`, `"response.failed"`, `"error"`, `"response.new"`,
	},
	"response-status": {`"completed"`, `"incomplete"`, `"in_progress"`, `"failed"`},
	"response-reason": {`"max_output_tokens"`, `"content_filter"`, `""`},
	"item-type":       {`"message"`, `"reasoning"`, `"function_call"`},
	"message-type": {
		`"message_start"`, `"content_block_start"`, `"content_block_delta"`, `"content_block_stop"`, `"message_delta"`, `"message_stop"`,
		`"ping"`, `"error"`, `"message"`, `"new"`,
	},
	"stop-reason": {`"end_turn"`, `"max_tokens"`, `"tool_use"`, `"refusal"`, `""`},
	"bool":        {"true", "false"},
	"tgi-reason":  {`"length"`, `"eos_token"`, `"stop_sequence"`, `""`},
}

// lists says what the elements of a list are.
var lists = map[string]string{
	"choices": "choice", "calls": "call", "parts": "part", "response-items": "response-item", "blocks": "block",
}

// strange is values that may stand anywhere.
var strange = []string{
	"null", "true", "false", `""`, "0", "-1", "1.5", "1e3", "1E400", "9007199254740993", "{}", "[]", "[1,[2],{}]", `{"a":{"b":[null]}}`, `"x"`,
}

// strings of all kinds, as JSON.
var texts = []string{
	`""`, `" a"`, `"the quick brown fox"`, `"é"`, `"\u00e9\n\t\"\\\/"`, "\"\U0001F600\"", `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\n"`, "\"\xff\xc3\"",
}

// writer writes random documents of the known shapes, with now and then a value
// of the wrong kind, in any order and with any white space.
type writer struct {
	t   *rapid.T
	out strings.Builder
}

func (w *writer) pick(from []string) string { return rapid.SampledFrom(from).Draw(w.t, "pick") }

func (w *writer) space() { w.out.WriteString(w.pick([]string{"", "", "", " ", "\n\t", "\r\n"})) }

func (w *writer) value(shape string) {
	w.space()
	defer w.space()
	if rapid.IntRange(0, 9).Draw(w.t, "strange") == 0 {
		shape = "any"
	}
	if words, ok := wordsOf[shape]; ok {
		w.out.WriteString(w.pick(words))
		return
	}
	switch shape {
	case "any":
		w.out.WriteString(w.pick(strange))
	case "string":
		w.out.WriteString(w.pick(texts))
	case "count":
		w.out.WriteString(w.pick([]string{"0", "1", "7", "38", "38.0", "1e2", "null", "1.5", "9007199254740992", "9007199254740993"}))
	case "number":
		w.out.WriteString(w.pick([]string{"0", "0.001", "12.75", "1e3", "null"}))
	case "text":
		w.value(w.pick([]string{"string", "string", "string", "parts"}))
	case "arguments":
		w.value(w.pick([]string{"string", "any"}))
	default:
		w.container(shape)
	}
}

func (w *writer) container(shape string) {
	if element, ok := lists[shape]; ok {
		w.out.WriteByte('[')
		for i := range rapid.IntRange(0, 3).Draw(w.t, "elements") {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.value(element)
		}
		w.out.WriteByte(']')
		return
	}
	w.out.WriteByte('{')
	members := rapid.Permutation(strings.Fields(shapes[shape])).Draw(w.t, "order")
	for i, m := range members[:rapid.IntRange(0, len(members)).Draw(w.t, "members")] {
		if i > 0 {
			w.out.WriteByte(',')
		}
		name, shape, _ := strings.Cut(m, ":")
		w.space()
		w.out.WriteString(w.name(name))
		w.space()
		w.out.WriteByte(':')
		w.value(shape)
	}
	w.out.WriteByte('}')
}

// name writes a name, at times with an escape in it.
func (w *writer) name(name string) string {
	if rapid.IntRange(0, 9).Draw(w.t, "escaped") == 0 {
		return `"\u00` + hexOf(name[0]) + name[1:] + `"`
	}
	return `"` + name + `"`
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

func TestTheWalkerAgreesWithEncodingJSONOnRandomDocuments(t *testing.T) {
	var d Decoder
	var ev Event
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t}
		w.value("root")
		data := []byte(w.out.String())
		if !json.Valid(data) {
			t.Fatalf("the test wrote bad JSON: %s", data)
		}
		d.Decode(data, &ev)
		if diff := cmp.Diff(reference(data), plainOf(&ev)); diff != "" {
			t.Fatalf("%s\n(−encoding/json +walker):\n%s", data, diff)
		}
	})
}

func TestADamagedDocumentIsASurpriseAndNothingElse(t *testing.T) {
	var d Decoder
	var ev Event
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t}
		w.value("root")
		data := []byte(w.out.String())
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "cut") {
			data = data[:at]
		} else {
			data[at] = rapid.Byte().Draw(t, "byte")
		}
		check(t, &d, &ev, data)
	})
}

// check compares Decode with encoding/json on any bytes.
func check(t rapid.TB, d *Decoder, ev *Event, data []byte) {
	d.Decode(data, ev)
	got := plainOf(ev)
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
		want = reference(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q\n(−encoding/json +walker):\n%s", data, diff)
	}
}

func FuzzDecode(f *testing.F) {
	for _, test := range shapesOfServers {
		f.Add([]byte(test.data))
	}
	for _, text := range append(texts, strange...) {
		f.Add([]byte(text))
	}
	f.Add([]byte(strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		var ev Event
		check(t, &d, &ev, data)
		d.Document(data, &ev)
		if text := ErrorText(data); len(text) > maxErrorText {
			t.Fatalf("an error text of %d bytes", len(text))
		}
	})
}
