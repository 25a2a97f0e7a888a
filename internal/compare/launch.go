package compare

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// set stands for an option of a launch command that has no value.
const set = "set"

// commandName is the key of what a launch command says besides its options.
const commandName = "command"

var (
	// assignment is a variable before a command.
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// negative is a number that looks like an option.
	negative = regexp.MustCompile(`^-[0-9.]`)
)

// launchOptions reads a launch command word by word: its options with their values, the variables before it, and
// under commandName the rest. Comments are left out. An option given several times has its values in order.
func launchOptions(command string) map[string]string {
	options := map[string]string{}
	put := func(key, value string) {
		if old, there := options[key]; there {
			value = old + " " + value
		}
		options[key] = value
	}
	words := shellWords(uncommented(command))
	var rest []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case isOption(word):
			key, value, cut := strings.Cut(word, "=")
			if !cut {
				value = set
				if i+1 < len(words) && !isOption(words[i+1]) {
					i++
					value = words[i]
				}
			}
			put(key, value)
		case len(rest) == 0 && assignment.MatchString(word):
			key, value, _ := strings.Cut(word, "=")
			put(key, value)
		default:
			rest = append(rest, word)
		}
	}
	if len(rest) > 0 {
		options[commandName] = strings.Join(rest, " ")
	}
	return options
}

// launchers begin a command that stands behind comments on the same line.
var launchers = []string{"vllm ", "python ", "python3 ", "llama-server ", "ollama ", "docker ", "podman ", "sglang ", "trtllm-serve ", "text-generation-launcher ", "CUDA_VISIBLE_DEVICES="}

// CommentEnd is where the first comment of a line of a launch command ends because another one or the command itself
// begins there: published commands often have lost their line ends. 0 is the end of the line, or no comment at all.
func CommentEnd(line string) int {
	if !strings.HasPrefix(line, "#") {
		return 0
	}
	cut := 0
	for _, mark := range append([]string{"# "}, launchers...) {
		if i := strings.Index(line[1:], " "+mark); i >= 0 && (cut == 0 || i+1 < cut) {
			cut = i + 1
		}
	}
	return cut
}

// uncommented is a launch command without the comments before it.
func uncommented(command string) string {
	var lines []string
	for line := range strings.SplitSeq(command, "\n") {
		rest := strings.TrimSpace(line)
		for strings.HasPrefix(rest, "#") {
			end := CommentEnd(rest)
			if end == 0 {
				end = len(rest)
			}
			rest = strings.TrimSpace(rest[end:])
		}
		lines = append(lines, rest)
	}
	return strings.Join(lines, "\n")
}

func isOption(word string) bool {
	return len(word) > 1 && word[0] == '-' && !negative.MatchString(word)
}

// shellWords splits a command as a shell does: at blanks outside of quotes; a backslash joins lines and takes a
// character as it is; a # at the start of a word comments out the rest of its line.
func shellWords(command string) (words []string) {
	w := &wordReader{}
	for _, r := range command {
		w.read(r)
	}
	w.end()
	return slices.DeleteFunc(w.words, func(s string) bool { return s == "" })
}

// wordReader is a shell's idea of words, one character after another.
type wordReader struct {
	words   []string
	word    strings.Builder
	begun   bool
	quote   rune
	escaped bool
	comment bool
}

func (w *wordReader) end() {
	if w.begun {
		w.words = append(w.words, w.word.String())
	}
	w.word.Reset()
	w.begun = false
}

func (w *wordReader) take(r rune) {
	w.word.WriteRune(r)
	w.begun = true
}

func (w *wordReader) read(r rune) {
	switch {
	case w.comment:
		w.comment = r != '\n'
	case w.escaped:
		w.escaped = false
		if r != '\n' {
			w.take(r)
		}
	case r == '\\' && w.quote != '\'':
		w.escaped = true
	case w.quote != 0:
		if r == w.quote {
			w.quote = 0
			return
		}
		w.take(r)
	case r == '\'' || r == '"':
		w.quote, w.begun = r, true
	case r == '#' && !w.begun:
		w.comment = true
	case unicode.IsSpace(r):
		w.end()
	default:
		w.take(r)
	}
}
