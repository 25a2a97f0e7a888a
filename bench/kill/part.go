package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"speedmatrix"
)

// part is one life of the run, as its events told it.
type part struct {
	killed bool
	// begun, step: the cell in flight and its step, "" between cells.
	begun, step string
	// done are the cells that were finished.
	done []string
}

// where is the place of the kill.
func (p *part) where() string {
	switch {
	case p.begun == "" && len(p.done) == 0:
		return "the start"
	case p.begun == "":
		return "between two cells"
	case p.step == "":
		return p.begun
	}
	return p.begun + " (" + p.step + ")"
}

// take notes an event.
func (p *part) take(line []byte) {
	var e struct{ Event, Cell, Step string }
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch e.Event {
	case "cell":
		p.begun, p.step = e.Cell, ""
	case "progress":
		p.step = e.Step
	case "done":
		p.done, p.begun, p.step = append(p.done, e.Cell), "", ""
	}
}

// part runs or resumes the run and kills it after that time; 0 lets it end.
func (t *trial) part(ctx context.Context, after time.Duration) (*part, error) {
	args := []string{"run", t.url, "--yes", "--events", "--quick", "--salt", "kill",
		"--contexts", "0,512,1K,2K", "--concurrency", "1,2,4", "--prefill", "512,1K", "--out", t.dir}
	if _, err := os.Stat(t.dir); err == nil {
		args = []string{"run", "--yes", "--events", "--resume", t.dir}
	}
	cmd := exec.CommandContext(ctx, t.program, args...)
	words := &strings.Builder{}
	cmd.Stderr = words
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &part{}
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.take(lines.Bytes())
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && after > 0 && !exit.Exited() {
		p.killed, err = true, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the run: %w\n%s", err, words.String())
	}
	return p, nil
}

// compare holds the document that a kill left against the one before: what was kept must stay as it was. It gives
// the cells that were lost: the one in flight, and any that was finished and is not there.
func (t *trial) compare(ctx context.Context, p *part) (lost []string, err error) {
	if p.begun != "" {
		lost = append(lost, p.begun)
	}
	now, err := t.document(ctx)
	if err != nil {
		return nil, err
	}
	for key, was := range t.kept {
		if is, there := now[key]; !there || is != was {
			return nil, fmt.Errorf("%s was kept and has changed:\n%s\n%s", key, was, is)
		}
	}
	for _, key := range p.done {
		if _, there := now[key]; !there && !slices.Contains(lost, key) {
			lost = append(lost, key)
		}
	}
	t.kept = now
	return lost, nil
}

// document gives the cells of the run that are measured, each as its JSON; none before there is a run.
func (t *trial) document(ctx context.Context) (map[string]string, error) {
	if _, err := os.Stat(t.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(t.dir, "run.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no run.json: it cannot be resumed", t.dir)
	}
	data, err := exec.CommandContext(ctx, t.program, "report", t.dir, "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("read the run: %w", err)
	}
	var doc speedmatrix.Run
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	cells := map[string]string{}
	add := func(prefix string, list []speedmatrix.Cell) {
		for i := range list {
			if c := &list[i]; c.Status != speedmatrix.StatusInterrupted {
				text, _ := json.Marshal(c) // what was decoded can be encoded
				cells[prefix+c.Key()] = string(text)
			}
		}
	}
	add("", doc.Cells)
	if doc.Drift != nil {
		add("drift-", []speedmatrix.Cell{doc.Drift.Cell})
	}
	return cells, nil
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}
