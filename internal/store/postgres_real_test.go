package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"testing"

	"speedmatrix/internal/need"
	"speedmatrix/internal/store"
)

// openPostgres gives an empty database of the test.
func openPostgres(t *testing.T) *store.Store {
	t.Helper()
	address := need.Setting(t, need.Postgres)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("speedmatrix_test_%x", []byte(t.Name())[max(0, len(t.Name())-24):])
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := server.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	u.Path = "/" + name
	s := open(t, u.String())
	t.Cleanup(func() {
		if _, err := server.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRealPostgreSQLKeepsRunsAndAccounts(t *testing.T) { conform(t, openPostgres) }
