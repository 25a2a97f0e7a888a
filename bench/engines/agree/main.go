// Command agree holds a run on a real engine against what the engine itself
// says: output tokens against its counter cell by cell, prompts against the
// server's usage, and, by a few requests of its own, the time to first token
// against the engine's own timing.
//
//	go run ./bench/engines/agree RUN [URL MODEL]
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/metricstext"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/stamp"
)

// tolerance is the share by which tokens may differ, besides one token per stream.
const tolerance = 0.002

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: agree RUN [URL MODEL]")
		os.Exit(2)
	}
	wrong, err := compare(os.Args[1])
	if err == nil && len(os.Args) == 4 {
		err = firstTokens(context.Background(), os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agree:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "agree: %d cells do not agree with the engine\n", wrong)
		os.Exit(1)
	}
}

// compare prints each cell beside the engine's account and counts those beyond the tolerance.
func compare(path string) (wrong int, err error) {
	dir, err := runfile.Open(path)
	if err != nil {
		return 0, err
	}
	run, _, err := dir.LoadRun()
	if err != nil {
		return 0, err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { _ = w.Flush() }()
	fmt.Fprintln(w, "cell\tstatus\tours\tengine\tdifference\tprompt\tcached\tqueued\t")
	for i := range run.Cells {
		c := &run.Cells[i]
		ours, engines, difference := "—", "—", "—"
		if k := c.CounterCheck; k != nil {
			ours, engines = fmt.Sprintf("%.0f", k.ClientTokens), fmt.Sprintf("%.0f", k.ServerTokens)
			off := k.ClientTokens - k.ServerTokens
			difference = fmt.Sprintf("%+.0f", off)
			if max(off, -off) > max(tolerance*k.ServerTokens, float64(c.Concurrency)) {
				wrong++
				difference += " !"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", c.Key(), c.Status, ours, engines, difference, number(c.PromptTokens), number(c.CachedTokens), percent(c.QueuedShare))
	}
	return wrong, nil
}

func number(v *float64) string {
	if v == nil {
		return "—"
	}
	return fmt.Sprintf("%g", *v)
}

func percent(v *float64) string {
	if v == nil {
		return "—"
	}
	return fmt.Sprintf("%.0f %%", *v*100)
}

// firstTokens sends prompts one at a time and compares our time to first token with the engine's.
func firstTokens(ctx context.Context, address, model string) error {
	base, err := url.Parse(address)
	if err != nil {
		return err
	}
	chat := dialect.Chat()
	client, err := load.New(load.Options{BaseURL: base, Dialect: chat, Clock: stamp.NewClock()})
	if err != nil {
		return err
	}
	library, err := prompt.Embedded()
	if err != nil {
		return err
	}
	writer := prompt.NewWriter(library, fmt.Sprint("agree", time.Now().UnixNano()), prompt.ModeDistinct)
	const requests = 10
	var ours, engines, apart []float64
	for i := range requests {
		body, err := chat.Body(dialect.Params{Model: model, Prompt: writer.Head(prompt.HeadID{Context: 512, Stream: i}, 2000), MaxTokens: 8,
			Stream: true, IncludeUsage: true, TimingsPerToken: true})
		if err != nil {
			return err
		}
		before := engineTTFT(ctx, address)
		log := client.Do(ctx, load.Request{ID: int32(i), Body: body})
		if log.Class != speedmatrix.RequestCompleted {
			return fmt.Errorf("request %d: %s %s", i, log.Class, log.Error)
		}
		engine := engineTTFT(ctx, address).minus(before)
		if log.HasTimings {
			engine = log.Timings.PromptMillis
		}
		mine := float64(log.FirstNS-log.WrittenNS) / 1e6
		ours, engines, apart = append(ours, mine), append(engines, engine), append(apart, mine-engine)
	}
	slices.Sort(apart)
	fmt.Printf("\nTTFT of %d prompts, ms: ours %.1f … %.1f, the engine's own %.1f … %.1f; ours − the engine's: median %.2f, from %.2f to %.2f\n",
		requests, slices.Min(ours), slices.Max(ours), slices.Min(engines), slices.Max(engines), apart[requests/2], apart[0], apart[requests-1])
	return nil
}

// account is the engine's sum and count of times to first token; the zero value is unknown.
type account struct{ sum, count float64 }

// minus is the mean time to first token, in ms, of the requests between two accounts.
func (a account) minus(b account) float64 {
	if a.count <= b.count {
		return 0
	}
	return (a.sum - b.sum) / (a.count - b.count) * 1e3
}

func engineTTFT(ctx context.Context, address string) (a account) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", http.NoBody)
	if err != nil {
		return a
	}
	req.Header.Set("Accept", metricstext.Accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	families, err := metricstext.Parse(resp.Body)
	if err != nil {
		return a
	}
	a.sum, _ = families.Sum("vllm:time_to_first_token_seconds_sum")
	a.count, _ = families.Sum("vllm:time_to_first_token_seconds_count")
	return a
}
