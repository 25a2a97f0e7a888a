// Command site fills a results site with runs of simulated machines, and
// measures how fast it answers.
//
//	go run ./bench/site -fill sqlite:/data/site.db -runs 100000
//	go run ./bench/site -load http://127.0.0.1:8090 -rate 50 -for 60s -pid PID
//
// The first writes runs that are predictions of the embedded profiles, each as
// another machine would have measured it, the same for a seed. The second asks
// for every kind of page and API answer at a steady rate, at random runs,
// models and queries, and prints the times of each kind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	fillURL := flag.String("fill", "", "database to fill: sqlite:FILE or postgres://…")
	runs := flag.Int("runs", 100_000, "how many runs to fill in")
	seed := flag.Uint64("seed", 1, "what decides them")
	load := flag.String("load", "", "address of the site to ask")
	rate := flag.Float64("rate", 50, "questions a second")
	lasts := flag.Duration("for", time.Minute, "how long to ask")
	pid := flag.Int("pid", 0, "process of the site, for its memory")
	flag.Parse()
	var err error
	switch {
	case *fillURL != "":
		err = fill(context.Background(), *fillURL, *runs, *seed)
	case *load != "":
		err = ask(*load, *rate, *lasts, *pid)
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}
