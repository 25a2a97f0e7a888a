package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muesli/cancelreader"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// ask shows the plan and, where it matters, asks whether to go on.
func (r *runner) ask(ctx context.Context, plan *bench.Plan) error {
	r.show.plan(r.planView(plan))
	if r.o.Repeat > 1 && !r.paired {
		r.show.say(foresight(plan, r.o.Repeat, r.o.runNoise, stats.DetectableWith))
	}
	if r.o.yes {
		return nil
	}
	tokens := r.promptTokens(plan)
	if r.server.Hosted {
		if !r.env.StdinTerminal {
			return usage("a hosted service charges for tokens, and there is no terminal to ask on",
				fmt.Sprintf("Go on with --yes: about %s prompt tokens will be sent.", unit.Many(tokens)))
		}
		return r.confirm(ctx, fmt.Sprintf("Send about %s prompt tokens to %s? [y/N] ", unit.Many(tokens), r.server.Base.Host))
	}
	if !r.env.StdinTerminal || !r.env.StdoutTerminal {
		return nil
	}
	return r.countDown(ctx)
}

// confirm asks a question that only a yes answers.
func (r *runner) confirm(ctx context.Context, question string) error {
	r.show.ask(question)
	answer, err := readLine(ctx, r.env.Stdin)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "nothing was measured, as you wished"}
	}
	return nil
}

// countDown starts by itself after five seconds, or at Enter.
func (r *runner) countDown(ctx context.Context) error {
	r.show.ask("Starting in 5 s. Enter: now · Ctrl-C: stop ")
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := readLine(waiting, r.env.Stdin)
	r.show.ask("\n")
	if ctx.Err() != nil {
		return interruptedOr(ctx, err)
	}
	return nil
}

// readLine reads one line, or returns when ctx ends: a terminal is let go of then, so that the next reader gets what
// is typed.
func readLine(ctx context.Context, from io.Reader) (string, error) {
	reader, err := cancelreader.NewReader(from)
	if err != nil {
		return "", err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReaderSize(reader, 16).ReadString('\n')
		lines <- strings.TrimSuffix(line, "\n")
	}()
	select {
	case line := <-lines:
		_ = reader.Close()
		return line, nil
	case <-ctx.Done():
		if reader.Cancel() {
			<-lines
			_ = reader.Close()
		}
		return "", ctx.Err()
	}
}
