package probe

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/unit"
)

const (
	// trialLimit bounds one trial: the first may load a model or compile kernels.
	trialLimit = 3 * time.Minute
	// trialsLimit bounds all of them together.
	trialsLimit = 5 * time.Minute
	// trialTokens is what a trial asks for: far more than its one-word answer needs.
	trialTokens = 48
	trialPrompt = "Answer with one word: what is the capital of France?"
	// countPrompt asks for an answer of many events where that word came in too few.
	countPrompt = "Count from 1 to 40 in digits."
	// fewEvents do not tell a count in every event from one at the end.
	fewEvents = 3
)

// option is something that a request may carry and a server may not take.
type option struct {
	// words are names in a refusal that mean this option.
	words []string
	set   func(p *dialect.Params) bool
	put   func(p *dialect.Params, from dialect.Params) // takes its setting over from another
}

// trialOptions, in the order in which they are worth having.
var trialOptions = []option{
	{
		words: []string{"include_usage", "stream_options"},
		set:   func(p *dialect.Params) bool { return p.IncludeUsage },
		put:   func(p *dialect.Params, from dialect.Params) { p.IncludeUsage = from.IncludeUsage },
	},
	{
		words: []string{"continuous_usage_stats", "stream_options"},
		set:   func(p *dialect.Params) bool { return p.ContinuousUsage },
		put:   func(p *dialect.Params, from dialect.Params) { p.ContinuousUsage = from.ContinuousUsage },
	},
	{
		words: []string{"ignore_eos"},
		set:   func(p *dialect.Params) bool { return p.IgnoreEOS },
		put:   func(p *dialect.Params, from dialect.Params) { p.IgnoreEOS = from.IgnoreEOS },
	},
	{
		words: []string{"timings_per_token"},
		set:   func(p *dialect.Params) bool { return p.TimingsPerToken },
		put:   func(p *dialect.Params, from dialect.Params) { p.TimingsPerToken = from.TimingsPerToken },
	},
	{
		words: []string{"temperature"},
		set:   func(p *dialect.Params) bool { return p.Temperature != nil },
		put:   func(p *dialect.Params, from dialect.Params) { p.Temperature = from.Temperature },
	},
}

// try sends the trial requests and sets Params and Habits.
func (s *Server) try(ctx context.Context) error {
	s.trialsUntil = time.Now().Add(trialsLimit)
	defer func() { s.trialsUntil = time.Time{} }()
	log, err := s.negotiate(ctx)
	if err != nil {
		return err
	}
	if log.Class == speedmatrix.RequestFailed || log.FirstNS == 0 {
		s.warn("trial_failed", "a trial request failed: %s", failureOf(log))
		s.Params.IgnoreEOS = s.knowsIgnoreEOS()
		return nil
	}
	if log.Misnamed != "" {
		s.warn("content_type", "the server sends event streams with the content type %q: they are read as what they are", log.Misnamed)
	}
	if err := s.settle(ctx, log); err != nil {
		return err
	}
	if err := s.learn(ctx, log); err != nil {
		return err
	}
	if err := s.checkEOS(ctx, log); err != nil {
		return err
	}
	if s.Habits.FinalUsage {
		s.calibrate(ctx, log)
	}
	s.Habits.KeepsConnections = s.keepsConnections(ctx)
	s.tryReuse(ctx)
	s.tryCut(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.late() {
		s.warn("trials_cut", "the server is so slow that not everything could be tried within %s", trialsLimit)
	}
	return nil
}

// late says whether the time for trials is used up.
func (s *Server) late() bool { return !s.trialsUntil.IsZero() && !time.Now().Before(s.trialsUntil) }

// trialTime is how long the next request may take.
func (s *Server) trialTime() time.Duration {
	if s.trialsUntil.IsZero() {
		return trialLimit
	}
	return max(min(trialLimit, time.Until(s.trialsUntil)), 0)
}

// everything is a trial that asks for all that a server may take.
func (s *Server) everything() dialect.Params {
	return s.Dialect.Accept(dialect.Params{
		Model: s.Model.Name, Prompt: trialPrompt, MaxTokens: trialTokens, Stream: true,
		Temperature: s.options.Temperature, Extra: s.options.Extra,
		IgnoreEOS: true, IncludeUsage: true, ContinuousUsage: true, TimingsPerToken: s.Kind == KindLlamaCpp,
	})
}

// negotiate finds the options that the server takes. Where it has no chat endpoint (or its
// model no template) and the user did not ask for an API, another one is used instead.
func (s *Server) negotiate(ctx context.Context) (*load.Log, error) {
	log, p, err := s.negotiateBy(ctx)
	if err != nil || !s.refusesAPI(log) {
		return s.accepted(log, p, err)
	}
	chat := log
	for _, other := range s.others() {
		s.Dialect, s.load = other, nil
		log, p, err = s.negotiateBy(ctx)
		if err != nil {
			break
		}
		if log.Class != speedmatrix.RequestFailed {
			how := ""
			if !other.Templated() {
				how = ", without a chat template"
			}
			s.warn("chat_unavailable", "the server takes no chat requests (%s): measured through %s%s", failureOf(chat), other.Path(), how)
			return s.accepted(log, p, nil)
		}
	}
	s.Dialect, s.load = dialect.Chat(), nil
	return s.accepted(chat, p, err)
}

// others are the APIs to try where chat is refused. An engine's own is the last resort: what
// it shares with others is measured alike.
func (s *Server) others() []dialect.Dialect {
	list := []dialect.Dialect{dialect.Completions()}
	if s.Kind == KindOllama {
		list = append(list, dialect.Ollama())
	}
	return list
}

// refusesAPI says whether another endpoint may work where this one does not.
func (s *Server) refusesAPI(log *load.Log) bool {
	if s.options.API != "" || log.Failure != load.FailureHTTP {
		return false
	}
	switch log.HTTPStatus {
	case http.StatusNotFound:
		return !namesModel(log.Error)
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity,
		http.StatusInternalServerError, http.StatusNotImplemented:
		return true
	}
	return false
}

func namesModel(words string) bool { return strings.Contains(strings.ToLower(words), "model") }

// accepted keeps what the trial settled, or turns a refusal into the user's error. A
// trial that fails otherwise is no error: the cells are tried all the same.
func (s *Server) accepted(log *load.Log, p dialect.Params, err error) (*load.Log, error) {
	if err != nil {
		return nil, err
	}
	if err := s.refused(log); err != nil {
		return nil, err
	}
	p.Prompt, p.MaxTokens = "", 0
	s.Params = p
	return log, nil
}

func (s *Server) refused(log *load.Log) error {
	switch {
	case log.Failure == load.FailureHTTP && log.HTTPStatus == http.StatusNotFound && namesModel(log.Error):
		return s.unknownModel(s.Model.Name, errors.New(says(log.HTTPStatus, log.Error)))
	case log.Failure == load.FailureHTTP:
		if err := s.refusal(log.HTTPStatus, "POST "+s.Dialect.Path(), log.Error, log.RetryAfter); err != nil {
			return err
		}
		if log.HTTPStatus < 500 {
			next := "Look at what the server's words name; fields of --body are sent too."
			return fail(speedmatrix.KindRefused, next, "the server at %s refuses a plain request (%s)", s.Base, says(log.HTTPStatus, log.Error))
		}
	case log.FirstNS == 0 && log.HTTPStatus == http.StatusOK:
		return nil // it took the request: the cells say what came of theirs
	case log.FirstNS == 0 && (log.Class == speedmatrix.RequestCut || log.Failure == load.FailureTimeout):
		return fail(speedmatrix.KindNoServer, "It may be stuck, or busy with others' requests: its log says.",
			"the server at %s takes requests but sent no token within %s", s.Base, unit.Duration(trialLimit))
	case log.Failure == load.FailureConnect, log.Failure == load.FailureTLS:
		return fail(speedmatrix.KindNoServer, "It answered a moment ago: its log may say what happened.",
			"the server at %s can no longer be reached (%s)", s.Base, log.Error)
	}
	return nil
}

// negotiateBy sends everything, and less each time the server refuses a field: the one
// that its words name, else none of the options, adding them again one by one.
func (s *Server) negotiateBy(ctx context.Context) (*load.Log, dialect.Params, error) {
	p := s.everything()
	for {
		log, err := s.send(ctx, "trial", p)
		if err != nil || !refusesField(log) {
			return log, p, err
		}
		if s.dropNamed(&p, log.Error) {
			continue
		}
		return s.buildUp(ctx, p)
	}
}

func refusesField(log *load.Log) bool {
	return log.Failure == load.FailureHTTP &&
		(log.HTTPStatus == http.StatusBadRequest || log.HTTPStatus == http.StatusUnprocessableEntity)
}

// dropNamed clears the least worthy option that the words name; false when none is left.
func (s *Server) dropNamed(p *dialect.Params, words string) bool {
	for _, o := range slices.Backward(trialOptions) {
		named := slices.ContainsFunc(o.words, func(w string) bool { return strings.Contains(words, w) })
		if named && o.set(p) {
			s.drop(p, o, words)
			return true
		}
	}
	return false
}

func (s *Server) drop(p *dialect.Params, o option, words string) {
	o.put(p, dialect.Params{})
	s.warn("option_refused", "the server does not take %s (%s): it is left out of all requests", o.words[0], words)
}

// buildUp starts without options and keeps each that the server takes.
func (s *Server) buildUp(ctx context.Context, wanted dialect.Params) (*load.Log, dialect.Params, error) {
	p := wanted
	for _, o := range trialOptions {
		o.put(&p, dialect.Params{})
	}
	log, err := s.send(ctx, "trial", p)
	if err != nil || log.Class == speedmatrix.RequestFailed {
		return log, p, err
	}
	for _, o := range trialOptions {
		if !o.set(&wanted) {
			continue
		}
		with := p
		o.put(&with, wanted)
		next, err := s.send(ctx, "trial", with)
		switch {
		case err != nil:
			return nil, p, err
		case next.Class == speedmatrix.RequestFailed:
			s.drop(&wanted, o, failureOf(next))
		default:
			log, p = next, with
		}
	}
	return log, p, nil
}

// send makes one request and waits for a server that says 503. The error is that of a
// server that stays so, or of ctx. Where so few output tokens are refused it asks for the
// fewest that the server takes.
func (s *Server) send(ctx context.Context, purpose string, p dialect.Params) (*load.Log, error) {
	log, err := s.sendOnce(ctx, purpose, p)
	if err == nil && refusesField(log) && s.learnLeast(p.MaxTokens, log.Error) {
		p.MaxTokens = s.Habits.LeastOutputTokens
		return s.sendOnce(ctx, purpose, p)
	}
	return log, err
}

// tooFew is how servers say which limit of output tokens is the least that they take.
var tooFew = regexp.MustCompile(`(?i)max_(?:output_|completion_|new_)?tokens.*?(?:>=|at least|minimum (?:value )?(?:of|is)|greater than or equal to) *(\d+)`)

// learnLeast takes the least limit of output tokens from a refusal of a lower one.
func (s *Server) learnLeast(asked int, words string) bool {
	m := tooFew.FindStringSubmatch(words)
	if m == nil {
		return false
	}
	least, err := strconv.Atoi(m[1])
	if err != nil || least <= asked || least > trialTokens {
		return false
	}
	s.Habits.LeastOutputTokens = least
	return true
}

func (s *Server) sendOnce(ctx context.Context, purpose string, p dialect.Params) (*load.Log, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	body, err := s.Dialect.Body(p)
	if err != nil {
		return nil, failing(speedmatrix.KindUsage, err)("Look at --body.", "the request cannot be made: %v", err)
	}
	var log *load.Log
	err = s.untilReady(ctx, func() (busy bool, words string, err error) {
		limited, cancel := context.WithTimeout(ctx, s.trialTime())
		defer cancel()
		log = client.Do(limited, load.Request{ID: s.sent.Add(1), Purpose: purpose, Body: body, PlannedNS: s.options.Clock.Now()})
		if ctx.Err() != nil {
			return false, "", context.Cause(ctx)
		}
		return log.Failure == load.FailureHTTP && log.HTTPStatus == http.StatusServiceUnavailable, log.Error, nil
	})
	return log, err
}

// failureOf says in few words why a request failed, the server's first.
func failureOf(log *load.Log) string {
	switch {
	case log.Failure == load.FailureHTTP:
		return says(log.HTTPStatus, log.Error)
	case log.Error != "":
		return string(log.Failure) + ": " + log.Error
	case log.Failure == load.FailureEmpty:
		return "an answer without a token"
	case log.FirstNS == 0:
		return "no token within " + unit.Duration(trialLimit)
	}
	return string(log.Failure)
}
