package report

import (
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// commandLine is a line of the launch command, in parts that do not break before others do.
type commandLine struct {
	Comment bool
	// Continued marks a line that goes on with the one before it.
	Continued bool
	Parts     []string
}

// commandLines breaks a launch command where a reader would: at line ends, before comments,
// before the command behind them, and before options. The words stay as they are.
func commandLines(command string) []commandLine {
	var lines []commandLine
	continued := false
	for line := range strings.SplitSeq(command, "\n") {
		for rest := strings.TrimSpace(line); rest != ""; {
			head := rest
			if cut := compare.CommentEnd(rest); cut > 0 {
				head = strings.TrimSpace(rest[:cut])
			}
			rest = strings.TrimSpace(strings.TrimPrefix(rest, head))
			l := commandLine{Comment: strings.HasPrefix(head, "#"), Continued: continued, Parts: []string{head}}
			continued = strings.HasSuffix(head, "\\")
			if !l.Comment {
				l.Parts = splitOptions(head)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// splitOptions gives the parts of a command: each option with its value.
func splitOptions(s string) []string {
	var parts []string
	for i, part := range strings.Split(s, " --") {
		if i > 0 {
			part = "--" + part
		}
		parts = append(parts, part)
	}
	return parts
}

// reproduce is the command that measures the same again, in parts.
func reproduce(d *Document) []string {
	run := d.Run
	parts := []string{"speedmatrix run"}
	if run.Origin == speedmatrix.OriginPredicted || len(d.Matrix.Rows) == 0 {
		return nil
	}
	if url := Clean(run.Server.URL); url != "" {
		parts[0] += " " + quoted(url)
	}
	switch name := Clean(run.Method.Name); name {
	case "", speedmatrix.MethodStandard:
	case speedmatrix.MethodQuick:
		parts = append(parts, "--quick")
	default:
		parts = append(parts, "--method "+quoted(clip(name, 60)))
	}
	tokens := func(list []int) string {
		var words []string
		for _, n := range list {
			words = append(words, strings.ReplaceAll(unit.FormatTokens(n), ",", ""))
		}
		return strings.Join(words, ",")
	}
	if p := run.Plan; len(p.Contexts) > 0 && len(p.Concurrency) > 0 {
		var levels []string
		for _, n := range p.Concurrency {
			levels = append(levels, strconv.Itoa(n))
		}
		parts = append(parts, "--contexts "+tokens(p.Contexts), "--concurrency "+strings.Join(levels, ","))
		if len(p.Prefill) > 0 {
			parts = append(parts, "--prefill "+tokens(p.Prefill))
		}
	}
	return parts
}

// quoted is a word for a shell.
func quoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:.-_") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
