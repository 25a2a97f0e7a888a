package main

import (
	"hash/maphash"
	"maps"
	"regexp"
	"strings"
	"unicode"
)

const (
	shortest = 280  // characters of a paragraph that stands alone
	longest  = 2400 // characters of a paragraph before it is cut
	passage  = 80   // bytes that must not occur twice in the library
)

var (
	emptyLines = regexp.MustCompile(`\n[ \t]*(?:\n[ \t]*)+`)
	columns    = regexp.MustCompile(`\S[ \t]{3,}\S`)
	brackets   = regexp.MustCompile(`\[[^\]]*\]`)
	noteMarks  = regexp.MustCompile(`\(\d+\)`)
)

// paragraphs cleans one text and evens out the lengths of its paragraphs.
func paragraphs(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\ufeff", "").Replace(text)
	var out []string
	var open strings.Builder
	for _, block := range emptyLines.Split(strings.TrimSpace(text), -1) {
		p := clean(block)
		if p == "" {
			continue
		}
		if open.Len() > 0 {
			open.WriteByte(' ')
		}
		open.WriteString(p)
		if open.Len() >= shortest {
			out = append(out, cut(open.String())...)
			open.Reset()
		}
	}
	return out
}

// clean gives the block as one line, or nothing for a heading or a table.
func clean(block string) string {
	if columns.MatchString(block) || strings.ContainsAny(block, "|\\{}<>^~*#=+") {
		return ""
	}
	block = noteMarks.ReplaceAllString(brackets.ReplaceAllString(block, " "), " ")
	block = strings.NewReplacer("_", "", "--", "—", "[", "", "]", "", "“", `"`, "”", `"`, "‘", "'", "’", "'").Replace(block)
	line := strings.Join(strings.Fields(block), " ")
	line = strings.NewReplacer(" ,", ",", " .", ".", " ;", ";").Replace(line)
	if heading(line) || letters(line) < 0.75 {
		return ""
	}
	return line
}

func heading(line string) bool {
	if len(line) > 120 {
		return false
	}
	if strings.ToUpper(line) == line {
		return true
	}
	end := strings.TrimRight(line, `"')`)
	return end == "" || !strings.ContainsAny(end[len(end)-1:], ".,;:!?-") && !strings.HasSuffix(end, "—")
}

// letters is the share of letters and blanks.
func letters(line string) float64 {
	good, all := 0, 0
	for _, r := range line {
		all++
		if unicode.IsLetter(r) || r == ' ' {
			good++
		}
	}
	return float64(good) / float64(max(1, all))
}

// cut parts a long paragraph after sentences.
func cut(p string) []string {
	var out []string
	for len(p) > longest {
		at := strings.LastIndex(p[:longest], ". ")
		if at < shortest || len(p)-at < shortest {
			break
		}
		out = append(out, p[:at+1])
		p = p[at+2:]
	}
	return append(out, p)
}

// passages remembers every passage of a library by hash.
type passages struct {
	seed  maphash.Seed
	known map[uint64]bool
}

func newPassages() *passages {
	return &passages{seed: maphash.MakeSeed(), known: map[uint64]bool{}}
}

// fresh gives the paragraphs that repeat no passage of those before them or
// of their own.
func (s *passages) fresh(paragraphs []string) []string {
	var out []string
	for _, p := range paragraphs {
		if own, ok := s.of(p); ok {
			maps.Copy(s.known, own)
			out = append(out, p)
		}
	}
	return out
}

// of hashes the passages of p at every word; ok is false if one is known or
// occurs twice in p.
func (s *passages) of(p string) (own map[uint64]bool, ok bool) {
	own = map[uint64]bool{}
	for i := 0; i+passage <= len(p); i++ {
		if i > 0 && p[i-1] != ' ' {
			continue
		}
		h := maphash.String(s.seed, p[i:i+passage])
		if s.known[h] || own[h] {
			return nil, false
		}
		own[h] = true
	}
	return own, true
}
