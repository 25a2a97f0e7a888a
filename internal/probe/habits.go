package probe

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stats"
)

// longerPrompt is about 12 times as long as trialPrompt: what stays the same in both is
// the template, what grows is the text.
func longerPrompt() string {
	return strings.Repeat("The harbour was quiet in the morning, and the boats lay side by side. ", 9) + "Say yes."
}

// learn reads the habits off a request that went well, and off a longer answer where
// its own was too short to tell.
func (s *Server) learn(ctx context.Context, log *load.Log) error {
	if texts, _ := countEvents(log); texts < fewEvents {
		longer, err := s.send(ctx, "trial", s.request(countPrompt, trialTokens))
		if err != nil {
			return err
		}
		if longer.Class == speedmatrix.RequestCompleted {
			log = longer
		}
		if err := s.settle(ctx, longer); err != nil {
			return err
		}
	}
	texts, counted := countEvents(log)
	h := &s.Habits
	h.UsageEveryEvent = texts > 1 && counted == texts || texts > fewEvents && counted >= texts-1
	h.FinalUsage = log.Usage.Completion >= 0
	h.CachedTokens = log.Usage.Cached >= 0
	h.TokensPerEvent = log.TokensPerEvent()
	// Asked for in vain, these options only cost bytes.
	if !h.UsageEveryEvent {
		s.Params.ContinuousUsage, s.Params.TimingsPerToken = false, false
	}
	return nil
}

// countEvents gives the events with text, and those of them that carry a cumulative count. Counts that rise with fewer
// than half of the texts are none.
func countEvents(log *load.Log) (texts, counted int) {
	most, rose := 0, 0
	for e := range log.Events() {
		rises := e.Tokens > most
		most = max(most, e.Tokens)
		if e.Length == 0 || e.Continued {
			continue
		}
		texts++
		if e.Tokens >= 0 {
			counted++
		}
		if rises {
			rose++
		}
	}
	if 2*rose < counted {
		return texts, 0
	}
	return texts, counted
}

// knowsIgnoreEOS: these engines take the option, whatever a trial looks like.
func (s *Server) knowsIgnoreEOS() bool {
	return s.Params.IgnoreEOS && s.engine.ignoresEOS
}

// checkEOS says whether the server generates on where the model would end: a one-word
// answer that went on to the limit. Engines that are known to have the option need no
// more; others may have a model that is never done, so they are asked without it too.
func (s *Server) checkEOS(ctx context.Context, log *load.Log) error {
	if !s.Params.IgnoreEOS {
		return nil
	}
	if log.Class != speedmatrix.RequestCompleted || !reachedLimit(log) {
		s.Params.IgnoreEOS = log.Class != speedmatrix.RequestCompleted && s.knowsIgnoreEOS()
		return nil
	}
	if s.knowsIgnoreEOS() {
		s.Habits.IgnoresEOS = true
		return nil
	}
	p := s.request(trialPrompt, trialTokens)
	p.IgnoreEOS = false
	without, err := s.send(ctx, "trial", p)
	if err != nil {
		return err
	}
	s.Habits.IgnoresEOS = without.Class == speedmatrix.RequestCompleted && !reachedLimit(without)
	return s.settle(ctx, without)
}

func reachedLimit(log *load.Log) bool {
	return log.FinishReason == "length" && (log.Usage.Completion < 0 || log.Usage.Completion >= trialTokens)
}

// request is one with the options that the server takes.
func (s *Server) request(prompt string, maxTokens int) dialect.Params {
	p := s.Params
	p.Prompt, p.MaxTokens = prompt, max(maxTokens, s.Habits.LeastOutputTokens)
	return p
}

func (s *Server) client() (*load.Client, error) {
	if s.load == nil {
		client, err := newLoad(s)
		if err != nil {
			return nil, err
		}
		s.load = client
	}
	return s.load, nil
}

// settle waits, after a request that we had to cut, until the server runs nothing any
// more: 10 s at most, and not at all on a server that others use too.
func (s *Server) settle(ctx context.Context, log *load.Log) error {
	if log.Class != speedmatrix.RequestCut || s.options.Shared {
		return nil
	}
	for range 20 {
		if running, waiting, known := s.Busy(ctx); !known || running+waiting == 0 {
			return nil
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// calibrate compares the server's tokenizer with its own count of two prompts, and finds
// what the template adds.
func (s *Server) calibrate(ctx context.Context, short *load.Log) {
	long, err := s.send(ctx, "trial", s.request(longerPrompt(), 1))
	if err != nil || long.Usage.Prompt <= 0 || short.Usage.Prompt <= 0 {
		return
	}
	h := &s.Habits
	if text := long.Usage.Prompt - short.Usage.Prompt; text > 0 {
		h.CharsPerToken = float64(len(longerPrompt())-len(trialPrompt)) / float64(text)
	}
	s.findTokenizer(ctx, short.Usage.Prompt, long.Usage.Prompt)
	s.measureTemplate(ctx, short.Usage.Prompt)
}

// measureTemplate: the prompt's tokens beyond those of its text, by the tokenizer, else
// by a prompt of a single letter.
func (s *Server) measureTemplate(ctx context.Context, prompted int) {
	if s.Habits.Tokenizer {
		if n, err := s.CountText(ctx, trialPrompt); err == nil {
			s.Habits.TemplateTokens = max(prompted-n, 0)
			return
		}
	}
	if letter, err := s.send(ctx, "trial", s.request("a", 1)); err == nil && letter.Usage.Prompt > 0 {
		s.Habits.TemplateTokens = letter.Usage.Prompt - 1
	}
}

// Ping times a request for one token: from its last byte written to the first text, or
// to the end of an answer whose one token has none (a marker of reasoning). Two requests
// never have the same prompt. The error is the server's refusal or failure in its words.
func (s *Server) Ping(ctx context.Context) (ttft time.Duration, err error) {
	ttft, _, err = s.TimePrompt(ctx, fmt.Sprintf("%d: say yes.", s.sent.Load()+1))
	return ttft, err
}

// TimePrompt times a request for one token as Ping does, for a prompt of any length; tokens
// is the prompt's as the server counted them, 0 if it does not say.
func (s *Server) TimePrompt(ctx context.Context, prompt string) (ttft time.Duration, tokens int, err error) {
	log, err := s.send(ctx, "ping", s.request(prompt, 1))
	if err != nil {
		return 0, 0, err
	}
	if err := s.refused(log); err != nil {
		return 0, 0, err
	}
	came := log.FirstNS
	if came == 0 {
		came = log.EndedNS
	}
	if log.Class == speedmatrix.RequestFailed && log.Failure != load.FailureEmpty || came == 0 || log.WrittenNS == 0 {
		return 0, 0, fail(speedmatrix.KindNoServer, "Look at the server's log.", "a request for one token to %s failed (%s)", s.Base, failureOf(log))
	}
	return time.Duration(came - log.WrittenNS), max(log.Usage.Prompt, 0), nil
}

// keepsConnections says whether a connection serves again after a streamed answer. Some
// servers close it although they promised to keep it; the GET then goes out again on a
// new one, which is what tells. The answer is read for what it tells of the engine too.
func (s *Server) keepsConnections(ctx context.Context) bool {
	body, err := s.Dialect.Body(s.request("Say yes.", 1))
	if err != nil || s.late() {
		return false
	}
	c := newCaller(s.options, s.Base)
	defer c.close()
	streamed, err := c.do(ctx, call{route: s.Dialect.Path(), body: rawJSON(body), limit: s.trialTime()})
	if err == nil && streamed.status == http.StatusBadRequest && s.learnLeast(1, string(streamed.body)) {
		return s.keepsConnections(ctx)
	}
	if err != nil || streamed.status != 200 {
		return false
	}
	s.readTraces(streamed)
	again, err := c.get(ctx, "/v1/models")
	return err == nil && again.reused
}

// rawJSON is a body that is JSON already.
type rawJSON []byte

// MarshalJSON gives the bytes as they are.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// medianTime is the median of times in nanoseconds; 0 without any.
func medianTime(times []float64) time.Duration {
	if m := stats.Median(times); !math.IsNaN(m) {
		return time.Duration(m)
	}
	return 0
}
