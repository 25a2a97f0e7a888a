package catalog

import (
	"cmp"
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// order is a column of what queries sort by, kept between queries and changed with the rows.
type order struct {
	orderKey
	values []float64
	used   int64
}

type orderKey struct {
	by                   Sort
	context, concurrency int
	floor                float64
}

// mostOrders bounds the kept orders; each takes 8 bytes a run.
const mostOrders = 24

// orders are the kept columns. Its lock is taken under that of the index.
type orders struct {
	mu   sync.Mutex
	list []*order
	tick int64
}

func keyOf(q *Query) orderKey {
	k := orderKey{by: cmp.Or(q.Sort, ByNewest)}
	switch k.by {
	case ByTotal, ByPerRequest, ByTTFT:
		k.context, k.concurrency = q.Context, q.Concurrency
	case ByUsers:
		k.context, k.floor = q.Context, cmp.Or(q.Floor, defaultFloor)
	case ByPrefill:
		k.context = q.Context
	}
	return k
}

// order gives the column of what a query sorts by; the index must be held for reading.
func (x *Index) order(q *Query) []float64 {
	k := keyOf(q)
	o := &x.orders
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick++
	for _, kept := range o.list {
		if kept.orderKey == k {
			kept.used = o.tick
			return kept.values
		}
	}
	made := &order{orderKey: k, values: make([]float64, len(x.rows)), used: o.tick}
	for i := range made.values {
		made.values[i] = x.valueOf(made, int32(i))
	}
	if len(o.list) < mostOrders {
		o.list = append(o.list, made)
		return made.values
	}
	oldest := 0
	for i, kept := range o.list {
		if kept.used < o.list[oldest].used {
			oldest = i
		}
	}
	o.list[oldest] = made
	return made.values
}

func (o *orders) grow() {
	for _, kept := range o.list {
		kept.values = append(kept.values, 0)
	}
}

func (o *orders) put(i int32, value func(*order) float64) {
	for _, kept := range o.list {
		kept.values[i] = value(kept)
	}
}

func (o *orders) remove(i int32) {
	for _, kept := range o.list {
		kept.values = moved(kept.values, i)
	}
}

// place is where a run stands in an order: the greater value first, NaN last, of equals the later published.
type place struct {
	value     float64
	published int64
	id        string
	row       int32
}

func (a *place) before(b *place) bool {
	an, bn := a.value != a.value, b.value != b.value
	if an != bn {
		return bn
	}
	if !an && a.value != b.value {
		return a.value > b.value
	}
	if a.published != b.published {
		return a.published > b.published
	}
	return a.id > b.id
}

// first keeps the n first places that are offered to it, the n last where back is set, as a heap with the one on top that
// goes next.
type first struct {
	n    int
	back bool
	heap []place
}

func (f *first) before(a, b *place) bool {
	if f.back {
		a, b = b, a
	}
	return a.before(b)
}

func (f *first) offer(p place) {
	if len(f.heap) < f.n {
		f.heap = append(f.heap, p)
		for i := len(f.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if !f.before(&f.heap[up], &f.heap[i]) {
				break
			}
			f.heap[up], f.heap[i] = f.heap[i], f.heap[up]
			i = up
		}
		return
	}
	if f.n == 0 || !f.before(&p, &f.heap[0]) {
		return
	}
	f.heap[0] = p
	for i := 0; ; {
		last := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < len(f.heap) && f.before(&f.heap[last], &f.heap[down]) {
				last = down
			}
		}
		if last == i {
			return
		}
		f.heap[i], f.heap[last] = f.heap[last], f.heap[i]
		i = last
	}
}

// sorted gives the kept places in order.
func (f *first) sorted() []place {
	slices.SortFunc(f.heap, func(a, b place) int {
		switch {
		case a.before(&b):
			return -1
		case b.before(&a):
			return 1
		}
		return 0
	})
	return f.heap
}

// cursor is a place as text: what stands after it is the next page, whatever comes in between; what stands before it is the
// one before where back is set.
func cursor(p *place, k orderKey, back bool) string {
	way := "after"
	if back {
		way = "before"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{way, k.String(),
		strconv.FormatUint(math.Float64bits(p.value), 16), strconv.FormatInt(p.published, 16), p.id}, " ")))
}

// String names an order within a cursor.
func (k orderKey) String() string {
	return string(k.by) + ":" + strconv.Itoa(k.context) + ":" + strconv.Itoa(k.concurrency) + ":" + strconv.FormatFloat(k.floor, 'g', -1, 64)
}

var (
	errCursor = errors.New("the cursor is not one of this site's")
	errOrder  = errors.New("the cursor is that of a list in another order: begin at the first page")
)

func parseCursor(text string, k orderKey) (at *place, back bool, err error) {
	if text == "" {
		return nil, false, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(data), " ", 5)
	if err != nil || len(parts) != 5 || parts[0] != "after" && parts[0] != "before" {
		return nil, false, errCursor
	}
	if parts[1] != k.String() {
		return nil, false, errOrder
	}
	value, err := strconv.ParseUint(parts[2], 16, 64)
	published, err2 := strconv.ParseInt(parts[3], 16, 64)
	if err != nil || err2 != nil {
		return nil, false, errCursor
	}
	return &place{value: math.Float64frombits(value), published: published, id: parts[4]}, parts[0] == "before", nil
}
