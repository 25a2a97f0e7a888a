package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/store"
)

func TestABackupOfSQLiteIsRestored(t *testing.T) { restored(t, openSQLite, openSQLite) }

func TestRealABackupMovesASiteBetweenTheDatabases(t *testing.T) {
	t.Run("to PostgreSQL", func(t *testing.T) { restored(t, openSQLite, openPostgres) })
	t.Run("to SQLite", func(t *testing.T) { restored(t, openPostgres, openSQLite) })
}

func restored(t *testing.T, openFrom, openTo opener) {
	ctx := context.Background()
	from := openFrom(t)
	files := &blob.Memory{}
	data := []byte("rows \x00\xff")
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	if err := files.Put(ctx, hash, int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	r := record(0)
	r.Blobs = []catalog.Blob{{Name: "run.json", Hash: hash, Size: int64(len(data))}, {Name: "server.parquet", Hash: strings.Repeat("0", 64), Size: 1}}
	r = put(t, from, r)
	next := r
	next.Entry.Version = 2
	next = put(t, from, next)
	gone := put(t, from, renamed(record(1), 9))
	if err := from.Remove(ctx, gone.Entry.ID); err != nil {
		t.Fatal(err)
	}
	a := account.Account{ID: "1", Provider: "p", Subject: "s", Name: "ada", Role: account.Administrator, CreatedAt: at}
	if err := from.PutAccount(ctx, a); err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	missing, err := from.Backup(ctx, files, &backup)
	if err != nil || missing != 1 {
		t.Fatalf("%d missing, %v", missing, err)
	}
	to, empty := openTo(t), &blob.Memory{}
	if err := to.Restore(ctx, empty, bytes.NewReader(backup.Bytes())); err != nil {
		t.Fatal(err)
	}
	same(t, r, get(t, to, r.Entry.ID, 1))
	same(t, next, get(t, to, r.Entry.ID, 0))
	same(t, since(t, from, 0), since(t, to, 0))
	got, err := to.Account(ctx, "1")
	same(t, []any{a, nil}, []any{got, err})
	if _, err := empty.Open(ctx, hash); err != nil {
		t.Error(err)
	}
	if e := put(t, to, renamed(record(2), 10)); e.Entry.Sequence != gone.Entry.Sequence+2 {
		t.Errorf("the next number is %d", e.Entry.Sequence)
	}
	if err := to.Restore(ctx, empty, bytes.NewReader(backup.Bytes())); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("restored over runs: %v", err)
	}
}

func TestWhatIsNoBackupIsRefusedWhole(t *testing.T) {
	ctx := context.Background()
	from := openSQLite(t)
	put(t, from, record(0))
	var backup bytes.Buffer
	if _, err := from.Backup(ctx, &blob.Memory{}, &backup); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("no backup"), "half": backup.Bytes()[:backup.Len()/2]} {
		to := openSQLite(t)
		if err := to.Restore(ctx, &blob.Memory{}, bytes.NewReader(data)); err == nil {
			t.Errorf("%s: restored", name)
		}
		if list := since(t, to, 0); len(list) != 0 {
			t.Errorf("%s: left %d runs", name, len(list))
		}
		put(t, to, record(0))
	}
}
