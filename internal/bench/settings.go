package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/unit"
)

// Max stands for the largest context that the model takes, in Settings.Contexts.
const Max = -1

// Settings are what the user may choose for a run. The zero value of a field means the default.
type Settings struct {
	// Contexts in tokens; Max is the server's largest. Nil adapts to the server.
	Contexts []int
	// Concurrency lists the numbers of simultaneous requests. Nil adapts to the server.
	Concurrency []int
	// Prefill lists the prefill sizes in tokens; NoPrefill leaves them out. Nil is 8K and the contexts.
	Prefill   []int
	NoPrefill bool
	Duration  time.Duration
	MaxOutput int
	MaxTime   time.Duration
	Precision float64
	Repeat    int
	Prompts   prompt.Mode
	// Temperature is a number as text, or "server".
	Temperature  string
	Body         map[string]any
	KVPlan       string
	Method       string
	Quick        bool
	SharedServer bool
	Salt         string
}

// The defaults of the method, and its fixed numbers.
const (
	DefaultDuration  = 30 * time.Second
	QuickDuration    = 5 * time.Second
	minWindow        = 5 * time.Second
	DefaultMaxOutput = 8192
	windowTokens     = 1024
	minTokens        = 64
	maxExtension     = 4
	// MinOutputRoom is the room for output that a decode cell needs below the model's length, in tokens.
	MinOutputRoom = 512
	// shortPromptTokens is the most that the prompt of context 0 may take.
	shortPromptTokens = 64
	maxContext        = 100_000_000
	maxConcurrency    = 16_384
)

// The capacity plans.
const (
	KVObserve = "observe"
	KVReserve = "reserve"
)

func usage(what, next string) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: what, Next: next}
}

// Complete fills in the defaults that do not depend on the server and refuses what cannot be measured.
func (s Settings) Complete() (Settings, error) {
	s.setDefaults()
	if err := s.checkMethod(); err != nil {
		return s, err
	}
	if err := checkList("context", s.Contexts, Max, maxContext); err != nil {
		return s, err
	}
	if err := checkList("concurrency", s.Concurrency, 1, maxConcurrency); err != nil {
		return s, err
	}
	if err := checkList("prefill size", s.Prefill, 1, maxContext); err != nil {
		return s, err
	}
	slices.Sort(s.Concurrency)
	slices.Sort(s.Prefill)
	return s, s.checkNumbers()
}

func (s *Settings) setDefaults() {
	if s.Method == "" {
		s.Method = speedmatrix.MethodStandard
	}
	if s.Quick && s.Method == speedmatrix.MethodStandard {
		s.Method = speedmatrix.MethodQuick
	}
	compat := s.Method == speedmatrix.MethodCompat
	if s.Duration == 0 {
		s.Duration = DefaultDuration
		if s.Method == speedmatrix.MethodQuick {
			s.Duration = QuickDuration
		}
	}
	if s.MaxOutput == 0 {
		s.MaxOutput = DefaultMaxOutput
	}
	if s.Repeat == 0 {
		s.Repeat = 1
	}
	if s.Prompts == "" {
		s.Prompts = prompt.ModeDistinct
		if compat {
			s.Prompts = prompt.ModeShared
		}
	}
	if s.Temperature == "" {
		s.Temperature = "0.8"
		if compat {
			s.Temperature = "server"
		}
	}
	if s.KVPlan == "" {
		s.KVPlan = KVObserve
		if compat {
			s.KVPlan = KVReserve
		}
	}
}

func (s *Settings) checkMethod() error {
	methods := []string{speedmatrix.MethodStandard, speedmatrix.MethodQuick, speedmatrix.MethodCompat}
	if !slices.Contains(methods, s.Method) {
		return usage(fmt.Sprintf("there is no method %q", s.Method), "The methods: "+strings.Join(methods, ", ")+".")
	}
	if !slices.Contains([]prompt.Mode{prompt.ModeDistinct, prompt.ModeShared, prompt.ModeSharedPrefix}, s.Prompts) {
		return usage(fmt.Sprintf("--prompts cannot be %q", s.Prompts), "It is distinct, shared or shared-prefix.")
	}
	if s.KVPlan != KVObserve && s.KVPlan != KVReserve {
		return usage(fmt.Sprintf("--kv-plan cannot be %q", s.KVPlan), "It is observe or reserve.")
	}
	if s.Method == speedmatrix.MethodQuick && s.Duration != QuickDuration {
		return usage(fmt.Sprintf("--quick measures each cell for %s; --duration %s does not go with it", unit.Duration(QuickDuration), unit.Duration(s.Duration)), "Leave one of the two out.")
	}
	if s.Method != speedmatrix.MethodQuick && s.Duration < minWindow {
		return usage(fmt.Sprintf("--duration %s is too short to be compared with other runs", s.Duration), "Take 5s or more, or --quick, which measures each cell for 5 s and says so.")
	}
	return nil
}

// checkList refuses values out of range and values that come twice, naming them.
func checkList(what string, values []int, least, most int) error {
	seen := map[int]bool{}
	for _, v := range values {
		if v < least || v > most {
			return usage(fmt.Sprintf("a %s of %d cannot be measured", what, v), fmt.Sprintf("It is a whole number from %d to %s.", max(least, 0), unit.Count(most)))
		}
		if seen[v] {
			name := unit.FormatTokens(v)
			if v == Max {
				name = "max"
			}
			return usage(fmt.Sprintf("the %s %s is given twice", what, name), "Give each once.")
		}
		seen[v] = true
	}
	return nil
}

func (s *Settings) checkNumbers() error {
	switch {
	case s.Duration > time.Hour:
		return usage(fmt.Sprintf("--duration %s is longer than an hour", unit.Duration(s.Duration)), "A window of 30s is the default.")
	case s.MaxOutput < minTokens || s.MaxOutput > maxContext:
		return usage(fmt.Sprintf("--max-output %d cannot be measured", s.MaxOutput), "It is at least 64 tokens.")
	case s.MaxTime < 0:
		return usage(fmt.Sprintf("--max-time %s is negative", unit.Duration(s.MaxTime)), "")
	case s.Precision < 0 || s.Precision >= 0.5:
		return usage(fmt.Sprintf("--precision %g is out of range", s.Precision), "Give a share such as 0.01 or 1%, below 50%.")
	case s.Repeat < 1 || s.Repeat > 100:
		return usage(fmt.Sprintf("--repeat %d is out of range", s.Repeat), "It is from 1 to 100.")
	}
	if s.Temperature != "server" {
		var t float64
		if _, err := fmt.Sscanf(s.Temperature, "%g", &t); err != nil || t < 0 || t > 10 {
			return usage(fmt.Sprintf("--temperature cannot be %q", s.Temperature), `Give a number such as 0.8, or "server" to leave it to the server.`)
		}
	}
	return nil
}

// windowRules gives the method's window.
func (s *Settings) windowRules() WindowRules {
	if s.Method == speedmatrix.MethodCompat {
		return WindowRules{Duration: s.Duration, Min: s.Duration, MaxExtension: 1}
	}
	return WindowRules{Duration: s.Duration, Min: minWindow, Tokens: windowTokens, MinTokens: minTokens,
		MaxExtension: maxExtension, Precision: s.Precision}
}

// MethodRecord is the method as the run document keeps it.
func (s *Settings) MethodRecord(api string) speedmatrix.Method {
	w := s.windowRules()
	return speedmatrix.Method{
		Name: s.Method, DurationSeconds: s.Duration.Seconds(), MinWindowSeconds: w.Min.Seconds(), WindowTokens: w.Tokens,
		MinTokens: w.MinTokens, MaxExtension: w.MaxExtension, Precision: s.Precision, MaxOutput: s.MaxOutput,
		Prompts: string(s.Prompts), Salt: s.Salt, Temperature: s.Temperature, Body: s.Body, KVPlan: s.KVPlan,
		API: api, SharedServer: s.SharedServer, Repeat: s.Repeat,
	}
}
