package simserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
	"speedmatrix/internal/wire"
)

// Faults are the misbehaviours of a server; the zero value has none. Shares are
// from 0 to 1, and which steps and requests they hit is decided by the seed.
type Faults struct {
	// Spike is added to the duration of a SpikeShare of the engine's steps.
	Spike      time.Duration
	SpikeShare float64
	// DropShare of the requests lose their connection after DropAfter tokens; 0 is a number of their own.
	DropShare float64
	DropAfter int
	// ErrorShare of the requests are answered with ErrorStatus, 0 being 500.
	ErrorShare  float64
	ErrorStatus int
	// MetricsDelay is how long each scrape of /metrics takes on the server's clock.
	MetricsDelay time.Duration
	// KVShare of the profile's KV blocks are there; 0 is all of them.
	KVShare float64
}

// faultKinds explains each --fault text.
var faultKinds = map[string]string{
	"spike":   "spike=250ms@1% makes 1 % of the engine's steps 250 ms longer",
	"drop":    "drop=2% cuts 2 % of the connections somewhere in the answer, drop=2%@50 after 50 tokens",
	"error":   "error=5% answers 5 % of the requests with status 500, error=5%@503 with 503",
	"metrics": "metrics=2s makes each scrape of /metrics take 2 s",
	"kv":      "kv=25% leaves a quarter of the KV cache",
}

// ParseFaults reads --fault texts, such as "spike=250ms@1%", "drop=2%@50",
// "error=5%@503", "metrics=2s" and "kv=25%"; several in one text are separated
// by commas. A later one of a kind replaces the earlier. Errors are of kind usage.
func ParseFaults(texts []string) (Faults, error) {
	var f Faults
	for text := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		kind, value, _ := strings.Cut(text, "=")
		if err := f.set(kind, value); err != nil {
			return Faults{}, faultError(text, kind, err)
		}
	}
	return f, nil
}

func faultError(text, kind string, err error) error {
	kinds := make([]string, 0, len(faultKinds))
	for name := range faultKinds {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	next := faultKinds[kind]
	if next == "" {
		next = "The kinds are " + strings.Join(kinds, ", ")
		if near := unit.Nearest(kind, kinds); near != "" {
			next = faultKinds[near] + ". " + next
		}
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("the fault %q cannot be read: %v", text, err), Next: next + ".", Err: err}
}

// set takes one fault.
func (f *Faults) set(kind, value string) (err error) {
	first, second, two := strings.Cut(value, "@")
	switch kind {
	case "spike":
		if f.Spike, err = positive(first); err == nil {
			f.SpikeShare, err = share(second)
		}
	case "drop":
		f.DropAfter = 0
		if f.DropShare, err = share(first); err == nil && two {
			f.DropAfter, err = between(second, 1, 1<<30)
		}
	case "error":
		f.ErrorStatus = http.StatusInternalServerError
		if f.ErrorShare, err = share(first); err == nil && two {
			f.ErrorStatus, err = between(second, 400, 599)
		}
	case "metrics":
		f.MetricsDelay, err = positive(value)
	case "kv":
		f.KVShare, err = share(value)
	default:
		return fmt.Errorf("there is no kind %q", kind)
	}
	return err
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not above 0", text)
	}
	return d, err
}

// share reads "2%" or "0.02".
func share(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || v != v || v <= 0 || v > 1 {
		return 0, fmt.Errorf("%q is no share above 0 and up to 100%%", text)
	}
	return v, nil
}

func between(text string, from, to int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < from || n > to {
		return 0, fmt.Errorf("%q is no whole number from %d to %d", text, from, to)
	}
	return n, nil
}

// What the numbers of a request or step are drawn for.
const (
	drawSpike = iota + 1
	drawError
	drawDrop
	drawDropAfter
	drawAnswer
)

// spike is what a step takes longer.
func (f *Faults) spike(seed, step uint64) time.Duration {
	if f.SpikeShare > 0 && uniform(mix(seed, drawSpike), step) < f.SpikeShare {
		return f.Spike
	}
	return 0
}

// refusal is the error that a request is answered with, nil if none.
func (f *Faults) refusal(seed, request uint64) *wire.Problem {
	if f.ErrorShare == 0 || uniform(mix(seed, drawError), request) >= f.ErrorShare {
		return nil
	}
	if f.ErrorStatus == http.StatusServiceUnavailable {
		return wire.EngineBusy()
	}
	return &wire.Problem{Status: f.ErrorStatus, Type: strings.ReplaceAll(http.StatusText(f.ErrorStatus), " ", "") + "Error", Message: "An injected fault."}
}

// dropAfter is the number of tokens after which a request's connection is cut, 0 for never.
func (f *Faults) dropAfter(seed, request uint64, maxTokens int) int {
	switch {
	case f.DropShare == 0 || uniform(mix(seed, drawDrop), request) >= f.DropShare:
		return 0
	case f.DropAfter > 0:
		return f.DropAfter
	}
	return 1 + int(uniform(mix(seed, drawDropAfter), request)*float64(maxTokens))
}

// blocks is what is left of a number of KV blocks.
func (f *Faults) blocks(n int) int {
	if f.KVShare == 0 {
		return n
	}
	return max(2, int(float64(n)*f.KVShare))
}
