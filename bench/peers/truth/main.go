// Command truth is the ground truth server that clients of others are measured
// against: every stream gets a token at each beat, and the account of when each
// request came and each token went is written at the end.
//
//	go run ./bench/peers/truth -gap 20ms -wait 100ms -account FILE
//
// It prints its address and serves until it is ended by SIGTERM.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
)

// request is the account of one request: seconds since 1970.
type request struct {
	Arrived float64   `json:"arrived"`
	Sent    []float64 `json:"sent"`
}

func main() {
	gap := flag.Duration("gap", 20*time.Millisecond, "time between two tokens of a stream")
	wait := flag.Duration("wait", 100*time.Millisecond, "time from a request to its first token, to the next beat")
	spread := flag.Bool("spread", false, "spread the streams over the gap")
	account := flag.String("account", "", "file for the account")
	flag.Parse()
	if err := serve(truth.Beat{Gap: *gap, Wait: *wait, Spread: *spread}, *account); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

func serve(beat truth.Beat, account string) error {
	beat.Clock = stamp.NewClock()
	s, err := truth.StartBeat(beat)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.URL())
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	seconds := func(ns int64) float64 { return float64(beat.Clock.Time(ns).UnixNano()) / 1e9 }
	list := []request{}
	for _, r := range s.Account() {
		v := request{Arrived: seconds(r.ArrivedNS), Sent: make([]float64, len(r.Sent))}
		for i, sent := range r.Sent {
			v.Sent[i] = seconds(sent.EndedNS)
		}
		list = append(list, v)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(account, data, 0o600)
}
