package blob

import (
	"crypto/sha256"
	"hash"
	"io"
)

// checked hashes what passes through it.
type checked struct {
	r    io.Reader
	hash string
	size int64
	sum  hash.Hash
	n    int64
}

func (c *checked) reset() { c.sum = sha256.New() }

// Read passes on what comes. One byte too many is counted and not passed on.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	return n, err
}

// verdict says whether what came is what was promised.
func (c *checked) verdict() error {
	// What came behind the promised size was not read by the client: look.
	if c.n == c.size {
		rest, err := io.Copy(io.Discard, c.r)
		if err != nil {
			return err
		}
		c.n += rest
	}
	return match(c.hash, c.size, c.gotHash(), c.n)
}
