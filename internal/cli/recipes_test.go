//go:build !race

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"speedmatrix/internal/launch"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/simserver"
)

// recipes are the pages whose commands are run.
const recipes = "../../docs/recipes"

// command is one command of a recipe and what the recipe shows of its output.
type command struct {
	line, text string // as it is written, and without continuations
	shown      []string
}

// standIn says of a page which server runs at which port from there on: "<!-- old serves at 8000 -->".
var standIn = regexp.MustCompile(`^<!-- ([a-z0-9]+) serves at (\d+) -->$`)

// commandsOf reads the console blocks of a page: "$ " begins a command, "> " goes on with it, the rest is output.
func commandsOf(page string) (list []command) {
	inside := false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case standIn.MatchString(line):
			list = append(list, command{line: line, text: line})
		case !inside:
		case strings.HasPrefix(line, "$ "):
			list = append(list, command{line: line, text: strings.TrimPrefix(line, "$ ")})
		case len(list) == 0:
		case strings.HasSuffix(list[len(list)-1].text, `\`):
			c := &list[len(list)-1]
			c.text = strings.TrimSuffix(c.text, `\`) + strings.TrimPrefix(strings.TrimSpace(line), "> ")
		default:
			list[len(list)-1].shown = append(list[len(list)-1].shown, line)
		}
	}
	return list
}

// kitchen is a world in which a recipe is followed; "vllm serve" is the simulated engine there.
type kitchen struct {
	*world
	// measured says that numbers come from a measurement, whose prompts are new each time.
	measured bool
	seed     uint64
}

// Every command of every recipe does what the recipe shows.
func TestRecipes(t *testing.T) {
	pages, err := filepath.Glob(recipes + "/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, path := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			list := commandsOf(string(page))
			if len(list) == 0 {
				t.Fatal("it has no command")
			}
			inWorld(t, func(t *testing.T, w *world) {
				k := &kitchen{world: w}
				w.start, w.gpu = k.serve, "RTX 4090"
				for _, c := range list {
					k.follow(c)
				}
			})
		})
	}
}

// follow runs one command and holds its output against what is shown.
func (k *kitchen) follow(c command) {
	k.t.Helper()
	if c.text == "echo $?" {
		k.shows(c, fmt.Sprintln(k.code))
		return
	}
	if at := standIn.FindStringSubmatch(c.text); at != nil {
		k.t.Cleanup(k.serves("127.0.0.1:"+at[2], k.profile(at[1])))
		return
	}
	text, file, _ := strings.Cut(c.text, " > ")
	parsed, err := launch.Parse(text, func(string) string { return "" })
	if err != nil || parsed.Args[0] != "speedmatrix" {
		k.t.Fatalf("%s: %v; a recipe has commands of speedmatrix alone", c.line, err)
	}
	args := parsed.Args[1:]
	k.measured = k.measured || args[0] == "run" || slices.Contains(args, "--interleave")
	k.main(args...)
	if k.code != 0 && k.code != 7 {
		k.t.Fatalf("%s ends with %d:\n%s%s", c.line, k.code, k.out.String(), k.err.String())
	}
	if file != "" {
		k.keeps(file)
	}
	k.shows(c, k.out.String()+k.err.String())
}

// keeps writes standard output to a file; one that stands beside the recipes must be that.
func (k *kitchen) keeps(file string) {
	k.t.Helper()
	text := k.out.String()
	k.out.buffer.Reset()
	writeFile(k.t, file, text)
	if want, err := os.ReadFile(filepath.Join(k.home, recipes, file)); err == nil && string(want) != text {
		k.t.Errorf("%s beside the recipe is not what its command writes", file)
	}
}

// Changing parts of an output: days, names of runs, and numbers that hang on new prompts.
var (
	day    = regexp.MustCompile(`\d{4}-\d\d-\d\d( \d\d:\d\d UTC)?`)
	runID  = regexp.MustCompile(`\d{8}T\d{6}Z-[a-z0-9.-]+`)
	clock  = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	number = regexp.MustCompile(`[±+−-]?\d[\d.,]*`)
)

// sameLine is a line with only what is the same each time.
func (k *kitchen) sameLine(line string) string {
	line = clock.ReplaceAllString(runID.ReplaceAllString(day.ReplaceAllString(line, "DAY"), "ID"), "TIME")
	if k.measured {
		line = number.ReplaceAllString(line, "N")
	}
	return strings.Join(strings.Fields(line), " ")
}

// shows wants the lines that a recipe shows to be the output; "…" stands for any lines.
func (k *kitchen) shows(c command, output string) {
	k.t.Helper()
	lines := func(list []string) []string {
		return slices.DeleteFunc(list, func(line string) bool { return strings.TrimSpace(line) == "" })
	}
	got, gap := lines(strings.Split(output, "\n")), false
	for _, want := range lines(slices.Clone(c.shown)) {
		if strings.TrimSpace(want) == "…" {
			gap = true
			continue
		}
		at := slices.IndexFunc(got, func(line string) bool { return k.sameLine(line) == k.sameLine(want) })
		if at < 0 || at > 0 && !gap {
			k.t.Fatalf("%s does not print\n%s\nwhere that is shown, but\n%s", c.line, want, output)
		}
		got, gap = got[at+1:], false
	}
	if len(got) > 0 && !gap {
		k.t.Fatalf("%s prints more than is shown:\n%s", c.line, strings.Join(got, "\n"))
	}
}

// profile is the machine that stands for a server.
func (k *kitchen) profile(name string) *profile.Profile {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.home, "testdata/recipes", name+".yaml"))
	if err != nil {
		k.t.Fatal(err)
	}
	p, err := profile.Decode(name, data)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// serves starts the simulated engine at an address; what it gives stops it.
func (k *kitchen) serves(address string, p *profile.Profile) (stop func()) {
	k.t.Helper()
	l, err := k.net.Listen(address)
	if err != nil {
		k.t.Fatal(err)
	}
	k.seed++
	server, err := simserver.New(p, simserver.Options{Noise: 0.005, Seed: k.seed})
	if err != nil {
		k.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() { server.Close(); serving.Wait() }
}

// serve is `vllm serve MODEL`, of the version that stands before it.
func (k *kitchen) serve(spec launch.Spec) (launch.Child, error) {
	name := map[string]string{"Qwen/Qwen3-8B": "bf16", "Qwen/Qwen3-8B-FP8": "fp8", "Qwen/Qwen3-8B-AWQ": "awq"}[spec.Args[2]]
	if strings.HasPrefix(spec.Args[0], "old/") || strings.HasPrefix(spec.Args[0], "branch/") {
		name = "old"
	}
	p := k.profile(name)
	address := local
	if i := slices.Index(spec.Args, "--port"); i > 0 {
		address = "127.0.0.1:" + spec.Args[i+1]
	}
	c := &child{exited: make(chan struct{}), close: func() {}}
	k.later(5*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		select {
		case <-c.exited:
			return
		default:
		}
		c.close = k.serves(address, p)
	})
	return c, nil
}
