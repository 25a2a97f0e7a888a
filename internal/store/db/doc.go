// Package db is the store's queries as sqlc writes them from ../queries, for
// PostgreSQL and SQLite alike: both read $1 as the first argument.
package db
