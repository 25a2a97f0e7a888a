package store

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// backupForm names the form of a backup.
const backupForm = "speedmatrix.backup/1"

// tables are those of a backup, in the order in which they are filled again.
func tables() []string {
	return []string{"counters", "runs", "versions", "files", "changes", "accounts", "tokens"}
}

// Files are where the files of runs are kept. One that is not there is fs.ErrNotExist.
type Files interface {
	Open(ctx context.Context, hash string) (io.ReadSeekCloser, error)
	Put(ctx context.Context, hash string, size int64, r io.Reader) error
}

// Backup writes everything but sessions, logins and unfinished uploads as one tar.gz: the tables as they stand at one moment,
// a JSON line for each row, then the files of the runs. It may run beside a site that is served. missing counts files that
// were removed meanwhile.
func (s *Store) Backup(ctx context.Context, files Files, w io.Writer) (missing int, err error) {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	hashes, err := s.backupTables(ctx, out)
	if err != nil {
		return 0, fmt.Errorf("back up the tables: %w", err)
	}
	for _, hash := range hashes {
		there, err := backupFile(ctx, files, out, hash)
		if err != nil {
			return missing, fmt.Errorf("back up the file %s: %w", hash, err)
		}
		if !there {
			missing++
		}
	}
	return missing, errors.Join(out.Close(), zip.Close())
}

// backupTables writes the tables from one transaction and gives the hashes of the files that they name.
func (s *Store) backupTables(ctx context.Context, out *tar.Writer) (hashes []string, err error) {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{Isolation: snapshot(s.sqlite), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // it changed nothing
	for _, table := range tables() {
		// A table's length is known only when it was read: it is gathered on the disk.
		lines, err := os.CreateTemp("", "speedmatrix-backup-")
		if err != nil {
			return nil, err
		}
		err = writeRows(ctx, tx, table, lines)
		if err == nil {
			err = addFile(out, "tables/"+table+".jsonl", lines)
		}
		if err = errors.Join(err, lines.Close(), os.Remove(lines.Name())); err != nil {
			return nil, fmt.Errorf("%s: %w", table, err)
		}
	}
	rows, err := tx.QueryContext(ctx, "SELECT DISTINCT hash FROM files ORDER BY hash")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var hash string
		if err := rows.Scan(&hash); err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, rows.Err()
}

// snapshot is the isolation in which all statements see one moment; a transaction of SQLite always does.
func snapshot(sqlite bool) sql.IsolationLevel {
	if sqlite {
		return sql.LevelDefault
	}
	return sql.LevelRepeatableRead
}

// cell is a value of a row: text and numbers as they are, bytes under "b".
type cell struct {
	B *string `json:"b"`
}

func writeRows(ctx context.Context, tx *sql.Tx, table string, w io.Writer) error {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	lines := json.NewEncoder(w)
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		line := map[string]any{}
		for i, name := range columns {
			if b, ok := values[i].([]byte); ok {
				text := base64.StdEncoding.EncodeToString(b)
				line[name] = cell{&text}
			} else {
				line[name] = values[i]
			}
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return rows.Err()
}

func addFile(out *tar.Writer, name string, file io.ReadSeeker) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}

func backupFile(ctx context.Context, files Files, out *tar.Writer, hash string) (there bool, err error) {
	file, err := files.Open(ctx, hash)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a run may have been erased since the tables were read
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(addFile(out, "files/"+hash, file), file.Close())
}

// ErrNotEmpty: a backup is restored into a place where nothing is.
var ErrNotEmpty = errors.New("there are runs or accounts already")

// Restore fills an empty store, of either kind, and an empty place of files with a backup.
func (s *Store) Restore(ctx context.Context, files Files, r io.Reader) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("this is no backup: %w", err)
	}
	in := tar.NewReader(zip)
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = empty(ctx, tx)
	filled := 0
	for err == nil {
		var header *tar.Header
		if header, err = in.Next(); err != nil {
			break
		}
		if table, ok := strings.CutPrefix(header.Name, "tables/"); ok {
			filled++
			err = fill(ctx, tx, strings.TrimSuffix(table, ".jsonl"), in)
		} else if path.Dir(header.Name) == "files" {
			err = files.Put(ctx, path.Base(header.Name), header.Size, in)
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, zip) // the checksum stands at the end
	}
	if err == nil && filled != len(tables()) {
		err = fmt.Errorf("this is no whole backup of the form %s: it has %d of %d tables", backupForm, filled, len(tables()))
	}
	if err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func empty(ctx context.Context, tx *sql.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM accounts)").Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return ErrNotEmpty
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM counters")
	return err
}

// fill puts the lines of a table back.
func fill(ctx context.Context, tx *sql.Tx, table string, r io.Reader) error {
	if !slices.Contains(tables(), table) {
		return fmt.Errorf("the backup has a table %q that this program does not know: it may be of a later version", table)
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		if err := insert(ctx, tx, table, line); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
}

func insert(ctx context.Context, tx *sql.Tx, table string, line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	row := map[string]any{}
	if err := d.Decode(&row); err != nil {
		return err
	}
	var names, marks []string
	var values []any
	for name, v := range row {
		value, err := plainValue(v)
		if err != nil || !columnName(name) {
			return errors.Join(fmt.Errorf("the column %q cannot be read", name), err)
		}
		names, values = append(names, name), append(values, value)
		marks = append(marks, fmt.Sprintf("$%d", len(values)))
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", values...)
	return err
}

// columnName lets nothing into a statement that is no name.
func columnName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""
}

func plainValue(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return v.Int64()
	case map[string]any:
		text, _ := v["b"].(string)
		return base64.StdEncoding.DecodeString(text)
	case string:
		return v, nil
	}
	return nil, fmt.Errorf("%T is no value of a table", v)
}
