package stamp

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	perOctave  = 8
	subBits    = 3  // log2 of perOctave
	minExp     = 10 // the first octave begins at 2^10 ns, about 1 µs
	octaves    = 26 // the last one ends at 2^36 ns, about 69 s
	histLength = 1 + octaves*perOctave + 1
)

// Histogram counts durations in 8 buckets per octave from 1 µs to 64 s, so that
// a quantile is right within 6 %; shorter ones share one bucket and longer ones
// another. Its size is fixed and nothing is allocated. One goroutine writes;
// others may read meanwhile. The zero value is ready.
type Histogram struct {
	counts [histLength]atomic.Uint32 // each far from its end after a day at full load
	max    atomic.Int64
}

// Add counts one duration. A negative one counts as zero.
func (h *Histogram) Add(d time.Duration) {
	ns := max(int64(d), 0)
	h.counts[bucket(ns)].Add(1)
	if ns > h.max.Load() {
		h.max.Store(ns)
	}
}

// Merge adds the counts of another histogram, which may still be written to.
func (h *Histogram) Merge(o *Histogram) {
	for i := range o.counts {
		if n := o.counts[i].Load(); n > 0 {
			h.counts[i].Add(n)
		}
	}
	if m := o.max.Load(); m > h.max.Load() {
		h.max.Store(m)
	}
}

// Quantile is the duration below which a share q (0–1) of the counted ones lie:
// the middle of the bucket that holds it, never above Max. It is 0 when nothing
// was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := int64(q * float64(total-1))
	top := h.max.Load()
	for i := range h.counts {
		rank -= int64(h.counts[i].Load())
		if rank < 0 {
			return time.Duration(min(middle(i), top))
		}
	}
	return time.Duration(top)
}

// Count is the number of durations counted.
func (h *Histogram) Count() int64 {
	var n int64
	for i := range h.counts {
		n += int64(h.counts[i].Load())
	}
	return n
}

// Max is the longest duration counted, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// bucket is the index of the bucket that holds ns.
func bucket(ns int64) int {
	exp := bits.Len64(uint64(ns)) - 1
	switch {
	case exp < minExp:
		return 0
	case exp >= minExp+octaves:
		return histLength - 1
	}
	sub := int(ns>>(exp-subBits)) & (perOctave - 1)
	return 1 + (exp-minExp)*perOctave + sub
}

// middle is the duration in the middle of a bucket, in ns.
func middle(i int) int64 {
	switch i {
	case 0:
		return 1 << (minExp - 1)
	case histLength - 1:
		return 1 << (minExp + octaves)
	}
	exp := minExp + (i-1)/perOctave
	sub := int64((i - 1) % perOctave)
	width := int64(1) << (exp - subBits)
	return 1<<exp + sub*width + width/2
}
