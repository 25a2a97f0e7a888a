package dialect

// shape is one event as a server sends it, and what it means.
type shape struct {
	name, data string
	want       plain
}

// usageOf is a usage object that says prompt and completion only.
func usageOf(prompt, completion int) *Usage { return &Usage{prompt, -1, completion, -1} }

// Events as recorded from servers.
const (
	vllmRole  = `{"id":"chatcmpl-8d","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":38,"total_tokens":38,"completion_tokens":0,"completion_tokens_details":null},"prompt_token_ids":null,"prompt_text":null}`
	vllmText  = `{"id":"chatcmpl-8d","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[{"index":0,"delta":{"content":" model"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":38,"total_tokens":45,"completion_tokens":7,"completion_tokens_details":null}}`
	vllmPlain = `{"id":"chatcmpl-8d3e6b8a7c5d4e3f9a1b2c3d4e5f6a7b","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[{"index":0,"delta":{"content":" model"},"logprobs":null,"finish_reason":null,"token_ids":null}],"system_fingerprint":"vllm-0.32.0-c460cfa7","usage":null}`
	vllmLast  = `{"id":"chatcmpl-8d","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[{"index":0,"delta":{"content":"."},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":38,"total_tokens":50,"completion_tokens":12}}`
	vllmUsage = `{"id":"chatcmpl-8d","object":"chat.completion.chunk","created":1764540000,"model":"smollm2","choices":[],"usage":{"prompt_tokens":38,"total_tokens":50,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":16,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-c460cfa7","metrics":{"time_to_first_token_ms":38.7}}`
	vllmRaw   = `{"id":"cmpl-abc-1","object":"text_completion","created":1764540000,"model":"smollm2","choices":[{"index":0,"text":" model","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":[2743]}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}`
	vllmBusy  = `{"error": {"message": "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.", "type": "Service Unavailable", "param": null, "code": 503}}`

	llamaRole    = `{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1764540000,"id":"chatcmpl-x","model":"smollm2","system_fingerprint":"b1-7e4c0a9","object":"chat.completion.chunk"}`
	llamaText    = `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],"created":1764540000,"id":"chatcmpl-x","model":"smollm2","system_fingerprint":"b1-7e4c0a9","object":"chat.completion.chunk","timings":{"cache_n":24,"prompt_n":7,"prompt_ms":27.016,"prompt_per_token_ms":3.859,"prompt_per_second":259.1,"predicted_n":3,"predicted_ms":12.913,"predicted_per_token_ms":4.3,"predicted_per_second":154.88}}`
	llamaFinish  = `{"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1764540000,"id":"chatcmpl-x","model":"smollm2","object":"chat.completion.chunk"}`
	llamaUsage   = `{"choices":[],"created":1764540000,"id":"chatcmpl-x","model":"smollm2","object":"chat.completion.chunk","usage":{"completion_tokens":20,"prompt_tokens":31,"total_tokens":51,"prompt_tokens_details":{"cached_tokens":24}},"timings":{"cache_n":24,"prompt_n":7,"prompt_ms":27.016,"predicted_n":20,"predicted_ms":128.9}}`
	llamaFull    = `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`
	llamaPrefill = `{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"object":"chat.completion.chunk","prompt_progress":{"total":500,"cache":24,"processed":256,"time_ms":1012}}`

	ollamaText   = `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1764540000,"model":"smollm2:latest","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}`
	ollamaFinish = `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1764540000,"model":"smollm2:latest","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}`
	ollamaUsage  = `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1764540000,"model":"smollm2:latest","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":16,"completion_tokens":25,"total_tokens":41}}`
)

// shapesOfServers are the events of known servers, and the shapes that are known
// to have misled clients.
var shapesOfServers = []shape{
	{"vLLM: the role event carries no token", vllmRole, plain{Tokens: 0, Usage: usageOf(38, 0)}},
	{"vLLM: text with usage", vllmText, plain{Content: " model", Tokens: 7, Usage: usageOf(38, 7)}},
	{"vLLM: text without usage", vllmPlain, plain{Content: " model", Tokens: -1}},
	{"vLLM: the last text", vllmLast, plain{Content: ".", Finish: "length", Tokens: 12, Usage: usageOf(38, 12)}},
	{"vLLM: usage at the end", vllmUsage, plain{Tokens: 12, Usage: &Usage{38, 16, 12, -1}}},
	{"vLLM: completions", vllmRaw, plain{Content: " model", Tokens: 1, Usage: usageOf(5, 1)}},
	{"vLLM: a refusal inside the stream", vllmBusy, plain{Tokens: -1, Failed: true}},
	{"llama.cpp: the role event", llamaRole, plain{Tokens: -1}},
	{"llama.cpp: text with timings", llamaText, plain{Content: "Hello", Tokens: 3, Timings: &Timings{7, 24, 3, 27.016, 12.913}}},
	{"llama.cpp: the finish event", llamaFinish, plain{Finish: "length", Tokens: -1}},
	{"llama.cpp: usage and timings", llamaUsage, plain{Tokens: 20, Usage: &Usage{31, 24, 20, -1}, Timings: &Timings{7, 24, 20, 27.016, 128.9}}},
	{"llama.cpp: the context is full", llamaFull, plain{Tokens: -1, Failed: true}},
	{"llama.cpp: progress of the prompt", llamaPrefill, plain{Tokens: -1}},
	{"Ollama: role and text at once", ollamaText, plain{Content: "Hello", Tokens: -1}},
	{"Ollama: the finish event", ollamaFinish, plain{Finish: "stop", Tokens: -1}},
	{"Ollama: usage at the end", ollamaUsage, plain{Tokens: 25, Usage: usageOf(16, 25)}},

	{"the end mark", "[DONE]", plain{Tokens: -1, Done: true}},
	{"the end mark with blanks", " [DONE]\r", plain{Tokens: -1, Done: true}},
	{"nothing", " ", plain{Tokens: -1}},
	{"all fields null", `{"choices":null,"usage":null,"timings":null,"error":null,"x_groq":null,"model":null}`, plain{Tokens: -1, Surprise: true}},
	{"null inside", `{"choices":[{"delta":{"content":null,"reasoning":null,"tool_calls":null,"function_call":null,"refusal":null},"finish_reason":null,"usage":null}],"usage":{"prompt_tokens":null,"completion_tokens":null,"total_tokens":null,"prompt_tokens_details":null}}`, plain{Tokens: -1, Usage: usageOf(-1, -1)}},
	{"delta null", `{"choices":[{"delta":null,"text":null}]}`, plain{Tokens: -1}},
	{"usage in front of choices", `{"usage":{"completion_tokens":3},"choices":[{"delta":{"content":"a"}}]}`, plain{Content: "a", Tokens: 3, Usage: usageOf(-1, 3)}},
	{"usage beside empty text", `{"choices":[{"delta":{"content":""}}],"usage":{"completion_tokens":42,"prompt_tokens":9}}`, plain{Tokens: 42, Usage: usageOf(9, 42)}},
	{"usage inside the choice", `{"choices":[{"delta":{"content":"a"},"usage":{"prompt_tokens":1,"completion_tokens":2}}]}`, plain{Content: "a", Tokens: 2, Usage: usageOf(1, 2)}},
	{"usage of Groq", `{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":1,"completion_tokens":2}}}`, plain{Finish: "stop", Tokens: 2, Usage: usageOf(1, 2)}},
	{"usage at the top wins over an empty one", `{"usage":{"prompt_tokens":1,"completion_tokens":2},"choices":[{"delta":{},"usage":{}}]}`, plain{Tokens: 2, Usage: usageOf(1, 2)}},
	{"completion tokens are missing", `{"choices":[],"usage":{"prompt_tokens":10,"total_tokens":30,"completion_tokens_details":{"reasoning_tokens":13}}}`, plain{Tokens: 20, Usage: &Usage{10, -1, 20, 13}}},
	{"only the details are there", `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens_details":{"reasoning_tokens":13}}}`, plain{Tokens: -1, Usage: &Usage{10, -1, -1, 13}}},
	{"reasoning tokens are among the completion tokens", `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":20,"completion_tokens_details":{"reasoning_tokens":13}}}`, plain{Tokens: 20, Usage: &Usage{10, -1, 20, 13}}},
	{"cached tokens of DeepSeek", `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}`, plain{Tokens: 1, Usage: &Usage{10, 8, 1, -1}}},
	{"cached tokens from the timings", `{"timings":{"cache_n":4,"predicted_n":1},"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1}}`, plain{Tokens: 1, Usage: &Usage{10, 4, 1, -1}, Timings: &Timings{-1, 4, 1, -1, -1}}},
	{"counts of the wrong kind", `{"choices":[],"usage":{"prompt_tokens":"10","completion_tokens":-1,"total_tokens":1.5}}`, plain{Tokens: -1, Usage: usageOf(-1, -1)}},
	{"counts too large to be any", `{"choices":[],"usage":{"prompt_tokens":9007199254740992,"completion_tokens":9007199254740993,"total_tokens":99999999999999999999}}`, plain{Tokens: -1, Usage: usageOf(1<<53, -1)}},
	{"counts written with a point", `{"choices":[],"usage":{"prompt_tokens":1e1,"completion_tokens":2.0}}`, plain{Tokens: 2, Usage: usageOf(10, 2)}},

	{"reasoning", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, plain{Reasoning: "hm", Tokens: -1}},
	{"reasoning_content", `{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}`, plain{Reasoning: "hm", Tokens: -1}},
	{"reasoning under both names", `{"choices":[{"delta":{"reasoning":"h\u006d","reasoning_content":"hm"}}]}`, plain{Reasoning: "hm", Tokens: -1}},
	{"reasoning beside an empty one", `{"choices":[{"delta":{"reasoning_content":"","reasoning":"hm"}}]}`, plain{Reasoning: "hm", Tokens: -1}},
	{"reasoning and content", `{"choices":[{"delta":{"reasoning":"hm","content":"a"}}]}`, plain{Content: "a", Reasoning: "hm", Tokens: -1}},
	{"a tool call", `{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"arguments":"{\"a\":","name":"look"}}]}}]}`, plain{Tool: `look{"a":`, Tokens: -1}},
	{"arguments alone", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"name":"b","arguments":{"x":1}}}]}}]}`, plain{Tool: `1}b{"x":1}`, Tokens: -1}},
	{"the old function call", `{"choices":[{"delta":{"function_call":{"name":"look","arguments":"{}"}}}]}`, plain{Tool: "look{}", Tokens: -1}},
	{"a refusal", `{"choices":[{"delta":{"content":null,"refusal":"No."}}]}`, plain{Content: "No.", Tokens: -1}},
	{"content in parts", `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},"b",{"type":"image"}]}}]}`, plain{Content: "ab", Reasoning: "hm", Tokens: -1}},
	{"several choices", `{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b","finish_reason":"stop"}]}`, plain{Content: "ab", Finish: "stop", Tokens: -1}},
	{"text and delta say the same", `{"choices":[{"text":"a","delta":{"content":"a"}}]}`, plain{Content: "a", Tokens: -1}},
	{"a message instead of a delta", `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, plain{Content: "a", Finish: "stop", Tokens: -1}},
	{"blanks in the text stay", `{"choices":[{"delta":{"content":" a \n"}}]}`, plain{Content: " a \n", Tokens: -1}},
	{"escapes", `{"choices":[{"delta":{"content":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}}]}`, plain{Content: "\"\\/\b\f\n\r\té\U0001F600", Tokens: -1}},
	{"half a pair", `{"choices":[{"delta":{"content":"a\ud83d"}}]}`, plain{Content: "a\uFFFD", Tokens: -1}},
	{"the other half", `{"choices":[{"delta":{"content":"\ude00b"}}]}`, plain{Content: "\uFFFDb", Tokens: -1}},
	{"bytes that are no UTF-8", "{\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}", plain{Content: "a\uFFFDb", Tokens: -1}},
	{"names with escapes", `{"ch\u006fices":[{"d\u0065lta":{"cont\u0065nt":"a"}}]}`, plain{Content: "a", Tokens: -1}},
	{"the word content inside a text", `{"choices":[{"delta":{"content":"\"content\":\"x\"}"}}]}`, plain{Content: `"content":"x"}`, Tokens: -1}},
	{"content deeper than a delta is none", `{"choices":[{"logprobs":{"content":[{"token":"x"}]},"delta":{"content":"a","x":{"content":"no"}}}],"x":{"usage":{"completion_tokens":9}}}`, plain{Content: "a", Tokens: -1}},

	{"an error with parts of an answer", `{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}],"error":{"code":502,"message":"gone"}}`, plain{Content: "a", Finish: "error", Tokens: -1, Failed: true}},
	{"an error as text", `{"error":"overloaded"}`, plain{Tokens: -1, Failed: true}},
	{"an error without a word", `{"error":{}}`, plain{Tokens: -1, Failed: true}},
	{"an error of old servers", `{"object":"error","message":"no","type":"BadRequestError","code":400}`, plain{Tokens: -1, Failed: true}},
	{"an error of FastAPI", `{"detail":"Not Found"}`, plain{Tokens: -1, Failed: true}},
	{"a message beside an answer is no error", `{"message":"hi","choices":[{"text":"a"}]}`, plain{Content: "a", Tokens: -1}},
	{"no error", `{"error":"","choices":[{"text":"a"}]}`, plain{Content: "a", Tokens: -1}},

	{"a bare number", "12", plain{Tokens: -1, Surprise: true}},
	{"half an object", `{"choices":[{"delta":{"content":"a"}}]`, plain{Tokens: -1, Surprise: true}},
	{"two objects", `{"choices":[]}{"choices":[]}`, plain{Tokens: -1, Surprise: true}},
	{"plain text", "hello", plain{Tokens: -1, Surprise: true}},
	{"an unknown object", `{"hello":"world"}`, plain{Tokens: -1, Surprise: true}},
	{"an unknown choice", `{"choices":[{"output":"a"}]}`, plain{Tokens: -1, Surprise: true}},
	{"content of the wrong kind", `{"choices":[{"delta":{"content":12,"reasoning":"hm"}}]}`, plain{Reasoning: "hm", Tokens: -1, Surprise: true}},
	{"choices of the wrong kind", `{"choices":{"delta":{"content":"a"}}}`, plain{Tokens: -1, Surprise: true}},
}
