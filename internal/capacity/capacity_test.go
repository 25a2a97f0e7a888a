package capacity_test

import (
	"math"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/capacity"
)

// cell is a decode cell of 16K: its concurrency, total, per request tok/s and median TTFT in ms.
func cell(n int, total, each, ttft float64) speedmatrix.Cell {
	return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: "16K", Context: 16384, Concurrency: n, Status: speedmatrix.StatusValid,
		TotalTokensPerSecond: new(total), PerRequestTokensPerSecond: new(each), TTFT: &speedmatrix.Distribution{P50: new(ttft)},
		Interval95: &speedmatrix.Interval{Low: total * 0.98, High: total * 1.02}, Attempts: 1}
}

func stopped(n int, status speedmatrix.Status) speedmatrix.Cell {
	return speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: "16K", Context: 16384, Concurrency: n, Status: status}
}

func with(c speedmatrix.Cell, change func(*speedmatrix.Cell)) speedmatrix.Cell {
	change(&c)
	return c
}

func TestUsersAreThoseOfTheLargestCellThatKeepsTheDemand(t *testing.T) {
	base := []speedmatrix.Cell{cell(1, 109.2, 109.2, 51), cell(2, 190, 95, 68), cell(4, 376.4, 94.1, 90)}
	queued := func(preemptions int) speedmatrix.Cell {
		return with(cell(8, 400, 15, 2000), func(c *speedmatrix.Cell) {
			c.Status, c.Preemptions = speedmatrix.StatusRequestsQueued, new(preemptions)
		})
	}
	tests := []struct {
		name  string
		next  []speedmatrix.Cell
		q     capacity.Demand
		users int
		why   string
		limit capacity.Limit
	}{
		{"nothing larger", nil, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "nothing larger was planned", capacity.LimitNone},
		{"refused", []speedmatrix.Cell{stopped(8, speedmatrix.StatusOverCapacity)}, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "8 requests: over capacity, not run", capacity.LimitKV},
		{"looped", []speedmatrix.Cell{stopped(8, speedmatrix.StatusLooped)}, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "8 requests: looped", capacity.LimitUnknown},
		{"too long", []speedmatrix.Cell{stopped(8, speedmatrix.StatusExceedsModelLength)}, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "8 requests: exceeds model length, not run", capacity.LimitLength},
		{"queued", []speedmatrix.Cell{queued(0)}, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "8 requests: 15.0 tok/s each", capacity.LimitQueue},
		{"preempted", []speedmatrix.Cell{queued(3)}, capacity.Demand{Floor: 20, LimitMillis: 1000}, 4, "8 requests: 15.0 tok/s each", capacity.LimitKV},
		{"too slow", nil, capacity.Demand{Floor: 94.5, LimitMillis: 1000}, 2, "4 requests: 94.1 tok/s each", capacity.LimitSpeed},
		{"too late", nil, capacity.Demand{Floor: 20, LimitMillis: 60}, 1, "2 requests: TTFT 68 ms", capacity.LimitPrefill},
		{"none", nil, capacity.Demand{Floor: 500, LimitMillis: 60}, 0, "1 request: 109.2 tok/s each", capacity.LimitSpeed},
	}
	for _, tt := range tests {
		run := &speedmatrix.Run{Cells: append(append([]speedmatrix.Cell{}, base...), tt.next...)}
		rows := capacity.Rows(run, tt.q)
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows", tt.name, len(rows))
		}
		if r := rows[0]; r.Users != tt.users || r.Why != tt.why || r.Limit != tt.limit || r.AtLeast != (tt.limit == capacity.LimitNone) {
			t.Errorf("%s: %d users (at least: %v), %q, limit %q, want %d, %q, %q", tt.name, r.Users, r.AtLeast, r.Why, r.Limit, tt.users, tt.why, tt.limit)
		}
	}
}

func TestRowsAscendWhateverTheOrderOfTheDocument(t *testing.T) {
	short := with(cell(2, 300, 150, 40), func(c *speedmatrix.Cell) { c.Context, c.ContextLabel = 0, "0" })
	prefill := with(cell(1, 1, 1, 1), func(c *speedmatrix.Cell) { c.Phase = speedmatrix.PhasePrefill })
	run := &speedmatrix.Run{Cells: []speedmatrix.Cell{cell(4, 376, 94, 90), prefill, short, cell(1, 109, 109, 51)}}
	rows := capacity.Rows(run, capacity.Demand{Floor: 20, LimitMillis: 1000})
	if len(rows) != 2 || rows[0].Label != "0" || rows[0].Users != 2 || rows[1].Label != "16K" || rows[1].Users != 4 {
		t.Errorf("%+v", rows)
	}
}

func TestTheCrossingLiesOnALineWithLogarithmicAxes(t *testing.T) {
	// Twice the requests at half the speed each: the speed is 100 at 8, 50 at 16, so 70.71 at 8√2.
	run := &speedmatrix.Run{Cells: []speedmatrix.Cell{cell(8, 800, 100, 50), cell(16, 800, 50, 60)}}
	b := capacity.Rows(run, capacity.Demand{Floor: 100 / math.Sqrt2, LimitMillis: 1000})[0].Between
	if b == nil || b.By != capacity.BySpeed {
		t.Fatalf("no crossing by speed: %+v", b)
	}
	for _, x := range []struct{ got, want float64 }{{b.Users, 8 * math.Sqrt2}, {b.Low, 8 * math.Sqrt2 * 0.98}, {b.High, 8 * math.Sqrt2 * 1.02}} {
		if math.Abs(x.got-x.want) > 1e-9 {
			t.Errorf("crossing %v, want %v", x.got, x.want)
		}
	}
	b = capacity.Rows(run, capacity.Demand{Floor: 20, LimitMillis: 55})[0].Between
	if b == nil || b.By != capacity.ByTTFT || b.Low != 8 || b.High != 16 || b.Users <= 8 || b.Users >= 16 {
		t.Errorf("crossing by TTFT: %+v", b)
	}
	run.Cells[1].Status = speedmatrix.StatusLooped
	if b := capacity.Rows(run, capacity.Demand{Floor: 20, LimitMillis: 55})[0].Between; b != nil {
		t.Errorf("a crossing towards a cell without a speed: %+v", b)
	}
}

func TestTheSlowerOfBandwidthAndComputeIsTheLimit(t *testing.T) {
	for context, want := range map[float64]capacity.Limit{100: capacity.LimitCompute, 16384: capacity.LimitMemory} {
		run := &speedmatrix.Run{Cells: []speedmatrix.Cell{cell(1, 100, 100, 50), with(cell(256, 2560, 10, 50), func(c *speedmatrix.Cell) {
			c.ContextTokens = &speedmatrix.ContextTokens{Mean: context}
		})}}
		run.Hardware = speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: "NVIDIA GeForce RTX 3090", Source: "machine"}}
		run.Model = speedmatrix.Facts{speedmatrix.ModelReadBytes: {Value: 4e9}, speedmatrix.ModelKVBytes: {Value: 32768.0}, speedmatrix.ModelFLOP: {Value: 8e9}}
		if got := capacity.Rows(run, capacity.Demand{Floor: 20, LimitMillis: 1000})[0].Limit; got != want {
			t.Errorf("at %v tokens of context: %q, want %q", context, got, want)
		}
	}
}

func TestStatedLimitsStandBeforeTheDataSheet(t *testing.T) {
	facts := speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: "NVIDIA A100-SXM4-80GB"}, speedmatrix.HardwareVRAM: {Value: "80 GB"}, speedmatrix.HardwareGPUCount: {Value: 2}}
	h := capacity.HardwareOf(facts)
	if h.Bandwidth != 2*2039e9 || h.Compute != 2*312e12 || h.Device != "2× NVIDIA A100-SXM4-80GB" || h.Source != "data sheet" {
		t.Errorf("%+v", h)
	}
	facts[speedmatrix.HardwareBandwidth] = speedmatrix.Fact{Value: 3e12}
	if h = capacity.HardwareOf(facts); h.Bandwidth != 3e12 || h.Source != "as stated" {
		t.Errorf("%+v", h)
	}
}

func TestAMillionTokensCostTheTimeTheyTake(t *testing.T) {
	c := cell(4, 1000, 250, 50) // a million tokens take 1,000 s
	cost, ok := capacity.Price{PerHour: 0.36, PerKWh: 0.4, Watts: 360, Currency: "EUR"}.At(&c)
	if !ok || math.Abs(cost.Money-(0.1+0.04)) > 1e-12 || math.Abs(cost.KilowattHours-0.1) > 1e-12 || math.Abs(cost.JoulesPerToken-0.36) > 1e-12 {
		t.Errorf("%+v %v", cost, ok)
	}
	if got, want := cost.Text("EUR"), "0.14 EUR and 0.1 kWh per million output tokens, 0.36 J a token"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	measured := with(c, func(c *speedmatrix.Cell) { c.GPUPower = new(200.0) })
	if cost, ok := (capacity.Price{}).At(&measured); !ok || !cost.Measured || math.Abs(cost.JoulesPerToken-0.2) > 1e-12 {
		t.Errorf("measured power: %+v %v", cost, ok)
	}
	if _, ok := (capacity.Price{}).At(&c); ok {
		t.Error("a cost without a price")
	}
	if _, ok := (capacity.Price{PerHour: 1}).At(nil); ok {
		t.Error("a cost without a cell")
	}
}

func TestTheDataSheetIsThatOfTheLongestNameThatFits(t *testing.T) {
	for name, want := range map[string]float64{"NVIDIA A100-SXM4-80GB": 2039e9, "NVIDIA A100 40GB": 1555e9, "NVIDIA GeForce RTX 3090 Ti": 1008e9, "NVIDIA L40S": 864e9, "Tesla P4": 0} {
		if got := capacity.HardwareOf(speedmatrix.Facts{speedmatrix.HardwareGPU: {Value: name}}).Bandwidth; got != want {
			t.Errorf("%s: %v bytes/s, want %v", name, got, want)
		}
	}
}
