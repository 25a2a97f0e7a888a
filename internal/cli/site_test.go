package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
)

// operator is who runs `speedmatrix site` beside a site.
type operator struct {
	t        *testing.T
	folder   string
	out, err lockedBuffer
	code     int
}

// operating gives an operator with an empty folder, and a site.
func operating(t *testing.T) (*operator, *siteWorld) {
	w := newSiteWorld(t)
	return &operator{t: t, folder: t.TempDir()}, w
}

// main runs the command to its end.
func (p *operator) main(ctx context.Context, args ...string) {
	p.out.buffer.Reset()
	p.err.buffer.Reset()
	p.code = Main(ctx, &Env{Args: append([]string{"site"}, args...), Stdin: strings.NewReader(""), Stdout: &p.out, Stderr: &p.err, Getenv: func(string) string { return "" }, Signals: make(chan os.Signal)})
}

// does runs the command and wants it to succeed, saying so.
func (p *operator) does(says string, args ...string) {
	p.t.Helper()
	p.main(p.t.Context(), args...)
	if p.code != 0 || p.err.String() != "" || !strings.Contains(p.out.String(), says) {
		p.t.Fatalf("%v: exit code %d\n%s%s", args, p.code, p.out.String(), p.err.String())
	}
}

// fails runs the command and wants one sentence of what happened, and what to do next.
func (p *operator) fails(code int, says []string, args ...string) {
	p.t.Helper()
	p.main(p.t.Context(), args...)
	said := strings.Join(strings.Fields(p.err.String()), " ")
	if p.code != code || !strings.HasPrefix(said, "speedmatrix: ") || !strings.Contains(p.err.String(), "\n  ") || p.out.String() != "" {
		p.t.Errorf("%v: exit code %d, want %d\n%s%s", args, p.code, code, p.out.String(), p.err.String())
	}
	for _, text := range says {
		if !strings.Contains(said, text) {
			p.t.Errorf("%v: standard error lacks %q:\n%s", args, text, p.err.String())
		}
	}
}

// filesUnder are the files of a folder, by their paths.
func filesUnder(t *testing.T, folder string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(folder, path)
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestABackupIsRestoredIntoAnEmptySite(t *testing.T) {
	p, w := operating(t)
	public := w.published("run-1")
	w.draft("run-2")
	file := filepath.Join(p.folder, "backup.tar.gz")
	p.does(file+" holds the whole site.", "backup", file, "--data", w.r.o.data)
	if left := filesUnder(t, p.folder); len(left) != 1 {
		t.Errorf("beside the backup: %v", left)
	}
	p.fails(2, []string{file + " exists", "Name another file"}, "backup", file, "--data", w.r.o.data)

	fresh := filepath.Join(p.folder, "fresh")
	p.does(file+" is restored into "+fresh, "restore", file, "--data", fresh)
	if got, want := filesUnder(t, filepath.Join(fresh, "files")), filesUnder(t, filepath.Join(w.r.o.data, "files")); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("files %v, want %v", got, want)
	}
	again := newSiteWorldIn(t, fresh)
	if n := again.r.index.Len(); n != 2 {
		t.Errorf("%d runs", n)
	}
	for _, visitor := range []string{"nobody", "owner's read token"} {
		if out := again.as(visitor, http.MethodGet, "/runs/"+public, "", nil); out.Code != http.StatusOK {
			t.Errorf("as %s: %d", visitor, out.Code)
		}
	}
	before, err := os.ReadFile(filepath.Join(fresh, "site.db"))
	if err != nil {
		t.Fatal(err)
	}
	p.fails(6, []string{"was not restored: there are runs or accounts already", "The site is as it was.", "an empty --data"}, "restore", file, "--data", fresh)
	if after, err := os.ReadFile(filepath.Join(fresh, "site.db")); err != nil || !slices.Equal(before, after) {
		t.Errorf("the full site was changed, or %v", err)
	}
}

// newSiteWorldIn is the site in a folder, with the visitors that it has.
func newSiteWorldIn(t *testing.T, folder string) *siteWorld {
	t.Helper()
	w := newSiteWorld(t)
	o := *w.r.o
	o.data, o.database, o.files = folder, "", ""
	if err := o.folder(); err != nil {
		t.Fatal(err)
	}
	r, err := o.open(t.Context(), w.r.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &siteWorld{t: t, r: r, handler: r.handler(), visits: w.visits}
}

func TestABackupThatIsNoneIsNotRestored(t *testing.T) {
	p, w := operating(t)
	w.published("run-1")
	whole := filepath.Join(p.folder, "whole")
	p.does("", "backup", whole, "--data", w.r.o.data)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(data)
	flipped[len(flipped)/2] ^= 0x55
	for name, text := range map[string][]byte{"empty": {}, "text": []byte("no backup"), "half": data[:len(data)/2], "last byte": data[:len(data)-1], "flipped": flipped} {
		file, into := filepath.Join(p.folder, name), filepath.Join(p.folder, "into-"+name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p.fails(6, []string{file + " was not restored: ", "The site is as it was. Restore a whole backup into an empty --data."}, "restore", file, "--data", into)
		if n := newSiteWorldIn(t, into).r.index.Len(); n != 0 {
			t.Errorf("%s: %d runs were restored", name, n)
		}
		p.does("", "restore", whole, "--data", into)
	}
	p.fails(2, []string{"the backup cannot be read", "Check its name"}, "restore", filepath.Join(p.folder, "none"), "--data", filepath.Join(p.folder, "x"))
	if _, err := os.Stat(filepath.Join(p.folder, "x")); err == nil {
		t.Error("a site was made for nothing")
	}
}

func TestABackupIsWholeOrNotThere(t *testing.T) {
	p, w := operating(t)
	w.published("run-1")
	file := filepath.Join(p.folder, "nowhere", "backup")
	p.fails(6, []string{"the backup " + file + " was not made: ", "permissions and room"}, "backup", file, "--data", w.r.o.data)

	// Files that cannot be read are another thing than files that are gone.
	broken := errors.New("the storage does not answer")
	file = filepath.Join(p.folder, "backup")
	env := &Env{Stdout: &p.out, Stderr: &p.err}
	for _, files := range []blob.Store{brokenFiles{w.r.blobs, broken, false}, brokenFiles{w.r.blobs, broken, true}} {
		if err := backup(t.Context(), env, w.r.store, files, file); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if left := filesUnder(t, p.folder); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
	stored := filesUnder(t, filepath.Join(w.r.o.data, "files"))
	if err := os.Remove(filepath.Join(w.r.o.data, "files", stored[0])); err != nil {
		t.Fatal(err)
	}
	p.main(t.Context(), "backup", file, "--data", w.r.o.data)
	if p.code != 0 || !strings.Contains(p.err.String(), "warning: 1 files of runs were not there") {
		t.Errorf("%d %s", p.code, p.err.String())
	}
}

// brokenFiles are files that cannot be opened, or not be read to their end.
type brokenFiles struct {
	blob.Store
	err  error
	half bool
}

// Open gives half a file, or none.
func (b brokenFiles) Open(ctx context.Context, hash string) (io.ReadSeekCloser, error) {
	if !b.half {
		return nil, b.err
	}
	file, err := b.Store.Open(ctx, hash)
	return halfFile{file, b.err}, err
}

type halfFile struct {
	io.ReadSeekCloser
	err error
}

// Read gives a few bytes and breaks off.
func (h halfFile) Read(p []byte) (int, error) {
	n, err := h.ReadSeekCloser.Read(p[:min(len(p), 10)])
	return n, errors.Join(err, h.err)
}

func TestAnInterruptedOperatorChangesNothing(t *testing.T) {
	p, w := operating(t)
	run := w.published("run-1")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(p.folder, "backup")
	for _, args := range [][]string{{"backup", file}, {"role", "owner", "moderator"}, {"erase", run, "--yes"}} {
		p.main(ended, append(args, "--data", w.r.o.data)...)
		if p.code != 130 || !strings.Contains(p.err.String(), "interrupted; nothing was changed") {
			t.Errorf("%v: %d %s", args, p.code, p.err.String())
		}
	}
	if left := filesUnder(t, p.folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := w.r.store.Get(t.Context(), run, 0); err != nil {
		t.Error(err)
	}
}

func TestARoleIsGranted(t *testing.T) {
	p, w := operating(t)
	role := func() account.Role {
		a, err := w.r.store.AccountByName(t.Context(), "owner")
		if err != nil {
			t.Fatal(err)
		}
		return a.Role
	}
	for _, want := range []account.Role{account.Moderator, account.Administrator, account.Member, account.Blocked} {
		p.does("The role of owner is "+string(want)+" now.", "role", "owner", string(want), "--data", w.r.o.data)
		if got := role(); got != want {
			t.Errorf("the role is %s, want %s", got, want)
		}
	}
	// Who is blocked is out at once, in the site that is served.
	if out := w.as("owner", http.MethodGet, "/me", "", nil); out.Code == http.StatusOK {
		t.Error("a blocked account is still signed in")
	}
	p.fails(2, []string{`there is no role "king"`, "The roles are member, moderator, administrator and blocked."}, "role", "owner", "king", "--data", w.r.o.data)
	p.fails(2, []string{`there is no account "nobody-knows"`, "An account is made when someone first signs in."}, "role", "nobody-knows", "member", "--data", w.r.o.data)
	p.fails(2, []string{"role takes a name and a role", "Usage: speedmatrix site role NAME ROLE"}, "role", "owner", "--data", w.r.o.data)
}

func TestARunIsErasedWithItsFiles(t *testing.T) {
	p, w := operating(t)
	first, second := w.published("run-1"), w.published("run-2")
	all := filesUnder(t, filepath.Join(w.r.o.data, "files"))
	p.fails(2, []string{"nothing was erased", "say --yes", "withdraw it on its page"}, "erase", first, "--data", w.r.o.data)
	p.fails(2, []string{`there is no run "01mb78qn00mxvt9wwq2fn1gcb7"`, "Its ID stands in its address."}, "erase", "01mb78qn00mxvt9wwq2fn1gcb7", "--yes", "--data", w.r.o.data)
	p.does(first+" is erased, with its history and files.", "erase", first, "--yes", "--data", w.r.o.data)
	// The rows are those of the other run as well: the document alone was its own.
	left := filesUnder(t, filepath.Join(w.r.o.data, "files"))
	if len(left) == 0 || len(left) > len(all) {
		t.Errorf("%d files of %d are left", len(left), len(all))
	}
	for _, b := range w.blobsOf(second) {
		if !slices.Contains(left, filepath.Join(b[:2], b[2:])) {
			t.Errorf("a file of the other run is gone: %s", b)
		}
	}
	p.does("", "erase", second, "--yes", "--data", w.r.o.data)
	if left := filesUnder(t, filepath.Join(w.r.o.data, "files")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	p.fails(2, []string{"there is no run"}, "erase", second, "--yes", "--data", w.r.o.data)
}

func (w *siteWorld) blobsOf(run string) (hashes []string) {
	w.t.Helper()
	r, err := w.r.store.Get(context.Background(), run, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range r.Blobs {
		hashes = append(hashes, b.Hash)
	}
	return hashes
}

// A site that is served hears of an erased run within two seconds.
func TestAServedSiteHearsOfAnErasedRun(t *testing.T) {
	serving(t, func(t *testing.T, w *serveWorld) {
		w.start()
		_, receipt := w.ask(http.MethodPost, "http://"+served+"/api/v1/runs", gzipKind, string(archiveOf(t, "run-1")))
		_, id, _ := strings.Cut(receipt, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if status, _ := w.ask(http.MethodGet, "http://"+served+"/runs/"+id, "", ""); status != http.StatusOK {
			t.Fatalf("before: %d %s", status, receipt)
		}
		p := &operator{t: t}
		p.does(id+" is erased", "erase", id, "--yes", "--data", w.data)
		time.Sleep(followEvery + time.Millisecond)
		if status, _ := w.ask(http.MethodGet, "http://"+served+"/runs/"+id, "", ""); status != http.StatusNotFound && status != http.StatusGone {
			t.Errorf("after: %d", status)
		}
		if _, body := w.ask(http.MethodGet, "http://"+served+"/metrics", "", ""); !strings.Contains(body, "runs 0") {
			t.Error("the site counts it still")
		}
		w.stop()
	})
}

func TestASiteThatIsNotThereIsNotMade(t *testing.T) {
	p := &operator{t: t, folder: t.TempDir()}
	data := filepath.Join(p.folder, "typo")
	for _, args := range [][]string{{"backup", filepath.Join(p.folder, "backup")}, {"role", "owner", "member"}, {"erase", "run", "--yes"}} {
		p.fails(2, []string{"there is no site: " + filepath.Join(data, "site.db") + " does not exist", "Name its folder with --data, or its database with --database."}, append(args, "--data", data)...)
		p.fails(2, []string{"there is no site: " + filepath.Join(data, "other.db") + " does not exist"}, append(args, "--data", data, "--database", "sqlite:"+filepath.Join(data, "other.db"))...)
	}
	p.fails(6, []string{"mysql://db/site is no database", "Look at --data, --database and --files."}, "role", "owner", "member", "--data", data, "--database", "mysql://db/site")
	p.fails(2, []string{`there is no command "backups"`, "Did you mean: speedmatrix site backup"}, "backups")
	p.fails(2, []string{`there is no command "frobnicate"`, "All commands: speedmatrix help site"}, "frobnicate")
	p.fails(2, []string{"backup takes one file, but was given 0 arguments", "Usage: speedmatrix site backup FILE"}, "backup")
	if left := filesUnder(t, p.folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
