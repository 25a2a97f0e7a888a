package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"speedmatrix/internal/bench"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/unit"
)

// runOptions are the options of run.
type runOptions struct {
	bench.Settings
	model, api, apiKey, apiKeyFile string
	headers, states                []string
	caFile, textFile, planFile     string
	insecure, yes, events, lines   bool
	out, resume                    string
	launch                         string
	launchTimeout                  time.Duration
	// runNoise is what two runs of one set-up differ by, as a share, where the user states it.
	runNoise float64
}

// setter is a flag whose text is parsed by a function.
type setter struct {
	set  func(string) error
	kind string
	text string
}

// text adds a flag whose value is taken as it is.
func (f flags) text(into *string, name, kind, help string) {
	f.define(name, kind, func(v string) error { *into = v; return nil }, help)
}

func (s *setter) String() string { return s.text }
func (s *setter) Type() string   { return s.kind }
func (s *setter) Set(v string) error {
	s.text = v
	return s.set(v)
}

// flags is a group of flags in the order in which they are shown.
type flags struct{ *pflag.FlagSet }

func flagSet(name string) flags {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags = false
	return flags{fs}
}

// define adds a flag that is parsed by set.
func (f flags) define(name, kind string, set func(string) error, help string) {
	f.Var(&setter{set: set, kind: kind}, name, help)
}

// methodFlags are the flags that may change a number.
func (o *runOptions) methodFlags(fs flags) {
	fs.define("contexts", "LIST", o.setContexts, "rows of the matrix in tokens, such as 0,16K,32K,max (default: up to six rows that suit the model)")
	fs.define("concurrency", "LIST", o.setConcurrency, "numbers of simultaneous requests, such as 1,2,4,8 (default: 1 to 128, up to the server's limit)")
	fs.define("prefill", "LIST", o.setPrefill, `prefill sizes in tokens, such as 8K,16K, or "none" (default: 8K and the contexts)`)
	fs.define("duration", "TIME", duration(&o.Duration), "longest window of a cell (default 30s)")
	fs.define("max-output", "TOKENS", tokens(&o.MaxOutput), "most output tokens of a request (default 8192)")
	fs.define("max-time", "TIME", duration(&o.MaxTime), "longest time for the whole run, such as 20m: the least informative cells are left out")
	fs.define("precision", "SHARE", share(&o.Precision), "end a window early at this half width of the 95 % interval, such as 1% or 0.01")
	fs.define("repeat", "N", whole(&o.Repeat), "measure the decode matrix so many times (default 1)")
	fs.define("prompts", "KIND", func(v string) error { o.Prompts = prompt.Mode(v); return nil }, "distinct, shared or shared-prefix (default distinct)")
	fs.text(&o.textFile, "text", "FILE", "text to make prompts of (default: embedded books in the public domain)")
	fs.define("temperature", "NUMBER", o.setTemperature, "temperature of the sampling, or \"server\" to leave it to the server (default 0.8)")
	fs.define("body", "JSON", o.setBody, `further fields of every request, such as '{"top_p":0.95}'`)
	fs.text(&o.KVPlan, "kv-plan", "PLAN", "observe: refuse only what cannot fit; reserve: book the whole output in advance (default observe)")
	fs.text(&o.Method, "method", "NAME", "standard/1 or compat/llm-inference-bench (default standard/1)")
	fs.BoolVar(&o.Quick, "quick", false, "5 s a cell: method quick/1, which does not compare with standard/1")
	fs.BoolVar(&o.SharedServer, "shared-server", false, "measure although others use the server; every cell says so")
	fs.text(&o.Salt, "salt", "TEXT", "what makes the prompts of this run differ from all others (default random)")
}

// serverFlags say which server, and how to get in.
func (o *runOptions) serverFlags(fs flags) {
	o.launchTimeout = launchTimeout
	fs.text(&o.launch, "launch", "COMMAND", "start the server with this command, wait until it is ready, and stop it at the end")
	fs.define("launch-timeout", "TIME", duration(&o.launchTimeout), "longest time until a started server is ready (default 20m)")
	fs.text(&o.model, "model", "NAME", "the model to measure, where several are served")
	fs.define("api", "NAME", o.setAPI, strings.Join(dialect.Names(), ", ")+`, or "auto": chat where the server has it (default auto)`)
	fs.text(&o.apiKey, "api-key", "KEY", "key to send (default: $OPENAI_API_KEY, with --api anthropic $ANTHROPIC_API_KEY); it is written nowhere")
	fs.text(&o.apiKeyFile, "api-key-file", "FILE", "file that holds the key")
	fs.StringArrayVar(&o.headers, "header", nil, "a `LINE` such as 'X-Team: speed' to send as a header of every request; may be given several times")
	fs.text(&o.caFile, "ca-file", "FILE", "certificates to trust, PEM")
	fs.BoolVar(&o.insecure, "insecure", false, "do not check the server's certificate")
	fs.StringArrayVar(&o.states, "state", nil, "state a fact as `KEY=VALUE`, such as hardware.gpu=\"RTX 3090\"; may be given several times")
}

func (o *runOptions) fileFlags(fs flags) {
	fs.text(&o.planFile, "plan", "FILE", "these options in YAML; flags overrule it")
	fs.text(&o.out, "out", "DIR", "the run's directory; it must not exist (default runs/ID)")
	fs.text(&o.resume, "resume", "DIR", "go on with the interrupted run in DIR")
	fs.define("run-noise", "SHARE", share(&o.runNoise), "what two measurements of a cell differ by (standard deviation), such as 0.5%: with --repeat the plan says which change a comparison will find")
	fs.BoolVar(&o.yes, "yes", false, "ask nothing")
	fs.BoolVar(&o.lines, "lines", false, "print a line for each cell instead of the live screen")
	fs.BoolVar(&o.events, "events", false, "print one JSON object per line on standard output while it runs; what people read goes to standard error")
}

// interleaveFlags are the files and questions of two runs that are measured in alternation.
func (o *runOptions) interleaveFlags(fs flags) {
	fs.text(&o.out, "out", "DIR", "folder in which the two run directories are made (default runs)")
	fs.BoolVar(&o.yes, "yes", false, "ask nothing")
}

// changed lists the flags that were given.
func changed(fs *pflag.FlagSet) (given []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			given = append(given, "--"+f.Name)
		}
	})
	return given
}

// autoAPI leaves the choice of the API to the probe.
const autoAPI = "auto"

func (o *runOptions) setAPI(v string) error {
	if o.api = v; v == autoAPI {
		o.api = ""
		return nil
	}
	if _, err := dialect.ByName(v); err != nil {
		return fmt.Errorf("there is no API %q; it is %s, %s", v, autoAPI, strings.Join(dialect.Names(), ", "))
	}
	return nil
}

// dialect is the API that was asked for; with auto that of chat, whose headers most servers want.
func (o *runOptions) dialect() (dialect.Dialect, error) {
	return dialect.ByName(cmp.Or(o.api, dialect.Chat().Name()))
}

func (o *runOptions) setContexts(v string) (err error) {
	o.Contexts, err = tokenList(v, true)
	return err
}

func (o *runOptions) setConcurrency(v string) error {
	o.Concurrency = nil
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no number of requests; write a list such as 1,2,4,8", strings.TrimSpace(part))
		}
		o.Concurrency = append(o.Concurrency, n)
	}
	return nil
}

func (o *runOptions) setPrefill(v string) (err error) {
	if o.NoPrefill = v == "none"; o.NoPrefill {
		return nil
	}
	o.Prefill, err = tokenList(v, false)
	return err
}

func (o *runOptions) setBody(v string) error {
	const wanted = `it must be one JSON object, such as {"top_p":0.95}`
	o.Body = nil
	err := json.Unmarshal([]byte(v), &o.Body)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: %w", wanted, e)
	}
	if err != nil || o.Body == nil {
		return errors.New(wanted)
	}
	return nil
}

// setTemperature takes a number as text, or "server"; its range is the settings' to check.
func (o *runOptions) setTemperature(v string) error {
	if t, err := strconv.ParseFloat(v, 64); v != "server" && (err != nil || math.IsNaN(t)) {
		return fmt.Errorf("%q is no number; give one such as 0.8, or \"server\" to leave it to the server", v)
	}
	o.Temperature = v
	return nil
}

// tokenList parses "0,16K,max".
func tokenList(v string, allowMax bool) (list []int, err error) {
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		if allowMax && strings.EqualFold(part, "max") {
			list = append(list, bench.Max)
			continue
		}
		n, err := unit.ParseTokens(part)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func duration(into *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is no time; write it like 30s, 20m or 1h", v)
		}
		if d <= 0 {
			return fmt.Errorf("%s is no time that can be measured; write it like 30s, 20m or 1h", v)
		}
		*into = d
		return nil
	}
}

func tokens(into *int) func(string) error {
	return func(v string) (err error) {
		*into, err = unit.ParseTokens(v)
		if err == nil && *into == 0 {
			return fmt.Errorf("0 tokens cannot be measured")
		}
		return err
	}
}

func whole(into *int) func(string) error {
	return func(v string) (err error) {
		if *into, err = strconv.Atoi(v); err != nil || *into < 1 {
			return fmt.Errorf("%q is no whole number above 0", v)
		}
		return nil
	}
}

// share parses 0.01 or 1%.
func share(into *float64) func(string) error {
	return func(v string) error {
		number, percent := strings.CutSuffix(v, "%")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(x > 0) { // NaN is not above 0 either
			return fmt.Errorf("%q is no share; write it like 1%% or 0.01", v)
		}
		if percent {
			x /= 100
		}
		*into = x
		return nil
	}
}
