package engine

// pool is the KV cache: blocks with reference counts, a queue of free ones in
// the order in which they will be used again, and an index of the full blocks
// by the hash of all tokens up to their end. A free block keeps its content
// until it is taken.
type pool struct {
	refs  []int32
	users []int32 // decoding sequences that hold it
	hash  []uint64
	state []bool // a hybrid model's recurrent state at the block's end is kept
	next  []int32
	prev  []int32
	index index
	free  int
	// shared counts, over all blocks, the decoding holders beyond the first.
	shared int
}

// newPool makes n free blocks. The place n is the ring that joins the queue's ends.
func newPool(n int) *pool {
	p := &pool{refs: make([]int32, n), users: make([]int32, n), hash: make([]uint64, n), state: make([]bool, n),
		next: make([]int32, n+1), prev: make([]int32, n+1), index: newIndex(n), free: n}
	for i := range p.next {
		p.next[i], p.prev[i] = int32(i+1), int32(i-1)
	}
	p.next[n], p.prev[0] = 0, int32(n)
	return p
}

func (p *pool) ring() int32 { return int32(len(p.refs)) }

func (p *pool) unlink(b int32) {
	p.next[p.prev[b]], p.prev[p.next[b]] = p.next[b], p.prev[b]
	p.free--
}

func (p *pool) append(b int32) {
	end := p.ring()
	last := p.prev[end]
	p.next[last], p.prev[b] = b, last
	p.next[b], p.prev[end] = end, b
	p.free++
}

// take gives the block that has been free for longest and forgets its content; the caller has seen that one is free.
func (p *pool) take() int32 {
	b := p.next[p.ring()]
	p.unlink(b)
	p.forget(b)
	p.refs[b] = 1
	return b
}

func (p *pool) forget(b int32) {
	if p.hash[b] != 0 {
		p.index.remove(p.hash[b], b)
		p.hash[b] = 0
	}
	p.state[b] = false
}

// hold adds a reference to a block that has one or is free with its content.
func (p *pool) hold(b int32) {
	if p.refs[b] == 0 {
		p.unlink(b)
	}
	p.refs[b]++
}

// drop takes a reference away.
func (p *pool) drop(b int32) {
	if p.refs[b]--; p.refs[b] == 0 {
		p.append(b)
	}
}

// publish makes a full block's content findable. Of two blocks with the same content the first stays in the index.
func (p *pool) publish(b int32, hash uint64, state bool) {
	p.state[b] = p.state[b] || state
	if p.hash[b] != 0 {
		return
	}
	place, there := p.index.find(hash)
	if there {
		other := p.index.blocks[place]
		p.state[other] = p.state[other] || state
		return
	}
	p.hash[b] = hash
	p.index.keys[place], p.index.blocks[place] = hash, b
}

// use and unuse count a decoding sequence in and out of a block.
func (p *pool) use(b int32) {
	if p.users[b]++; p.users[b] > 1 {
		p.shared++
	}
}

func (p *pool) unuse(b int32) {
	if p.users[b]--; p.users[b] > 0 {
		p.shared--
	}
}

// reset forgets the content of all blocks; none may be in use.
func (p *pool) reset() {
	for b := range p.refs {
		p.forget(int32(b))
	}
}

// index finds blocks by hash: open addressing of a fixed size, so that it never allocates.
type index struct {
	keys   []uint64 // 0 is empty; hashes are odd
	blocks []int32
	mask   uint64
}

func newIndex(n int) index {
	size := 8
	for size < 2*n {
		size *= 2
	}
	return index{keys: make([]uint64, size), blocks: make([]int32, size), mask: uint64(size - 1)}
}

// home is the place where a hash would like to be.
func (x *index) home(hash uint64) uint64 { return (hash >> 7) & x.mask }

func (x *index) find(hash uint64) (place uint64, there bool) {
	for i := x.home(hash); ; i = (i + 1) & x.mask {
		switch x.keys[i] {
		case hash:
			return i, true
		case 0:
			return i, false
		}
	}
}

func (x *index) get(hash uint64) (block int32, there bool) {
	i, there := x.find(hash)
	return x.blocks[i], there
}

// remove takes a block out and moves those behind it that would no longer be found.
func (x *index) remove(hash uint64, block int32) {
	hole, there := x.find(hash)
	if !there || x.blocks[hole] != block {
		return
	}
	x.keys[hole] = 0
	for i := (hole + 1) & x.mask; x.keys[i] != 0; i = (i + 1) & x.mask {
		if (i-x.home(x.keys[i]))&x.mask < (i-hole)&x.mask {
			continue
		}
		x.keys[hole], x.blocks[hole] = x.keys[i], x.blocks[i]
		x.keys[i] = 0
		hole = i
	}
}
