// Package speedmatrix is the vocabulary of the speed test matrix: a run of a
// server, its method, its plan, its cells, and the words that say how each
// cell went. It is the schema of run.json and imports the standard library
// only, so that every other package can speak of the same things.
package speedmatrix

// Schema names the version of the run document.
const Schema = "speedmatrix.run/1"
