package runfile

import (
	"io"

	"speedmatrix"
)

// CellRow is one cell of a run as a row of a table over many runs: what identifies the run, and the cell's figures.
// A number that is not known, or that the cell's status does not show, is null.
type CellRow struct {
	RunID         string   `parquet:"run_id,dict"`
	Origin        string   `parquet:"origin,dict"`
	Tool          string   `parquet:"tool,dict"`
	Method        string   `parquet:"method,dict"`
	StartedNS     *int64   `parquet:"started_ns,optional"`
	Model         string   `parquet:"model,dict"`
	Quantization  string   `parquet:"quantization,dict"`
	Engine        string   `parquet:"engine,dict"`
	EngineVersion string   `parquet:"engine_version,dict"`
	GPU           string   `parquet:"gpu,dict"`
	GPUCount      *int64   `parquet:"gpu_count,optional"`
	Repeat        int32    `parquet:"repeat"`
	Phase         string   `parquet:"phase,dict"`
	ContextLabel  string   `parquet:"context_label,dict"`
	Context       int64    `parquet:"context"`
	Concurrency   int32    `parquet:"concurrency"`
	Status        string   `parquet:"status,dict"`
	Reason        string   `parquet:"reason"`
	PromptTokens  *float64 `parquet:"prompt_tokens,optional"`
	CachedTokens  *float64 `parquet:"cached_tokens,optional"`
	Total         *float64 `parquet:"total_tokens_per_second,optional"`
	Low           *float64 `parquet:"total_low_95,optional"`
	High          *float64 `parquet:"total_high_95,optional"`
	PerRequest    *float64 `parquet:"per_request_tokens_per_second,optional"`
	PromptSpeed   *float64 `parquet:"prompt_tokens_per_second,optional"`
	TTFTP50       *float64 `parquet:"ttft_p50_ms,optional"`
	TTFTP99       *float64 `parquet:"ttft_p99_ms,optional"`
	TTFTKind      string   `parquet:"ttft_kind,dict"`
	BetweenP50    *float64 `parquet:"time_between_tokens_p50_ms,optional"`
	BetweenP99    *float64 `parquet:"time_between_tokens_p99_ms,optional"`
	Active        *float64 `parquet:"active_requests_mean,optional"`
	Completed     *int64   `parquet:"completed_requests,optional"`
	Failed        *int64   `parquet:"failed_requests,optional"`
	OutputTokens  *float64 `parquet:"output_tokens,optional"`
	WindowSeconds *float64 `parquet:"window_seconds,optional"`
	TokenSource   string   `parquet:"token_source,dict"`
	OutputEnergy  *float64 `parquet:"energy_joules_per_output_token,optional"`
	PromptEnergy  *float64 `parquet:"energy_joules_per_prompt_token,optional"`
	GPUPower      *float64 `parquet:"gpu_power_watts_mean,optional"`
}

// WriteCells writes every cell of a run, its repeats included, as one Parquet table.
func WriteCells(w io.Writer, run *speedmatrix.Run) error {
	return writeTable(w, func(yield func(CellRow) bool) {
		for i := range run.Cells {
			if !yield(cellRow(run, &run.Cells[i], 1)) {
				return
			}
		}
		for _, r := range run.Repeats {
			for i := range r.Cells {
				if !yield(cellRow(run, &r.Cells[i], r.Index)) {
					return
				}
			}
		}
	})
}

func cellRow(run *speedmatrix.Run, c *speedmatrix.Cell, repeat int) CellRow {
	row := CellRow{
		RunID: run.ID, Origin: string(run.Origin), Tool: run.Tool.Name, Method: run.Method.Name,
		Model: run.Model.Text(speedmatrix.ModelName), Quantization: run.Model.Text(speedmatrix.ModelQuantization),
		Engine: run.Engine.Text(speedmatrix.EngineName), EngineVersion: run.Engine.Text(speedmatrix.EngineVersion),
		GPU: run.Hardware.Text(speedmatrix.HardwareGPU), Repeat: int32(repeat), Phase: string(c.Phase), ContextLabel: c.ContextLabel,
		Context: int64(c.Context), Concurrency: int32(c.Concurrency), Status: string(c.Status), Reason: c.Reason,
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens, TTFTKind: string(c.TTFTKind), TokenSource: string(c.TokenSource),
		Completed: wide(c.CompletedRequests), Failed: wide(c.FailedRequests),
	}
	if !run.StartedAt.IsZero() {
		row.StartedNS = new(run.StartedAt.UnixNano())
	}
	if n, ok := run.Hardware.Int(speedmatrix.HardwareGPUCount); ok {
		row.GPUCount = new(int64(n))
	}
	if !c.Status.ShowsSpeed() {
		return row
	}
	row.Total, row.PerRequest, row.PromptSpeed = c.TotalTokensPerSecond, c.PerRequestTokensPerSecond, c.PromptTokensPerSecond
	row.Active, row.OutputTokens, row.WindowSeconds = c.ActiveRequestsMean, c.OutputTokens, c.WindowSeconds
	row.OutputEnergy, row.PromptEnergy, row.GPUPower = c.EnergyPerOutputToken, c.EnergyPerPromptToken, c.GPUPower
	if c.Interval95 != nil {
		row.Low, row.High = &c.Interval95.Low, &c.Interval95.High
	}
	if d := c.TTFT; d != nil {
		row.TTFTP50, row.TTFTP99 = d.P50, d.P99
	}
	if d := c.TimeBetweenTokens; d != nil {
		row.BetweenP50, row.BetweenP99 = d.P50, d.P99
	}
	return row
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}
