package cli

import (
	"fmt"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/runfile"
)

// openResumed takes the settings of the run that is to go on.
func (r *runner) openResumed() (err error) {
	dir, err := runfile.Open(r.o.resume)
	if err != nil {
		return err
	}
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
	r.out.adopt(dir)
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
	if o.model == "" {
		o.model = doc.Model.Text(speedmatrix.ModelServedName)
	}
}

// sameServer refuses to go on with a run on another server, naming what changed.
func (r *runner) sameServer() error {
	var changed []string
	compare := func(what string, old, now speedmatrix.Facts, keys ...string) {
		for _, key := range keys {
			if a, b := old.Text(key), now.Text(key); a != b {
				changed = append(changed, fmt.Sprintf("%s.%s was %q and is %q", what, key, a, b))
			}
		}
	}
	compare("model", r.doc.Model, r.server.Facts.Model, speedmatrix.ModelServedName, speedmatrix.ModelName, speedmatrix.ModelMaxLength, speedmatrix.ModelQuantization)
	compare("engine", r.doc.Engine, r.server.Facts.Engine, speedmatrix.EngineName, speedmatrix.EngineVersion, speedmatrix.EngineRunningLimit, speedmatrix.EngineKVTokens)
	if r.library.SHA256() != r.doc.Method.TextSHA256 {
		changed = append(changed, "the text that prompts are made of differs (--text)")
	}
	if len(changed) > 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: "the server is not the one that this run measured: " + strings.Join(changed, "; "),
			Next: "Begin a new run, or start the server as it was."}
	}
	return nil
}
