package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/store"
	"speedmatrix/internal/trust"
	"speedmatrix/internal/unit"
)

// base is a predicted run of one profile, of which others are made.
type base struct{ run *speedmatrix.Run }

// bases predicts the matrix of every embedded machine.
func bases(ctx context.Context) (list []base, err error) {
	for _, p := range profile.All() {
		run, err := predict.Predict(ctx, &p, predict.SeedSettings(&p), predict.Options{Start: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Seed: 1})
		if err != nil {
			return nil, fmt.Errorf("predict %s: %w", p.Name, err)
		}
		run.Origin, run.Method.Name = speedmatrix.OriginMeasured, speedmatrix.MethodStandard
		for i := range run.Cells {
			// What pages do not show makes the filling slow and the answers no slower.
			c := &run.Cells[i]
			c.Client, c.PrefillSamples, c.TextSample = nil, nil, ""
			c.EventGap, c.VisibleTTFT, c.Send, c.Connect, c.CounterCheck, c.Requests = nil, nil, nil, nil, nil, nil
		}
		list = append(list, base{run})
	}
	return list, nil
}

var (
	gpus = []string{"RTX 3090", "RTX 4090", "RTX 5090", "L40S", "A100", "H100", "H200", "MI300X", "RX 7900 XTX", "RTX PRO 6000", "GB10", "Arc Pro B60", "M4 Max", "B200"}
	vram = []string{"24 GB", "24 GB", "32 GB", "48 GB", "80 GB", "80 GB", "141 GB", "192 GB", "24 GB", "96 GB", "128 GB", "24 GB", "128 GB", "180 GB"}
	fast = []float64{1, 1.25, 1.9, 1.1, 2.1, 3.3, 4.1, 3.6, 0.9, 1.9, 0.4, 0.45, 0.5, 6}
)

// fill writes runs into a store.
func fill(ctx context.Context, address string, runs int, seed uint64) error {
	list, err := bases(ctx)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	entropy := rand.NewChaCha8([32]byte{byte(seed)})
	began, bytesIn := time.Now(), 0
	for i := range runs {
		at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(i) / float64(runs) * float64(150*24*time.Hour)))
		r, err := record(list[rng.IntN(len(list))], rng, at)
		if err != nil {
			return err
		}
		if r.Entry.ID, err = unit.NewID(at, entropy); err != nil {
			return err
		}
		bytesIn += len(r.Document)
		if _, err := s.Put(ctx, r, catalog.Change{At: at, By: r.Entry.Owner, What: "received"}); err != nil {
			return err
		}
		if (i+1)%10_000 == 0 {
			fmt.Printf("%d runs after %s, %d bytes a document\n", i+1, time.Since(began).Round(time.Second), bytesIn/(i+1))
		}
	}
	return s.Close()
}

// record is a run as one of many machines would have measured it.
func record(b base, rng *rand.Rand, at time.Time) (catalog.Record, error) {
	card, model, version := rng.IntN(len(gpus)), rng.IntN(60), rng.IntN(8)
	factor := fast[card] * (0.4 + float64(model)/60) * (1 + 0.03*rng.NormFloat64())
	run := scaled(b.run, factor)
	run.ID = fmt.Sprintf("%s-%08x", at.Format("20060102T150405Z"), rng.Uint32())
	run.StartedAt = at
	run.Model = facts(run.Model, map[string]any{speedmatrix.ModelName: fmt.Sprintf("%s-%d", run.Model.Text(speedmatrix.ModelName), model)})
	run.Hardware = facts(run.Hardware, map[string]any{speedmatrix.HardwareGPU: gpus[card], speedmatrix.HardwareVRAM: vram[card], speedmatrix.HardwareGPUCount: 1 << rng.IntN(3)})
	run.Engine = facts(run.Engine, map[string]any{speedmatrix.EngineName: []string{"vllm", "sglang", "llama.cpp"}[rng.IntN(3)], speedmatrix.EngineVersion: fmt.Sprintf("0.%d.%d", 28+version, rng.IntN(3))})
	if rng.IntN(20) == 0 {
		run.Method.Name = speedmatrix.MethodQuick
	}
	var document bytes.Buffer
	if err := runfile.Encode(&document, run); err != nil {
		return catalog.Record{}, err
	}
	e := catalog.Describe(run)
	e.Version, e.Visibility, e.Level, e.Repeats = 1, catalog.Public, catalog.Recomputed+catalog.Level(rng.IntN(2)), []int{1, 3, 5}[rng.IntN(3)]
	e.Owner = fmt.Sprintf("owner-%d", rng.IntN(2000))
	e.OwnerName, e.ReceivedAt, e.PublishedAt = e.Owner, at, at
	e.EventsHash, e.DocumentHash = fmt.Sprintf("%064x", rng.Uint64()), fmt.Sprintf("%064x", rng.Uint64())
	checks, err := json.Marshal(trust.Evaluate(trust.Input{Run: run, Entry: &e}))
	return catalog.Record{Entry: e, Document: document.Bytes(), Checks: checks, Blobs: []catalog.Blob{{Name: "run.json", Hash: e.DocumentHash, Size: int64(document.Len())}}}, err
}

func facts(have speedmatrix.Facts, more map[string]any) speedmatrix.Facts {
	out := speedmatrix.Facts{}
	maps.Copy(out, have)
	for key, value := range more {
		out[key] = speedmatrix.Fact{Value: value, Source: "machine"}
	}
	return out
}

// scaled is a run that is faster by a factor.
func scaled(run *speedmatrix.Run, factor float64) *speedmatrix.Run {
	out := *run
	out.Cells = make([]speedmatrix.Cell, len(run.Cells))
	for i, c := range run.Cells {
		c.TotalTokensPerSecond, c.PerRequestTokensPerSecond = times(c.TotalTokensPerSecond, factor), times(c.PerRequestTokensPerSecond, factor)
		c.PromptTokensPerSecond, c.OutputTokens = times(c.PromptTokensPerSecond, factor), times(c.OutputTokens, factor)
		if c.Interval95 != nil {
			c.Interval95 = &speedmatrix.Interval{Low: c.Interval95.Low * factor, High: c.Interval95.High * factor}
		}
		c.TTFT, c.TimeBetweenTokens = slower(c.TTFT, factor), slower(c.TimeBetweenTokens, factor)
		out.Cells[i] = c
	}
	return &out
}

func times(v *float64, factor float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v * factor)
}

func slower(d *speedmatrix.Distribution, factor float64) *speedmatrix.Distribution {
	if d == nil {
		return nil
	}
	out := *d
	for _, v := range []**float64{&out.P50, &out.P90, &out.P95, &out.P99, &out.Min, &out.Max, &out.Mean} {
		*v = times(*v, 1/factor)
	}
	return &out
}
