// Package store keeps runs and accounts in a database: SQLite, one file, or
// PostgreSQL. The same tables and the same queries serve both, so what holds for
// one in the tests holds for the other.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"runtime"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/store/db"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a database of runs and accounts: a catalog.Store and an account.Store.
type Store struct {
	// write is the connection that changes things: SQLite has one at a time.
	write, read *sql.DB
	sqlite      bool
	path        string
}

// The bounds of the connections.
const (
	// busyTime is how long a SQLite connection waits for another process to finish its change.
	busyTime         = 10 * time.Second
	postgresOpen     = 16
	connectionLife   = 30 * time.Minute
	sqliteCacheKB    = 4 << 10
	sqliteWALPages   = 1000
	sinceBatch       = 500
	postgresPrefix   = "postgres://"
	postgresqlPrefix = "postgresql://"
	sqlitePrefix     = "sqlite:"
)

// Open opens the database at a URL: postgres://…, or sqlite:FILE, and brings its tables up to date. The errors name the
// database without its password.
func Open(ctx context.Context, address string) (*Store, error) {
	var s *Store
	var err error
	switch {
	case strings.HasPrefix(address, postgresPrefix), strings.HasPrefix(address, postgresqlPrefix):
		s, err = openPostgres(address)
	case strings.HasPrefix(address, sqlitePrefix):
		s, err = openSQLite(strings.TrimPrefix(address, sqlitePrefix))
	default:
		return nil, fmt.Errorf("%s is no database: it is postgres://… or sqlite:FILE", safe(address))
	}
	if err == nil {
		err = s.migrate(ctx)
	}
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, fmt.Errorf("open the database %s: %w", safe(address), err)
	}
	return s, nil
}

// safe is an address without its password.
func safe(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "at that address"
	}
	return u.Redacted()
}

func openPostgres(address string) (*Store, error) {
	pool, err := sql.Open("pgx", address)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(postgresOpen)
	pool.SetMaxIdleConns(postgresOpen)
	pool.SetConnMaxLifetime(connectionLife)
	return &Store{write: pool, read: pool}, nil
}

func openSQLite(path string) (*Store, error) {
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTime.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
		fmt.Sprintf("cache_size(-%d)", sqliteCacheKB), fmt.Sprintf("wal_autocheckpoint(%d)", sqliteWALPages),
	}}
	reader := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: pragmas.Encode()}).String()
	pragmas.Set("_txlock", "immediate")
	writer := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: pragmas.Encode()}).String()
	write, err := sql.Open("sqlite", writer)
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite", reader)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(max(4, runtime.NumCPU()))
	read.SetMaxIdleConns(max(4, runtime.NumCPU()))
	return &Store{write: write, read: read, sqlite: true, path: path}, nil
}

func (s *Store) migrate(ctx context.Context) error {
	dialect := database.DialectPostgres
	if s.sqlite {
		dialect = database.DialectSQLite3
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, s.write, files)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// Close ends the connections.
func (s *Store) Close() error {
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	return err
}

// Ready says whether the database answers.
func (s *Store) Ready(ctx context.Context) error { return s.read.PingContext(ctx) }

func (s *Store) queries() *db.Queries { return db.New(s.read) }

// change runs queries in a transaction: all of them hold when it gives nil, none otherwise.
func (s *Store) change(ctx context.Context, do func(q *db.Queries) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(db.New(tx)); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// ignoreDone takes the end of a transaction that had ended already for what it is.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// missing words the answer of a query without a row.
func missing(err error, what, name string, notFound error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s %s: %w", what, name, notFound)
	}
	return err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

var _ catalog.Store = (*Store)(nil)
