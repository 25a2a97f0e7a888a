package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
)

const compareLong = `Holds runs against each other: every setting that differs, then cell by cell
how much a number differs, its 95 % interval, and whether the difference is
more than noise after a correction over all cells.

A side is a run directory or a run.json; several of them with commas between
are repeats of one side. Runs of --repeat hold repeats already. More than two
sides are each compared with the first.

Runs that were measured by different methods are refused, because their numbers
do not compare; --allow lets a setting differ all the same.

With --interleave the sides are the URLs of two servers: they are measured in
alternation, cell by cell, so that a slow drift of the machine cancels, and
compared round by round. Two run directories are written.`

const compareExample = `  speedmatrix compare runs/before runs/after
  speedmatrix compare a1,a2,a3 b1,b2,b3 --html comparison.html
  speedmatrix compare main.json branch.json --markdown --fail-if 'total < -2%'
  speedmatrix compare --interleave http://127.0.0.1:8000 http://127.0.0.1:8001`

// comparison carries one `compare` from its options to its end.
type comparison struct {
	env *Env
	run *runOptions

	compare.Options
	limits                        []compare.Limit
	interleave                    bool
	markdown, json, svg, openPage bool
	html                          string
}

func newCompare(env *Env) *cobra.Command {
	c := &comparison{env: env, run: &runOptions{}}
	what, out := flagSet("what"), flagSet("out")
	method, server, files := flagSet("method"), flagSet("server"), flagSet("files")
	what.StringArrayVar(&c.Allow, "allow", nil, "let this `SETTING` of the method differ, such as method.duration_seconds, or method for all; may be given several times")
	what.BoolVar(&c.Paired, "paired", false, "compare the first measurement of a side with the first of the other, and so on")
	what.define("run-noise", "SHARE", share(&c.Noise), "what two runs of one set-up differ by (standard deviation), such as 0.5%, where the runs do not show it")
	what.define("fail-if", "LIMIT", c.addLimit, "end with exit code 7 if a change is beyond LIMIT, such as 'total < -2%' or 'ttft > 10% @16K x8'; the numbers are total, per-request, ttft, time-between-tokens and prefill; may be given several times")
	what.BoolVar(&c.interleave, "interleave", false, "the sides are the URLs of two servers: measure them in alternation")
	out.text(&c.html, "html", "FILE", "write the comparison as a page")
	out.BoolVar(&c.openPage, "open", false, "open the page in the browser")
	out.BoolVar(&c.markdown, "markdown", false, "as Markdown that fits into a comment on a pull request")
	out.BoolVar(&c.json, "json", false, "as a document")
	out.BoolVar(&c.svg, "svg", false, "the map of differences in total tok/s, as SVG")
	c.run.methodFlags(method)
	c.run.serverFlags(server)
	c.run.interleaveFlags(files)
	cmd := &cobra.Command{Use: "compare A B [C …]", Short: "runs against each other, cell by cell", Long: compareLong, Example: compareExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(args, []flags{method, server, files}); err != nil {
				return err
			}
			if c.interleave {
				return c.measure(cmd.Context(), args)
			}
			inputs, err := c.load(args)
			if err != nil {
				return err
			}
			return c.publish(inputs)
		}}
	groups := []flagGroup{{"What is compared", what.FlagSet}, {"Output", out.FlagSet},
		{"What is measured, with --interleave", method.FlagSet}, {"The servers, with --interleave", server.FlagSet}, {"Files and questions, with --interleave", files.FlagSet}}
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetHelpFunc(helpOf(env, groups))
	return cmd
}

func (c *comparison) addLimit(text string) error {
	l, err := compare.ParseLimit(text)
	if err == nil {
		c.limits = append(c.limits, l)
	}
	return err
}

// check looks at the arguments together.
func (c *comparison) check(args []string, onlyMeasuring []flags) error {
	if forms := count(c.markdown, c.json, c.svg); forms > 1 {
		return usage("a comparison has one form on standard output, but several were asked for", "Choose one of --markdown, --json and --svg; --html goes with each of them.")
	}
	if c.interleave {
		if len(args) != 2 {
			return usage(fmt.Sprintf("--interleave takes the URLs of two servers, but was given %d", len(args)), "Usage: speedmatrix compare --interleave URL_A URL_B")
		}
		return nil
	}
	for _, fs := range onlyMeasuring {
		if given := changed(fs.FlagSet); len(given) > 0 {
			return usage(strings.Join(given, ", ")+" is about measuring, but runs that exist are compared", "Leave it out, or measure two servers with --interleave.")
		}
	}
	if len(args) < 2 {
		return usage(fmt.Sprintf("a comparison needs two sides or more, but was given %d", len(args)),
			"Usage: speedmatrix compare A B\nRepeats of a side stand with commas between: A1,A2 B1,B2")
	}
	return nil
}

// count is how many are true.
func count(flags ...bool) (n int) {
	for _, on := range flags {
		if on {
			n++
		}
	}
	return n
}

// load reads the runs of all sides.
func (c *comparison) load(args []string) ([]compare.Input, error) {
	var paths []string
	var ends []int
	for _, arg := range args {
		paths = append(paths, sidePaths(arg)...)
		ends = append(ends, len(paths))
	}
	runs, warnings, err := runfile.LoadAll(paths)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintf(c.env.Stderr, "speedmatrix: warning: %s\n", report.CleanLines(w.Message))
	}
	var inputs []compare.Input
	from := 0
	for _, end := range ends {
		inputs = append(inputs, compare.Input{Runs: runs[from:end]})
		from = end
	}
	return inputs, nil
}

// sidePaths are the runs of one side. A path that is there with its commas is one run.
func sidePaths(arg string) []string {
	if _, err := os.Stat(arg); err == nil {
		return []string{arg}
	}
	var paths []string
	for part := range strings.SplitSeq(arg, ",") {
		if part = strings.TrimSpace(part); part != "" {
			paths = append(paths, part)
		}
	}
	return paths
}

// publish compares, shows it, and tests the limits.
func (c *comparison) publish(inputs []compare.Input) error {
	result, err := compare.New(inputs, c.Options)
	if err != nil {
		return err
	}
	breaches, limitErr := result.Check(c.limits)
	if err := c.write(result); err != nil {
		return err
	}
	if limitErr != nil {
		return limitErr
	}
	return broken(breaches)
}

// broken is the error of limits that are broken; nil without any.
func broken(breaches []compare.Breach) error {
	if len(breaches) == 0 {
		return nil
	}
	const most = 10
	var lines []string
	for i, b := range breaches {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(breaches)-most))
			break
		}
		lines = append(lines, b.Sentence)
	}
	what := "a limit of --fail-if is broken"
	if len(breaches) > 1 {
		what = fmt.Sprintf("limits of --fail-if are broken %d times", len(breaches))
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindMeasured, What: what, Next: strings.Join(lines, "\n")}
}

// write shows a comparison in the forms that were asked for.
func (c *comparison) write(result *compare.Comparison) error {
	d := report.BuildComparison(result)
	if err := c.writePage(d); err != nil {
		return err
	}
	err := c.writeForm(d)
	if err == nil || speedmatrix.KindOf(err) != speedmatrix.KindInternal {
		return err
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "the comparison could not be written: " + err.Error(), Next: "Free some space, or send it elsewhere.", Err: err}
}

func (c *comparison) writeForm(d *report.Comparison) error {
	switch {
	case c.json:
		e := json.NewEncoder(c.env.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(d.Data)
	case c.markdown:
		return report.ComparisonMarkdown(c.env.Stdout, d)
	case c.svg:
		return report.ComparisonSVG(c.env.Stdout, d)
	}
	return report.ComparisonTerminal(c.env.Stdout, d, newProgress(c.env, false).terminal())
}

// writePage writes the page to its file, or to one of its own for --open alone.
func (c *comparison) writePage(d *report.Comparison) error {
	if c.html == "" && !c.openPage {
		return nil
	}
	var page bytes.Buffer
	if err := report.ComparisonHTML(&page, d, nil); err != nil {
		return err
	}
	path := c.html
	if path == "" {
		dir, err := os.MkdirTemp("", "speedmatrix-")
		if err != nil {
			return unwritable("page", err)
		}
		path = filepath.Join(dir, "comparison.html")
	}
	if err := writeFile(path, &page); err != nil {
		return unwritable("page", err)
	}
	_, _ = fmt.Fprintln(c.env.Stderr, path)
	if c.openPage {
		return openPage(path)
	}
	return nil
}

func writeFile(path string, content io.WriterTo) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := content.WriteTo(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func unwritable(what string, err error) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("the %s cannot be written: %v", what, err), Next: "Name another place, or free some space.", Err: err}
}
