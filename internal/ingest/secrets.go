package ingest

import (
	"context"
	"fmt"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/redact"
)

// secrets refuses what must not be published: the client takes it out, so that what is left came another way.
func secrets(run *speedmatrix.Run) error {
	r := redact.New(redact.Options{})
	clean, err := redact.Copy(r, run)
	if err != nil {
		return err
	}
	changes, err := redact.Changes(run, clean)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Before != "" {
			return bad("secret", "run.json holds something that must not be published", "A key, a token, an address or the like stands there; `speedmatrix submit` takes it out.", at(c.Pointer))
		}
	}
	return nil
}

// secretLog refuses a log with what must not be published.
func secretLog(ctx context.Context, log []byte) error {
	line := redact.New(redact.Options{}).Lines()
	n := 0
	for l := range strings.Lines(string(log)) {
		if n++; n%100 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if line(l) != l {
			return bad("secret", "engine.log holds something that must not be published", fmt.Sprintf("A key, a token, an address or the like stands in line %d; `speedmatrix submit` takes it out.", n), logName)
		}
	}
	return nil
}

// describe is the entry of an upload before the site gives it a name.
func describe(run *speedmatrix.Run, document []byte) catalog.Entry {
	e := catalog.Describe(run)
	e.DocumentHash = hashOf(document)
	return e
}
