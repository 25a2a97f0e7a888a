package main

import (
	"strings"
	"testing"
)

func TestParagraphsAreCleanedAndJoined(t *testing.T) {
	sentence := "This is an ordinary sentence of a book, long enough to stand for the others of its kind and to be counted. "
	text := "\ufeffCHAPTER I\r\n\r\nThe Title of It\r\n\r\n" +
		"BER.\r\nWho's  there?\r\n\r\n[Exit.]\r\n\r\n_Nay_, answer me: (12) “stand”--and unfold yourself.\r\n\r\n" +
		strings.Repeat(sentence, 4) + "\r\n\r\n  1      2      3\r\n  4      5      6\r\n\r\n" +
		"12, 13, 14, 15, 16; 17, 18, 19, 20.\r\n\r\n" + strings.Repeat(sentence, 40)
	got := paragraphs(text)
	if want := `BER. Who's there? Nay, answer me: "stand"—and unfold yourself. This is`; !strings.HasPrefix(got[0], want) {
		t.Errorf("got %.120q, want %q", got[0], want)
	}
	for _, p := range got {
		if len(p) < shortest || len(p) > longest || !strings.HasSuffix(p, ".") || strings.Contains(p, "14, 15") {
			t.Errorf("%d bytes: %q", len(p), p)
		}
	}
	if n := strings.Count(strings.Join(got, " "), "ordinary"); n != 44 {
		t.Errorf("%d of 44 sentences are left", n)
	}
}

func TestRepeatedPassagesAreLeftOut(t *testing.T) {
	seen := newPassages()
	a := "The first paragraph says one thing at some length, so that a passage of eighty bytes fits into it with ease."
	b := "Another one begins differently but then: " + a
	c := strings.Repeat("And a third one says the same sentence twice over, which is long enough to be noticed as such. ", 2)
	d := "The last paragraph is new from its first to its last word, and that is why it will be kept in the library."
	if got := seen.fresh([]string{a, b, c, d}); len(got) != 2 || got[0] != a || got[1] != d {
		t.Errorf("kept %q", got)
	}
}
