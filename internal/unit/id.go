package unit

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// NewID makes a name that sorts by time and stands in addresses: a ULID in lower case, 26 letters and digits.
func NewID(at time.Time, entropy io.Reader) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), entropy)
	if err != nil {
		return "", fmt.Errorf("make a name: %w", err)
	}
	return strings.ToLower(id.String()), nil
}
