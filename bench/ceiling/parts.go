package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/bench"
)

func background() context.Context { return context.Background() }

// bed is how loads are measured: the cores of server and client, "" for any,
// and where the client's profiles go, "" for nowhere.
type bed struct {
	serverCore, clientCore, profiles, engine string
	// oneProcess puts the server into the client's process.
	oneProcess bool
}

// pinned puts server and client on a core each, where taskset exists.
func (b bed) pinned() bed {
	if _, err := exec.LookPath("taskset"); err == nil {
		b.serverCore, b.clientCore = "0", "1"
	}
	return b
}

// measure runs a load with server and client as processes of their own.
func (b bed) measure(l bench.SelfLoad) (*outcome, error) {
	if b.oneProcess {
		return b.client(l)
	}
	args := []string{"-serve", l.Gap().String()}
	if l.Spread {
		args = append(args, "-spread")
	}
	server := command(b.serverCore, args...)
	in, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = in.Close()
		_ = server.Wait()
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	l.Server = strings.TrimSpace(address)
	return b.client(l)
}

// client runs a load in a process of its own, the server in it unless the load names one.
func (b bed) client(l bench.SelfLoad) (*outcome, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	client := command(b.clientCore, "-profile", b.profiles, "-engine", b.engine, "-load", string(text))
	answer, err := client.Output()
	if err != nil {
		return nil, err
	}
	r := new(outcome)
	return r, json.NewDecoder(bytes.NewReader(answer)).Decode(r)
}

// command is this program again, on a core.
func command(core string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.Command(self, args...)
	if core != "" {
		cmd = exec.Command("taskset", append([]string{"-c", core, self}, args...)...)
	}
	cmd.Stderr = os.Stderr
	return cmd
}

// resident is the resident set of this process in bytes, 0 where the system does not say.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

const lineHead = "  load           tok/s   total error   stamp p50 / p99 µs   untimed missing   TTFT p50/p99 error µs   TTFT p50 ours/theirs ms   sent late p99 ms   lag p99 ms  coalesced   CPU s  cores machine   RSS MB  status\n"

func show(l bench.SelfLoad, r *outcome) {
	fmt.Printf("  %-12s %7.0f  %9.4f %%  %8.1f / %8.1f   %7d %7d  %10.0f / %8.0f  %12.2f / %6.2f  %16.2f  %11.2f  %7.3f %%  %6.2f  %5.2f  %5.2f  %6.1f  %s\n",
		fmt.Sprintf("%dx%g", l.Streams, l.Rate), value(r.TokensPerSecond), 100*value(r.TotalError), value(r.StampErrorP50Micros), value(r.StampErrorP99Micros),
		r.Untimed, r.Missing, value(r.TTFTErrorP50Micros), value(r.TTFTErrorP99Micros), value(r.TTFTP50Micros)/1e3, value(r.TrueTTFTP50Micros)/1e3,
		value(r.ArrivedLateP99Micros)/1e3, value(r.Client.ReaderLagP99Micros)/1e3, 100*value(r.Client.CoalescedShare),
		r.CPUSeconds, value(r.Client.CPUShare), value(r.Client.MachineCPUShare), float64(r.RSS)/1e6, r.Status)
}

// table measures loads and prints a line for each.
func (b bed) table(loads ...bench.SelfLoad) error {
	fmt.Print(lineHead)
	for _, l := range loads {
		r, err := b.measure(l)
		if err != nil {
			return err
		}
		show(l, r)
	}
	return nil
}

func stamps(b bed) error {
	return b.table(bench.SelfLoad{Streams: 1, Rate: 100, Time: 2 * time.Second}, bench.SelfLoad{Streams: 32, Rate: 100, Time: 2 * time.Second},
		bench.SelfLoad{Streams: 128, Rate: 100, Time: 5 * time.Second}, bench.SelfLoad{Streams: 1024, Rate: 50, Time: 5 * time.Second})
}

// place compares a server in the client's own process with one beside it.
func place(b bed) error {
	for range 3 {
		for _, b.oneProcess = range []bool{false, true} {
			fmt.Printf("  one process: %t\n", b.oneProcess)
			if err := b.table(bench.SelfLoad{Streams: 128, Rate: 100, Time: time.Second}, bench.SelfLoad{Streams: 1024, Rate: 50, Time: time.Second}); err != nil {
				return err
			}
		}
	}
	return nil
}

func ttft(b bed) error {
	return b.table(bench.SelfLoad{Streams: 1024, Rate: 50, Time: 2 * time.Second}, bench.SelfLoad{Streams: 512, Rate: 50, Time: 2 * time.Second})
}

func total(b bed) error {
	return b.table(bench.SelfLoad{Streams: 128, Rate: 100, Time: 5 * time.Second}, bench.SelfLoad{Streams: 1024, Rate: 50, Time: 5 * time.Second},
		bench.SelfLoad{Streams: 1024, Rate: 100, Time: 5 * time.Second})
}

// rate raises the rate of 1,024 streams until the error of the stamps is too large.
func rate(b bed) error {
	b = b.pinned()
	fmt.Print(lineHead)
	held := 0.0
	for _, each := range []float64{50, 100, 150, 200, 250, 300} {
		l := bench.SelfLoad{Streams: 1024, Rate: each, Time: 3 * time.Second, Spread: true}
		r, err := b.measure(l)
		if err != nil {
			return err
		}
		show(l, r)
		if value(r.StampErrorP99Micros) <= 5000 && value(r.TokensPerSecond) >= 0.98*r.PlannedRate {
			held = value(r.TokensPerSecond)
		} else if held > 0 {
			break
		}
	}
	fmt.Printf("  held: %.0f tok/s\n", held)
	if held == 0 {
		return errors.New("no rate was held")
	}
	return nil
}

func cpu(b bed) error {
	return b.table(bench.SelfLoad{Streams: 512, Rate: 50, Time: 10240 * time.Millisecond})
}

func memory(b bed) error {
	return b.table(bench.SelfLoad{Streams: 1024, Rate: 50, Time: 30 * time.Second})
}

func streams(b bed) error {
	loads := []bench.SelfLoad{{Streams: 4096, Rate: 10, Time: 4 * time.Second}, {Streams: 6000, Rate: 10, Time: 4 * time.Second}, {Streams: 8000, Rate: 10, Time: 4 * time.Second}}
	fmt.Print(lineHead)
	for _, l := range loads {
		l.Limit = 30 * time.Second
		r, err := b.measure(l)
		if err != nil {
			return err
		}
		show(l, r)
		fmt.Printf("  %d streams: %.1f KB a stream\n", l.Streams, float64(r.RSS-r.Idle)/float64(l.Streams)/1e3)
	}
	return nil
}
