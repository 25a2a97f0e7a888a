package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/capacity"
	"speedmatrix/internal/unit"
)

const capacityLong = `Says how many simultaneous users a server carries: at each context the most
requests at once, among those measured, at which every request still gets the
speed and the first token comes in time (median), what stops at the next larger
number, and where between the two it ends by interpolation.

With a price or a power it also says what a million output tokens take.`

const capacityExample = `  speedmatrix capacity runs/20261130T201500Z-qwen3-coder-30b-rtx3090-x7k2
  speedmatrix capacity RUN --floor 30 --ttft 500ms
  speedmatrix capacity RUN --price-per-hour 0.42 --currency EUR
  speedmatrix capacity RUN --watts 420 --price-per-kwh 0.31`

// capacityOptions are the flags of `capacity`.
type capacityOptions struct {
	demand         capacity.Demand
	price          capacity.Price
	wait           time.Duration
	json, markdown bool
}

func newCapacity(env *Env) *cobra.Command {
	o := &capacityOptions{}
	cmd := &cobra.Command{Use: "capacity RUN", Short: "how many users fit under a speed floor and a TTFT limit", Long: capacityLong, Example: capacityExample,
		Args: exactlyOne("run directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			_, doc, err := openRun(env, args[0])
			if err != nil {
				return err
			}
			return o.print(env, doc)
		}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Float64Var(&o.demand.Floor, "floor", 20, "the least `tok/s` that each user gets")
	fs.DurationVar(&o.wait, "ttft", time.Second, "the longest `time` to the first token")
	fs.Float64Var(&o.price.PerHour, "price-per-hour", 0, "what the whole server costs an hour")
	fs.Float64Var(&o.price.PerKWh, "price-per-kwh", 0, "what electricity costs; needs --watts where no power was measured")
	fs.StringVar(&o.price.Currency, "currency", "USD", "the currency of the prices")
	fs.Float64Var(&o.price.Watts, "watts", 0, "the power of the server under load (default what was measured of its GPUs)")
	fs.BoolVar(&o.markdown, "markdown", false, "as Markdown")
	fs.BoolVar(&o.json, "json", false, "as JSON, speedmatrix.capacity/1")
	return cmd
}

// check refuses what cannot be asked.
func (o *capacityOptions) check() error {
	o.demand.LimitMillis = float64(o.wait) / float64(time.Millisecond)
	switch {
	case !(o.demand.Floor > 0) || o.demand.Floor > 1e9:
		return usage("--floor must be a speed above 0", "Give tok/s for each user, such as 20.")
	case o.wait <= 0:
		return usage("--ttft "+unit.Duration(o.wait)+" can be kept by no server", "Give a time such as 1s or 500ms.")
	case !(o.price.PerHour >= 0) || !(o.price.PerKWh >= 0) || !(o.price.Watts >= 0) || o.price.PerHour+o.price.PerKWh+o.price.Watts > 1e12:
		return usage("a price or a power below 0 or beyond all bounds", "Give positive numbers.")
	case o.json && o.markdown:
		return usage("an answer has one form, but two were asked for", "Choose one of --json and --markdown.")
	}
	return nil
}

// print writes the answer; a run without a decode cell has none.
func (o *capacityOptions) print(env *Env, doc *speedmatrix.Run) error {
	price := o.price
	if price.PerKWh > 0 && price.Watts == 0 && !slices.ContainsFunc(doc.Cells, func(c speedmatrix.Cell) bool { return c.GPUPower != nil }) {
		return usage("--price-per-kwh says nothing without a power, and the run measured none", "Add --watts, the power of the server under load.")
	}
	answer := capacity.New(doc, o.demand, price)
	if len(answer.Rows) == 0 {
		return usage("the run has no decode cell, so it does not say how many users fit", "Measure one: speedmatrix run")
	}
	switch {
	case o.json:
		return answer.JSON(env.Stdout)
	case o.markdown:
		return answer.Markdown(env.Stdout)
	}
	return answer.Text(env.Stdout)
}
