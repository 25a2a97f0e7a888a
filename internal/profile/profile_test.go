package profile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

func TestEveryEmbeddedProfileIsSoundAndWrittenAsItIsRead(t *testing.T) {
	list := All()
	if len(list) < 8 || list[0].Kind != KindCalibrated || list[1].Kind != KindCalibrated {
		t.Fatalf("%d profiles, first %s", len(list), list[0].Kind)
	}
	for _, p := range list {
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(p.Name, data)
		if err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, data)
		}
		if diff := cmp.Diff(&p, again); diff != "" {
			t.Errorf("%s is read back otherwise: %s", p.Name, diff)
		}
		if len(p.Assumptions) == 0 || p.Source == "" {
			t.Errorf("%s does not say where it comes from", p.Name)
		}
		if named, err := Named(p.Name); err != nil || named.Name != p.Name {
			t.Errorf("%s: its file has another name: %v", p.Name, err)
		}
	}
}

func TestAnEstimateIsNearWhatTheCardIsKnownFor(t *testing.T) {
	// One stream without context reads all weights once per token.
	tests := []struct {
		name          string
		least, most   float64 // tok/s of one stream
		prefill, upTo float64 // tok/s of a long prompt without its attention
	}{
		{"rtx4090-qwen3-8b-bf16", 40, 60, 4000, 9000},
		{"rtx3060-12gb-qwen3-4b-awq", 60, 110, 1000, 3000},
		{"h100-80gb-llama-3.3-70b-fp8", 25, 45, 2500, 6000},
		{"rtx5090-qwen3-30b-a3b-awq", 120, 260, 10000, 25000},
	}
	for _, tt := range tests {
		p, err := Named(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		s := &p.StepTime
		rate := 1e3 / (s.BaseMS + s.PerSequenceMS + s.PerExpertMS*s.ExpertsPerToken)
		if rate < tt.least || rate > tt.most {
			t.Errorf("%s decodes %.0f tok/s, want %.0f to %.0f", tt.name, rate, tt.least, tt.most)
		}
		prefill := 1e6 / (s.PrefillTokenUS + s.PrefillBaseMS*1e3/float64(p.Scheduler.StepTokens))
		if prefill < tt.prefill || prefill > tt.upTo {
			t.Errorf("%s reads %.0f tok/s, want %.0f to %.0f", tt.name, prefill, tt.prefill, tt.upTo)
		}
	}
}

func TestAnUnknownProfileNamesTheNearest(t *testing.T) {
	_, err := Named("rtx3090-agents-a1-4b")
	var e *speedmatrix.Error
	if !asError(err, &e) || e.Kind != speedmatrix.KindUsage {
		t.Fatal(err)
	}
	if !strings.Contains(e.What, `"rtx3090-agents-a1-4b"`) || !strings.HasPrefix(e.Next, "The nearest: rtx3090-agents-a1-4b-fp8,") {
		t.Errorf("%s. %s", e.What, e.Next)
	}
	for _, name := range []string{"", "../profile.schema", "presets"} {
		if _, err := Named(name); err == nil {
			t.Errorf("there is a profile %q", name)
		}
	}
}

func asError(err error, into **speedmatrix.Error) bool {
	e, ok := err.(*speedmatrix.Error)
	*into = e
	return ok
}

func TestAWrongFieldIsNamedWithWhatItMayBe(t *testing.T) {
	good, err := Named("rtx3090-agents-a1-4b-fp8")
	if err != nil {
		t.Fatal(err)
	}
	data, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ from, to, want string }{
		{"base_ms: 8.303", "bsae_ms: 8.303", `unknown field "bsae_ms"; did you mean "base_ms"?`},
		{"base_ms: 8.303", "base_ms: fast", `"fast" is not a number`},
		{"base_ms: 8.303", "base_ms: -1", "step_time.base_ms cannot be -1"},
		{"base_ms: 8.303", "base_ms: .nan", "step_time.base_ms cannot be NaN"},
		{"base_ms: 8.303", "base_ms: 0", "step_time.base_ms cannot be 0"},
		{"kind: calibrated", "kind: guessed", `kind cannot be "guessed"`},
		{"name: rtx3090-agents-a1-4b-fp8", "name: RTX 3090", `name cannot be "RTX 3090"`},
		{"blocks: 870", "blocks: 1", "kv.blocks cannot be 1"},
		{"blocks: 870", "blocks: 400", "model.max_length_tokens is 262,144, but the KV cache holds 210,672 tokens"},
		{"vram_gib: 24", "vram_gib: 12", "hardware.vram_gib is 12, but the weights take 4.5 GiB and the KV cache 14.0 GiB"},
		{"step_tokens: 2048", "step_tokens: 512", "scheduler.step_tokens cannot be 512"},
		{"attention: per-sequence", "attention: none", `step_time.attention cannot be "none"`},
		{"kv_norm: 3.0", "kv_norm: 0.5", "step_time.kv_norm cannot be 0.5"},
		{"per_context_token: 0.9807", "per_context_token: 11", "prompt.per_context_token cannot be 11"},
	}
	for _, tt := range tests {
		text := strings.Replace(string(data), tt.from, tt.to, 1)
		if text == string(data) {
			t.Fatalf("%q is not in the profile:\n%s", tt.from, data)
		}
		_, err := Decode("mine.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.to, err, tt.want)
		}
	}
}

func TestTheSchemaHasEveryFieldOfAProfile(t *testing.T) {
	type node struct {
		Properties map[string]json.RawMessage
	}
	var walk func(path string, raw json.RawMessage, is reflect.Type)
	walk = func(path string, raw json.RawMessage, is reflect.Type) {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		fields := map[string]bool{}
		for f := range is.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			fields[name] = true
			sub, there := n.Properties[name]
			if !there {
				t.Errorf("the schema lacks %s%s", path, name)
				continue
			}
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(path+name+".", sub, inner)
			}
		}
		for name := range n.Properties {
			if !fields[name] {
				t.Errorf("the schema has %s%s, a profile does not", path, name)
			}
		}
	}
	walk("", Schema(), reflect.TypeFor[Profile]())
}
