package redact_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix/internal/redact"
)

// slash keeps the paths of nobody's machine out of this file.
const slash = "/"

func someone() *redact.Redactor {
	return redact.New(redact.Options{Home: slash + "home/annika", User: "annika", Host: "gpubox7.lab.example.org",
		Secrets: []redact.Secret{{Kind: redact.APIKey, Value: "topsecret/key+1"}, {Kind: redact.Header, Value: "ab12"}}})
}

// Everything that must go, and what stands there then.
func TestSecretsAreTakenOut(t *testing.T) {
	home := slash + "home"
	tests := []struct{ text, want string }{
		{"the key topsecret/key+1 is bad", "the key «redacted: api key» is bad"},
		{"?k=topsecret%2Fkey%2B1&", "?k=«redacted: api key»&"},
		{"team ab12, cab123", "team «redacted: header», cab123"},
		{"vllm serve m --api-key abc --port 8000", "vllm serve m --api-key «redacted: api key» --port 8000"},
		{`serve --api-key="a b" -x`, `serve --api-key="«redacted: api key»" -x`},
		{"serve --api-key 'a b c' -x", "serve --api-key '«redacted: api key»' -x"},
		{`{"api_key": "k1", "n": 1}`, `{"api_key": "«redacted: api key»", "n": 1}`},
		{`{\"api_key\": \"k1\"} --api-key \"a b\"`, `{\"api_key\": \"«redacted: api key»"} --api-key \"«redacted: api key»"`},
		{"{'api_key': ['k1'], 'port': 8000}", "{'api_key': ['«redacted: api key»'], 'port': 8000}"},
		{"VLLM_API_KEY=k1 vllm", "VLLM_API_KEY=«redacted: api key» vllm"},
		{"HF_TOKEN=abc vllm", "HF_TOKEN=«redacted: token» vllm"},
		{`--api-key "a b`, "--api-key «redacted: api key»"},
		{"--hf-token abc", "--hf-token «redacted: token»"},
		{"DB_PASSWORD: hunter2", "DB_PASSWORD: «redacted: password»"},
		{"AWS_SECRET_ACCESS_KEY=wJalr/abc+1", "AWS_SECRET_ACCESS_KEY=«redacted: api key»"},
		{"Authorization: Bearer abc123", "Authorization: Bearer «redacted: api key»"},
		{"authorization=Basic dXNlcjpwYXNz", "authorization=Basic «redacted: api key»"},
		{"Cookie: a=b; c=d", "Cookie: «redacted: cookie»"},
		{"Cookie: a=b; sk-proj-abcdefgh12345678", "Cookie: «redacted: cookie»«redacted: api key»"},
		{"sk-proj-abcdefgh12345678", "«redacted: api key»"},
		{"hf_abcdefghijklmnopqrstuv", "«redacted: token»"},
		{"ghp_abcdefghijklmnopqrstuv", "«redacted: token»"},
		{"AKIAIOSFODNN7EXAMPLE", "«redacted: api key»"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "«redacted: token»"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx", "«redacted: private key»\nx"},
		{"redis://user:pass@cache.example.org/0", "redis://«redacted: credentials»@cache.example.org/0"},
		{"GET /v1?api_key=abc&x=1", "GET /v1?api_key=«redacted: api key»&x=1"},
		{"GET /v1?key=abc", "GET /v1?key=«redacted: api key»"},
		{"at 192.168.1.20:8000, 10.0.0.5.", "at «redacted: ip address»:8000, «redacted: ip address»."},
		{"[2001:db8::1]:8000 and fe80::1%eth0", "[«redacted: ip address»]:8000 and «redacted: ip address»%eth0"},
		{"link 0a:1b:2c:3d:4e:5f up", "link «redacted: mac address» up"},
		{"GPU-8a56a4bb-1234-5678-9abc-def012345678", "«redacted: uuid»"},
		{"Serial Number: 1321620012345", "Serial Number: «redacted: serial number»"},
		{"mail annika.b@example.org", "mail «redacted: email»"},
		{home + "/annika/models/x and " + home + "/bob/y", "~/models/x and ~/y"},
		{"-v " + home + "/bob/.cache:" + slash + "root/.cache", "-v ~/.cache:" + slash + "root/.cache"},
		{`C:\Users\bob\models`, `~\models`},
		{"annika@gpubox7:~$ ls", "«redacted: user name»@«redacted: host name»:~$ ls"},
		{"on gpubox7.lab.example.org, by annika", "on «redacted: host name», by «redacted: user name»"},
		{"http://buildhost:8000/v1", "http://«redacted: host name»:8000/v1"},
		{"ip-10-0-0-7.ec2.internal", "«redacted: host name»"},
		{"box.fritz.lan", "«redacted: host name»"},
		{`{"user": "bob"}`, `{"user": "«redacted: user name»"}`},
		{"--host 192.168.0.9 --master-addr node17", "--host «redacted: ip address» --master-addr «redacted: host name»"},
	}
	r := someone()
	for _, tt := range tests {
		got := r.Text(tt.text)
		if got != tt.want {
			t.Errorf("%q\nbecomes %q\nwant    %q", tt.text, got, tt.want)
		}
		if again := r.Text(got); again != got {
			t.Errorf("%q\nonce  %q\ntwice %q", tt.text, got, again)
		}
	}
}

// Text of the kinds that runs are full of, which must stay to the letter.
func TestOrdinaryTextStays(t *testing.T) {
	tests := []string{
		"vllm serve Qwen/Qwen3-Coder-30B-A3B-Instruct-AWQ --max-model-len 262144 --gpu-memory-utilization 0.95",
		"--host 0.0.0.0 --port 8000", "http://127.0.0.1:8000/v1", "http://localhost:8000", "http://[::1]:8000", "127.0.0.1:37490 - \"GET /health HTTP/1.1\" 200",
		"vLLM 0.32.0, torch 2.13.0+cu130, driver 595.99, CUDA 13.0.1", "nvidia-cublas-cu12==12.4.5.8", "version 12.4.5.8", "nvidia_cublas-12.4.5.8.whl",
		"print_info: BOS token = 1 '<|im_start|>'", "eos_token_id: 151645", `"pad_token": "<|endoftext|>"`, "max_tokens=512, token_ids=[33]",
		"n_head_kv = 8, key_length: 128", "num_key_value_heads=4", "--served-model-name bench --tokenizer Qwen/Qwen3",
		"std::vector<at::Tensor> c10::cuda ggml::backend", "12:34:56.789 at 2026-11-30T21:49:49Z", "1:1:1", "00:04:10",
		"decode-16k-x8 375.5 tok/s 94.1 each", "https://huggingface.co/Qwen/Qwen3", "see https://docs.vllm.ai/en/latest", "pkg@1.2.3 image@sha256:abcdef0123",
		"threading.local torch.distributed.local", "the API key is missing", "api_key=None", "password: ***", "--api-key EMPTY", "Bearer token required",
		"this server wants a valid key", "--enforce-eager --no-enable-prefix-caching -tp 2", "network/home/x", "~/models/x", "./runs/x", "/v1/models",
		"chatcmpl-8a56a4bb-1234-5678-9abc-def012345678", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"task-specific-instructions-v2-long-name", "disk-sk-learn", "llama_model_loader: - kv 3: general.basename str = Qwen3-30B",
		"secret", "tokens per second", "CUDA_VISIBLE_DEVICES=0,1", "OMP_NUM_THREADS=8", "no user input, user: hello", "RTX 3090 24 GB at 350 W",
		"12.34.67.90 I slot      release: id  2", "10.11.123.45 W srv stop: cancel task", "GGUF v3, type q4_K: 193 tensors", "EngineCore pid=12345", "mask 255.255.255.0", "Running: 4 reqs, Waiting: 0 reqs",
	}
	r := someone()
	for _, text := range tests {
		if got := r.Text(text); got != text {
			t.Errorf("%q\nbecomes %q", text, got)
		}
	}
}

// The name of a person may be a word of every command line.
func TestAShortNameIsTakenOutOfPathsAndAddressesOnly(t *testing.T) {
	r := redact.New(redact.Options{User: "max", Host: "zoe"})
	const text = "serve --max-model-len 8 of max size"
	if got := r.Text(text); got != text {
		t.Errorf("becomes %q", got)
	}
	if got, want := r.Text("/data/max/models, max@zoe:1"), "/data/«redacted: user name»/models, «redacted: user name»@«redacted: host name»:1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPlaceholdersAreNoSecrets(t *testing.T) {
	r := redact.New(redact.Options{Secrets: []redact.Secret{{Kind: redact.APIKey, Value: "ollama"}, {Kind: redact.APIKey, Value: "EMPTY"}}})
	const text = "ollama serve --api-key EMPTY"
	if got := r.Text(text); got != text {
		t.Errorf("becomes %q", got)
	}
}

// A limit may cut a server's words anywhere.
func TestTheBeginningOfAKnownSecretAtACutGoes(t *testing.T) {
	const key = "topsecret/key+1"
	r := someone()
	for n := 4; n <= len(key); n++ {
		for _, end := range []string{"", "…"} {
			if got, want := r.Words("your key "+key[:n]+end), "your key «redacted: api key»"+end; got != want {
				t.Errorf("%d letters: %q, want %q", n, got, want)
			}
		}
	}
}

func TestAPrivateKeyOnSeveralLinesGoes(t *testing.T) {
	line := redact.New(redact.Options{}).Lines()
	text := "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5v\nAAAA\n-----END OPENSSH PRIVATE KEY-----\nb"
	var got []string
	for l := range strings.SplitSeq(text, "\n") {
		got = append(got, line(l))
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "AAAA") || got[0] != "a" || got[len(got)-1] != "b" {
		t.Errorf("becomes %q", got)
	}
}

// Two marks are the same where the values were, and say nothing else.
func TestIdentitiesCarryASaltedHash(t *testing.T) {
	r := redact.New(redact.Options{Salt: []byte("salt")})
	other := redact.New(redact.Options{Salt: []byte("pepper")})
	a, b := r.Text("10.0.0.1"), r.Text("10.0.0.2")
	if a == b || a != r.Text("10.0.0.1") || a == other.Text("10.0.0.1") || len(a) != len("«redacted: ip address 12345678»") {
		t.Errorf("%q, %q, %q", a, b, other.Text("10.0.0.1"))
	}
	if again := r.Text(a); again != a {
		t.Errorf("%q becomes %q", a, again)
	}
}

func TestAddressesOfServers(t *testing.T) {
	r := redact.New(redact.Options{})
	for text, want := range map[string]string{
		"http://127.0.0.1:8000":                  "http://127.0.0.1:8000",
		"http://localhost:8000/base":             "http://localhost:8000/base",
		"http://[::1]:8000":                      "http://[::1]:8000",
		"https://api.openai.com":                 "https://api.openai.com",
		"https://u:p@gpu.corp.example.com/x?k=v": "https://«redacted: host name»/x",
		"http://192.168.1.5:8000":                "http://«redacted: ip address»:8000",
		"http://[fd00::5]:8000":                  "http://«redacted: ip address»:8000",
		"https://notopenai.com":                  "https://«redacted: host name»",
	} {
		if got := r.URL(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
		if again := r.URL(r.URL(text)); again != want {
			t.Errorf("%s becomes %s the second time", text, again)
		}
	}
}

type document struct {
	URL   string                    `json:"url"`
	Facts map[string]map[string]any `json:"facts"`
	Big   int64                     `json:"big"`
	Share float64                   `json:"share"`
	List  []string                  `json:"list"`
}

func TestACopyIsJudgedByTheNamesOfItsFields(t *testing.T) {
	r := redact.New(redact.Options{})
	in := document{URL: "http://gpu.example.org:1", Big: 1764573262123456789, Share: 0.1, List: []string{"10.0.0.1", "x"}, Facts: map[string]map[string]any{
		"serial": {"value": 1234567.0, "source": "user", "others": []any{map[string]any{"value": "A7"}}}, "driver": {"value": "12.4.5.8"}, "gpu": {"value": "RTX 3090"}, "hostname": {"value": "box"},
	}}
	out, err := redact.Copy(r, in)
	if err != nil {
		t.Fatal(err)
	}
	if out.URL != "http://«redacted: host name»:1" || out.Big != in.Big || out.Share != in.Share || out.List[0] != "«redacted: ip address»" || out.List[1] != "x" {
		t.Errorf("%+v", out)
	}
	for key, want := range map[string]any{"serial": "«redacted: serial number»", "driver": "12.4.5.8", "gpu": "RTX 3090", "hostname": "«redacted: host name»"} {
		if got := out.Facts[key]["value"]; got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if serial := out.Facts["serial"]; serial["source"] != "user" || fmt.Sprint(serial["others"]) != "[map[value:«redacted: serial number»]]" {
		t.Errorf("the fact of another source is %v", serial)
	}
	if in.List[0] != "10.0.0.1" {
		t.Error("the original was changed")
	}
}

// A file of JSON is judged as a document is, and keeps every byte that is not taken out.
func TestAFileKeepsTheBytesThatMayStay(t *testing.T) {
	r := redact.New(redact.Options{})
	in := "\ufeff" + `{ "tokens":1764573262123456789,"t_0":1.2345678901234567e-1 , "authorization" : "abc", "serial":{"value":123.50,"others":[7,"A7"]},
 "hosts": ["10.0.0.1" , "x\u0041\/"], "api_key": null, "session_key":true}
{"driver": "12.4.5.8", "driver_url":"http://gpu.example.org:1"}
`
	want := strings.NewReplacer(`"abc"`, `"«redacted: api key»"`, "123.50", `"«redacted: serial number»"`, "7,", `"«redacted: serial number»",`, `"A7"`, `"«redacted: serial number»"`,
		`"10.0.0.1"`, `"«redacted: ip address»"`, "gpu.example.org", "«redacted: host name»").Replace(strings.TrimPrefix(in, "\ufeff"))
	if got := string(r.Source([]byte(strings.TrimPrefix(in, "\ufeff")))); got != want {
		t.Errorf("the file becomes\n%s\nnot\n%s", got, want)
	}
	for text, want := range map[string]string{"a,b\n10.0.0.1,2\n": "a,b\n«redacted: ip address»,2\n", `{"broken": "10.0.0.1`: `{"broken": "«redacted: ip address»`, "": "", in: r.Text(in)} {
		if got := string(r.Source([]byte(text))); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// Whatever JSON it is: a file says what a redacted copy of its value says.
func TestAFileSaysWhatACopySays(t *testing.T) {
	r := someone()
	names := rapid.SampledFrom([]string{"value", "others", "hostname", "serial", "n", "api_key", "annika", "note"})
	texts := rapid.SampledFrom([]string{"", "x", "annika", "10.0.0.1", "\"<&>\n", "topsecret/key+1", "--api-key abc", "None"})
	var draw func(t *rapid.T, depth int) any
	draw = func(t *rapid.T, depth int) any {
		switch n := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case n == 0:
			return rapid.Int32().Draw(t, "number")
		case n == 1:
			return rapid.Bool().Draw(t, "flag")
		case n < 4 || depth == 0:
			return texts.Draw(t, "text")
		case n == 4:
			list := []any{}
			for range rapid.IntRange(0, 3).Draw(t, "length") {
				list = append(list, draw(t, depth-1))
			}
			return list
		}
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			object[names.Draw(t, "name")] = draw(t, depth-1)
		}
		return object
	}
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{"root": draw(t, 4)}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		want, err := redact.Copy(r, value)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(r.Source(text), &got); err != nil {
			t.Fatalf("%s: %v", r.Source(text), err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s becomes\n%v\nnot\n%v", text, got, want)
		}
	})
}

// comparison stands before the version of a package.
var comparison = regexp.MustCompile(`[<>=]=$`)

// Whatever stands around a secret: none is left, and a second pass changes nothing.
func TestNoSecretSurvivesItsSurroundings(t *testing.T) {
	secrets := []string{"topsecret/key+1", "hf_abcdefghijklmnopqrstuv", "sk-ant-abcdef0123456789", "10.11.12.13", "0a:1b:2c:3d:4e:5f", "GPU-8a56a4bb-1234-5678-9abc-def012345678"}
	// An address or a name ends at what is no letter.
	ends := []string{" ", "\"", "'", ")", ", ", "\n", "\t", "]", "}", "<", ">", "/"}
	around := []string{" ", "\"", "'", "(", ")", ", ", "=", ": ", "\n", "\t", "[", "]", "{", "}", "<", ">", "…", " word ", "--api-key ", "token=", "http://", "»", "«", "@"}
	r := someone()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom(secrets).Draw(t, "secret")
		before := strings.Join(rapid.SliceOfN(rapid.SampledFrom(around), 0, 4).Draw(t, "before"), "")
		after := strings.Join(rapid.SliceOfN(rapid.SampledFrom(around), 0, 3).Draw(t, "after"), "")
		after = rapid.SampledFrom(ends).Draw(t, "end") + after
		if strings.HasSuffix(before, "«") || strings.HasSuffix(before, ":") || comparison.MatchString(before) {
			return
		}
		text := r.Text(before + secret + after)
		if strings.Contains(text, secret) {
			t.Fatalf("%q becomes %q", before+secret+after, text)
		}
		if again := r.Text(text); again != text {
			t.Fatalf("%q becomes %q, then %q", before+secret+after, text, again)
		}
	})
}
