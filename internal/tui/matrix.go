package tui

import (
	"cmp"
	"maps"
	"slices"

	"speedmatrix"
)

// matrix holds the decode cells by place, and the prefills by context.
type matrix struct {
	contexts    []int
	labels      map[int]string
	concurrency []int
	decode      map[place]speedmatrix.Cell
	prefill     []speedmatrix.Cell
}

type place struct{ context, concurrency int }

func newMatrix(cells []speedmatrix.Cell) matrix {
	m := matrix{labels: map[int]string{}, decode: map[place]speedmatrix.Cell{}}
	for _, c := range cells {
		if c.Phase == speedmatrix.PhasePrefill {
			m.prefill = append(m.prefill, c)
			continue
		}
		m.contexts, m.concurrency = append(m.contexts, c.Context), append(m.concurrency, c.Concurrency)
		m.labels[c.Context] = c.ContextLabel
		m.decode[place{c.Context, c.Concurrency}] = c
	}
	slices.Sort(m.contexts)
	slices.Sort(m.concurrency)
	m.contexts, m.concurrency = slices.Compact(m.contexts), slices.Compact(m.concurrency)
	slices.SortFunc(m.prefill, func(a, b speedmatrix.Cell) int { return cmp.Compare(a.Context, b.Context) })
	return m
}

// with gives the matrix with a cell that has ended; m stays as it is.
func (m matrix) with(c speedmatrix.Cell) matrix {
	if c.Phase == speedmatrix.PhasePrefill {
		m.prefill = slices.Clone(m.prefill)
		if i := slices.IndexFunc(m.prefill, func(p speedmatrix.Cell) bool { return p.Context == c.Context }); i >= 0 {
			m.prefill[i] = c
		}
		return m
	}
	decode := make(map[place]speedmatrix.Cell, len(m.decode))
	maps.Copy(decode, m.decode)
	decode[place{c.Context, c.Concurrency}] = c
	m.decode = decode
	return m
}

// most is the greatest total tok/s so far.
func (m matrix) most() (most float64) {
	for _, c := range m.decode {
		if v := c.TotalTokensPerSecond; v != nil && c.Status.ShowsSpeed() {
			most = max(most, *v)
		}
	}
	return most
}

// excerpt is at most n of the values, those around the one that is looked at.
func excerpt(values []int, around, n int) []int {
	if len(values) <= n {
		return values
	}
	i := max(slices.Index(values, around), 0)
	from := min(max(i-n/2, 0), len(values)-n)
	return values[from : from+n]
}
