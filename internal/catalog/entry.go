package catalog

import (
	"slices"
	"strings"
	"time"

	"speedmatrix"
)

// Visibility says who sees a run.
type Visibility string

// The visibilities of a run.
const (
	// Draft is seen by its owner alone, until it is published.
	Draft Visibility = "draft"
	// Quarantined was uploaded without an account, where the site takes such runs: whoever has the address sees it,
	// no list shows it.
	Quarantined Visibility = "quarantined"
	// Unlisted is seen by whoever has the address.
	Unlisted Visibility = "unlisted"
	Public   Visibility = "public"
	// Withdrawn keeps its address, which says who withdrew it and why, and nothing else.
	Withdrawn Visibility = "withdrawn"
)

// Listed says whether lists, boards and feeds show such a run.
func (v Visibility) Listed() bool { return v == Public }

// Level is a rung of the ladder of trust; each holds only where all below it do.
type Level int

// The rungs, from the lowest.
const (
	// Stated: someone gave these numbers and their source.
	Stated Level = iota + 1
	// Complete: what is needed to measure it again is there.
	Complete
	// Recomputed: this site got the same numbers from the raw events.
	Recomputed
	// SelfConsistent: the numbers agree with each other and with physics.
	SelfConsistent
	// Reproduced: someone else measured the same within the intervals.
	Reproduced
)

// Entry is one version of a run as lists, boards and pictures know it.
type Entry struct {
	// ID is the run's address on this site: a ULID in lower case. Version counts from 1.
	ID      string
	Version int
	// Sequence grows with every change of any run in the store that holds it.
	Sequence int64
	// RunID is the identity that the run gave itself.
	RunID string
	// EventsHash is the SHA-256, in hex, of the raw rows; "" without any. DocumentHash is that of run.json as it was taken.
	EventsHash   string
	DocumentHash string

	Visibility Visibility
	// Owner is an account's ID, "" where nobody signed in. OwnerName is what it calls itself.
	Owner     string
	OwnerName string
	Level     Level
	// Reproductions counts the other uploaders whose runs agree with this one.
	Reproductions int

	// Origin is "measured", "predicted" or "imported", Source the tool that an imported run came from.
	Origin string
	Source string
	// Method is the method's name.
	Method string
	// Model is the name as people write it, ModelKey its form in addresses; Weights a hash of the files, where it is known.
	Model        string
	ModelKey     string
	Weights      string
	Quantization string
	// Hardware is "2 × RTX 3090 24GB", HardwareKey its form in addresses.
	Hardware      string
	HardwareKey   string
	Engine        string
	EngineVersion string
	// Modified says how the hardware differs from stock: "modified card, unlocked", "simulated engine"; "" is stock.
	Modified string
	// Speculative is how tokens were drafted, "" without.
	Speculative string
	Repeats     int
	// Flags are those of the launch command with their values: "--kv-cache-dtype fp8".
	Flags []string `json:",omitempty"`

	MeasuredAt  time.Time
	ReceivedAt  time.Time
	PublishedAt time.Time

	Cells   []Cell
	Prefill []Prefill
}

// ClaimPrefix begins the Owner of a run that nobody signed in for: the hash of the secret that claims it stands behind.
const ClaimPrefix = "claim:"

// HasOwner says whether an account owns the run.
func (e *Entry) HasOwner() bool { return e.Owner != "" && !strings.HasPrefix(e.Owner, ClaimPrefix) }

// SameNumbers says whether two runs have the same cells with the same numbers in lists.
func (e *Entry) SameNumbers(o *Entry) bool {
	same := func(a, b float32) bool { return a == b || a != a && b != b }
	return slices.EqualFunc(e.Cells, o.Cells, func(a, b Cell) bool {
		return a.Context == b.Context && a.Concurrency == b.Concurrency && a.Status == b.Status && same(a.Total, b.Total) && same(a.PerRequest, b.PerRequest) && same(a.TTFT, b.TTFT)
	}) && slices.EqualFunc(e.Prefill, o.Prefill, func(a, b Prefill) bool {
		return a.Context == b.Context && same(a.TokensPerSecond, b.TokensPerSecond)
	})
}

// Cell is a decode cell as lists show it. Speeds are NaN where there is none.
type Cell struct {
	// Context is the planned prompt length in tokens, Label what the run calls it.
	Context     int
	Label       string
	Concurrency int
	Status      speedmatrix.Status
	// Total and PerRequest are tok/s, Half the half-width of Total's 95 % interval; over repeats they are medians.
	Total, Half, PerRequest float32
	// TTFT is the median in ms, Between the median time between tokens in ms.
	TTFT, Between float32
}

// Prefill is a context's cold prefill speed in prompt tok/s, NaN where there is none.
type Prefill struct {
	Context         int
	Label           string
	TokensPerSecond float32
}
