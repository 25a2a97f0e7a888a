package ingest

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"speedmatrix/internal/catalog"
)

// documentName is the file without which an archive is no run.
const documentName = "run.json"

// logName is the engine's log.
const logName = "engine.log"

// fileName are the files of a run directory that are sent; the page is made again by whoever shows it.
var fileName = regexp.MustCompile(`^(?:run\.json|server\.parquet|machine\.parquet|engine\.log|cells/[a-z0-9][a-z0-9.-]{0,120}\.parquet)$`)

// Limits bound an upload, in bytes and numbers.
type Limits struct {
	// Archive is the greatest archive, Unpacked the greatest sum of its files, Document and Log the greatest of those two.
	Archive, Unpacked, Document, Log int64
	// Files is the greatest number of files, Cells that of cells in a document, over all measurements ten times as many.
	Files, Cells int
	// Values is the greatest number of values in a document, Text that of bytes of all its texts.
	Values int
	Text   int64
	// Ratio is how much more than its archive the files may hold, beyond a megabyte.
	Ratio int64
}

// DefaultLimits fit a matrix of hundreds of cells with all its rows. What is searched for secrets has limits of its own: that
// takes seconds for a megabyte that was made to take long.
func DefaultLimits() Limits {
	return Limits{Archive: 64 << 20, Unpacked: 512 << 20, Document: 8 << 20, Log: 2 << 20, Files: 5000, Cells: 2000, Values: 200_000, Text: 1 << 20, Ratio: 200}
}

func refuse(status int, code, title, detail string) *Problem {
	return &Problem{Code: code, Status: status, Title: title, Detail: detail}
}

func tooLarge(code, what string, limit int64, pointer string) *Problem {
	return &Problem{Code: code, Status: http.StatusRequestEntityTooLarge, Title: "The upload is too large", Detail: fmt.Sprintf("%s may have %d bytes at most.", what, limit), Pointer: pointer}
}

func bad(code, title, detail, pointer string) *Problem {
	return &Problem{Code: code, Status: http.StatusUnprocessableEntity, Title: title, Detail: detail, Pointer: pointer}
}

// counted reads at most limit bytes and then says that there are too many.
type counted struct {
	ctx      context.Context
	r        io.Reader
	n, limit int64
}

var errTooMuch = errors.New("the archive is too large")

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limit {
		return 0, errTooMuch
	}
	return n, err
}

// unpacker writes the files of one archive into a folder.
type unpacker struct {
	limits   Limits
	source   *counted
	folder   string
	unpacked int64
	files    []catalog.Blob
	seen     map[string]bool
}

// unpack reads an archive into a folder. A refusal is a *Problem.
func unpack(ctx context.Context, body io.Reader, folder string, limits Limits) ([]catalog.Blob, error) {
	u := &unpacker{limits: limits, source: &counted{ctx: ctx, r: body, limit: limits.Archive}, folder: folder, seen: map[string]bool{}}
	buffered := bufio.NewReader(u.source)
	zip, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, u.unreadable(err)
	}
	zip.Multistream(false)
	in := tar.NewReader(zip)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, u.unreadable(err)
		}
		if err := u.file(header, in); err != nil {
			return nil, err
		}
	}
	if err := u.end(zip, buffered); err != nil {
		return nil, err
	}
	if len(u.files) == 0 || u.files[0].Name != documentName {
		return nil, bad("no-document", "The archive holds no run", "Its first file must be run.json, as `speedmatrix submit` packs it.", documentName)
	}
	return u.files, nil
}

// end wants nothing behind the archive.
func (u *unpacker) end(zip io.Reader, rest *bufio.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(zip, 1<<20))
	if err != nil {
		return u.unreadable(err)
	}
	if _, err := rest.ReadByte(); n >= 1<<20 || !errors.Is(err, io.EOF) {
		if err != nil && !errors.Is(err, io.EOF) {
			return u.unreadable(err)
		}
		return bad("trailing-bytes", "The archive does not end where it says", "There is something behind its last file.", "")
	}
	return nil
}

// unreadable words why an archive cannot be read.
func (u *unpacker) unreadable(err error) error {
	switch {
	case errors.Is(err, errTooMuch):
		return tooLarge("archive-too-large", "An archive", u.limits.Archive, "")
	case u.source.ctx.Err() != nil:
		return u.source.ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "too-slow", "The upload stood still", "Send it again; an upload in pieces goes on where it stopped.")
	}
	return refuse(http.StatusBadRequest, "not-an-archive", "The upload is no whole archive", "It is a tar.gz of a run directory, as `speedmatrix submit` packs it ("+plain(err)+").")
}

// plain is an error's text within bounds.
func plain(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}

func (u *unpacker) file(header *tar.Header, in io.Reader) error {
	name := header.Name
	if header.Typeflag != tar.TypeReg || path.Clean(name) != name || !fileName.MatchString(name) {
		return bad("foreign-file", "The archive holds something that is no file of a run", "A run has run.json first, then cells/…parquet, server.parquet, machine.parquet and engine.log, without folders of their own and without a page.", printable(name))
	}
	if u.seen[name] {
		return bad("file-twice", "The archive holds a file twice", "Each file of a run stands in it once.", name)
	}
	u.seen[name] = true
	limit := u.limits.Unpacked - u.unpacked
	switch name {
	case documentName:
		limit = min(limit, u.limits.Document)
	case logName:
		limit = min(limit, u.limits.Log)
	}
	switch {
	case len(u.files) >= u.limits.Files:
		return bad("too-many-files", "The archive holds too many files", fmt.Sprintf("It may hold %d.", u.limits.Files), name)
	case header.Size < 0 || header.Size > limit:
		return tooLarge("file-too-large", "This file", limit, name)
	}
	return u.write(name, header.Size, in)
}

// printable is a name from outside within bounds.
func printable(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(clean) > 120 {
		clean = strings.ToValidUTF8(clean[:120], "") + "…"
	}
	return clean
}

func (u *unpacker) write(name string, size int64, in io.Reader) error {
	place := filepath.Join(u.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := u.copy(io.MultiWriter(file, sum), in, name)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if n != size {
		return &Problem{Code: "not-an-archive", Status: http.StatusBadRequest, Title: "The upload is no whole archive", Detail: "A file in it is shorter than it says.", Pointer: name}
	}
	u.files = append(u.files, catalog.Blob{Name: name, Hash: hex.EncodeToString(sum.Sum(nil)), Size: n})
	return nil
}

// copy takes over a file piece by piece and watches how much the archive grows in it.
func (u *unpacker) copy(out io.Writer, in io.Reader, name string) (total int64, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := in.Read(buffer)
		total += int64(n)
		u.unpacked += int64(n)
		if u.unpacked > 1<<20+u.limits.Ratio*u.source.n {
			return total, bad("archive-bomb", "The archive grows too much", fmt.Sprintf("Its files may hold %d times as much as the archive.", u.limits.Ratio), name)
		}
		if _, failed := out.Write(buffer[:n]); failed != nil {
			return total, failed
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, u.unreadable(err)
		}
	}
}
