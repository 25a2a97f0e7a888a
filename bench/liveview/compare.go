//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/truth"
)

// list is what was recorded of one request: when it was sent, and the stamps of its events with text.
type list struct {
	written int64
	stamps  []int64
}

// recorded reads the cell of a run and the requests that its streams sent.
func recorded(folder string, streams int) (*speedmatrix.Cell, []list, error) {
	dir, err := runfile.Open(folder)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = dir.Close() }()
	run, _, err := dir.LoadRun()
	if err != nil {
		return nil, nil, err
	}
	cell := run.FindCell(speedmatrix.PhaseDecode, 0, streams)
	if cell == nil {
		return nil, nil, errors.New("the run has no such cell")
	}
	requests, err := dir.Requests(cell.Key())
	if err != nil {
		return nil, nil, err
	}
	of := map[int32]*list{}
	for _, r := range requests {
		if r.Stream >= 0 && r.WrittenNS != nil {
			of[r.Request] = &list{written: *r.WrittenNS}
		}
	}
	for e, err := range dir.Events(cell.Key()) {
		if err != nil {
			return nil, nil, err
		}
		if l := of[e.Request]; l != nil && e.TextLength > 0 && !e.Continued {
			l.stamps = append(l.stamps, e.TimeNS)
		}
	}
	var lists []list
	for _, l := range of {
		lists = append(lists, *l)
	}
	return cell, lists, nil
}

// near is how far apart a request may be written here and have arrived there.
const near = 50e6

// compared gives the errors of all stamps, in µs: each request against the one of the account that it fits best.
func compared(lists []list, account []truth.Request) (all []float64, err error) {
	for _, l := range lists {
		best, least := []float64(nil), math.Inf(1)
		for i := range account {
			a := &account[i]
			if math.Abs(float64(a.ArrivedNS-l.written)) > near {
				continue
			}
			if e := distances(l.stamps, a.Events); len(e) > 0 && quantile(e, 0.5) < least {
				best, least = e, quantile(e, 0.5)
			}
		}
		if len(l.stamps) > 0 && best == nil {
			return nil, fmt.Errorf("a request with %d events is not in the server's account", len(l.stamps))
		}
		all = append(all, best...)
	}
	return all, nil
}

// distances are those of stamps from the times at which their events were sent.
func distances(stamps []int64, events []truth.Event) (list []float64) {
	events = slices.DeleteFunc(slices.Clone(events), func(e truth.Event) bool { return e.Length == 0 })
	for i := range min(len(stamps), len(events)) {
		list = append(list, math.Abs(float64(stamps[i]-events[i].AtNS))/1e3)
	}
	return list
}
