package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupts turns signals into the end of a context, and a second one into the end of the program.
type interrupts struct {
	twice chan struct{}
	close func()
	keys  chan struct{}
}

// pressed takes an interrupt that came as a key.
func (in *interrupts) pressed() {
	select {
	case in.keys <- struct{}{}:
	default:
	}
}

// interrupts listens for signals: the first ends the returned context, the second closes twice.
func (r *runner) interrupts(ctx context.Context) (context.Context, *interrupts) {
	ctx, in := listenForInterrupts(ctx, r.env, func() {
		if r.out.path() == "" {
			r.show.say("Stopping. Ctrl-C again: at once.")
		} else {
			r.show.say("Stopping: the window ends, what was measured is kept. Ctrl-C again: at once.")
		}
	})
	r.interrupt = in.pressed
	return ctx, in
}

// listenForInterrupts ends the returned context at the first signal, after first was called, and closes twice at the second.
func listenForInterrupts(ctx context.Context, env *Env, first func()) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	in := &interrupts{twice: make(chan struct{}), keys: make(chan struct{}, 4)}
	signals := env.Signals
	stop := func() {}
	if signals == nil {
		own := make(chan os.Signal, 4)
		signal.Notify(own, os.Interrupt, syscall.SIGTERM)
		signals, stop = own, func() { signal.Stop(own) }
	}
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-signals:
			case <-in.keys:
			}
			if n > 0 {
				close(in.twice)
				return
			}
			first()
			cancel()
		}
	}()
	in.close = func() {
		close(done)
		stop()
		cancel()
	}
	return ctx, in
}
