// Command pack makes the library of texts that package prompt embeds.
//
//	go run ./internal/prompt/pack -o internal/prompt/library.txt.gz FILE...
//
// A FILE is plain UTF-8 text with empty lines between paragraphs, already
// without front matter and licence. The library is gzip of UTF-8 text, one
// paragraph a line, in the order given. Headings, tables and paragraphs that
// repeat a passage of an earlier one are left out; short paragraphs (speeches,
// verses) are joined to the next ones, long ones are cut at sentence ends.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("o", "library.txt.gz", "the library to write")
	flag.Parse()
	if err := pack(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(out string, files []string) error {
	var all []string
	seen := newPassages()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		kept := seen.fresh(paragraphs(string(data)))
		fmt.Printf("%s: %d paragraphs, %d bytes\n", file, len(kept), size(kept))
		all = append(all, kept...)
	}
	packed, err := compress(strings.Join(all, "\n") + "\n")
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d paragraphs, %d bytes, %d compressed\n", out, len(all), size(all), len(packed))
	return os.WriteFile(out, packed, 0o644)
}

func compress(text string) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func size(paragraphs []string) int {
	n := 0
	for _, p := range paragraphs {
		n += len(p) + 1
	}
	return n
}
