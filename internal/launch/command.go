package launch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/shell"
	"mvdan.cc/sh/v3/syntax"

	"speedmatrix"
)

// Command is a command line that starts a server.
type Command struct {
	// Text is the command as it was written.
	Text string
	// Env are the assignments before the program, Args the program and its arguments.
	Env  []string
	Args []string
}

// assignment is a variable set for one command.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// Parse reads a command as a shell would: quotes, backslashes, comments, ~ and $NAME; but it starts no shell, so
// pipes, redirections and several commands are errors of kind KindUsage. getenv gives the values of variables.
func Parse(text string, getenv func(string) string) (*Command, error) {
	words, err := shell.Fields(text, getenv)
	if err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the command cannot be read as words: " + err.Error(),
			Next: "It is started without a shell. If it needs one: --launch \"sh -c '…'\".", Err: err}
	}
	c := &Command{Text: strings.TrimSpace(text), Args: words}
	for len(c.Args) > 0 && assignment.MatchString(c.Args[0]) {
		c.Env, c.Args = append(c.Env, c.Args[0]), c.Args[1:]
	}
	if len(c.Args) == 0 {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: "the command names no program",
			Next: "Give the command that starts the server, such as --launch 'vllm serve MODEL'."}
	}
	return c, nil
}

// Of is the command of a process: its arguments and what its environment says to its engine.
func Of(args, env []string) *Command {
	return &Command{Text: Quote(args), Env: env, Args: args}
}

// Quote writes words as a shell reads them.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		name := assignment.FindString(word)
		q, err := syntax.Quote(word[len(name):], syntax.LangBash)
		if err != nil {
			q = fmt.Sprintf("%q", word[len(name):])
		}
		quoted[i] = name + q
	}
	return strings.Join(quoted, " ")
}

// Option is an option of an engine. Value is "" where it stands alone.
type Option struct{ Name, Value string }

// view is a command as its engine sees it.
type view struct {
	engine    *engine
	options   []Option
	words     []string // positional
	env       map[string]string
	container *container
}

// see finds the engine in a command, through shells, wrappers and containers.
func (c *Command) see() view {
	v := view{env: environment(c.Env)}
	args := c.Args
	for range 3 { // sh -c 'docker run …'
		if inner, ok := shellCommand(args, v.env); ok {
			args = inner
			continue
		}
		break
	}
	if v.container = containerOf(args); v.container != nil {
		maps.Copy(v.env, v.container.env)
		args = v.container.args
		v.engine = engineOfImage(v.container.image)
	}
	if e, rest := engineOf(args); e != nil {
		v.engine, args = e, rest
	} else if v.engine == nil && len(args) > 0 {
		args = args[1:]
	}
	v.options, v.words = splitOptions(args)
	return v
}

func environment(list []string) map[string]string {
	env := map[string]string{}
	for _, line := range list {
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = value
		}
	}
	return env
}

var shells = []string{"sh", "bash", "dash", "zsh", "ash"}

// shellCommand gives the words of a command that a shell runs.
func shellCommand(args []string, env map[string]string) ([]string, bool) {
	if len(args) < 3 || !slices.Contains(shells, baseName(args[0])) || !strings.HasPrefix(args[1], "-") || !strings.HasSuffix(args[1], "c") {
		return nil, false
	}
	words, err := shell.Fields(strings.TrimPrefix(strings.TrimSpace(args[2]), "exec "), func(name string) string { return env[name] })
	for len(words) > 0 && assignment.MatchString(words[0]) {
		name, value, _ := strings.Cut(words[0], "=")
		env[name], words = value, words[1:]
	}
	return words, err == nil && len(words) > 0
}

// baseName is a program's name without its folder and ending.
func baseName(path string) string {
	path = path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.TrimSuffix(path, ".exe")
}

// number is a value that begins with a minus and is no option.
var number = regexp.MustCompile(`^-?[0-9.]+$`)

// splitOptions sorts the words of an engine's command line. An option takes the next word as its value where that is
// no option itself; of an option that stands alone before a positional word this is one too many, which no engine has
// behind its first word.
func splitOptions(args []string) (options []Option, words []string) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if !strings.HasPrefix(word, "-") || word == "-" || number.MatchString(word) {
			words = append(words, word)
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		if !joined && i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || number.MatchString(args[i+1])) {
			i++
			value = args[i]
		}
		options = append(options, Option{Name: name, Value: value})
	}
	return options, words
}

// option gives the value of the last option of any of the names; in an option's name _ counts as -.
func (v *view) option(names ...string) (value string, ok bool) {
	for _, o := range v.options {
		if slices.Contains(names, strings.ReplaceAll(o.Name, "_", "-")) {
			value, ok = o.Value, true
		}
	}
	return value, ok
}
