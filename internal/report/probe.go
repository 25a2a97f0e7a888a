package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// ProbeView is what the screen of a server shows that was looked at and not measured.
type ProbeView struct {
	// Title names the server; Found says how it was found ("found on port 8000").
	Title, Found string
	Model        speedmatrix.Facts
	Engine       speedmatrix.Facts
	Server       speedmatrix.Server
	// Hosted says that it is reached at a public address.
	Hosted   bool
	Warnings []speedmatrix.Warning
	// Unknown are the keys of facts that would matter and that nothing tells: "engine.kv_dtype".
	Unknown []string
	// Plan holds the cells and the estimates; of the rest nothing is shown.
	Plan PlanView
	// ExpectedFrom says what the expected time was made from.
	ExpectedFrom string
}

// probeLabels are the lines of the screen, in its order; the key is that of model or engine.
var probeLabels = []struct {
	section, key, name string
}{
	{"engine", speedmatrix.EngineProxy, "Proxy"},
	{"engine", speedmatrix.EngineProxyVersion, "Proxy version"},
	{"engine", speedmatrix.EngineProxyUpstream, "Behind it"},
	{"engine", speedmatrix.EngineName, "Engine"},
	{"engine", speedmatrix.EngineVersion, "Version"},
	{"engine", speedmatrix.EngineService, "Service"},
	{"engine", speedmatrix.EngineSimulated, "Simulation of"},
	{"engine", speedmatrix.EngineClockSpeed, "Clock speed"},
	{"model", speedmatrix.ModelName, "Model"},
	{"model", speedmatrix.ModelServedName, "Served as"},
	{"model", speedmatrix.ModelBase, "Base model"},
	{"model", speedmatrix.ModelRevision, "Revision"},
	{"model", speedmatrix.ModelArchitecture, "Architecture"},
	{"model", speedmatrix.ModelParameters, "Parameters"},
	{"model", speedmatrix.ModelFormat, "Format"},
	{"model", speedmatrix.ModelQuantization, "Quantization"},
	{"model", speedmatrix.ModelDType, "Type of weights"},
	{"model", speedmatrix.ModelMaxLength, "Length"},
	{"model", speedmatrix.ModelMaxPrompt, "Longest prompt"},
	{"model", speedmatrix.ModelTrainedLength, "Trained length"},
	{"engine", speedmatrix.EngineKVTokens, "KV cache tokens"},
	{"engine", speedmatrix.EngineKVBlocks, "KV blocks"},
	{"engine", speedmatrix.EngineKVBlockTokens, "Tokens per block"},
	{"engine", speedmatrix.EngineKVType, "KV cache type"},
	{"engine", speedmatrix.EngineContextPerSeq, "Per request"},
	{"engine", speedmatrix.EngineRunningLimit, "At once"},
	{"engine", speedmatrix.EngineQueueLimit, "Queue limit"},
	{"engine", speedmatrix.EngineRateLimit, "Rate limit"},
	{"engine", speedmatrix.EnginePrefixCaching, "Prefix caching"},
	{"engine", speedmatrix.EngineSpeculative, "Speculative"},
	{"engine", speedmatrix.EngineStepTokens, "Tokens per step"},
	{"engine", speedmatrix.EngineChunkedPrefill, "Chunked prefill"},
	{"engine", speedmatrix.EngineSchedulingPolicy, "Scheduling"},
	{"engine", speedmatrix.EngineAsyncScheduling, "Async scheduling"},
	{"engine", speedmatrix.EngineStreamInterval, "Stream interval"},
	{"engine", speedmatrix.EngineAttention, "Attention"},
	{"engine", speedmatrix.EngineTensorParallel, "Tensor parallel"},
	{"engine", speedmatrix.EnginePipelineParallel, "Pipeline parallel"},
	{"engine", speedmatrix.EngineDataParallel, "Data parallel"},
	{"engine", speedmatrix.EngineExpertParallel, "Expert parallel"},
	{"engine", speedmatrix.EngineAPIs, "APIs"},
	{"engine", speedmatrix.EngineMetrics, "Tells us"},
	{"engine", speedmatrix.EngineTokenizer, "Tokenizer"},
	{"engine", speedmatrix.EngineAbort, "Abort"},
	{"engine", speedmatrix.EngineAbortRoute, "Abort by id"},
	{"engine", speedmatrix.EngineDrain, "Drained when"},
	{"engine", speedmatrix.EngineCacheReset, "Cache reset"},
}

// probeLine is a line of the screen before it is laid out.
type probeLine struct {
	label, value, source string
	style                style
}

// Probe writes what a server is, each fact with its source, what is not known, and the
// plan with the reason of each cell that would not run. It fails only if w does.
func Probe(w io.Writer, v ProbeView) error {
	s := newScreen(w, v.Plan.Terminal)
	where := joinFacts(", ", Clean(v.Server.URL), Clean(v.Found))
	s.line(piece{Clean(v.Title), heading}, piece{" at " + where, plain})
	s.line()
	lines := append(v.factLines(), v.habitLines()...)
	if unknown := v.unknownText(); unknown != "" {
		lines = append(lines, probeLine{"Not known", unknown, "", amber})
	}
	s.columns(lines)
	if len(v.Warnings) > 0 {
		s.line()
		for _, w := range v.Warnings {
			s.entry(piece{"Warning", amber}, planIndent, piece{Clean(w.Message), plain})
		}
	}
	s.line()
	s.entry(piece{"Plan", faint}, planIndent, piece{planSummary(v.Plan), plain})
	if v.ExpectedFrom != "" {
		s.entry(piece{"", faint}, planIndent, piece{Clean(v.ExpectedFrom), faint})
	}
	s.planMatrix(v.Plan)
	s.planMarks(v.Plan)
	for _, c := range v.Plan.Cells {
		if c.Verdict == PlanRefused {
			s.entry(piece{"  – " + planCellName(c), faint}, 22, piece{string(c.Status) + ": " + Clean(c.Reason), plain})
		}
	}
	return s.flush()
}

// factLines are the facts in the order of the labels, then those without one.
func (v *ProbeView) factLines() (lines []probeLine) {
	shown := map[string]bool{}
	for _, l := range probeLabels {
		facts := v.Engine
		if l.section == "model" {
			facts = v.Model
		}
		fact, ok := facts[l.key]
		shown[l.section+"."+l.key] = true
		if ok && l.key == speedmatrix.ModelServedName && l.section == "model" && factValue(fact.Value) == text(v.Model, speedmatrix.ModelName) {
			continue
		}
		if ok {
			lines = append(lines, factLine(l.name, fact)...)
		}
	}
	for _, section := range []struct {
		name   string
		facts  speedmatrix.Facts
		labels []label
	}{{"model", v.Model, modelLabels}, {"engine", v.Engine, engineLabels}} {
		for _, key := range slices.Sorted(maps.Keys(section.facts)) {
			if !shown[section.name+"."+key] && key != speedmatrix.EngineRepository {
				lines = append(lines, factLine(nameOf(section.labels, key), section.facts[key])...)
			}
		}
	}
	return lines
}

// nameOf is the label of a key, or the key itself.
func nameOf(labels []label, key string) string {
	if i := slices.IndexFunc(labels, func(l label) bool { return l.key == key }); i >= 0 {
		return labels[i].name
	}
	return clip(Clean(key), 20)
}

// factLine is a fact, and below it what other sources say against it.
func factLine(name string, f speedmatrix.Fact) []probeLine {
	source := Clean(f.Source)
	if f.Source == speedmatrix.SourceUser {
		source = "stated"
	}
	lines := []probeLine{{name, factValue(f.Value), source, plain}}
	for _, other := range f.Others {
		lines = append(lines, probeLine{"", "but " + factValue(other.Value), Clean(other.Source), amber})
	}
	return lines
}

// habitLines is how the server streams.
func (v *ProbeView) habitLines() []probeLine {
	h := v.Server.Habits
	usage := "none: tokens are counted another way"
	switch {
	case h.UsageEveryEvent:
		usage = "after every token"
	case h.FinalUsage:
		usage = "at the end"
	}
	if h.CachedTokens {
		usage += ", cached tokens too"
	}
	lines := []probeLine{
		{"Measured by", v.Server.API, "tried", plain},
		{"Usage", usage, "tried", plain},
		{"Ends of text", map[bool]string{true: "ignored when asked", false: "not ignored: answers may end early"}[h.IgnoresEOS], "tried", plain},
		{"Connections", map[bool]string{true: "kept after an answer", false: "closed after an answer"}[h.KeepsConnections], "tried", plain},
	}
	if h.TokensPerEvent > 0 {
		lines = append(lines, probeLine{"Tokens per event", plainNumber(float64(int(h.TokensPerEvent*100+0.5)) / 100), "tried", plain})
	}
	if h.LeastOutputTokens > 1 {
		lines = append(lines, probeLine{"Least output", plural(h.LeastOutputTokens, "token"), "a refusal of fewer", plain})
	}
	if h.TemplateTokens > 0 {
		lines = append(lines, probeLine{"Template", plural(h.TemplateTokens, "token"), "tried", plain})
	}
	place := "another machine"
	switch {
	case v.Server.SameMachine:
		place = "this machine"
	case v.Hosted:
		place = "a public address"
	}
	if rtt := v.Server.RoundTripMillis; rtt != nil {
		place += ", " + unit.Fine(time.Duration(*rtt*1e6)) + " there and back"
	}
	return append(lines, probeLine{"Place", place, "measured", plain})
}

func (v *ProbeView) unknownText() string {
	var names []string
	for _, key := range v.Unknown {
		name := key
		for _, l := range probeLabels {
			if l.section+"."+l.key == key {
				name = fmt.Sprintf("%s (--state %s=…)", strings.ToLower(l.name[:1])+l.name[1:], key)
			}
		}
		names = append(names, strings.Replace(name, "kV", "KV", 1))
	}
	return strings.Join(names, "; ")
}

// columns writes lines with their values and their sources beneath each other.
func (s *screen) columns(lines []probeLine) {
	labels, values, sources := 0, 0, 0
	for _, l := range lines {
		labels = max(labels, displayWidth(l.label))
		if l.source != "" {
			values, sources = max(values, displayWidth(l.value)), max(sources, displayWidth(l.source))
		}
	}
	labels += 2
	room := s.width - labels - 2
	sources = min(sources, max(room/2-6, room-values))
	values = min(values, room-sources)
	for _, l := range lines {
		width := values
		if l.source == "" {
			width = room + 2
		}
		left, right := wrap(l.value, width), wrap(l.source, sources)
		for i := range max(len(left), len(right)) {
			row := []piece{{strings.Repeat(" ", labels), plain}}
			if i == 0 {
				row[0] = piece{padRight(l.label, labels), faint}
			}
			if i < len(left) {
				row = append(row, piece{padRight(left[i], values+2), l.style})
			} else {
				row = append(row, piece{strings.Repeat(" ", values+2), plain})
			}
			if i < len(right) {
				row = append(row, piece{right[i], faint})
			}
			s.line(row...)
		}
	}
}
