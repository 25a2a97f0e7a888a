package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"speedmatrix/internal/ingest"
)

// examineName is the command that a site runs for the rows of an upload; people have no use for it.
const examineName = "site-examine"

// examineMemory bounds what the rows of an upload may take, in bytes.
const examineMemory = 1 << 30

func newExamine(env *Env) *cobra.Command {
	return &cobra.Command{Use: examineName + " DIR", Hidden: true, Short: "read the rows of an upload, within bounds of memory", Args: exactlyOne("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := boundMemory(examineMemory); err != nil {
				return err
			}
			examined, err := ingest.Examine(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(env.Stdout).Encode(examined)
		}}
}

// examineApart runs Examine in another process of this program.
func examineApart(ctx context.Context, program, folder string) (ingest.Examination, error) {
	var examined ingest.Examination
	command := exec.CommandContext(ctx, program, examineName, folder)
	command.Env = []string{"GOMEMLIMIT=512MiB"}
	var out, problem bytes.Buffer
	command.Stdout, command.Stderr = &out, &limitedBuffer{into: &problem, left: 4 << 10}
	err := command.Run()
	if ctx.Err() != nil {
		return examined, fmt.Errorf("reading them takes too long: %w", ctx.Err())
	}
	if err != nil {
		return examined, errors.New(firstLine(problem.String(), err))
	}
	return examined, json.Unmarshal(out.Bytes(), &examined)
}

// firstLine is what another process says of its end.
func firstLine(said string, err error) string {
	said = strings.TrimPrefix(strings.TrimSpace(said), "speedmatrix: ")
	if strings.HasPrefix(said, "fatal error") || strings.HasPrefix(said, "runtime") || said == "" {
		return fmt.Sprintf("reading them takes too much memory (%v)", err)
	}
	line, _, _ := strings.Cut(said, "\n")
	return line
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	into *bytes.Buffer
	left int
}

// Write keeps what still fits.
func (l *limitedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.into.Write(p[:n])
	l.left -= n
	return len(p), nil
}
