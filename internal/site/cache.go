package site

import (
	"container/list"
	"errors"
	"runtime"
	"sync"
)

// cache keeps finished bytes by a key that names the version they were made of, the least used of which go first. Two
// askers of the same key at once wait for one making, and few are made at once: a making takes a lot of memory for a
// moment, and more at once would not be faster. No making may ask the same cache.
type cache struct {
	most  int
	seats chan struct{}

	mu    sync.Mutex
	size  int
	order *list.List // of *cached, the most recently used in front
	byKey map[string]*list.Element
	doing map[string]*making
}

type cached struct {
	key  string
	data [][]byte
	size int
}

type making struct {
	done chan struct{}
	data [][]byte
	err  error
}

// newCache makes a cache of at most so many bytes.
func newCache(most int) *cache {
	return &cache{most: most, seats: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), order: list.New(), byKey: map[string]*list.Element{}, doing: map[string]*making{}}
}

// get gives what build made for a key. An error is not kept; what is larger than an eighth of the cache neither.
func (c *cache) get(key string, build func() ([][]byte, error)) ([][]byte, error) {
	c.mu.Lock()
	if at, there := c.byKey[key]; there {
		c.order.MoveToFront(at)
		c.mu.Unlock()
		return at.Value.(*cached).data, nil
	}
	if m, busy := c.doing[key]; busy {
		c.mu.Unlock()
		<-m.done
		return m.data, m.err
	}
	m := &making{done: make(chan struct{}), err: errUnfinished}
	c.doing[key] = m
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.doing, key)
		if m.err == nil {
			c.keep(key, m.data)
		}
		c.mu.Unlock()
		close(m.done)
	}()
	c.seats <- struct{}{}
	defer func() { <-c.seats }()
	m.data, m.err = build()
	return m.data, m.err
}

// errUnfinished is what those get who waited for a making that broke off.
var errUnfinished = errors.New("the page could not be made")

func (c *cache) keep(key string, data [][]byte) {
	size := len(key) + 128
	for _, part := range data {
		size += len(part)
	}
	if size > c.most/8 {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, data, size})
	c.size += size
	for c.size > c.most {
		last := c.order.Back()
		old := last.Value.(*cached)
		c.order.Remove(last)
		delete(c.byKey, old.key)
		c.size -= old.size
	}
}
