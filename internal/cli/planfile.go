package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"speedmatrix"
	"speedmatrix/internal/yamldoc"
)

// planFields are the options of a plan file: the names of the flags.
type planFields struct {
	URL          any `yaml:"url"`
	Contexts     any `yaml:"contexts"`
	Concurrency  any `yaml:"concurrency"`
	Prefill      any `yaml:"prefill"`
	Duration     any `yaml:"duration"`
	MaxOutput    any `yaml:"max-output"`
	MaxTime      any `yaml:"max-time"`
	Precision    any `yaml:"precision"`
	Repeat       any `yaml:"repeat"`
	Prompts      any `yaml:"prompts"`
	Text         any `yaml:"text"`
	Temperature  any `yaml:"temperature"`
	Body         any `yaml:"body"`
	KVPlan       any `yaml:"kv-plan"`
	Method       any `yaml:"method"`
	Quick        any `yaml:"quick"`
	SharedServer any `yaml:"shared-server"`
	Salt         any `yaml:"salt"`
	Launch       any `yaml:"launch"`
	LaunchLimit  any `yaml:"launch-timeout"`
	Model        any `yaml:"model"`
	API          any `yaml:"api"`
	APIKey       any `yaml:"api-key"`
	APIKeyFile   any `yaml:"api-key-file"`
	Header       any `yaml:"header"`
	CAFile       any `yaml:"ca-file"`
	Insecure     any `yaml:"insecure"`
	State        any `yaml:"state"`
	Out          any `yaml:"out"`
	Yes          any `yaml:"yes"`
	Events       any `yaml:"events"`
}

// values gives the fields by flag name.
func (p *planFields) values() map[string]any {
	return map[string]any{
		"contexts": p.Contexts, "concurrency": p.Concurrency, "prefill": p.Prefill, "duration": p.Duration,
		"max-output": p.MaxOutput, "max-time": p.MaxTime, "precision": p.Precision, "repeat": p.Repeat,
		"prompts": p.Prompts, "text": p.Text, "temperature": p.Temperature, "body": p.Body, "kv-plan": p.KVPlan,
		"method": p.Method, "quick": p.Quick, "shared-server": p.SharedServer, "salt": p.Salt, "model": p.Model,
		"launch": p.Launch, "launch-timeout": p.LaunchLimit,
		"api": p.API, "api-key": p.APIKey, "api-key-file": p.APIKeyFile, "header": p.Header, "ca-file": p.CAFile,
		"insecure": p.Insecure, "state": p.State, "out": p.Out, "yes": p.Yes, "events": p.Events,
	}
}

// planNext is what to do about a plan file that is wrong.
const planNext = "A plan file holds the flags of run under their names: speedmatrix run --help"

// readPlan sets the flags that a plan file gives and the command line does not; it gives the file's URL.
func readPlan(path string, fs *pflag.FlagSet) (url string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", unreadable("plan file", err)
	}
	var fields planFields
	if err := yamldoc.Decode(path, data, &fields); err != nil {
		return "", &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: err.Error(), Next: planNext, Err: err}
	}
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	values := fields.values()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if value == nil || given[name] {
			continue
		}
		for _, text := range planTexts(name, value) {
			if err := fs.Set(name, text); err != nil {
				reason := err.Error()
				if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
					reason = badValue(e)
				}
				return "", usage(fmt.Sprintf("%s: %s: %s", path, name, reason), planNext)
			}
		}
	}
	if fields.URL != nil {
		url = fmt.Sprint(fields.URL)
	}
	return url, nil
}

// planTexts gives a YAML value as the texts that the flag takes: lists of settings joined by commas, repeatable
// flags one by one.
func planTexts(name string, value any) []string {
	if name == "body" {
		if text, ok := value.(string); ok {
			return []string{text}
		}
		data, err := json.Marshal(value)
		if err != nil {
			return []string{fmt.Sprint(value)}
		}
		return []string{string(data)}
	}
	var parts []string
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			parts = append(parts, fmt.Sprint(x))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			separator := "="
			if name == "header" {
				separator = ": "
			}
			parts = append(parts, key+separator+fmt.Sprint(v[key]))
		}
	default:
		return []string{fmt.Sprint(v)}
	}
	if name == "header" || name == "state" {
		return parts
	}
	return []string{strings.Join(parts, ",")}
}
