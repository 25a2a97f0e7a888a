// Command starved looks for cells that are called what they are not: cells
// Client limited on a machine that has enough, and Valid cells that are further
// from the truth than the error stated with them on one that has not.
//
//	go run ./bench/starved [-runs 20] [-streams 128] [-rate 100]
//
// The client is a process of its own. It is starved in two ways: on one
// processor beside busy loops, and, where this user may, with a fifth of a
// processor.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/stamp"
)

func main() {
	o := options{}
	flag.IntVar(&o.Runs, "runs", 20, "loads each way")
	flag.IntVar(&o.Streams, "streams", 128, "streams of a load")
	flag.Float64Var(&o.Rate, "rate", 100, "tokens a second of each stream")
	client := flag.String("client", "", "be the client, with these options in JSON")
	busy := flag.Bool("busy", false, "be a busy loop, for a minute at most")
	flag.Parse()
	var err error
	switch {
	case *busy:
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		}
	case *client != "":
		err = beClient(*client)
	default:
		err = look(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starved:", err)
		os.Exit(1)
	}
}

type options struct {
	Runs, Streams int
	Rate          float64
}

// found is what a client says of its loads. Stated is the error of its self-check, p99 in µs.
type found struct {
	Stated float64
	Loads  []bench.SelfResult
}

// beClient runs the self-check and the loads, and prints what they gave.
func beClient(text string) error {
	var o options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	clock, ctx := stamp.NewClock(), context.Background()
	checked, err := bench.SelfCheck(ctx, clock, o.Streams)
	if err != nil {
		return err
	}
	var out found
	if checked.StampErrorP99Micros != nil {
		out.Stated = *checked.StampErrorP99Micros
	}
	for range o.Runs {
		r, err := bench.SelfTest(ctx, clock, bench.SelfLoad{Streams: o.Streams, Rate: o.Rate, Time: time.Second})
		if err != nil {
			return err
		}
		out.Loads = append(out.Loads, *r)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// way is a way to treat the client.
type way struct {
	name  string
	loops int
	env   []string
	cut   func(pid int) (restore func(), err error)
	// sound says that nothing is wrong with the machine, so that no cell may be Client limited.
	sound bool
}

func look(o options) error {
	ways := []way{
		{name: "with all that the machine has", sound: true},
		{name: "on one processor beside busy loops", loops: 2 * runtime.NumCPU(), env: []string{"GOMAXPROCS=1"}},
		{name: "with a fifth of a processor", cut: cutShare},
	}
	wrong := 0
	for _, w := range ways {
		f, err := w.measure(o)
		if err != nil {
			fmt.Printf("%-36s not measured: %v\n", w.name, err)
			continue
		}
		wrong += w.judge(f)
	}
	if wrong > 0 {
		return fmt.Errorf("%d cells are called what they are not", wrong)
	}
	return nil
}

// measure runs a client in that way.
func (w *way) measure(o options) (*found, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range w.loops {
		loop := exec.Command(self, "-busy")
		if err := loop.Start(); err != nil {
			return nil, err
		}
		defer func() { _ = loop.Process.Kill(); _ = loop.Wait() }()
	}
	if !w.sound {
		o.Runs = (o.Runs + 1) / 2
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var answer bytes.Buffer
	client := exec.Command(self, "-client", string(text))
	client.Env, client.Stdout, client.Stderr = append(os.Environ(), w.env...), &answer, os.Stderr
	if err := client.Start(); err != nil {
		return nil, err
	}
	if w.cut != nil {
		restore, err := w.cut(client.Process.Pid)
		if err != nil {
			_ = client.Process.Kill()
			_ = client.Wait()
			return nil, err
		}
		defer restore()
	}
	if err := client.Wait(); err != nil {
		return nil, err
	}
	f := new(found)
	return f, json.NewDecoder(&answer).Decode(f)
}

// slack is what a busy machine leaves open of when the server sent, in µs.
const slack = 100

// judge prints what was found and counts the cells that are called what they are not.
func (w *way) judge(f *found) (wrong int) {
	statuses := map[speedmatrix.Status]int{}
	worst := 0.0
	for i := range f.Loads {
		r := &f.Loads[i]
		statuses[r.Status]++
		if w.sound && r.Status == speedmatrix.StatusClientLimited {
			fmt.Printf("  falsely limited: %s\n", r.Reason)
			wrong++
		}
		if r.Status != speedmatrix.StatusValid {
			continue
		}
		// The stamps may be off by what the self-check found, and by what the cell says of those that events share.
		stated := f.Stated
		if r.Client.StampBoundP99Micros != nil {
			stated += *r.Client.StampBoundP99Micros
		}
		stated += slack
		off := *r.StampErrorP99Micros
		worst = max(worst, off)
		if off > stated || r.TotalError == nil || *r.TotalError > 0.002 {
			fmt.Printf("  Valid and wrong: stamps %.0f µs off (p99), stated %.0f µs; %d reads without a stamp, %d tokens untimed, lag %.0f µs\n", off, stated, r.Client.UnstampedReads, r.Untimed, *r.Client.ReaderLagP99Micros)
			wrong++
		}
	}
	fmt.Printf("%-36s %2d loads: %2d Valid, %2d Client limited, %2d others; self-check p99 %.0f µs, worst Valid p99 %.0f µs; wrong: %d\n", w.name, len(f.Loads),
		statuses[speedmatrix.StatusValid], statuses[speedmatrix.StatusClientLimited],
		len(f.Loads)-statuses[speedmatrix.StatusValid]-statuses[speedmatrix.StatusClientLimited], f.Stated, worst, wrong)
	return wrong
}
