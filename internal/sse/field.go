package sse

// field is the value of a field of the event being built: a view of the chunk
// or of the carried line as long as it can be one, else a copy in own.
type field struct {
	value []byte
	own   []byte
	has   bool
	owned bool // value lies in own
}

// set replaces the value by a view.
func (f *field) set(view []byte) {
	f.value, f.has, f.owned = view, true, false
}

// add appends a further line to the value.
func (f *field) add(view []byte) {
	if !f.has {
		f.set(view)
		return
	}
	f.keep()
	f.own = append(f.own, '\n')
	f.own = append(f.own, view...)
	f.value = f.own
}

// keep copies a view, whose bytes are about to change hands, into own.
func (f *field) keep() {
	if !f.has || f.owned {
		return
	}
	f.own = append(f.own[:0], f.value...)
	f.value, f.owned = f.own, true
}

// clear makes the field empty. What value pointed at is left as it is: the
// event just dispatched shows it until the next call.
func (f *field) clear() {
	f.value, f.has, f.owned = nil, false, false
}
