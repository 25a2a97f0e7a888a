package tui

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// frames is how often a second the screen is drawn at most: drawing must not cost the measurement anything.
const frames = 4

// tickMsg moves the clock of the view while nothing else happens.
type tickMsg time.Time

// Options are what a screen needs of the world.
type Options struct {
	Input  io.Reader
	Output io.Writer
	// Environment is that of the process, by which the terminal's colours are known: NO_COLOR is respected.
	Environment []string
	// Wish is told of what the user asks for; it must return at once.
	Wish func(Wish)
}

// Screen is the view on a terminal.
type Screen struct {
	program *tea.Program
	queue   chan any
	done    chan struct{}
	stop    context.CancelFunc
}

// queued is how many messages may wait for the view.
const queued = 256

// Show draws the view until Close.
func Show(ctx context.Context, o Options) *Screen {
	ctx, stop := context.WithCancel(ctx)
	s := &Screen{queue: make(chan any, queued), done: make(chan struct{}), stop: stop}
	s.program = tea.NewProgram(New(o.Wish), tea.WithContext(ctx), tea.WithInput(o.Input), tea.WithOutput(o.Output),
		tea.WithEnvironment(o.Environment), tea.WithFPS(frames), tea.WithoutSignalHandler())
	go func() {
		defer close(s.done)
		_, _ = s.program.Run()
	}()
	go s.feed(ctx)
	return s
}

// feed hands the queue to the view, and moves its clock once a second.
func (s *Screen) feed(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-s.queue:
			s.program.Send(message)
		case at := <-ticker.C:
			s.program.Send(tickMsg(at))
		}
	}
}

// Send shows a message: one of Plan, Begin, Glance, Machine, Done, Notice and Stopping. It never waits: a screen that
// is too slow misses messages.
func (s *Screen) Send(message any) {
	select {
	case s.queue <- message:
	default:
	}
}

// Close gives the terminal back as it was.
func (s *Screen) Close() {
	s.program.Quit()
	select {
	case <-s.done:
	case <-time.After(time.Second):
		s.program.Kill()
		<-s.done
	}
	s.stop()
}
