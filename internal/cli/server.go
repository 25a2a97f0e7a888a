package cli

import (
	"context"
	"fmt"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/load"
	"speedmatrix/internal/probe"
)

// look finds out what the server is.
func (r *runner) look(ctx context.Context) error {
	tlsConfig, err := r.o.tls()
	if err != nil {
		return err
	}
	var temperature *float64
	if t, ok := parseTemperature(r.o.Temperature); ok {
		temperature = &t
	}
	r.server, err = probe.Look(ctx, probe.Options{URL: r.url, Model: r.o.model, API: r.o.api, Header: r.header, TLS: tlsConfig,
		Dial: r.env.Dial, Clock: r.clock, Shared: r.o.SharedServer, Stated: probe.Facts{Model: r.stated.model, Engine: r.stated.engine},
		Temperature: temperature, Extra: r.o.Body, Say: r.show.say, Hide: r.hide})
	return err
}

func parseTemperature(text string) (t float64, ok bool) {
	if text == "server" {
		return 0, false
	}
	_, err := fmt.Sscanf(text, "%g", &t)
	return t, err == nil
}

// limits are what the server can hold.
func (r *runner) limits() bench.Limits {
	return bench.Limits{MaxLength: r.server.MaxLength, RunningLimit: r.server.RunningLimit, KVTokens: r.server.KVTokens,
		KVBlockTokens: r.server.KVBlockTokens}
}

// busyLimit is how long a server that works for others is waited for.
const busyLimit = time.Minute

// awaitIdle waits until nobody else uses the server, or takes their load as given with --shared-server.
func (r *runner) awaitIdle(ctx context.Context) error {
	deadline := time.Now().Add(busyLimit)
	for first := true; ; first = false {
		running, waiting, known := r.server.Busy(ctx)
		if !known || running == 0 && waiting == 0 {
			return nil
		}
		if r.o.SharedServer {
			r.baseRunning, r.baseWaiting = running, waiting
			return nil
		}
		if first {
			r.show.say(fmt.Sprintf("The server runs %.0f requests of others; waiting up to a minute until it is idle.", running))
		}
		if time.Now().After(deadline) {
			return &speedmatrix.Error{Kind: speedmatrix.KindBusy,
				What: fmt.Sprintf("the server is busy with others' requests: running %.0f, waiting %.0f, ours 0", running, waiting),
				Next: "Wait until they are done, or measure all the same with --shared-server, which every cell will say."}
		}
		select {
		case <-ctx.Done():
			return interruptedOr(ctx, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// loadClient is the client that measures.
func (r *runner) loadClient() (*load.Client, error) {
	tlsConfig, err := r.o.tls()
	if err != nil {
		return nil, err
	}
	return load.New(load.Options{BaseURL: r.server.Base, Dialect: r.server.Dialect, Header: r.header, TLS: tlsConfig, Dial: r.env.Dial,
		Clock: r.clock, Hide: r.hide})
}
