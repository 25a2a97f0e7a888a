// Package fidelity holds the program against every fault that programs which
// measure LLM servers are known to have had. It is tests alone: each fault is
// a case that builds the trigger on a scripted ground truth server, runs the
// program as its user does, in virtual time, and wants the published numbers
// to be what the server says that it did, to the nanosecond and the token.
//
// Cases are numbered by kind: A framing and transport of the stream, B the
// first token, C the time between tokens, D token counts, E windows and rates,
// F load shape and limits of the client, G prompts and caches, H errors and
// status, I looped output, J the server's metrics, capacity and reports, K
// traps of the standard library, W the whole way from the wire to the page.
package fidelity
