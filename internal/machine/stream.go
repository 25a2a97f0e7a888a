package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// stream is a program that prints a line every now and then for as long as it lives.
type stream struct {
	start Start
	name  string
	args  func() []string
	// line takes a line and says whether it was one that was waited for.
	line func(string) bool
	// silence is how long it may print nothing before it counts as hung.
	silence time.Duration
}

// The patience with a program that ends: it is begun again after a pause that doubles, and given up after some
// failures in a row.
const (
	firstPause = time.Second
	mostPause  = 16 * time.Second
	mostEnds   = 5
)

// run keeps the program going until ctx ends, then gives nil; else why it was given up.
func (p *stream) run(ctx context.Context) error {
	wait := firstPause
	for ends := 0; ; {
		lines, err := p.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not there any more", p.name)
		}
		if ends++; lines > 0 {
			ends, wait = 1, firstPause
		}
		if ends >= mostEnds {
			return fmt.Errorf("%s ended %d times: %w", p.name, ends, err)
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, mostPause)
	}
}

// pause waits; it is false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once runs the program to its end, until it falls silent, or until ctx ends. good counts the lines that were
// waited for; the error is the last thing else that it said, or how it ended.
func (p *stream) once(ctx context.Context) (good int, err error) {
	out, err := p.start(ctx, p.name, p.args()...)
	if err != nil {
		return 0, err
	}
	lines, stop := make(chan string), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-stop:
				return
			}
		}
	}()
	good, said := p.follow(ctx, lines)
	close(stop)
	ended := out.Close()
	<-done
	switch {
	case said != "":
		return good, errors.New(said)
	case ended != nil:
		return good, ended
	}
	return good, errors.New("it ended")
}

// follow takes lines until there are no more.
func (p *stream) follow(ctx context.Context, lines <-chan string) (good int, said string) {
	timer := time.NewTimer(p.silence)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return good, said
		case <-timer.C:
			return good, "silent for " + p.silence.String()
		case line, more := <-lines:
			if !more {
				return good, said
			}
			timer.Reset(p.silence)
			switch line = strings.TrimSpace(line); {
			case p.line(line):
				good++
			case line != "":
				said = clip(line)
			}
		}
	}
}
