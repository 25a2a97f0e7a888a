package verify

import (
	"math"

	"speedmatrix"
)

// usualBlock is the size of a KV block where the engine does not tell it, in tokens.
const usualBlock = 16

// coldLimit is how many cached tokens a cold prompt may have: template and one block.
func (c *checker) coldLimit() int {
	block, ok := c.run.Engine.Int(speedmatrix.EngineKVBlockTokens)
	if !ok {
		block = usualBlock
	}
	return c.run.Server.Habits.TemplateTokens + block
}

// fills are the requests that put heads of one context into the server's cache.
type fills struct {
	requests []speedmatrix.RequestRow
	// incomplete: a cell of the context has no rows, so a fill may be missing.
	incomplete bool
}

// findFills collects the fills of the matrix by context.
func (c *checker) findFills() map[int]*fills {
	all := map[int]*fills{}
	for i := range c.run.Cells {
		cell := &c.run.Cells[i]
		f := all[cell.Context]
		if f == nil {
			f = &fills{}
			all[cell.Context] = f
		}
		key := cell.Key()
		if awaited(cell) {
			continue
		}
		if !c.rows.HasCell(key) {
			f.incomplete = f.incomplete || publishes(cell)
			continue
		}
		rows, err := c.rows.Requests(key)
		f.incomplete = f.incomplete || err != nil
		for _, r := range rows {
			if r.Purpose == "fill" && r.FirstNS != nil && r.WrittenNS != nil {
				f.requests = append(f.requests, r)
			}
		}
	}
	return all
}

// kind is the kind of the launch's TTFT, "" when there is none or the rows cannot tell.
func (c *checker) kind(m *measurement, ttft *speedmatrix.Distribution) speedmatrix.TTFTKind {
	if ttft == nil {
		return ""
	}
	reported, cold, warm := 0, 0, 0
	for _, r := range m.streams {
		if !r.isLaunch() || r.CachedTokens == nil {
			continue
		}
		prompt := float64(m.cell.Context)
		if r.PromptTokens != nil {
			prompt = float64(*r.PromptTokens)
		}
		reported++
		if int(*r.CachedTokens) <= c.coldLimit() {
			cold++
		}
		if float64(*r.CachedTokens) > prompt/2 {
			warm++
		}
	}
	switch {
	case reported == 0:
		return c.kindByTime(m, *ttft.P50)
	case cold == reported:
		return speedmatrix.TTFTCold
	case warm == reported:
		return speedmatrix.TTFTWarm
	}
	return speedmatrix.TTFTMixed
}

// kindByTime judges without cached tokens: by the heads of the row that were filled
// before the launch and how long that took.
func (c *checker) kindByTime(m *measurement, launchMillis float64) speedmatrix.TTFTKind {
	if m.cell.Context == 0 {
		return speedmatrix.TTFTCold
	}
	launched := int64(math.MaxInt64)
	for _, r := range m.streams {
		if r.isLaunch() {
			launched = min(launched, r.PlannedNS)
		}
	}
	known := c.fills[m.cell.Context]
	if known == nil || known.incomplete {
		return ""
	}
	var took []float64
	for _, r := range known.requests {
		if *r.FirstNS <= launched {
			took = append(took, float64(*r.FirstNS-*r.WrittenNS)/1e6)
		}
	}
	switch {
	case len(took) == 0:
		return speedmatrix.TTFTCold
	case launchMillis < *median(took)/2:
		return speedmatrix.TTFTWarm
	}
	return speedmatrix.TTFTUnknown
}
