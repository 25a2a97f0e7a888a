package dialect

// Events of the other APIs as recorded from servers, or as the APIs' own
// documentation shows them.
const (
	responseCreated   = `{"response":{"id":"resp_9a15af5747cb5b77","created_at":1796099227,"incomplete_details":null,"instructions":null,"metadata":null,"model":"smollm2-135m","object":"response","output":[],"temperature":0.8,"max_output_tokens":6,"status":"in_progress","text":null,"usage":null},"sequence_number":0,"type":"response.created"}`
	responseItem      = `{"item":{"id":"msg_b1e006404162ba7b","content":[],"role":"assistant","status":"in_progress","type":"message","phase":null},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}`
	responsePart      = `{"content_index":0,"item_id":"msg_b1e006404162ba7b","output_index":0,"part":{"annotations":[],"text":"","type":"output_text","logprobs":[]},"sequence_number":3,"type":"response.content_part.added"}`
	responseText      = `{"content_index":0,"delta":" there","item_id":"msg_b1e006404162ba7b","logprobs":[],"output_index":0,"sequence_number":6,"type":"response.output_text.delta"}`
	responseThought   = `{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"The","sequence_number":1}`
	responseSummary   = `{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm","sequence_number":1,"obfuscation":"x8d"}`
	responseCall      = `{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"look","arguments":""},"sequence_number":2}`
	responseArguments = `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"a\":1}","sequence_number":3}`
	responseTextDone  = `{"content_index":0,"item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":10,"text":"Howdy there","type":"response.output_text.done"}`
	responseItemDone  = `{"item":{"id":"msg_1","content":[{"annotations":[],"text":"Howdy there","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message"},"output_index":0,"sequence_number":12,"type":"response.output_item.done"}`
	responseLimit     = `{"response":{"id":"resp_1","incomplete_details":{"reason":"max_output_tokens"},"model":"smollm2-135m","object":"response","output":[{"id":"msg_1","content":[{"annotations":[],"text":"Howdy there","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message"}],"status":"incomplete","usage":{"input_tokens":35,"input_tokens_details":{"cached_tokens":16,"cache_write_tokens":0},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":2,"tool_output_tokens":0},"total_tokens":41}},"sequence_number":13,"type":"response.completed"}`
	responseDone      = `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}},"sequence_number":9}`
	responseCutShort  = `{"type":"response.incomplete","response":{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"},"usage":null},"sequence_number":9}`
	responseFailed    = `{"type":"response.failed","response":{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"The model failed to generate a response."},"incomplete_details":null,"usage":null},"sequence_number":9}`
	responseError     = `{"type":"error","code":"ERR_SOMETHING","message":"Something went wrong","param":null,"sequence_number":1}`
	responseWhole     = `{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"h"}],"content":[{"type":"reasoning_text","text":"m"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a b","annotations":[]}]},{"type":"function_call","name":"look","arguments":"{}"}],"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":7}}`

	messageStart     = `{"type":"message_start","message":{"id":"msg_014p7gG3wDgGV9EUtLvnow3U","type":"message","role":"assistant","model":"m","stop_sequence":null,"usage":{"input_tokens":472,"cache_creation_input_tokens":8,"cache_read_input_tokens":20,"output_tokens":2},"content":[],"stop_reason":null}}`
	messageBlock     = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	messageTool      = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{}}}`
	messagePing      = `{"type":"ping"}`
	messageText      = `{"type":"content_block_delta","delta":{"type":"text_delta","text":" world"},"index":0}`
	messageThought   = `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me solve this"}}`
	messageSignature = `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}`
	messageJSON      = `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"location\":"}}`
	messageBlockStop = `{"type":"content_block_stop","index":0}`
	messageDelta     = `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}`
	messageLimit     = `{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":35,"output_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":16}}`
	messageStop      = `{"type":"message_stop"}`
	messageError     = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	messageWhole     = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"Hi!"},{"type":"tool_use","id":"t","name":"look","input":{"a":1}}],"model":"m","stop_reason":"end_turn","usage":{"input_tokens":32,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`

	ollamaNative  = `{"model":"smollm2:latest","created_at":"2025-12-01T00:00:00.123456789Z","message":{"role":"assistant","content":" model"},"done":false}`
	ollamaThought = `{"model":"qwen3","created_at":"2025-12-01T00:00:00.1Z","message":{"role":"assistant","content":"","thinking":"Okay"},"done":false}`
	ollamaTool    = `{"model":"qwen3","created_at":"2025-12-01T00:00:00.1Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"look","arguments":{"a":1}}}]},"done":false}`
	ollamaDone    = `{"model":"smollm2:latest","created_at":"2025-12-01T00:00:01Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":1500000000,"load_duration":20000000,"prompt_eval_count":16,"prompt_eval_duration":130500000,"eval_count":25,"eval_duration":1250000000}`
	ollamaGone    = `{"error":"llama runner process has terminated: signal: killed"}`

	tgiToken   = `{"index":3,"token":{"id":1904,"text":" model","logprob":-0.5229492,"special":false},"generated_text":null,"details":null}`
	tgiEnd     = `{"index":1,"token":{"id":2,"text":"</s>","logprob":-0.1,"special":true},"generated_text":"a model","details":{"finish_reason":"eos_token","generated_tokens":20,"seed":null,"input_length":7}}`
	tgiLimit   = `{"index":1,"token":{"id":12,"text":".","logprob":-0.1,"special":false},"generated_text":"a.","details":{"finish_reason":"length","generated_tokens":1,"seed":42}}`
	tgiFailure = `{"error":"Request failed during generation: Server error: CANCELLED","error_type":"generation"}`
)

// shapesOf are the shapes of each API, for a fresh decoder.
var shapesOf = map[string][]shape{
	"responses": {
		{"the beginning carries no token", responseCreated, plain{Tokens: -1}},
		{"an item that begins", responseItem, plain{Tokens: -1}},
		{"a part that begins", responsePart, plain{Tokens: -1}},
		{"text", responseText, plain{Content: " there", Tokens: -1}},
		{"reasoning", responseThought, plain{Reasoning: "The", Tokens: -1}},
		{"a summary of reasoning", responseSummary, plain{Reasoning: "hm", Tokens: -1}},
		{"a call that begins", responseCall, plain{Tool: "look", Tokens: -1}},
		{"arguments", responseArguments, plain{Tool: `{"a":1}`, Tokens: -1}},
		{"a refusal", `{"type":"response.refusal.delta","delta":"No."}`, plain{Content: "No.", Tokens: -1}},
		{"the whole text again", responseTextDone, plain{Tokens: -1}},
		{"the whole item again", responseItemDone, plain{Tokens: -1}},
		{"the end by the limit, called complete", responseLimit, plain{Finish: "length", Tokens: 6, Done: true, Usage: &Usage{35, 16, 6, 2}}},
		{"the end by itself", responseDone, plain{Finish: "stop", Tokens: 4, Done: true, Usage: usageOf(3, 4)}},
		{"cut short", responseCutShort, plain{Finish: "content_filter", Tokens: -1, Done: true}},
		{"cut short without a reason", `{"type":"response.incomplete","response":{}}`, plain{Finish: "incomplete", Tokens: -1, Done: true}},
		{"failed", responseFailed, plain{Tokens: -1, Failed: true}},
		{"failed without a word", `{"type":"response.failed","response":{}}`, plain{Tokens: -1, Failed: true}},
		{"an error", responseError, plain{Tokens: -1, Failed: true}},
		{"an error in an object", `{"type":"error","error":{"message":"no"}}`, plain{Tokens: -1, Failed: true}},
		{"an error of a framework", `{"detail":"Not Found"}`, plain{Tokens: -1, Failed: true}},
		{"an event of tomorrow", `{"type":"response.dream.delta","delta":{"a":1}}`, plain{Tokens: -1}},
		{"a document", responseWhole, plain{Content: "a b", Reasoning: "mh", Tool: "look{}", Finish: "stop", Tokens: 4, Usage: &Usage{3, 0, 4, 1}}},
		{"a failed document", `{"object":"response","status":"failed","error":{"message":"no"},"output":[]}`, plain{Tokens: -1, Failed: true}},
		{"escapes", `{"type":"response.output_text.delta","delta":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, plain{Content: "\"\\/\b\f\n\r\té\U0001F600", Tokens: -1}},
		{"a delta of the wrong kind", `{"type":"response.output_text.delta","delta":{"text":"a"}}`, plain{Tokens: -1, Surprise: true}},
		{"an unknown object", `{"hello":"world"}`, plain{Tokens: -1, Surprise: true}},
	},
	"anthropic": {
		{"the beginning: the prompt in three parts, no token", messageStart, plain{Tokens: -1, Usage: &Usage{500, 20, -1, -1}}},
		{"a block that begins", messageBlock, plain{Tokens: -1}},
		{"a call that begins", messageTool, plain{Tool: "get_weather", Tokens: -1}},
		{"a ping", messagePing, plain{Tokens: -1}},
		{"text", messageText, plain{Content: " world", Tokens: -1}},
		{"thinking", messageThought, plain{Reasoning: "Let me solve this", Tokens: -1}},
		{"a signature is no text", messageSignature, plain{Tokens: -1}},
		{"arguments", messageJSON, plain{Tool: `{"location":`, Tokens: -1}},
		{"a block that ends", messageBlockStop, plain{Tokens: -1}},
		{"the stop reason, output alone", messageDelta, plain{Finish: "tool_calls", Tokens: 89, Usage: usageOf(-1, 89)}},
		{"the stop reason, all counts", messageLimit, plain{Finish: "length", Tokens: 6, Usage: &Usage{51, 16, 6, -1}}},
		{"a stop reason of its own", `{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, plain{Finish: "refusal", Tokens: -1}},
		{"the end", messageStop, plain{Tokens: -1, Done: true}},
		{"an error", messageError, plain{Tokens: -1, Failed: true}},
		{"an error without a word", `{"type":"error"}`, plain{Tokens: -1, Failed: true}},
		{"an event of tomorrow", `{"type":"dream_delta","delta":{"text":"a"}}`, plain{Tokens: -1}},
		{"a document", messageWhole, plain{Content: "Hi!", Reasoning: "hm", Tool: `look{"a":1}`, Finish: "stop", Tokens: 4, Usage: &Usage{32, 0, 4, -1}}},
		{"escapes", `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\u00e9\ud83d\ude00\n"}}`, plain{Content: "é\U0001F600\n", Tokens: -1}},
		{"text of the wrong kind", `{"type":"content_block_delta","delta":{"type":"text_delta","text":1}}`, plain{Tokens: -1, Surprise: true}},
		{"an unknown object", `{"hello":"world"}`, plain{Tokens: -1, Surprise: true}},
	},
	"ollama": {
		{"text", ollamaNative, plain{Content: " model", Tokens: -1}},
		{"thinking", ollamaThought, plain{Reasoning: "Okay", Tokens: -1}},
		{"a call", ollamaTool, plain{Tool: `look{"a":1}`, Tokens: -1}},
		{"the end", ollamaDone, plain{Finish: "length", Tokens: 25, Done: true, Usage: usageOf(16, 25), Timings: &Timings{-1, -1, 25, 130.5, 1250}}},
		{"the end of a server that gives no reason", `{"done":true}`, plain{Finish: "stop", Tokens: -1, Done: true}},
		{"the endpoint without roles", `{"model":"m","response":" a","done":false}`, plain{Content: " a", Tokens: -1}},
		{"an error", ollamaGone, plain{Tokens: -1, Failed: true}},
		{"a line of tomorrow", `{"message":{"content":"","dreams":[1]},"dreaming":true,"done":false}`, plain{Tokens: -1}},
		{"escapes", `{"message":{"content":"\u003cb\u003e\ud83d\ude00"},"done":false}`, plain{Content: "<b>\U0001F600", Tokens: -1}},
		{"content of the wrong kind", `{"message":{"content":["a"]},"done":false}`, plain{Tokens: -1, Surprise: true}},
		{"an unknown object", `{"hello":"world"}`, plain{Tokens: -1, Surprise: true}},
	},
	"tgi": {
		{"a token by its number", tgiToken, plain{Content: " model", Tokens: 3}},
		{"a token without a number", `{"token":{"id":1,"text":"a","special":false}}`, plain{Content: "a", Tokens: 1}},
		{"the end mark is a token without text", tgiEnd, plain{Finish: "stop", Tokens: 1, Done: true, Usage: usageOf(7, 20)}},
		{"the limit", tgiLimit, plain{Content: ".", Finish: "length", Tokens: 1, Done: true, Usage: usageOf(-1, 1)}},
		{"an error", tgiFailure, plain{Tokens: -1, Failed: true}},
		{"a document", `{"generated_text":"a b","details":{"finish_reason":"length","generated_tokens":2}}`, plain{Content: "a b", Finish: "length", Tokens: 2, Done: true, Usage: usageOf(-1, 2)}},
		{"an event of tomorrow", `{"index":1,"token":{"id":1,"text":"a","special":false,"dream":1},"dreams":[]}`, plain{Content: "a", Tokens: 1}},
		{"escapes", `{"index":1,"token":{"id":1,"text":"\n\u00e9\ud83d\ude00","special":false}}`, plain{Content: "\né\U0001F600", Tokens: 1}},
		{"text of the wrong kind", `{"index":1,"token":{"id":1,"text":1,"special":false}}`, plain{Tokens: 1, Surprise: true}},
		{"an unknown object", `{"hello":"world"}`, plain{Tokens: -1, Surprise: true}},
	},
}
