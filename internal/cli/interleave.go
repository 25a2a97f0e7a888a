package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/stats"
)

// leastRounds is how many rounds there are where none are asked for: enough for a useful interval, and even, so that
// each server is the first as often as the other.
const leastRounds = 6

// measure measures two servers in alternation and compares them.
func (c *comparison) measure(ctx context.Context, urls []string) error {
	if c.run.Repeat == 0 {
		c.run.Repeat = leastRounds
	}
	if c.run.Repeat < 2 {
		return usage("--interleave needs two rounds at least, but --repeat is 1", "Leave --repeat out for 6 rounds.")
	}
	sides, err := c.runners(urls)
	if err != nil {
		return err
	}
	ctx, in := listenForInterrupts(ctx, c.env, func() { sides[0].show.line("Stopping: what was measured is kept. Ctrl-C again: at once.") })
	defer in.close()
	done := make(chan error, 1)
	go func() { done <- c.alternate(ctx, sides) }()
	select {
	case err := <-done:
		return err
	case <-in.twice:
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "ended at once", Next: "Cells that were complete are kept in " + c.out() + "."}
	}
}

// out is the folder of the two runs.
func (c *comparison) out() string { return cmp.Or(c.run.out, runsFolder) }

// runners are the two runs, checked as far as that needs no server. What they say goes where it is in nobody's way:
// standard output is the comparison's.
func (c *comparison) runners(urls []string) (sides []*runner, err error) {
	env := *c.env
	env.StdoutTerminal = false // two runs cannot share a line that moves
	for i, url := range urls {
		o := *c.run
		o.out = ""
		r := &runner{env: &env, o: &o, url: url, paired: true}
		if err := r.prepare(); err != nil {
			return nil, err
		}
		r.show.side, r.show.human = compare.SideName(i)+"  ", c.env.Stderr
		sides = append(sides, r)
	}
	return sides, checkOutput(filepath.Join(c.out(), "new"))
}

// alternate does all that needs the servers.
func (c *comparison) alternate(ctx context.Context, sides []*runner) error {
	for _, r := range sides {
		if err := r.look(ctx); err != nil {
			return interruptedOr(ctx, err)
		}
		defer r.server.Close()
	}
	plans, err := samePlans(sides)
	if err != nil {
		return err
	}
	if err := c.open(ctx, sides, plans); err != nil {
		return err
	}
	var begun []*measuring
	for i, r := range sides {
		m, err := r.begin(ctx, plans[i])
		if err != nil {
			discardAll(sides)
			return err
		}
		defer m.stop()
		begun = append(begun, m)
	}
	errA, errB := bench.Interleave(ctx, begun[0].session, begun[1].session)
	return c.concludeBoth(sides, []error{errA, errB})
}

// samePlans are the plans of both servers over the cells that both can be asked for.
func samePlans(sides []*runner) (plans []*bench.Plan, err error) {
	list := func() error {
		plans = nil
		for _, r := range sides {
			plan, err := bench.NewPlan(r.o.Settings, r.limits())
			if err != nil {
				return err
			}
			plans = append(plans, plan)
		}
		return nil
	}
	if err := list(); err != nil {
		return nil, err
	}
	a, b := plans[0], plans[1]
	contexts, concurrency, prefill := both(a.Contexts, b.Contexts), both(a.Concurrency, b.Concurrency), both(a.Prefill, b.Prefill)
	if len(contexts) == 0 || len(concurrency) == 0 {
		return nil, usage("the two servers have no context in common that a run would choose by itself", "Name them: --contexts 0,4K --concurrency 1,4")
	}
	for _, r := range sides {
		r.o.Contexts, r.o.Concurrency, r.o.Prefill, r.o.NoPrefill = contexts, concurrency, prefill, len(prefill) == 0
	}
	return plans, list()
}

// both are the numbers in both lists.
func both(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return !slices.Contains(b, n) })
}

// open shows the plans, asks, and makes the run directories.
func (c *comparison) open(ctx context.Context, sides []*runner, plans []*bench.Plan) error {
	for i, r := range sides {
		if err := r.awaitIdle(ctx); err != nil {
			return err
		}
		if err := r.makeDocument(ctx, plans[i]); err != nil {
			return err
		}
		r.o.yes = r.o.yes || i > 0 && !r.server.Hosted
		if err := r.ask(ctx, plans[i]); err != nil {
			return err
		}
	}
	sides[0].show.side = ""
	sides[0].show.line(foresight(plans[0], c.run.Repeat, c.Noise, stats.DetectableInPairs))
	sides[0].show.side = compare.SideName(0) + "  "
	for i, r := range sides {
		other := sides[1-i].doc
		r.doc.Interleaved = &speedmatrix.Interleaved{With: other.ID, Side: compare.SideName(i)}
		r.o.out = filepath.Join(c.out(), r.doc.ID)
		if err := r.openDirectory(plans[i]); err != nil {
			discardAll(sides)
			return err
		}
	}
	return nil
}

func discardAll(sides []*runner) {
	for _, r := range sides {
		r.out.discard()
	}
}

// concludeBoth keeps the pages of both runs, and compares what was measured.
func (c *comparison) concludeBoth(sides []*runner, errs []error) error {
	var first error
	var saved []string
	for i, r := range sides {
		err := r.finish(r.store(), errs[i])
		if err == nil {
			err = r.saveClean()
		}
		first = cmp.Or(first, err)
		saved = append(saved, r.out.path())
	}
	if !anythingMeasured(sides[0].doc) || !anythingMeasured(sides[1].doc) {
		discardAll(sides)
		return cmp.Or(first, error(&speedmatrix.Error{Kind: speedmatrix.KindMeasured, What: "nothing was measured"}))
	}
	err := c.publish([]compare.Input{{Runs: []*speedmatrix.Run{sides[0].doc}}, {Runs: []*speedmatrix.Run{sides[1].doc}}})
	_, _ = fmt.Fprintf(c.env.Stderr, "\nSaved    %s\n         %s\nNext     speedmatrix compare %s %s --open\n", saved[0], saved[1], saved[0], saved[1])
	return cmp.Or(first, err, sides[0].failed(), sides[1].failed())
}
