// Package launch starts the server that a run measures, waits until it is ready,
// keeps its log, and stops it with all its processes. Of a server that runs
// already it finds the process behind a listening socket. From a command line,
// its own or that of such a process, it reads what the engine was told.
//
// It sends no requests: whether a server is ready it asks a function.
package launch
