package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/exporter"
	"speedmatrix/internal/importer"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/unit"
)

const importLong = `Turns the result files of another tool into a run, so that every command here
reads them. Numbers are taken over as the file gives them; what it does not say
stays unknown, and the run says by whom it was measured. Several files of one
tool become one matrix; the same cell again is a repeat.`

const importExample = `  speedmatrix import results.json
  speedmatrix import c1.json c4.json c16.json --state hardware.gpu="RTX 3090"
  speedmatrix import summary_lifecycle_metrics.json --concurrency 8`

func newImport(env *Env) *cobra.Command {
	var o runOptions
	var options importer.Options
	cmd := &cobra.Command{Use: "import FILE...", Short: "other tools' results as a run", Example: importExample,
		Long: importLong + "\n\nFiles of these can be read:\n  " + strings.Join(importer.Formats(), "\n  "),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("import takes the files of another tool, but was given none", "Usage: "+cmd.UseLine())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return importFiles(env, &o, options, args) }}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&options.Concurrency, "concurrency", 0, "how many requests ran at once, where the files do not say it")
	fs.StringArrayVar(&o.states, "state", nil, "state a fact as `KEY=VALUE`, such as hardware.gpu=\"RTX 3090\"; may be given several times")
	fs.StringVar(&o.out, "out", "", "the run's `DIR`; it must not exist (default runs/ID)")
	return cmd
}

func importFiles(env *Env, o *runOptions, options importer.Options, names []string) error {
	if options.Concurrency < 0 {
		return usage(fmt.Sprintf("--concurrency %d is no number of requests", options.Concurrency), "Give 1 or more.")
	}
	stated, err := o.stated()
	if err != nil {
		return err
	}
	var files []importer.File
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return unreadable("file", err)
		}
		files = append(files, importer.File{Name: filepath.Base(name), Data: data})
	}
	doc, err := importer.Import(files, options)
	if err != nil {
		return err
	}
	stated.addTo(doc)
	if doc, err = redact.Copy(env.shown, doc); err != nil {
		return err
	}
	dir, err := keepRun(doc, o.out)
	if err != nil {
		return err
	}
	if err := env.keepSources(dir, files); err != nil {
		return err
	}
	if err := report.Terminal(env.Stdout, report.Build(doc), newProgress(env, false).terminal()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "\nImported from %s\nSaved    %s\nNext     speedmatrix report %s --open\n", report.Clean(doc.Tool.Name), dir.Path(), dir.Path())
	return err
}

// keepSources keeps the files of a run, without what must not leave, beside it: under their own names, unless one says
// what must not leave or is taken.
func (env *Env) keepSources(dir *runfile.Dir, files []importer.File) error {
	taken := map[string]bool{}
	for i, f := range files {
		name := f.Name
		if taken[name] || env.shown.Text(name) != name {
			name = fmt.Sprintf("source-%d%s", i+1, filepath.Ext(name))
		}
		taken[name] = true
		if err := dir.SaveSource(name, env.shown.Source(f.Data)); err != nil {
			return err
		}
	}
	return nil
}

// addTo puts what the user stated before what is known otherwise.
func (s *stated) addTo(doc *speedmatrix.Run) {
	for _, pair := range []struct{ from, to speedmatrix.Facts }{{s.model, doc.Model}, {s.engine, doc.Engine}, {s.hardware, doc.Hardware}} {
		for key, fact := range pair.from {
			pair.to.Set(key, fact.Value, speedmatrix.SourceUser)
		}
	}
	if s.launchCommand != "" {
		doc.LaunchCommand = &speedmatrix.Fact{Value: s.launchCommand, Source: speedmatrix.SourceUser}
	}
}

// keepRun writes a run that was not measured here, with its page, to a new directory; "" is the usual place.
func keepRun(doc *speedmatrix.Run, path string) (*runfile.Dir, error) {
	if path == "" {
		path = filepath.Join(runsFolder, doc.ID)
	}
	dir, err := runfile.Create(path)
	if err != nil {
		return nil, err
	}
	if err := dir.SaveRun(doc); err != nil {
		return nil, err
	}
	_, err = savePage(doc, dir)
	return dir, err
}

// exportForm is one form of `export --to`.
type exportForm struct {
	name, shows string
	write       func(w io.Writer, doc *speedmatrix.Run, cell string) error
}

func exportForms() []exportForm {
	plain := func(write func(io.Writer, *speedmatrix.Run) error) func(io.Writer, *speedmatrix.Run, string) error {
		return func(w io.Writer, doc *speedmatrix.Run, _ string) error { return write(w, doc) }
	}
	return []exportForm{
		{"llama-bench", "a Markdown table in the manner of llama-bench", plain(exporter.LlamaBench)},
		{"benchstat", "Go's benchmark format, for benchstat", plain(exporter.Benchstat)},
		{"openmetrics", "gauges for Prometheus and others", plain(exporter.OpenMetrics)},
		{"csv", "one row a cell, raw numbers, every field", plain(func(w io.Writer, doc *speedmatrix.Run) error { return report.CSV(w, report.Build(doc)) })},
		{"localmaxxing", "the payload of one cell (--cell) for that site", exporter.LocalMaxxing},
		{"parquet", "one row a cell and repeat, for DuckDB, pandas, Polars", plain(runfile.WriteCells)},
	}
}

const exportLong = `Writes a run on standard output in a form that other tools read. Only cells that
show a speed are written, but for csv and parquet, which keep every cell with its
status.`

func newExport(env *Env) *cobra.Command {
	var to, cell string
	var long strings.Builder
	long.WriteString(exportLong + "\n\nThe forms of --to:\n")
	var names []string
	for _, f := range exportForms() {
		_, _ = fmt.Fprintf(&long, "  %-14s %s\n", f.name, f.shows)
		names = append(names, f.name)
	}
	cmd := &cobra.Command{Use: "export RUN --to FORM", Short: "a run for other tools", Long: strings.TrimSuffix(long.String(), "\n"), Args: exactlyOne("run directory"),
		Example: "  speedmatrix export RUN --to benchstat > new.txt\n  speedmatrix export RUN --to parquet > cells.parquet\n  speedmatrix export RUN --to localmaxxing --cell decode-16k-x1",
		RunE: func(_ *cobra.Command, args []string) error {
			for _, f := range exportForms() {
				if f.name != to {
					continue
				}
				if cell != "" && to != "localmaxxing" {
					return usage("--cell goes with --to localmaxxing alone", "Leave it out: the other forms hold every cell.")
				}
				_, doc, err := openRun(env, args[0])
				if err != nil {
					return err
				}
				return written(f.write(env.Stdout, doc, cell))
			}
			next := "The forms: " + strings.Join(names, ", ") + "."
			if near := unit.Nearest(to, names); near != "" && to != "" {
				next = "Did you mean --to " + near + "? " + next
			}
			if to == "" {
				return usage("export needs --to FORM", next)
			}
			return usage(fmt.Sprintf("there is no form %q", to), next)
		}}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&to, "to", "", "the `FORM`")
	cmd.Flags().StringVar(&cell, "cell", "", "the cell of a localmaxxing payload, by its `KEY` (default the one request at the shortest context)")
	return cmd
}
