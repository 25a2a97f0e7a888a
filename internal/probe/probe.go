// Package probe finds out what an LLM server is: its engine, its model, its limits,
// where each of these facts came from, and, by trial requests, how it streams and what
// a request to it may carry. It then reads the server's live figures for a run.
//
// A fact that no endpoint gives stays unknown. A product of two figures that may
// overstate is marked or not made at all, and a scrape that fails is unknown, never zero.
package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/load"
	"speedmatrix/internal/stamp"
)

// Options say which server to look at, and how.
type Options struct {
	// URL may lack the scheme, and may end in /v1 or in a route; "" looks at the usual local ports.
	URL string
	// Model is the served name; "" takes the only one.
	Model string
	// API is the name of a dialect, or "" for chat where the server has it.
	API string
	// Header goes with every request: the API key stands here.
	Header http.Header
	TLS    *tls.Config
	// Dial opens connections; nil is the system's.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Clock *stamp.Clock // nil makes one
	// Shared says that others may use the server: nothing waits for it to be idle.
	Shared bool
	// Stated are facts that the user states; they overrule what the server says.
	Stated Facts
	// Temperature and Extra (the user's --body) go with the trial requests as with all later ones.
	Temperature *float64
	Extra       map[string]any
	// Say, if set, is told what a wait is for, in one sentence.
	Say func(string)
	// Hide takes secrets out of the server's words, which may echo them; nil leaves the words as they are.
	Hide func(text string) string
}

func (o *Options) hidden() func(text string) string {
	if o.Hide == nil {
		return func(text string) string { return text }
	}
	return o.Hide
}

// Facts are what is known of a server, each with its source.
type Facts struct {
	Model, Engine speedmatrix.Facts
}

// Model is one model that a server serves.
type Model struct {
	// Name is the served name, Root what was loaded under it ("" unknown), Owner the list's owned_by.
	Name, Root, Owner string
	// MaxLength is the greatest prompt + output in tokens; 0 unknown.
	MaxLength int
	// Adapter marks a model that is an adapter of another one, Base.
	Adapter bool
	Base    string
}

// Server is a server that was looked at. Its methods may be called from several
// goroutines at once; its fields stay as Look left them.
type Server struct {
	// Base is the URL to which /v1/… is joined: no /v1, no query, no credentials.
	Base    *url.URL
	Kind    Kind
	Dialect dialect.Dialect
	Models  []Model
	Model   Model
	Facts   Facts
	// MaxLength is the model's maximum length, RunningLimit how many requests run at once,
	// KVTokens the KV cache's size in tokens, KVBlockTokens that of one block; 0 is unknown.
	MaxLength, RunningLimit, KVTokens, KVBlockTokens int
	// PrefixCaching is nil when the server does not say.
	PrefixCaching *bool
	// Hosted: reached at a public address. SameMachine: at an address of this machine. EngineHere: the engine works there
	// too, as far as is known; one behind a proxy may be anywhere, unless the proxy tells.
	Hosted, SameMachine, EngineHere bool
	// RoundTrip is the median time of a small GET on an open connection; 0 unknown.
	RoundTrip time.Duration
	Habits    speedmatrix.Habits
	// Params is what a request may carry: the options that the server took in the trials, and the model.
	Params dialect.Params
	// APIs are the completion endpoints that were found, by the names of their dialects; nil is unknown.
	APIs     []string
	Warnings []speedmatrix.Warning

	options Options
	// upstreamHere: the proxy says that the servers behind it are on its own machine.
	upstreamHere bool
	engine       engine
	http         *caller
	load         *load.Client
	metrics      metricNames
	slots        slotCounter
	counter      *tokenCounter
	sent         atomic.Int32 // requests sent by this package: numbers them
	// trialsUntil is when the trials end; zero while there are none.
	trialsUntil time.Time
}
