// Command stamps prints how far this program's stamps are from the truth on
// this machine: a ground truth server in the same process, over loopback, with
// tokens in lockstep.
//
//	go run ./bench/stamps [STREAMS…]
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"speedmatrix/internal/bench"
	"speedmatrix/internal/stamp"
)

func main() {
	streams := []int{1, 32, 128, 1024}
	if len(os.Args) > 1 {
		streams = nil
		for _, arg := range os.Args[1:] {
			n, err := strconv.Atoi(arg)
			if err != nil || n < 1 {
				fmt.Fprintf(os.Stderr, "stamps: %q is no number of streams\n", arg)
				os.Exit(2)
			}
			streams = append(streams, n)
		}
	}
	clock := stamp.NewClock()
	fmt.Println("streams    tok/s   stamp error p50 / p99, µs   stamps")
	for _, n := range streams {
		c, err := bench.SelfCheck(context.Background(), clock, n)
		if err != nil {
			fmt.Fprintf(os.Stderr, "stamps: %d streams: %v\n", n, err)
			os.Exit(1)
		}
		fmt.Printf("%7d %8.0f %12.1f / %.1f %17s\n", c.SelfCheckStreams, c.SelfCheckRate, *c.StampErrorP50Micros, *c.StampErrorP99Micros, c.StampSource)
	}
}
