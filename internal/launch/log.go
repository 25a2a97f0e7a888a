package launch

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// The bounds of a log: of one line, of its beginning, and of its end.
const (
	longestLine = 8 << 10
	headBytes   = 256 << 10
	tailBytes   = 768 << 10
)

// Log keeps the output of a server, bounded in size: its beginning and its end. A line that a progress bar rewrites is
// kept once. It is safe for concurrent use.
type Log struct {
	clean func(line string) string
	// told, if set, is told of every line.
	told func(line string)

	mu       sync.Mutex
	partial  []byte
	returned bool // the partial line ended with a return
	rewrites bool // the last line is one that the next takes the place of
	head     []string
	headSize int
	tail     []string
	tailSize int
	dropped  int
}

// NewLog makes a log whose lines go through clean first; told, which may be nil, is then told of each.
func NewLog(clean func(line string) string, told func(line string)) *Log {
	return &Log{clean: clean, told: told}
}

// Telling gives the log another listener. It comes before the log is written to by others.
func (l *Log) Telling(told func(line string)) *Log {
	l.told = told
	return l
}

// Write takes what the server wrote; lines end where it ends them or returns to their beginning.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	var lines []string
	end := func(rewritten bool) {
		if line, ok := l.end(rewritten); ok {
			lines = append(lines, line)
		}
	}
	for rest := p; len(rest) > 0; {
		if l.returned && rest[0] != '\r' {
			// A return before a line's end is a part of it; before anything else the line is written anew.
			l.returned = false
			if rest[0] != '\n' {
				end(true)
			}
		}
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			l.partial = append(l.partial, rest...)
			break
		}
		l.partial = append(l.partial, rest[:i]...)
		if l.returned = rest[i] == '\r'; !l.returned {
			end(false)
		}
		rest = rest[i+1:]
	}
	if len(l.partial) > 8*longestLine {
		end(false)
	}
	l.mu.Unlock()
	if l.told != nil {
		for _, line := range lines {
			l.told(line)
		}
	}
	return len(p), nil
}

// escapes are what terminals are told.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]`)

// end ends a line; the caller holds the lock. An empty one that only returned to its beginning is none.
func (l *Log) end(rewritten bool) (string, bool) {
	line := strings.ToValidUTF8(escapes.ReplaceAllString(string(l.partial), ""), "\uFFFD")
	l.partial = l.partial[:0]
	if strings.TrimSpace(line) == "" && (rewritten || l.rewrites) {
		return "", false
	}
	line = l.clean(strings.TrimRight(line, " \t"))
	if len(line) > longestLine {
		line = strings.ToValidUTF8(line[:longestLine], "") + "…"
	}
	if l.rewrites {
		l.dropLast()
	}
	l.rewrites = rewritten
	l.add(line)
	return line, true
}

func (l *Log) add(line string) {
	if l.dropped == 0 && len(l.tail) == 0 && l.headSize+len(line) < headBytes {
		l.head, l.headSize = append(l.head, line), l.headSize+len(line)+1
		return
	}
	l.tail, l.tailSize = append(l.tail, line), l.tailSize+len(line)+1
	for l.tailSize > tailBytes && len(l.tail) > 1 {
		l.tailSize -= len(l.tail[0]) + 1
		l.tail = l.tail[1:]
		l.dropped++
	}
}

func (l *Log) dropLast() {
	if n := len(l.tail); n > 0 {
		l.tailSize -= len(l.tail[n-1]) + 1
		l.tail = l.tail[:n-1]
	} else if n := len(l.head); n > 0 {
		l.headSize -= len(l.head[n-1]) + 1
		l.head = l.head[:n-1]
	}
}

// Lines gives the lines kept, without those that were dropped in the middle.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(append([]string{}, l.head...), l.tail...)
}

// Last gives the last lines that are not empty, at most n.
func (l *Log) Last(n int) []string {
	var last []string
	lines := l.Lines()
	for i := len(lines) - 1; i >= 0 && len(last) < n; i-- {
		if strings.TrimSpace(lines[i]) != "" {
			last = append([]string{lines[i]}, last...)
		}
	}
	return last
}

// WriteTo writes the log, and where lines were dropped how many.
func (l *Log) WriteTo(w io.Writer) (int64, error) {
	l.mu.Lock()
	head, tail, dropped := append([]string{}, l.head...), append([]string{}, l.tail...), l.dropped
	l.mu.Unlock()
	var text strings.Builder
	for _, line := range head {
		text.WriteString(line + "\n")
	}
	if dropped > 0 {
		_, _ = fmt.Fprintf(&text, "… %d lines left out …\n", dropped)
	}
	for _, line := range tail {
		text.WriteString(line + "\n")
	}
	n, err := io.WriteString(w, text.String())
	return int64(n), err
}
