package probe

import "encoding/json"

// optional tells a member that is null, which is an answer, from one that is not there.
type optional[T any] struct {
	there bool
	value *T // nil for null
}

// UnmarshalJSON notes that the member is there.
func (o *optional[T]) UnmarshalJSON(data []byte) error {
	o.there = true
	return json.Unmarshal(data, &o.value)
}
