package site

import (
	"html/template"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"speedmatrix/internal/report"
)

// date is a day: "18 Nov 2026"; shortDate leaves the year out. Both are empty where it is not known.
func date(t time.Time) string { return dated(t, "2 Jan 2006") }

func shortDate(t time.Time) string { return dated(t, "2 Jan") }

// moment is a time to the minute.
func moment(t time.Time) string { return dated(t, "2 Jan 2006, 15:04 UTC") }

func dated(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// clip is text of others on one line, cut after so many characters.
func clip(s string, most int) string {
	s = report.Clean(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// sentence ends a text with a stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// command is one of this program's in a text.
var command = regexp.MustCompile(`speedmatrix [a-z]+(?: --[a-z-]+(?: [a-z0-9](?:[a-z0-9./-]*[a-z0-9])?)?)*`)

// withCommands marks the commands in a text.
func withCommands(s string) template.HTML {
	return template.HTML(command.ReplaceAllString(template.HTMLEscapeString(clip(s, 600)), "<code>$0</code>"))
}
