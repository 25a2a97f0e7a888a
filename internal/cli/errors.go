package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/report"
)

// The lines that say what to do next are indented, and as long as a help page is wide.
const nextIndent = "  "

// printError writes what happened and what to do next.
func printError(env *Env, err error) {
	w := env.Stderr
	_, _ = fmt.Fprintf(w, "speedmatrix: %s\n", report.CleanLines(env.shownText(err.Error())))
	if e, ok := errors.AsType[*speedmatrix.Error](err); ok && e.Next != "" {
		for line := range strings.SplitSeq(env.shownText(e.Next), "\n") {
			if strings.HasPrefix(line, "    ") { // a line of a log stays as it is
				_, _ = fmt.Fprintf(w, "%s  %s\n", nextIndent, report.Clean(line))
				continue
			}
			for _, part := range wrapNext(report.Clean(line)) {
				_, _ = fmt.Fprintf(w, "%s%s\n", nextIndent, part)
			}
		}
	}
}

// wrapNext breaks a text into lines. A command in it stays whole, so that it can be copied.
func wrapNext(text string) (lines []string) {
	line := ""
	for _, part := range unbroken(text) {
		switch {
		case line == "":
			line = part
		case utf8.RuneCountInString(nextIndent+line+" "+part) > helpWidth:
			lines, line = append(lines, line), part
		default:
			line += " " + part
		}
	}
	return append(lines, line)
}

// commands are the programs whose calls stand in messages.
var commands = []string{"speedmatrix", "curl"}

// unbroken gives the words of a text; a call of a program up to the end of its sentence is one.
func unbroken(text string) (parts []string) {
	command := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case command:
			parts[len(parts)-1] += " " + word
		case slices.Contains(commands, word):
			command = true
			fallthrough
		default:
			parts = append(parts, word)
		}
		command = command && !strings.ContainsAny(word[len(word)-1:], ".,;:")
	}
	return parts
}
