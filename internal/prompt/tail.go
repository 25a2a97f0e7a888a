package prompt

import (
	"encoding/binary"
	"fmt"
)

// Tail gives closing instruction n of a stream, to stand directly behind its
// head: it begins with an empty line, asks for a long continuous piece of
// prose, has 30 to 60 tokens, and differs for every n, in mode shared too.
func (w *Writer) Tail(h HeadID, n int) string {
	t := w.task("tail", h, n)
	return fmt.Sprintf("\n\nPiece %d: leave the passages above and write a long %s about %s, as %s would tell it. "+
		"Go on for many pages in plain paragraphs, let each bring something new, never sum up and never repeat.",
		n+1, t.form, t.subject, t.teller)
}

// Short gives the whole prompt n of a stream at context 0: at most 200
// characters and 64 tokens, different for every stream below 2²¹ and every n.
func (w *Writer) Short(h HeadID, n int) string {
	t := w.task("short", h, n)
	return fmt.Sprintf("%s %d: write a long %s about %s, as %s would tell it, in many pages of plain paragraphs, each with something new.",
		w.name(h), n+1, t.form, t.subject, t.teller)
}

type task struct{ form, subject, teller string }

func (w *Writer) task(what string, h HeadID, n int) task {
	sum := w.hash(fmt.Sprintf("%s %d", what, n), h)
	forms := [...]string{
		"story", "essay", "memoir", "travel book", "letter", "lecture", "chronicle", "portrait",
		"dialogue in prose", "history", "account", "fable", "report", "biography", "reflection", "tale",
	}
	subjects := [...]string{
		"a harbour town in winter", "the making of a clock", "a railway across the steppe", "two rival bakers",
		"the life of a river", "a lighthouse keeper's year", "how maps were drawn", "a garden behind a hospital",
		"the last mill in the valley", "a school for glassblowers", "an expedition to the ice", "the trade in salt",
		"a family of bell founders", "the building of a bridge", "a market that never closes", "an island of sheep",
		"the invention of paper", "a theatre during a siege", "the stars seen from a ship", "an orchard and its heirs",
		"a doctor on horseback", "the song of a mountain village", "a library under water", "the long road to the sea",
		"a foundry and its workers", "an old canal and its locks", "the weather of one summer", "a violin and its owners",
		"the bees of a monastery", "a court case over a well", "the founding of a newspaper", "a kitchen through a century",
	}
	tellers := [...]string{
		"an old sailor", "a patient teacher", "a curious child", "a retired judge", "a travelling merchant",
		"a village priest", "a young engineer", "a careful historian", "a gardener", "a night watchman",
		"a widowed painter", "a country doctor", "a clerk with time", "a proud cook", "a surveyor", "a postmaster",
	}
	pick := func(at, of int) int { return int(binary.LittleEndian.Uint32(sum[at:]) % uint32(of)) }
	return task{
		form:    forms[pick(0, len(forms))],
		subject: subjects[pick(4, len(subjects))],
		teller:  tellers[pick(8, len(tellers))],
	}
}
