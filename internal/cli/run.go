package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/probe"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/stamp"
)

const runLong = `Measures a server: prefill speed at each context length, and sustained decode
at every context length × number of simultaneous requests.

Without URL it looks on the usual local ports: 8000 (vLLM), 8080 (llama.cpp),
30000 (SGLang), 11434 (Ollama), 1234 (LM Studio).

--launch starts the server first and stops it at the end; its log is kept in the
run directory.

It writes a run directory: run.json with everything published, and the raw
events as Parquet files. Ctrl-C ends the window and keeps what was measured; a
second Ctrl-C ends at once. A run that was ended goes on with --resume DIR.`

const runExample = `  speedmatrix run
  speedmatrix run --launch 'vllm serve Qwen/Qwen3-8B --max-num-seqs 64'
  speedmatrix run http://127.0.0.1:8000 --contexts 0,16K,max --concurrency 1,4
  speedmatrix run https://api.example.com/v1 --model big --api-key-file key.txt`

func newRun(env *Env) *cobra.Command {
	o := &runOptions{}
	method, server, files := flagSet("method"), flagSet("server"), flagSet("files")
	cmd := &cobra.Command{Use: "run [URL]", Short: "measure a server", Long: runLong, Example: runExample,
		Args: atMostOne("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &runner{env: env, o: o}
			if o.planFile != "" {
				var err error
				if r.url, err = readPlan(o.planFile, cmd.Flags()); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				r.url = args[0]
			}
			r.urlGiven = r.url != ""
			if o.resume != "" {
				if err := checkResumeFlags(method.FlagSet, o); err != nil {
					return err
				}
			}
			return r.run(cmd.Context())
		}}
	o.methodFlags(method)
	o.serverFlags(server)
	o.fileFlags(files)
	groups := []flagGroup{{"What is measured", method.FlagSet}, {"The server", server.FlagSet}, {"Files and questions", files.FlagSet}}
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetHelpFunc(helpOf(env, groups))
	return cmd
}

// checkResumeFlags refuses settings beside --resume: those of the run rule.
func checkResumeFlags(method *pflag.FlagSet, o *runOptions) error {
	if o.out != "" {
		return usage("--out does not go with --resume", "A resumed run goes on in its own directory.")
	}
	var given []string
	method.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "max-time" && f.Name != "text" && f.Name != "body" {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return usage(strings.Join(given, ", ")+" cannot be changed with --resume",
			"A resumed run is measured as it was begun. Leave it out, or begin a new run.")
	}
	return nil
}

// runner carries one `run` from its options to its end.
type runner struct {
	env *Env
	o   *runOptions
	url string

	stated *stated
	header http.Header
	hide   func(string) string
	redact *redact.Redactor
	// urlGiven says that the user named the server, and not the run that goes on.
	urlGiven bool
	// command starts the server; log and launched are those of the server that was started.
	command  *launch.Command
	log      *launch.Log
	launched atomic.Pointer[launch.Server]
	// launchCommand is how the server was started, as far as this program found out by itself.
	launchCommand *speedmatrix.Fact
	clock         *stamp.Clock
	server        *probe.Server
	library       *prompt.Library
	out           output
	doc           *speedmatrix.Run
	resumed       bool
	show          *progress
	// interrupt is what Ctrl-C does.
	interrupt func()
	// paired says that another server is measured in alternation.
	paired bool
	// baseRunning and baseWaiting are the foreign load that --shared-server accepts.
	baseRunning, baseWaiting float64
}

func (r *runner) run(ctx context.Context) error {
	defer r.out.close()
	if err := r.prepare(); err != nil {
		return err
	}
	if r.resumed && complete(r.doc) {
		doc, err := r.clean(r.doc)
		if err == nil {
			r.show.end(doc, r.out.path())
		}
		return err
	}
	ctx, interrupts := r.interrupts(ctx)
	defer interrupts.close()
	defer r.show.close()
	done := make(chan error, 1)
	go func() { done <- r.measureServer(ctx) }()
	select {
	case err := <-done:
		return err
	case <-interrupts.twice:
		return r.endedAtOnce()
	}
}

// complete says whether a run has nothing left to be measured.
func complete(doc *speedmatrix.Run) bool { return doc.FinishedAt != nil && doc.Ended == "" }

// prepare checks everything that needs no server.
func (r *runner) prepare() error {
	if r.o.resume != "" {
		if err := r.openResumed(); err != nil {
			return err
		}
	}
	if err := r.prepareLook(r.o.events); err != nil {
		return err
	}
	if r.resumed {
		return nil
	}
	return checkOutput(r.o.out)
}

// prepareLook checks everything that looking at a server needs; apart says that standard output is for programs.
func (r *runner) prepareLook(apart bool) (err error) {
	r.clock = r.env.clock()
	if r.o.Settings, err = r.o.Complete(); err != nil {
		return err
	}
	if r.stated, err = r.o.stated(); err != nil {
		return err
	}
	if err := r.prepareServer(); err != nil {
		return err
	}
	if r.o.textFile != "" {
		if r.library, err = readLibrary(r.o.textFile); err != nil {
			return err
		}
	}
	r.show = newProgress(r.env, apart)
	return nil
}

// prepareServer settles how the server is started and asked, and what must not leave; of a resumed run, as it was begun.
func (r *runner) prepareServer() (err error) {
	if err := r.parseLaunch(); err != nil {
		return err
	}
	if r.header, err = r.o.header(r.env, r.command); err != nil {
		return err
	}
	if r.o.Salt == "" {
		r.o.Salt = strings.ToLower(rand.Text()[:12])
	}
	if err := r.hideSecrets(); err != nil {
		return err
	}
	if r.resumed {
		r.restate()
		if err := r.sameSettings(); err != nil {
			return err
		}
	}
	_, err = r.o.tls()
	return err
}

// measureServer does all that needs the server.
func (r *runner) measureServer(ctx context.Context) error {
	if err := r.startServer(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	defer r.stopServer()
	if err := r.look(ctx); err != nil {
		return interruptedOr(ctx, r.withLog(err))
	}
	defer r.server.Close()
	r.readProcess(ctx)
	plan, err := bench.NewPlan(r.o.Settings, r.limits())
	if err != nil {
		return err
	}
	if err := r.awaitIdle(ctx); err != nil {
		return err
	}
	if err := r.makeDocument(ctx, plan); err != nil {
		return err
	}
	if err := r.ask(ctx, plan); err != nil {
		return err
	}
	if err := r.openDirectory(plan); err != nil {
		return err
	}
	err = r.withLog(r.measure(ctx, plan))
	r.server.Close()
	r.stopServer()
	return r.conclude(err)
}

// endedAtOnce is the end at the second interrupt.
func (r *runner) endedAtOnce() error {
	e := &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "ended at once"}
	if server := r.launchedServer(); server != nil {
		server.Kill()
	}
	if path := r.out.keep(r.resumed); path != "" {
		e.Next = fmt.Sprintf("Cells that were complete are kept. Go on with: speedmatrix run --resume %s", path)
	}
	return e
}

// interruptedOr is the end by the user where ctx has ended, else err.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "interrupted before anything was measured", Err: err}
	}
	return err
}

// promptTokens is how many tokens of prompts a plan sends.
func (r *runner) promptTokens(plan *bench.Plan) int64 {
	_, tokens := plan.Expected(&r.o.Settings, bench.Pilot{})
	return int64(tokens)
}
