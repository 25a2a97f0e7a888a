package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/verify"
)

const reportLong = `Prints a run's tables on standard output, and nothing else there: for the
terminal, as a page, as text, as Markdown, as CSV (raw numbers, one row a cell),
as JSON (run.json), or one picture.`

const verifyLong = `Recomputes every published number of a run from its raw events, by code of its
own, and lists what disagrees.`

// openRun reads the document of a run directory; what is odd in it goes to stderr.
func openRun(env *Env, path string) (*runfile.Dir, *speedmatrix.Run, error) {
	dir, err := runfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	doc, warnings, err := dir.LoadRun()
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintf(env.Stderr, "speedmatrix: warning: %s\n", report.CleanLines(w.Message))
	}
	return dir, doc, nil
}

func newReport(env *Env) *cobra.Command {
	var f format
	cmd := &cobra.Command{Use: "report RUN", Short: "tables, page and pictures of a run", Args: exactlyOne("run directory"),
		Long: reportLong + pictureList(),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.count() > 1 {
				return usage("a report has one form, but several were asked for", "Choose one of --html, --text, --markdown, --csv, --json, --svg, --png and --open.")
			}
			dir, doc, err := openRun(env, args[0])
			if err != nil {
				return err
			}
			if f.open {
				return openReport(env, doc, dir)
			}
			return render(env, doc, dir, f)
		}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.html, "html", false, "as one self-contained page")
	fs.BoolVar(&f.open, "open", false, "write the page to RUN/report.html and open it in the browser")
	fs.BoolVar(&f.text, "text", false, "as plain text: the sections of a speed test page, and them alone")
	fs.BoolVar(&f.markdown, "markdown", false, "as Markdown")
	fs.BoolVar(&f.csv, "csv", false, "as CSV")
	fs.BoolVar(&f.json, "json", false, "the document itself")
	fs.StringVar(&f.svg, "svg", "", "one picture, by its `NAME`, as SVG")
	fs.BoolVar(&f.png, "png", false, "the card for link previews, 1200 × 630, as PNG")
	return cmd
}

// pictureList names the pictures for the help.
func pictureList() string {
	var b strings.Builder
	b.WriteString("\n\nThe pictures of --svg:\n")
	for _, p := range report.Pictures() {
		_, _ = fmt.Fprintf(&b, "  %-20s %s\n", p.Name, p.Shows)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// format is the form of a report; none of them is the terminal's.
type format struct {
	html, open, text, markdown, csv, json, png bool
	svg                                        string
}

// count is how many forms were asked for.
func (f format) count() (n int) {
	for _, on := range []bool{f.html, f.open, f.text, f.markdown, f.csv, f.json, f.png, f.svg != ""} {
		if on {
			n++
		}
	}
	return n
}

// openReport writes the page beside the document and opens it.
func openReport(env *Env, doc *speedmatrix.Run, dir *runfile.Dir) error {
	path, err := savePage(doc, dir)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(env.Stderr, path)
	return openPage(path)
}

// render writes a report to standard output; rows may be nil.
func render(env *Env, doc *speedmatrix.Run, rows report.Rows, f format) error {
	return written(renderForm(env, doc, rows, f))
}

// written is what came of writing to standard output.
func written(err error) error {
	if _, ok := errors.AsType[*speedmatrix.Error](err); err == nil || ok {
		return err
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "the report could not be written: " + err.Error(), Next: "Free some space, or send it elsewhere.", Err: err}
}

func renderForm(env *Env, doc *speedmatrix.Run, rows report.Rows, f format) error {
	if f.json {
		return runfile.Encode(env.Stdout, doc)
	}
	d := report.Build(doc)
	switch {
	case f.html:
		return report.HTML(env.Stdout, d, report.HTMLOptions{Rows: rows})
	case f.text:
		return report.Text(env.Stdout, d)
	case f.csv:
		return report.CSV(env.Stdout, d)
	case f.markdown:
		return report.Markdown(env.Stdout, d)
	case f.svg != "":
		return report.SVG(env.Stdout, d, f.svg)
	case f.png:
		return report.Card(env.Stdout, d)
	}
	return report.Terminal(env.Stdout, d, newProgress(env, false).terminal())
}

func newVerify(env *Env) *cobra.Command {
	return &cobra.Command{Use: "verify RUN", Short: "recompute every number from the raw events", Args: exactlyOne("run directory"),
		Long: verifyLong,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, doc, err := openRun(env, args[0])
			if err != nil {
				return err
			}
			found, err := verify.Check(doc, dir)
			if err != nil {
				return err
			}
			return printVerified(env.Stdout, found)
		}}
}

// printVerified lists the disagreements; any of them is an error.
func printVerified(w io.Writer, r *verify.Report) error {
	for _, u := range r.Unchecked {
		_, _ = fmt.Fprintf(w, "not checked: %s\n", report.CleanLines(u))
	}
	for _, d := range r.Disagreements {
		_, _ = fmt.Fprintf(w, "%s: %s is %s, but the raw events give %s\n", d.Cell, d.Field, report.CleanLines(d.Published), report.CleanLines(d.Recomputed))
	}
	if n := len(r.Disagreements); n > 0 {
		return &speedmatrix.Error{Kind: speedmatrix.KindMeasured, What: fmt.Sprintf("%d of %d numbers disagree with the raw events", n, r.Numbers),
			Next: "The files were changed after the run, or this program is wrong: do not trust these numbers."}
	}
	_, _ = fmt.Fprintf(w, "%d numbers of %d cells agree with the raw events\n", r.Numbers, r.Cells)
	return nil
}
