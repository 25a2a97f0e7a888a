package compare

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"speedmatrix"
)

// keysThatDiffer are those of the settings that differ, in order.
func keysThatDiffer(c *Comparison) (keys []string) {
	for _, s := range c.Settings {
		if s.Differs {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

func TestSettingsStandByHowMuchTheyMatter(t *testing.T) {
	a, b := document("a"), document("b")
	a.LaunchCommand = &speedmatrix.Fact{Value: "CUDA_VISIBLE_DEVICES=0 vllm serve tiny --max-num-seqs 8 --enable-prefix-caching", Source: "process"}
	b.LaunchCommand = &speedmatrix.Fact{Value: "CUDA_VISIBLE_DEVICES=1 vllm serve tiny --max-num-seqs=16", Source: "process"}
	b.Model = speedmatrix.Facts{speedmatrix.ModelName: {Value: "Big"}, speedmatrix.ModelQuantization: {Value: "FP8"}}
	b.Engine = speedmatrix.Facts{speedmatrix.EngineVersion: {Value: "1.1"}, "zeta": {Value: true}, "ready_seconds": {Value: 5.25}}
	a.Hardware = speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: "X"}}
	b.Hardware = speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: "Y"}}
	b.Method.KVPlan, b.Method.Salt = "reserve", "other"
	a.Plan.Contexts, b.Plan.Contexts = []int{0, 16 << 10}, []int{0}
	b.Tool.Version = "2"
	c := ofRuns(t, Options{}, a, b)
	want := []string{"method.kv_plan", "model.name", "model.quantization", "engine.version", "engine.zeta",
		"launch.--enable-prefix-caching", "launch.--max-num-seqs", "launch.CUDA_VISIBLE_DEVICES", "hardware.gpu", "rest.contexts", "rest.tool"}
	if diff := cmp.Diff(want, keysThatDiffer(c)); diff != "" {
		t.Error(diff)
	}
	i := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Key == "launch.--max-num-seqs" })
	if diff := cmp.Diff([]string{"8", "16"}, c.Settings[i].Values); diff != "" {
		t.Error(diff)
	}
	if slices.ContainsFunc(c.Settings, func(s Setting) bool { return strings.Contains(s.Key, "salt") }) {
		t.Error("the salt, which differs always, is a setting")
	}
}

func TestMethodsThatDifferAreRefusedByName(t *testing.T) {
	a, b := document("a"), document("b")
	b.Method.Name, b.Method.DurationSeconds = speedmatrix.MethodQuick, 5
	inputs := []Input{{Runs: []*speedmatrix.Run{a}}, {Runs: []*speedmatrix.Run{b}}}
	_, err := New(inputs, Options{})
	e := refused(t, err)
	if !strings.Contains(e.What, "name is standard/1 in A, quick/1 in B; duration_seconds is 30 in A, 5 in B") ||
		!strings.Contains(e.Next, "--allow method.name --allow method.duration_seconds") {
		t.Errorf("%s\n%s", e.What, e.Next)
	}
	_, err = New(inputs, Options{Allow: []string{"method.name"}})
	if e := refused(t, err); strings.Contains(e.What, "quick/1") || !strings.Contains(e.What, "duration_seconds") {
		t.Errorf("%s", e.What)
	}
	for _, allow := range [][]string{{"method.name", "method.duration_seconds"}, {"method"}} {
		c, err := New(inputs, Options{Allow: allow})
		if err != nil || !c.Settings[0].Allowed || !c.Settings[1].Allowed {
			t.Errorf("allowed %v: %v", allow, err)
		}
	}
	_, err = New(inputs, Options{Allow: []string{"method.durations_seconds"}})
	if e := refused(t, err); e.Next != "Did you mean method.duration_seconds?" {
		t.Errorf("%s: %s", e.What, e.Next)
	}
}

func TestRunsOfOneSideMustBeMeasuredAlikeToo(t *testing.T) {
	b := document("b")
	b.Method.Temperature = "0"
	_, err := New([]Input{{Runs: []*speedmatrix.Run{document("a"), b}}, {Runs: []*speedmatrix.Run{document("c")}}}, Options{})
	if e := refused(t, err); !strings.Contains(e.What, "temperature is not set / 0 in A") {
		t.Errorf("%s", e.What)
	}
}

func TestTheTextOfPromptsMattersToMeasuredRunsAlone(t *testing.T) {
	a, b := document("a"), document("b")
	b.Method.TextSHA256 = "bbbb"
	inputs := []Input{{Runs: []*speedmatrix.Run{a}}, {Runs: []*speedmatrix.Run{b}}}
	_, err := New(inputs, Options{})
	refused(t, err)
	b.Origin = speedmatrix.OriginPredicted
	if _, err := New(inputs, Options{}); err != nil {
		t.Error(err)
	}
}

func TestLaunchCommandsAreReadAsAShellReadsThem(t *testing.T) {
	for _, c := range []struct {
		command string
		want    map[string]string
	}{
		{"", map[string]string{}},
		{"vllm serve m --a 1 --b --c=x", map[string]string{"command": "vllm serve m", "--a": "1", "--b": "set", "--c": "x"}},
		{"A=1 B='two words' run --t -0.5 -n 3", map[string]string{"A": "1", "B": "two words", "command": "run", "--t": "-0.5", "-n": "3"}},
		{"x --o \"a # b\" \\\n  --p 'it''s' # gone --q\n--r", map[string]string{"command": "x", "--o": "a # b", "--p": "its", "--r": "set"}},
		{"x --o a --o b", map[string]string{"command": "x", "--o": "a b"}},
		{"# one note # another | 24 GB vllm serve m --a", map[string]string{"command": "vllm serve m", "--a": "set"}},
		{"# only a note", map[string]string{}},
		{`x \"y\" 'a\b'`, map[string]string{"command": `x "y" a\b`}},
	} {
		if got := launchOptions(c.command); !maps.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.command, got, c.want)
		}
	}
}
