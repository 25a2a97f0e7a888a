//go:build unix

// Command pacing prints how well the simulated server keeps its schedule over
// real sockets: the server on one core of this machine, the clients in a
// process of their own.
//
//	go run ./bench/pacing [-seconds 10] [-spin=false] [STREAMSxRATE…]
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"speedmatrix/internal/profile"
	"speedmatrix/internal/simserver"
)

func main() {
	seconds := flag.Int("seconds", 10, "how long each load lasts")
	spin := flag.Bool("spin", true, "wait for the end of a step on the processor")
	client := flag.String("client", "", "be the clients of the server at this address")
	flag.Parse()
	loads := flag.Args()
	if len(loads) == 0 {
		loads = []string{"128x100", "1024x50"}
	}
	for i, load := range loads {
		var streams, rate int
		if _, err := fmt.Sscanf(load, "%dx%d", &streams, &rate); err != nil || streams < 1 || rate < 1 {
			fail(fmt.Errorf("%q is not STREAMSxRATE, as in 128x100", load))
		}
		if *client != "" {
			fail(read(*client, streams, rate**seconds))
			continue
		}
		if i == 0 {
			fmt.Println("load        steps late p50 / p99 / max µs    tokens out late p50 / p99 / max µs    tok/s  of plan  core")
		}
		fail(measure(load, plan{streams, rate, *seconds, *spin}))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pacing:", err)
		os.Exit(1)
	}
}

type plan struct {
	streams, rate, seconds int
	spin                   bool
}

// flat is a machine whose steps all take the same time.
func flat(p plan) *profile.Profile {
	f := &profile.Profile{Name: "flat", Kind: profile.KindEstimated}
	f.Model = profile.Model{Name: "flat", MaxLengthTokens: 1 << 20}
	f.Engine = profile.Engine{Version: "0.32.0"}
	f.Scheduler = profile.Scheduler{StepTokens: 1 << 20, MaxRunning: 4096, PrefixCaching: true}
	f.KV = profile.KV{BlockTokens: 16, Blocks: 1 << 20}
	step := 1000 / float64(p.rate)
	f.StepTime = profile.StepTime{BaseMS: step, PrefillBaseMS: step, KVWaveFactor: 1, KVNorm: 1, Attention: profile.AttentionPerSequence}
	return f
}

// lateness collects how late things were, in ns.
type lateness struct {
	mu   sync.Mutex
	list []int64
}

func (l *lateness) add(ns int64) {
	l.mu.Lock()
	l.list = append(l.list, ns)
	l.mu.Unlock()
}

func (l *lateness) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return "no samples"
	}
	slices.Sort(l.list)
	at := func(q float64) float64 { return float64(l.list[int(q*float64(len(l.list)-1))]) / 1e3 }
	return fmt.Sprintf("%7.0f / %7.0f / %7.0f", at(0.5), at(0.99), at(1))
}

// measure runs the server on one core against clients in a child process.
func measure(load string, p plan) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var steps, writes lateness
	var due atomic.Int64 // the end of the newest step
	watch := simserver.Watch{Step: func(s simserver.Step) {
		due.Store(s.EndsNS)
		if s.Engine.Decodes == p.streams {
			steps.add(int64(s.Late))
		}
	}}
	server, err := simserver.New(flat(p), simserver.Options{Spin: p.spin, Watch: watch})
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(&stamping{l, func() { writes.add(server.Now() - due.Load()) }}) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "-client", l.Addr().String(), "-seconds", fmt.Sprint(p.seconds), load)
	child.Stderr = os.Stderr
	before, begun := used(), time.Now()
	if err := child.Run(); err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	rate := float64(p.streams*p.rate*p.seconds) / took
	fmt.Printf("%-11s %s         %s        %8.0f  %5.1f %%  %4.0f %%\n", load, &steps, &writes, rate,
		100*rate/float64(p.streams*p.rate), 100*(used()-before).Seconds()/took)
	return nil
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stamping tells of every write to a connection.
type stamping struct {
	net.Listener
	wrote func()
}

func (s *stamping) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stamped{c, s.wrote}, nil
}

type stamped struct {
	net.Conn
	wrote func()
}

func (c *stamped) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wrote()
	return n, err
}

// read opens all streams and reads them to their ends.
func read(address string, streams, tokens int) error {
	var all sync.WaitGroup
	failed := make(chan error, streams)
	for range streams {
		all.Go(func() { failed <- stream(address, tokens) })
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stream reads one answer and checks that all of it came.
func stream(address string, tokens int) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	body := fmt.Sprintf(`{"prompt":"Go on.","max_tokens":%d,"ignore_eos":true,"stream":true}`, tokens)
	if _, err := fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return err
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: [DONE]") {
			return nil
		}
	}
	return errors.New("a stream ended early")
}
