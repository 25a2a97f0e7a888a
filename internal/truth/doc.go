// Package truth is a scripted ground truth server: an OpenAI-compatible LLM
// server that answers at exactly the times its script says, misbehaves in
// exactly the ways its script says, and keeps an account of what it did, so
// that every number somebody measures on it has a known right value.
//
// Over an in-memory network inside a synctest bubble its times are exact to
// the nanosecond. On real sockets it paces by absolute deadlines and notes the
// time right before each write, so that the error of a client's stamps can be
// measured against the account.
//
// A request passes these instants: arrived (its last body byte), admitted (at
// most Script.MaxRunning run, the others wait in order of arrival), prefill
// (one at a time, in order of admission), first token (prefill + base + per
// token · uncached prompt tokens), the other tokens each a Gap after the one
// before, end.
package truth
