package site

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"

	"speedmatrix/internal/catalog"
)

// boardNumbers is a board for programs.
type boardNumbers struct {
	Rank     *int         `json:"rank"`
	Shared   bool         `json:"shared"`
	Hardware string       `json:"hardware"`
	Value    *float64     `json:"value"`
	Low      *float64     `json:"low_95"`
	High     *float64     `json:"high_95"`
	Runs     int          `json:"runs"`
	Run      catalog.View `json:"run"`
}

func boardRows(b *catalog.Board, base string) []boardNumbers {
	rows := make([]boardNumbers, 0, len(b.Rows))
	for _, row := range b.Rows {
		n := boardNumbers{Hardware: row.Entry.Hardware, Runs: row.Runs, Run: row.Entry.View(base), Shared: row.Shared}
		if row.Rank > 0 && !math.IsNaN(row.Value) {
			n.Rank, n.Value = new(row.Rank), new(row.Value)
			if row.High > row.Low {
				n.Low, n.High = new(row.Low), new(row.High)
			}
		}
		rows = append(rows, n)
	}
	return rows
}

func boardJSON(w *bytes.Buffer, a *boardAsked, b *catalog.Board, base string) error {
	doc := struct {
		Model       catalog.Named  `json:"model"`
		Weights     string         `json:"weights"`
		By          string         `json:"by"`
		Context     int            `json:"context"`
		Concurrency int            `json:"concurrency"`
		Floor       float64        `json:"floor_tokens_per_second"`
		Rule        string         `json:"rule"`
		Rows        []boardNumbers `json:"rows"`
		Apart       []apartRun     `json:"not_compared"`
	}{b.Model, b.Weights, string(a.by), a.at.context, a.at.concurrency, a.floor, boardRule, boardRows(b, base), apartRuns(b.Apart, base)}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// boardRule is the rule of all boards for programs.
const boardRule = "same weights by hash, method standard/1, stock hardware, no speculative decoding, at least 3 repeats, recomputed; one row a machine, its best median; rows whose 95 % intervals meet share a rank"

func boardCSV(w *bytes.Buffer, a *boardAsked, b *catalog.Board, base string) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"rank", "shared", "hardware", "model", "weights", "by", "context", "concurrency", "value", "low_95", "high_95", "runs", "run", "url", "engine", "engine_version", "trust", "not_compared_because"})
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'f', -1, 32)
	}
	line := func(n boardNumbers, why string) {
		rank := ""
		if n.Rank != nil {
			rank = strconv.Itoa(*n.Rank)
		}
		_ = out.Write([]string{rank, strconv.FormatBool(n.Shared), plainCSV(n.Hardware), plainCSV(n.Run.Model.Name), plainCSV(n.Run.Weights), string(a.by), strconv.Itoa(a.at.context), strconv.Itoa(a.at.concurrency),
			number(n.Value), number(n.Low), number(n.High), strconv.Itoa(n.Runs), n.Run.ID, n.Run.URL, plainCSV(n.Run.Engine), plainCSV(n.Run.EngineVersion), n.Run.Trust, plainCSV(why)})
	}
	for _, n := range boardRows(b, base) {
		line(n, "")
	}
	for _, x := range b.Apart {
		line(boardNumbers{Hardware: x.Entry.Hardware, Runs: 1, Run: x.Entry.View(base)}, x.Reason)
	}
	out.Flush()
	return out.Error()
}
