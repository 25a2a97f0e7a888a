// Command ceiling prints what the client can do on this machine: the error of
// its stamps, of TTFT and of total tok/s, when requests leave, the highest rate
// that it holds on one core, and the processor time and memory that it takes.
// Server and client are processes of their own on this machine.
//
//	go run ./bench/ceiling [PART…]
//
// The parts are stamps, place, ttft, total, rate, cpu, memory, streams. Where taskset
// exists, rate pins the server to core 0 and the client to core 1.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"speedmatrix/internal/bench"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

func main() {
	serve := flag.Duration("serve", 0, "be the server, with this gap between tokens")
	spread := flag.Bool("spread", false, "with -serve: spread the streams over the gap")
	spec := flag.String("load", "", "be the client, with this load in JSON")
	profiles := flag.String("profile", "", "keep the client's profiles of processor and memory in this folder")
	engine := flag.String("engine", "", "how the client reads: net/http or epoll; by the number of streams if empty")
	pin := flag.Bool("pin", false, "pin the server to core 0 and the client to core 1 in every part, as rate does where taskset exists")
	flag.Parse()
	var err error
	switch {
	case *serve > 0:
		err = beServer(truth.Beat{Gap: *serve, Spread: *spread})
	case *spec != "":
		err = beClient(*spec, *profiles, load.Engine(*engine))
	default:
		b := bed{profiles: *profiles, engine: *engine}
		if *pin {
			b = b.pinned()
		}
		err = runParts(b, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
}

// part is one table of figures.
type part struct {
	name, title string
	run         func(b bed) error
}

func runParts(b bed, names []string) error {
	parts := []part{
		{"stamps", "stamp error, tokens in lockstep", stamps},
		{"place", "the server in a process of its own, and in the client's", place},
		{"ttft", "TTFT and departure, 1,024 × 50 and 512 × 50 tok/s", ttft},
		{"total", "total tok/s", total},
		{"rate", "highest rate on one core of the client, tokens spread", rate},
		{"cpu", "processor time, 512 × 50 tok/s", cpu},
		{"memory", "memory, 1,024 × 50 tok/s over 30 s", memory},
		{"streams", "many streams", streams},
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		fmt.Printf("%s: %s\n", p.name, p.title)
		if err := p.run(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// outcome is what a client found, and what it took.
type outcome struct {
	bench.SelfResult
	CPUSeconds float64
	// RSS is the largest resident set before the comparison with the account, in bytes; Idle that before the load.
	RSS, Idle int64
}

// beServer serves until standard input ends.
func beServer(b truth.Beat) error {
	s, err := truth.StartBeat(b)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.URL())
	_, err = os.Stdin.Read(make([]byte, 1))
	_ = err // the end of the input is the end
	return nil
}

// beClient runs one load and prints the outcome in JSON.
func beClient(text, profiles string, engine load.Engine) error {
	var l bench.SelfLoad
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	l.Client.Engine = engine
	out := outcome{Idle: resident()}
	most := make(chan int64)
	ended := make(chan struct{})
	go watchMemory(ended, most)
	end, err := profile(profiles, fmt.Sprintf("%dx%g", l.Streams, l.Rate))
	if err != nil {
		return err
	}
	l.Ended = func() { close(ended); end() }
	r, err := bench.SelfTest(background(), stamp.NewClock(), l)
	if err != nil {
		return err
	}
	out.SelfResult, out.RSS = *r, <-most
	if r.Client.CPUShare != nil {
		out.CPUSeconds = *r.Client.CPUShare * r.Seconds
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// watchMemory gives the largest resident set seen until the end.
func watchMemory(ended <-chan struct{}, most chan<- int64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	largest := int64(0)
	for {
		largest = max(largest, resident())
		select {
		case <-tick.C:
		case <-ended:
			most <- max(largest, resident())
			return
		}
	}
}
