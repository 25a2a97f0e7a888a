package account

import "context"

type key struct{}

// FromContext gives the visitor.
func FromContext(ctx context.Context) Visitor { v, _ := ctx.Value(key{}).(Visitor); return v }
