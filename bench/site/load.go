package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is a kind of question and a way to ask one.
type kind struct {
	name string
	path func(rng *rand.Rand, k *known) string
}

// known are names to ask for.
type known struct{ runs, models, hardware, engines []string }

func one(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

func kinds() []kind {
	contexts, requests := []int{0, 16384, 32768, 65536}, []int{1, 2, 4, 8, 16, 32}
	cell := func(rng *rand.Rand) string {
		return fmt.Sprintf("ctx=%d&n=%d", contexts[rng.IntN(len(contexts))], requests[rng.IntN(len(requests))])
	}
	run := func(form string) func(*rand.Rand, *known) string {
		return func(rng *rand.Rand, k *known) string { return fmt.Sprintf(form, one(rng, k.runs)) }
	}
	return []kind{
		{"home", func(*rand.Rand, *known) string { return "/" }},
		{"runs by a cell", func(rng *rand.Rand, _ *known) string { return "/runs?sort=total&" + cell(rng) }},
		{"runs by users", func(rng *rand.Rand, _ *known) string { return "/runs?sort=users&floor=20&" + cell(rng) }},
		{"runs of a model", func(rng *rand.Rand, k *known) string {
			return "/runs?model=" + one(rng, k.models) + "&sort=total&" + cell(rng)
		}},
		{"runs by text", func(rng *rand.Rand, k *known) string { return "/runs?q=" + one(rng, k.models)[:4] + "+3090" }},
		{"runs as JSON", func(rng *rand.Rand, _ *known) string { return "/runs.json?sort=total&" + cell(rng) }},
		{"a run", run("/runs/%s")}, {"its checks", run("/runs/%s/checks")}, {"its heat map", run("/runs/%s/heatmap.svg")}, {"its document", run("/runs/%s.json")},
		{"its card", run("/runs/%s/card.png")}, {"its badge", run("/runs/%s/badge.svg")}, {"its history", run("/runs/%s/history")},
		{"feed of runs", func(rng *rand.Rand, k *known) string { return "/runs.atom?gpu=" + one(rng, k.hardware) }},
		{"runs as CSV", func(rng *rand.Rand, k *known) string { return "/runs.csv?model=" + one(rng, k.models) }},
		{"boards", func(*rand.Rand, *known) string { return "/boards" }},
		{"a board", func(rng *rand.Rand, k *known) string { return "/boards/16kx8?model=" + one(rng, k.models) }},
		{"all models", func(*rand.Rand, *known) string { return "/models" }},
		{"all hardware", func(*rand.Rand, *known) string { return "/hardware" }},
		{"all engines", func(*rand.Rand, *known) string { return "/engines" }},
		{"sitemap", func(rng *rand.Rand, _ *known) string { return fmt.Sprintf("/sitemap/runs-%d.xml", 1+rng.IntN(4)) }},
		{"a model", func(rng *rand.Rand, k *known) string { return "/models/" + one(rng, k.models) }},
		{"a hardware", func(rng *rand.Rand, k *known) string { return "/hardware/" + one(rng, k.hardware) }},
		{"an engine", func(rng *rand.Rand, k *known) string { return "/engines/" + one(rng, k.engines) }},
		{"a comparison", func(rng *rand.Rand, k *known) string {
			return "/compare?run=" + one(rng, k.runs) + "&run=" + one(rng, k.runs)
		}},
		{"search as one types", func(rng *rand.Rand, k *known) string { return "/search.json?q=" + one(rng, k.models)[:1+rng.IntN(6)] }},
		{"API: runs", func(rng *rand.Rand, _ *known) string { return "/api/v1/runs?sort=total&" + cell(rng) }},
		{"API: a board", func(rng *rand.Rand, k *known) string { return "/api/v1/boards?model=" + one(rng, k.models) }},
		{"API: models", func(*rand.Rand, *known) string { return "/api/v1/models" }}, {"API: checks", run("/api/v1/runs/%s/checks")}, {"API: document", run("/api/v1/runs/%s/document")},
		{"API: a comparison", func(rng *rand.Rand, k *known) string {
			return "/api/v1/compare?run=" + one(rng, k.runs) + "&run=" + one(rng, k.runs)
		}},
		{"API: a run", run("/api/v1/runs/%s")}, {"API: facets", func(rng *rand.Rand, k *known) string { return "/api/v1/facets?model=" + one(rng, k.models) }},
		{"API: search", func(rng *rand.Rand, k *known) string { return "/api/v1/search?q=" + one(rng, k.models)[:3] }},
	}
}

// answer is one question's time and outcome.
type answer struct {
	kind   string
	took   time.Duration
	status int
}

// ask asks at a steady rate, whatever the answers take, and prints the times of each kind.
func ask(base string, rate float64, lasts time.Duration, pid int) error {
	k, err := names(base)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	rng := rand.New(rand.NewPCG(3, 4))
	list := kinds()
	answers := make(chan answer, int(rate*lasts.Seconds())+1)
	var waiting sync.WaitGroup
	began := time.Now()
	for i := range int(rate * lasts.Seconds()) {
		time.Sleep(time.Until(began.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		q := list[i%len(list)]
		path := q.path(rng, k)
		due := time.Now()
		waiting.Go(func() {
			status := 0
			if r, err := client.Get(base + path); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
				status = r.StatusCode
			}
			answers <- answer{q.name, time.Since(due), status}
		})
	}
	waiting.Wait()
	close(answers)
	return print(answers, pid)
}

// names asks the site for names to ask for.
func names(base string) (*known, error) {
	k := &known{}
	for path, into := range map[string]*[]string{"/api/v1/models": &k.models, "/api/v1/hardware": &k.hardware, "/api/v1/engines": &k.engines} {
		var body struct{ Groups []struct{ Key string } }
		if err := get(base+path, &body); err != nil {
			return nil, err
		}
		for _, g := range body.Groups {
			*into = append(*into, g.Key)
		}
	}
	cursor := ""
	for range 10 {
		var body struct {
			Runs []struct{ ID string }
			Next string
		}
		if err := get(base+"/api/v1/runs?limit=200&cursor="+cursor, &body); err != nil {
			return nil, err
		}
		for _, r := range body.Runs {
			k.runs = append(k.runs, r.ID)
		}
		cursor = body.Next
	}
	return k, nil
}

func get(url string, into any) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}

func print(answers <-chan answer, pid int) error {
	times, wrong := map[string][]time.Duration{}, map[string]int{}
	for a := range answers {
		for _, name := range []string{a.kind, "all"} {
			times[name] = append(times[name], a.took)
			if a.status != http.StatusOK && !(a.kind == "a comparison" && a.status < 500) {
				wrong[name]++
			}
		}
	}
	fmt.Println("| question | n | p50, ms | p99, ms | greatest, ms | not answered |\n|---|---|---|---|---|---|")
	for _, k := range append(kinds(), kind{name: "all"}) {
		t := times[k.name]
		if len(t) == 0 {
			continue
		}
		slices.Sort(t)
		at := func(share float64) float64 { return float64(t[int(share*float64(len(t)-1))].Microseconds()) / 1000 }
		fmt.Printf("| %s | %d | %.1f | %.1f | %.1f | %d |\n", k.name, len(t), at(0.5), at(0.99), at(1), wrong[k.name])
	}
	if pid == 0 {
		return nil
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			fmt.Print(line)
		}
	}
	return nil
}
