package catalog

import (
	"math"
	"time"

	"speedmatrix"
)

// String is the level as it is written everywhere; the word and never a badge.
func (l Level) String() string {
	switch l {
	case Stated:
		return "Stated"
	case Complete:
		return "Complete"
	case Recomputed:
		return "Recomputed"
	case SelfConsistent:
		return "Self-consistent"
	case Reproduced:
		return "Reproduced"
	}
	return "Unknown"
}

// Named is something with a page of its own.
type Named struct {
	Key  string `json:"key" doc:"Its name in addresses and queries."`
	Name string `json:"name" doc:"Its name as people write it."`
}

// CellView is a decode cell in lists.
type CellView struct {
	Context                   int                `json:"context" doc:"Planned prompt length in tokens."`
	ContextLabel              string             `json:"context_label"`
	Concurrency               int                `json:"concurrency"`
	Status                    speedmatrix.Status `json:"status"`
	TotalTokensPerSecond      *float32           `json:"total_tokens_per_second" doc:"Output tok/s over all requests; null unless the status has a speed."`
	HalfWidth95               *float32           `json:"half_width_95" doc:"Half the width of the 95 % interval of the total; null for one sample."`
	PerRequestTokensPerSecond *float32           `json:"per_request_tokens_per_second"`
	TTFTMedian                *float32           `json:"ttft_ms_p50"`
	TimeBetweenTokensMedian   *float32           `json:"time_between_tokens_ms_p50"`
}

// PrefillView is a context's cold prefill in lists.
type PrefillView struct {
	Context               int      `json:"context"`
	ContextLabel          string   `json:"context_label"`
	PromptTokensPerSecond *float32 `json:"prompt_tokens_per_second"`
}

// View is an entry as programs read it; an unknown number is null.
type View struct {
	ID            string        `json:"id"`
	Version       int           `json:"version" doc:"Counts from 1; an edit makes the next."`
	URL           string        `json:"url" format:"uri" doc:"The run's page."`
	Title         string        `json:"title"`
	RunID         string        `json:"run_id" doc:"The identity that the run gave itself."`
	EventsSHA256  string        `json:"events_sha256" doc:"Of the raw rows; empty without any."`
	Visibility    Visibility    `json:"visibility" enum:"draft,quarantined,unlisted,public,withdrawn"`
	Uploader      string        `json:"uploader" doc:"Empty where nobody signed in."`
	Trust         string        `json:"trust" enum:"Stated,Complete,Recomputed,Self-consistent,Reproduced"`
	Level         Level         `json:"level" minimum:"1" maximum:"5"`
	Reproductions int           `json:"reproductions" doc:"Other uploaders whose runs agree within the intervals."`
	Origin        string        `json:"origin" enum:"measured,predicted,imported"`
	Source        string        `json:"source" doc:"The tool that an imported run came from."`
	Method        string        `json:"method"`
	Model         Named         `json:"model"`
	Weights       string        `json:"weights" doc:"A hash of the weights, where it is known."`
	Quantization  string        `json:"quantization"`
	Hardware      Named         `json:"hardware"`
	Engine        string        `json:"engine"`
	EngineVersion string        `json:"engine_version"`
	Modified      string        `json:"modified" doc:"How the hardware differs from stock; empty is stock."`
	Speculative   string        `json:"speculative_decoding"`
	Repeats       int           `json:"repeats"`
	MeasuredAt    *time.Time    `json:"measured_at"`
	ReceivedAt    *time.Time    `json:"received_at"`
	PublishedAt   *time.Time    `json:"published_at"`
	Cells         []CellView    `json:"cells"`
	Prefill       []PrefillView `json:"prefill"`
}

// Title is "MODEL on HARDWARE".
func (e *Entry) Title() string { return e.Model + " on " + e.Hardware }

// View gives the entry as programs read it; base is the site's address without a slash at its end.
func (e *Entry) View(base string) View {
	v := View{ID: e.ID, Version: e.Version, URL: base + "/runs/" + e.ID, Title: e.Title(), RunID: e.RunID, EventsSHA256: e.EventsHash,
		Visibility: e.Visibility, Uploader: e.OwnerName, Trust: e.Level.String(), Level: e.Level, Reproductions: e.Reproductions,
		Origin: e.Origin, Source: e.Source, Method: e.Method, Model: Named{e.ModelKey, e.Model}, Weights: e.Weights,
		Quantization: e.Quantization, Hardware: Named{e.HardwareKey, e.Hardware}, Engine: e.Engine, EngineVersion: e.EngineVersion,
		Modified: e.Modified, Speculative: e.Speculative, Repeats: e.Repeats,
		MeasuredAt: instant(e.MeasuredAt), ReceivedAt: instant(e.ReceivedAt), PublishedAt: instant(e.PublishedAt),
		Cells: make([]CellView, len(e.Cells)), Prefill: make([]PrefillView, len(e.Prefill))}
	for i, c := range e.Cells {
		v.Cells[i] = CellView{Context: c.Context, ContextLabel: c.Label, Concurrency: c.Concurrency, Status: c.Status,
			TotalTokensPerSecond: known(c.Total), HalfWidth95: known(c.Half), PerRequestTokensPerSecond: known(c.PerRequest),
			TTFTMedian: known(c.TTFT), TimeBetweenTokensMedian: known(c.Between)}
	}
	for i, p := range e.Prefill {
		v.Prefill[i] = PrefillView{Context: p.Context, ContextLabel: p.Label, PromptTokensPerSecond: known(p.TokensPerSecond)}
	}
	return v
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func known(v float32) *float32 {
	if math.IsNaN(float64(v)) {
		return nil
	}
	return &v
}
