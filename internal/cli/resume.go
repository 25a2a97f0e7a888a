package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/runfile"
)

// openResumed takes the settings of the run that is to go on, and claims its directory.
func (r *runner) openResumed() (err error) {
	dir, err := runfile.Open(r.o.resume)
	if err != nil {
		return err
	}
	if err := dir.Lock(); err != nil {
		return err
	}
	r.out.adopt(dir)
	doc, warnings, err := dir.LoadRun()
	if err != nil {
		return err
	}
	if len(warnings) > 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "the run cannot be gone on with: " + warnings[0].Message,
			Next: "It was written by another version of this program."}
	}
	if doc.Origin != speedmatrix.OriginMeasured {
		return usage(fmt.Sprintf("%s holds a run that was %s, which cannot go on", r.o.resume, doc.Origin), "Only a measured run goes on.")
	}
	r.doc, r.resumed = doc, true
	r.doc.Plan.Resumed++
	if r.url == "" {
		r.url = doc.Server.URL
	}
	r.o.takeSettings(doc)
	return nil
}

// takeSettings overrules all settings that can change a number by those of the run.
func (o *runOptions) takeSettings(doc *speedmatrix.Run) {
	m := &doc.Method
	given := o.Body
	o.Settings = bench.Settings{
		Contexts: doc.Plan.Contexts, Concurrency: doc.Plan.Concurrency, Prefill: doc.Plan.Prefill, NoPrefill: len(doc.Plan.Prefill) == 0,
		Duration: time.Duration(m.DurationSeconds * float64(time.Second)), MaxOutput: m.MaxOutput, Precision: m.Precision, Repeat: m.Repeat,
		Prompts: prompt.Mode(m.Prompts), Temperature: m.Temperature, Body: m.Body, KVPlan: m.KVPlan, Method: m.Name,
		SharedServer: m.SharedServer, Salt: m.Salt, MaxTime: o.MaxTime,
	}
	if o.MaxTime == 0 && !anythingMeasured(doc) {
		// Killed before the time was shared out among the cells.
		o.MaxTime = time.Duration(doc.Plan.MaxSeconds * float64(time.Second))
	}
	o.api = m.API
	if served := doc.Model.Text(speedmatrix.ModelServedName); o.model == "" && !redact.Marked(served) {
		o.model = served
	}
	if given != nil {
		o.Body = given // compared with the run's when secrets are known
	}
}

// sameSettings refuses what cannot be gone on with because a secret was, rightly, not kept: it must be given again.
func (r *runner) sameSettings() error {
	if redact.Marked(r.url) {
		return usage("the run does not say at which address its server was", "Give the URL again: speedmatrix run http://HOST:PORT --resume "+r.o.resume)
	}
	body, err := redact.Copy(r.redact, r.o.Body)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(body, r.doc.Method.Body) {
		return usage("--body is not what the run was begun with", "A resumed run is measured as it was begun. Leave it out, or begin a new run.")
	}
	if data, err := json.Marshal(r.o.Body); err == nil && redact.Marked(string(data)) {
		return usage("the run's --body held something secret, which was not kept", "Give --body again, as it was.")
	}
	return nil
}

// restate takes over what the user had stated about the run's server.
func (r *runner) restate() {
	again := func(into, from speedmatrix.Facts) {
		for key, fact := range from {
			if _, given := into[key]; !given && fact.Source == speedmatrix.SourceUser {
				into.Set(key, fact.Value, fact.Source)
			}
		}
	}
	again(r.stated.model, r.doc.Model)
	again(r.stated.engine, r.doc.Engine)
	again(r.stated.hardware, r.doc.Hardware)
}

// The facts that must be the same when a run goes on.
var (
	sameModel = []string{speedmatrix.ModelServedName, speedmatrix.ModelName, speedmatrix.ModelMaxLength, speedmatrix.ModelQuantization, speedmatrix.ModelRevision}
	// The KV cache in tokens is compared by itself: it may vary a little from start to start.
	sameEngine   = []string{speedmatrix.EngineName, speedmatrix.EngineVersion, speedmatrix.EngineBuild, speedmatrix.EngineRunningLimit, speedmatrix.EngineKVType, speedmatrix.EnginePrefixCaching}
	sameHardware = []string{speedmatrix.HardwareGPU, speedmatrix.HardwareGPUCount, speedmatrix.HardwareVRAM}
)

// sameServer refuses to go on with a run on another server, naming what changed.
func (r *runner) sameServer(ctx context.Context) error {
	now, err := redact.Copy(r.redact, struct{ Model, Engine, Hardware speedmatrix.Facts }{r.server.Facts.Model, r.server.Facts.Engine, r.hardware(ctx)})
	if err != nil {
		return err
	}
	changed := changes("model", r.doc.Model, now.Model, sameModel)
	changed = append(changed, changes("engine", r.doc.Engine, now.Engine, append(slices.Clone(sameEngine), r.told(now.Engine)...))...)
	changed = append(changed, r.kvChange(now.Engine)...)
	if r.doc.Server.SameMachine {
		changed = append(changed, changes("hardware", r.doc.Hardware, now.Hardware, sameHardware)...)
	}
	changed = append(changed, r.commandChanges()...)
	if r.library.SHA256() != r.doc.Method.TextSHA256 {
		changed = append(changed, "the text that prompts are made of differs (--text)")
	}
	if len(changed) > 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: "the server is not the one that this run measured: " + strings.Join(changed, "; "),
			Next: "Start the server as it was, or begin a new run."}
	}
	return nil
}

// changes lists the facts of those keys that differ: "engine.version 0.32.0 → 0.33.0".
func changes(section string, old, now speedmatrix.Facts, keys []string) (list []string) {
	for _, key := range keys {
		if a, b := old.Text(key), now.Text(key); a != b {
			list = append(list, fmt.Sprintf("%s.%s %s → %s", section, key, unknownOr(a), unknownOr(b)))
		}
	}
	return list
}

func unknownOr(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// told are the further facts that command line or environment told before and tell now. A process that cannot be seen
// any more tells nothing.
func (r *runner) told(now speedmatrix.Facts) (keys []string) {
	for key, fact := range r.doc.Engine {
		_, still := now[key]
		skip := slices.Contains(sameEngine, key) || slices.Contains([]string{speedmatrix.EngineLaunched, speedmatrix.EngineReadySeconds, speedmatrix.EngineKVTokens}, key)
		if fact.Source == launch.Source && still && !skip {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// kvTolerance is how far the size of the KV cache may be off: engines take what memory is left when they start.
const kvTolerance = 0.01

func (r *runner) kvChange(now speedmatrix.Facts) []string {
	a, was := r.doc.Engine.Int(speedmatrix.EngineKVTokens)
	b, is := now.Int(speedmatrix.EngineKVTokens)
	if was == is && math.Abs(float64(a-b)) <= kvTolerance*float64(a) {
		if a != b {
			r.warn("kv cache changed", fmt.Sprintf("the KV cache held %d tokens and holds %d since the run went on", a, b))
		}
		return nil
	}
	return changes("engine", r.doc.Engine, now, []string{speedmatrix.EngineKVTokens})
}

// commandChanges compares what the launch commands tell the engine, where both are known.
func (r *runner) commandChanges() []string {
	if r.doc.LaunchCommand == nil {
		return nil
	}
	now := r.stated.launchCommand
	if now == "" && r.launchCommand != nil && r.doc.LaunchCommand.Source != speedmatrix.SourceUser {
		now = fmt.Sprint(r.launchCommand.Value)
	}
	if now == "" {
		return nil
	}
	list := launch.Differences(fmt.Sprint(r.doc.LaunchCommand.Value), r.redact.Text(now))
	for i := range list {
		list[i] = "launch command: " + list[i]
	}
	return list
}
