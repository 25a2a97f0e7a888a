// Package bench makes a run: it plans the cells, steps the protocol of each
// one, judges its status and computes its numbers.
//
// The protocol of a decode cell (drain, fill, launch, ramp, window, stop) is
// one pure state machine, Protocol: Next takes the time and an Observation and
// says what to do. It has no clock, goroutine or socket, so the real driver and
// a simulation in virtual time step the same one.
package bench
