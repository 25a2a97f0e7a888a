package report

import (
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// labels of settings that have none in the sections of a run.
var settingLabels = map[string]string{
	"method.name": methodLabel, "method.duration_seconds": "Longest window, s", "method.min_window_seconds": "Shortest window, s",
	"method.window_tokens": "Window's tokens", "method.min_tokens": "Least tokens of a stream", "method.max_extension": "Longest extension",
	"method.precision": "Ends early at", "method.max_output": "Max output", "method.prompts": "Prompts", "method.text": "Text",
	"method.temperature": "Temperature", "method.body": "Request fields", "method.api": "API", "method.shared_server": "Shared server",
	"method.kv_plan": "KV plan",
	"model.name":     "Model", "engine.version": "Engine version", "engine.build": "Engine build", "hardware.type": "Hardware type", "hardware.os": "OS", "model.quantization": "Quantization", "launch.command": "Launch command",
	"rest.origin": "Origin", "rest.contexts": "Contexts", "rest.concurrency": "Requests at once", "rest.prefill": "Prefill sizes", "rest.tool": toolLabel,
	"rest.same_machine": "Client on the server's machine", "rest.stamp_source": "Stamps by", "rest.server": "Server",
}

// newComparedSetting words a setting; its label is "" where no side says anything.
func newComparedSetting(s *compare.Setting) ComparedSetting {
	c := ComparedSetting{Label: settingLabel(s), Allowed: s.Allowed}
	c.Code = s.Group == compare.GroupLaunch && s.Key != "launch.command"
	said := false
	for _, value := range s.Values {
		value = clip(Clean(value), 400)
		said = said || value != ""
		if value == "" {
			value = "not known"
			if s.Group == compare.GroupLaunch || s.Group == compare.GroupMethod {
				value = "not set"
			}
		} else if n, err := strconv.Atoi(value); err == nil && s.Group != compare.GroupLaunch && s.Key != "engine.version" && s.Key != "engine.build" && s.Key != "model.revision" {
			value = unit.Count(n)
		}
		c.Values = append(c.Values, value)
	}
	if !said {
		c.Label = ""
	}
	return c
}

func settingLabel(s *compare.Setting) string {
	if text := settingLabels[s.Key]; text != "" {
		return text
	}
	for group, labels := range map[compare.Group][]label{compare.GroupHardware: hardwareLabels, compare.GroupEngine: engineLabels, compare.GroupModel: modelLabels} {
		if i := slices.IndexFunc(labels, func(l label) bool { return l.key == s.Name() }); i >= 0 && s.Group == group {
			return labels[i].name
		}
	}
	name := clip(Clean(s.Name()), 60)
	if s.Group == compare.GroupLaunch {
		return name
	}
	return upper(strings.ReplaceAll(name, "_", " "))
}

// differenceCaption says how many settings differ, and what that means.
func (d *Comparison) differenceCaption() string {
	n, same := len(d.Different), len(d.Equal)
	text := unit.Count(n) + " settings differ, " + unit.Count(same) + " are the same."
	if n == 1 {
		text = "1 setting differs, " + unit.Count(same) + " are the same."
	}
	if n == 0 {
		return "No setting differs, " + unit.Count(same) + " are the same: what differs below is noise, or something that no run knows of."
	}
	if slices.ContainsFunc(d.Data.Settings, func(s compare.Setting) bool { return s.Allowed }) {
		text += " The methods differ, so the numbers do not compare; that was allowed."
	}
	weighty := slices.DeleteFunc(slices.Clone(d.Data.Settings), func(s compare.Setting) bool {
		return !s.Differs || s.Group == compare.GroupRest || s.Key == "model."+speedmatrix.ModelServedName
	})
	models := slices.ContainsFunc(weighty, func(s compare.Setting) bool { return s.Key == "model."+speedmatrix.ModelName })
	switch {
	case models:
		text += " The models differ, so no difference below is the effect of one setting."
	case len(weighty) > 1:
		text += " No single one explains a difference below."
	}
	return text
}
