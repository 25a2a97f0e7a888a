// Command speedmatrix measures how fast an LLM server is, at every context
// length and every number of simultaneous requests.
package main

import (
	"context"
	"os"

	"speedmatrix/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), cli.System()))
}
