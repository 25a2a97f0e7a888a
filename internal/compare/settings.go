package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Group is what a setting belongs to.
type Group string

// The groups, by how much a difference in them matters.
const (
	GroupMethod   Group = "method"
	GroupModel    Group = "model"
	GroupEngine   Group = "engine"
	GroupLaunch   Group = "launch"
	GroupHardware Group = "hardware"
	GroupRest     Group = "rest"
)

func groups() []Group {
	return []Group{GroupMethod, GroupModel, GroupEngine, GroupLaunch, GroupHardware, GroupRest}
}

// Setting is something that is set, stated or known on some of the sides.
type Setting struct {
	// Key is the setting's name, such as "method.duration_seconds", "model.name" or "launch.--max-model-len".
	Key   string `json:"key"`
	Group Group  `json:"group"`
	// Values has one for each side; "" is not set or not known. Where the runs of one side differ, all their
	// values stand there.
	Values  []string `json:"values"`
	Differs bool     `json:"differs"`
	// Allowed marks a setting that makes numbers incomparable and was allowed to differ.
	Allowed bool `json:"allowed,omitempty"`
}

// Name is the key without its group.
func (s Setting) Name() string { return strings.TrimPrefix(s.Key, string(s.Group)+".") }

// values are the settings of one run: what each is, and the order in which they matter.
type values struct {
	of    map[string]string
	order []string
	group map[string]Group
}

func (v *values) put(g Group, name, value string) {
	key := string(g) + "." + name
	if _, there := v.of[key]; !there {
		v.order = append(v.order, key)
	}
	v.of[key], v.group[key] = value, g
}

// settings lists the settings of all sides, those that differ first. Where a method's setting differs that makes
// numbers incomparable, the names that allow it are demanded.
func settings(sides []Side, allow []string) ([]Setting, error) {
	var ofRuns [][]*values
	merged := &values{of: map[string]string{}, group: map[string]Group{}}
	for _, side := range sides {
		var list []*values
		for _, run := range side.Runs {
			v := settingsOf(run)
			list = append(list, v)
			for _, key := range v.order {
				merged.put(v.group[key], strings.TrimPrefix(key, string(v.group[key])+"."), "")
			}
		}
		ofRuns = append(ofRuns, list)
	}
	var list []Setting
	for _, key := range merged.order {
		s := Setting{Key: key, Group: merged.group[key]}
		for _, runs := range ofRuns {
			value, mixed := together(runs, key)
			s.Values = append(s.Values, value)
			s.Differs = s.Differs || mixed || value != s.Values[0]
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b Setting) int {
		if a.Differs != b.Differs {
			if a.Differs {
				return -1
			}
			return 1
		}
		return slices.Index(groups(), a.Group) - slices.Index(groups(), b.Group)
	})
	return list, permit(list, sides, allow)
}

// together is a setting's value over the runs of one side.
func together(runs []*values, key string) (value string, mixed bool) {
	var seen []string
	for _, v := range runs {
		if x := v.of[key]; !slices.Contains(seen, x) {
			seen = append(seen, x)
		}
	}
	if i := slices.Index(seen, ""); i >= 0 && len(seen) > 1 {
		seen[i] = "not set"
	}
	return strings.Join(seen, " / "), len(seen) > 1
}

// permit checks the method's settings that differ against the names that allow it.
func permit(list []Setting, sides []Side, allow []string) error {
	must := incomparable(sides)
	for _, name := range allow {
		if name != string(GroupMethod) && !slices.Contains(must, name) {
			next := "These can be allowed: method, " + strings.Join(must, ", ")
			if near := unit.Nearest(name, must); near != "" {
				next = "Did you mean " + near + "?"
			}
			return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("--allow %s names no setting of the method that makes runs incomparable", name), Next: next}
		}
	}
	var what, flags []string
	for i := range list {
		s := &list[i]
		if !s.Differs || !slices.Contains(must, s.Key) {
			continue
		}
		if slices.Contains(allow, s.Key) || slices.Contains(allow, string(GroupMethod)) {
			s.Allowed = true
			continue
		}
		var each []string
		for k, value := range s.Values {
			if value == "" {
				value = "not known"
			}
			each = append(each, fmt.Sprintf("%s in %s", value, sides[k].Name))
		}
		what = append(what, s.Name()+" is "+strings.Join(each, ", "))
		flags = append(flags, "--allow "+s.Key)
	}
	if len(what) == 0 {
		return nil
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the runs were measured by different methods, so their numbers do not compare: " + strings.Join(what, "; "),
		Next: "Measure both alike, or compare all the same with " + strings.Join(flags, " ")}
}

// incomparable are the keys of settings that make numbers incomparable. What prompts were made of does not matter
// where a run was not measured: predictions have no text, imported runs do not tell.
func incomparable(sides []Side) []string {
	list := []string{"name", "duration_seconds", "min_window_seconds", "window_tokens", "min_tokens", "max_extension", "precision",
		"max_output", "prompts", "temperature", "body", "api", "shared_server"}
	measured := !slices.ContainsFunc(sides, func(s Side) bool {
		return slices.ContainsFunc(s.Runs, func(r *speedmatrix.Run) bool { return r.Origin != speedmatrix.OriginMeasured })
	})
	if measured {
		list = append(list, "text")
	}
	for i := range list {
		list[i] = string(GroupMethod) + "." + list[i]
	}
	return list
}

// settingsOf lists the settings of a run, in each group by how much they matter.
func settingsOf(run *speedmatrix.Run) *values {
	v := &values{of: map[string]string{}, group: map[string]Group{}}
	v.method(&run.Method)
	v.facts(GroupModel, run.Model, []string{speedmatrix.ModelName, speedmatrix.ModelQuantization, speedmatrix.ModelRevision, speedmatrix.ModelParameters})
	v.facts(GroupEngine, run.Engine, []string{speedmatrix.EngineName, speedmatrix.EngineVersion, speedmatrix.EngineBuild, speedmatrix.EngineBackend,
		speedmatrix.EngineRepository, speedmatrix.EngineKVType, speedmatrix.EnginePrefixCaching, speedmatrix.EngineRunningLimit, speedmatrix.EngineStepTokens})
	if c := run.LaunchCommand; c != nil && c.Value != nil {
		options := launchOptions(fmt.Sprint(c.Value))
		v.put(GroupLaunch, commandName, options[commandName])
		for _, name := range slices.Sorted(maps.Keys(options)) {
			v.put(GroupLaunch, name, options[name])
		}
	}
	v.facts(GroupHardware, run.Hardware, []string{speedmatrix.HardwareGPU, speedmatrix.HardwareGPUCount, speedmatrix.HardwareVRAM,
		speedmatrix.HardwareCPU, speedmatrix.HardwareDriver})
	v.rest(run)
	return v
}

func (v *values) method(m *speedmatrix.Method) {
	put := func(name, value string) { v.put(GroupMethod, name, value) }
	put("name", m.Name)
	put("duration_seconds", number(m.DurationSeconds))
	put("min_window_seconds", number(m.MinWindowSeconds))
	put("window_tokens", number(float64(m.WindowTokens)))
	put("min_tokens", number(float64(m.MinTokens)))
	put("max_extension", number(m.MaxExtension))
	put("precision", number(m.Precision))
	put("max_output", number(float64(m.MaxOutput)))
	put("prompts", m.Prompts)
	put("text", strings.TrimSpace(m.Text+" "+m.TextSHA256[:min(len(m.TextSHA256), 12)]))
	put("temperature", m.Temperature)
	body := ""
	if len(m.Body) > 0 {
		if data, err := json.Marshal(m.Body); err == nil {
			body = string(data)
		}
	}
	put("body", body)
	put("api", m.API)
	put("shared_server", yesNo(m.SharedServer))
	put("kv_plan", m.KVPlan)
}

// facts lists the keys that matter most, then the others by name.
func (v *values) facts(g Group, facts speedmatrix.Facts, first []string) {
	for _, key := range first {
		if _, there := facts[key]; there {
			v.put(g, key, facts.Text(key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		if !slices.Contains(observed, key) {
			v.put(g, key, facts.Text(key))
		}
	}
}

// observed are facts that nobody sets: what a token costs by the model's configuration, and how long the server took to
// be ready.
var observed = []string{"ready_seconds", "read_bytes_per_token", "kv_bytes_per_token", "flop_per_token", "flop_per_attention_pair"}

func (v *values) rest(run *speedmatrix.Run) {
	v.put(GroupRest, "origin", string(run.Origin))
	v.put(GroupRest, "contexts", tokens(run.Plan.Contexts, "context"))
	v.put(GroupRest, "concurrency", counts(run.Plan.Concurrency))
	v.put(GroupRest, "prefill", tokens(run.Plan.Prefill, "size"))
	v.put(GroupRest, "tool", strings.TrimSpace(run.Tool.Name+" "+run.Tool.Version))
	v.put(GroupRest, "same_machine", yesNo(run.Server.SameMachine))
	v.put(GroupRest, "stamp_source", run.Client.StampSource)
	v.put(GroupRest, "server", run.Server.URL)
}

// tokens is "6 contexts (0–248K)".
func tokens(list []int, noun string) string {
	if len(list) == 0 {
		return ""
	}
	low, high := unit.FormatTokens(slices.Min(list)), unit.FormatTokens(slices.Max(list))
	if len(list) == 1 {
		return "1 " + noun + " (" + low + ")"
	}
	return fmt.Sprintf("%d %ss (%s–%s)", len(list), noun, low, high)
}

func counts(list []int) string {
	var words []string
	for _, n := range list {
		words = append(words, unit.Count(n))
	}
	return strings.Join(words, ", ")
}

// number is "" for 0, which stands for not set or not known.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
