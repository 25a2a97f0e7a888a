// Package tui is the live view of a run: a screen that shows the matrix as it fills up, the cell in progress, the
// engine and the machine. The model is pure: it knows what it was told by messages and draws that, and what the user
// presses becomes a Wish; it measures nothing.
package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"speedmatrix"
)

// Wish is what the user asks for by a key.
type Wish int

// The wishes.
const (
	// WishSkip ends the cell in progress and leaves it out.
	WishSkip Wish = iota
	// WishFinish ends the run after the cell in progress; a second one takes it back.
	WishFinish
	// WishInterrupt is Ctrl-C: it ends the window and the run.
	WishInterrupt
)

// Plan is the run as it begins.
type Plan struct {
	// Title says what is measured: model, engine, hardware.
	Title string
	// Cells are those of the run's document, measured or not.
	Cells []speedmatrix.Cell
}

// Begin says that a cell begins.
type Begin struct {
	Phase   speedmatrix.Phase
	Label   string
	Context int
	// Concurrency is 1 for a prefill; Again says that it is not for the matrix: "drift", "repeat 2".
	Concurrency int
	Again       string
	At          time.Time
}

// Glance is the cell in progress, about once a second.
type Glance struct {
	Step            string
	Since, Now      time.Time
	Share           float64
	TokensPerSecond float64
	Producing       int
	// Running, Waiting and KVUsage (0–1) are the engine's gauges, nil where it does not tell.
	Running, Waiting, KVUsage *float64
}

// Machine is the hardware that works for the server; nil is not measured.
type Machine struct {
	ClockMHz, PowerWatts, LimitWatts, Celsius, MemoryBytes *float64
	// CPUShare is the busy share of this machine's processors, 0–1.
	CPUShare *float64
}

// Done is a cell that has ended, with what is left of the run.
type Done struct {
	// Cell stands in the matrix unless Again says otherwise; Text is what there is to say of it.
	Cell        *speedmatrix.Cell
	Again, Text string
	Count, Of   int
	SecondsLeft *float64
}

// Notice is a warning or another sentence about the run.
type Notice struct {
	At   time.Time
	Text string
}

// Stopping says that the run ends: why.
type Stopping struct{ Text string }

// rates is how many of the last rates the view keeps.
const rates = 60

// finished is how many of the last cells that ended the view keeps.
const finished = 100

// notices is how many of the last notices the view keeps.
const notices = 20

// Model is the state of the view.
type Model struct {
	width, height int
	plan          Plan
	matrix        matrix
	begin         Begin
	glance        Glance
	machine       Machine
	rates         []float64
	count, of     int
	left          time.Duration
	leftAt        time.Time
	notices       []Notice
	finished      []string
	finishing     bool
	help          bool
	stopping      string
	now           time.Time
	wish          func(Wish)
}

// New is the view of a run that has not begun; wish is told of what the user asks for and must return at once.
func New(wish func(Wish)) Model { return Model{wish: wish, width: 80, height: 24} }

// Init asks for nothing: what the view shows is sent to it.
func (m Model) Init() tea.Cmd { return nil }

// Update takes a message in.
func (m Model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.pressed(msg.String()), nil
	case Plan:
		m.plan, m.matrix = msg, newMatrix(msg.Cells)
	case Begin:
		m.begin, m.glance, m.rates, m.now = msg, Glance{}, nil, msg.At
	case Glance:
		m.glance, m.now = msg, msg.Now
		m.rates = append(m.rates[max(0, len(m.rates)-rates+1):len(m.rates):len(m.rates)], msg.TokensPerSecond)
	case Machine:
		m.machine = msg
	case Done:
		m = m.done(msg)
	case Notice:
		m.notices = append(m.notices[max(0, len(m.notices)-notices+1):len(m.notices):len(m.notices)], msg)
	case Stopping:
		m.stopping = msg.Text
	case tickMsg:
		m.now = time.Time(msg)
	}
	return m, nil
}

// done takes a cell that has ended.
func (m Model) done(d Done) Model {
	m.count, m.of = d.Count, d.Of
	m.finished = append(m.finished[max(0, len(m.finished)-finished+1):len(m.finished):len(m.finished)], d.Text)
	if d.SecondsLeft != nil {
		m.left, m.leftAt = time.Duration(*d.SecondsLeft*float64(time.Second)), m.now
	}
	if d.Cell != nil && d.Again == "" {
		m.matrix = m.matrix.with(*d.Cell)
	}
	m.begin = Begin{}
	return m
}

// pressed takes a key.
func (m Model) pressed(key string) Model {
	switch key {
	case "s":
		if m.begin.Label != "" {
			m.wish(WishSkip)
		}
	case "q":
		m.finishing = !m.finishing
		m.wish(WishFinish)
	case "ctrl+c":
		m.wish(WishInterrupt)
	case "?":
		m.help = !m.help
	case "esc":
		m.help = false
	}
	return m
}

// expected is the time left of the run, counted down since it was last told.
func (m Model) expected() time.Duration {
	if m.leftAt.IsZero() {
		return m.left
	}
	return max(m.left-m.now.Sub(m.leftAt), 0)
}
