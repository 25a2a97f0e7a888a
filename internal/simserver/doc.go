// Package simserver serves the simulated engine over HTTP with vLLM's surface:
// its routes, its bodies, its errors and its metrics, paced on a clock of its own.
//
// One goroutine owns the engine. It plans a step, sleeps until the instant at
// which the step ends, hands each request its token and plans the next. All
// instants are computed from one another, never from when a goroutine woke, so
// that a late timer delays one step and not those after it, and inside a
// synctest bubble every time is exact. What a client reads, and how fast, is
// its handler's affair: the engine only counts tokens up for it.
//
// The server's clock counts nanoseconds from New, Options.Speed times as fast
// as the machine's. Every answer names the profile and the speed in its
// headers, so that nobody takes a simulation for a machine.
package simserver
