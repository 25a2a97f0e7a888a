package site

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"

	"speedmatrix/internal/catalog"
)

func boardJSON(w *bytes.Buffer, v catalog.BoardView) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func boardCSV(w *bytes.Buffer, v catalog.BoardView) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"rank", "shared", "hardware", "model", "weights", "by", "context", "concurrency", "value", "low_95", "high_95", "runs", "run", "url", "engine", "engine_version", "trust", "not_compared_because"})
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'f', -1, 32)
	}
	line := func(n *catalog.BoardRowView, why string) {
		rank := ""
		if n.Rank != nil {
			rank = strconv.Itoa(*n.Rank)
		}
		_ = out.Write([]string{rank, strconv.FormatBool(n.Shared), plainCSV(n.Hardware), plainCSV(n.Run.Model.Name), plainCSV(n.Run.Weights), string(v.By), strconv.Itoa(v.Context), strconv.Itoa(v.Concurrency),
			number(n.Value), number(n.Low), number(n.High), strconv.Itoa(n.Runs), n.Run.ID, n.Run.URL, plainCSV(n.Run.Engine), plainCSV(n.Run.EngineVersion), n.Run.Trust, plainCSV(why)})
	}
	for i := range v.Rows {
		line(&v.Rows[i], "")
	}
	for _, x := range v.Apart {
		line(&catalog.BoardRowView{Hardware: x.Run.Hardware.Name, Runs: 1, Run: x.Run}, x.Reason)
	}
	out.Flush()
	return out.Error()
}
