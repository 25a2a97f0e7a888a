// Package catalog is what a results site knows of its runs: the entry of each,
// small enough to keep a hundred thousand of them in memory; the record behind
// it, which a store keeps; and the questions that pages and programs ask. It
// opens no file and knows no database.
//
// An Index answers the questions from the entries alone, so that an answer
// takes as long over SQLite as over PostgreSQL; a Store is the durable truth,
// and an Index follows it by the sequence numbers of its changes.
package catalog
