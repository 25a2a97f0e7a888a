package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/unit"
)

// makeDocument begins the run's document, or checks that a resumed one is about this server.
func (r *runner) makeDocument(ctx context.Context, plan *bench.Plan) error {
	if err := r.openLibrary(); err != nil {
		return err
	}
	if r.resumed {
		return r.sameServer(ctx)
	}
	hardware := r.hardware(ctx)
	client, selfErr := r.env.selfCheck(ctx, r.clock, slices.Max(plan.Concurrency))
	if ctx.Err() != nil {
		return interruptedOr(ctx, ctx.Err())
	}
	var err error
	if r.doc, err = r.newDocument(hardware, client); err != nil {
		return err
	}
	if selfErr != nil {
		r.warn("self-check", "the check of this program against its own ground truth failed: "+selfErr.Error())
	}
	return nil
}

// hardware is what this machine is, and what the user states of it.
func (r *runner) hardware(ctx context.Context) speedmatrix.Facts {
	hardware := speedmatrix.Facts{}
	if r.server.EngineHere {
		hardware = r.env.machine(ctx) // of another machine than the engine's it would mislead
	}
	for key, fact := range r.stated.hardware {
		hardware.Set(key, fact.Value, fact.Source)
	}
	return hardware
}

// newDocument is the document of a run before anything is measured.
func (r *runner) newDocument(hardware speedmatrix.Facts, client speedmatrix.Client) (*speedmatrix.Run, error) {
	method := r.o.MethodRecord(r.server.Dialect.Name())
	method.Text, method.TextSHA256 = r.library.Name(), r.library.SHA256()
	now := r.clock.Time(r.clock.Now())
	doc := &speedmatrix.Run{
		Schema: speedmatrix.Schema, Tool: tool(), Origin: speedmatrix.OriginMeasured, StartedAt: now, Method: method,
		Model: r.server.Facts.Model, Engine: r.server.Facts.Engine, Hardware: hardware, Client: client,
		Server:   r.serverRecord(),
		Warnings: append([]speedmatrix.Warning{}, r.server.Warnings...), Findings: []speedmatrix.Finding{}, Repeats: []speedmatrix.Repeat{},
	}
	if r.launchCommand != nil {
		doc.LaunchCommand = r.launchCommand
	}
	if r.stated.launchCommand != "" {
		doc.LaunchCommand = &speedmatrix.Fact{Value: r.stated.launchCommand, Source: speedmatrix.SourceUser}
	}
	doc, err := r.clean(doc)
	if err != nil {
		return nil, err
	}
	doc.ID = runID(now, doc)
	return doc, nil
}

// serverRecord is what was found out about the endpoint itself.
func (r *runner) serverRecord() speedmatrix.Server {
	s := speedmatrix.Server{URL: r.server.Base.Redacted(), API: r.server.Dialect.Name(), SameMachine: r.server.SameMachine, Habits: r.server.Habits}
	if rtt := r.server.RoundTrip; rtt > 0 {
		s.RoundTripMillis = new(float64(rtt) / 1e6)
	}
	return s
}

// runID names a run: its time, the model, the hardware, and four letters.
func runID(now time.Time, doc *speedmatrix.Run) string {
	parts := []string{now.Format("20060102T150405Z")}
	name := doc.Model.Text(speedmatrix.ModelName)
	if name == "" {
		name = doc.Model.Text(speedmatrix.ModelServedName)
	}
	for _, text := range []string{name, doc.Hardware.Text(speedmatrix.HardwareGPU)} {
		if s := slug(text); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, strings.ToLower(rand.Text()[:4])), "-")
}

// slug makes a text fit for a file name.
func slug(text string) string {
	text = strings.ToLower(text[strings.LastIndex(text, "/")+1:])
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' {
			return c
		}
		return '-'
	}, text)
	fields := strings.FieldsFunc(clean, func(c rune) bool { return c == '-' })
	clean = strings.Join(fields, "-")
	return strings.Trim(clean[:min(len(clean), 40)], "-.")
}

// warn notes a doubt about the run.
func (r *runner) warn(code, message string) {
	r.doc.Warnings = append(r.doc.Warnings, speedmatrix.Warning{Code: code, Message: message})
	r.show.warning(message)
}

// openLibrary unpacks the text that prompts are made of, unless the user gave one. It takes some time, so it comes
// after the server has answered.
func (r *runner) openLibrary() (err error) {
	if r.library == nil {
		r.library, err = prompt.Embedded()
	}
	return err
}

// readLibrary reads the user's text for the prompts.
func readLibrary(path string) (*prompt.Library, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable("text for the prompts", err)
	}
	return prompt.FromText(filepath.Base(path), data)
}

// openDirectory makes the run directory, with a document from which the run can go on after a kill at any moment.
func (r *runner) openDirectory(plan *bench.Plan) error {
	if r.resumed {
		return nil
	}
	path := cmp.Or(r.o.out, filepath.Join(runsFolder, r.doc.ID))
	if err := r.out.create(path, r.env.create); err != nil {
		return err
	}
	r.doc.Plan = speedmatrix.Plan{Contexts: plan.Contexts, Concurrency: plan.Concurrency, Prefill: plan.Prefill, MaxSeconds: r.o.MaxTime.Seconds()}
	r.doc.Cells = plannedCells(plan)
	if err := r.store().SaveRun(r.doc); err != nil {
		r.out.discard()
		return err
	}
	return nil
}

// plannedCells are the cells of a plan before the first is measured.
func plannedCells(plan *bench.Plan) []speedmatrix.Cell {
	cells := make([]speedmatrix.Cell, len(plan.Cells))
	for i := range plan.Cells {
		p := &plan.Cells[i]
		cells[i] = speedmatrix.Cell{Phase: p.Phase, ContextLabel: unit.FormatTokens(p.Context), Context: p.Context,
			Concurrency: p.Concurrency, Status: p.Status, Reason: p.Reason, TTFTKind: speedmatrix.TTFTUnknown}
		if p.Verdict != bench.Refused {
			cells[i].Status, cells[i].Reason = speedmatrix.StatusInterrupted, "the run did not come to it"
		}
	}
	return cells
}
