package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/unit"
)

// launchTimeout is how long a server may take to be ready, unless the user says otherwise: large models load for
// minutes.
const launchTimeout = 20 * time.Minute

// parseLaunch reads the command of --launch, and learns from it what the user did not say: where the server will
// listen, and its key.
func (r *runner) parseLaunch() (err error) {
	if r.o.launch == "" {
		return nil
	}
	if r.command, err = launch.Parse(r.o.launch, r.env.variable); err != nil {
		return err
	}
	if r.url != "" && (!r.resumed || r.urlGiven) {
		return nil
	}
	address, ok := r.command.Address()
	if !ok && r.url == "" {
		if err := r.command.Find(); err != nil {
			return err
		}
		return usage("the command does not say where its server will listen", "Give the URL: speedmatrix run http://127.0.0.1:PORT --launch '…'")
	}
	r.url = cmp.Or(address, r.url)
	return nil
}

// variable is Getenv that also knows the home folder.
func (e *Env) variable(name string) string {
	if value := e.Getenv(name); value != "" || name != "HOME" {
		return value
	}
	return e.Home
}

// startServer starts the server that is to be measured, if it is to be started, and waits until it is ready.
func (r *runner) startServer(ctx context.Context) error {
	if err := r.agreeToLaunch(ctx); err != nil || r.command == nil {
		return err
	}
	ready, err := r.readiness()
	if err != nil {
		return err
	}
	if r.taken(ctx) {
		return usage("something listens at "+r.url+" already, so the command cannot start a server there",
			"Stop it, or give the command another --port; without --launch the one that runs is measured.")
	}
	view := newStartView(r.show, r.o.launchTimeout)
	r.makeLog(view.line)
	view.begin(r.redact.Text(r.command.Text))
	var environ []string
	if r.env.Environ != nil {
		environ = r.env.Environ()
	}
	server, err := launch.Start(launch.Options{Command: r.command, Environ: environ, Log: r.log, Starter: r.env.Start})
	if err != nil {
		return err
	}
	r.setLaunched(server)
	err = server.Await(ctx, r.o.launchTimeout, func(ctx context.Context) bool {
		view.tick()
		return ready(ctx)
	})
	view.end(server.ReadyAfter())
	if err != nil {
		r.stopServer()
	}
	return err
}

// taken says whether something listens where the server is to listen.
func (r *runner) taken(ctx context.Context) bool {
	u, err := r.address()
	if err != nil {
		return false
	}
	dial := r.env.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// address is the server's URL, which may lack its scheme.
func (r *runner) address() (*url.URL, error) {
	text := r.url
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, usage("not a server's URL: "+r.url, "A URL looks like http://127.0.0.1:8000.")
	}
	return u, nil
}

// makeLog begins the log, after that of the run's earlier part.
func (r *runner) makeLog(told func(line string)) {
	r.log = launch.NewLog(r.redact.Lines(), told)
	keeper, ok := r.out.store.(logs)
	if !ok || !r.resumed {
		return
	}
	if earlier, err := keeper.Log(); err == nil && len(earlier) > 0 {
		quiet := launch.NewLog(r.redact.Lines(), nil)
		_, _ = quiet.Write(earlier)
		_, _ = fmt.Fprintf(quiet, "――― started again at %s ―――\n", time.Now().UTC().Format(time.RFC3339))
		r.log = quiet.Telling(told)
	}
}

// agreeToLaunch asks before a command from a run's document is started: whoever wrote the document chose it.
func (r *runner) agreeToLaunch(ctx context.Context) error {
	if r.command != nil || !r.resumed || r.doc.LaunchCommand == nil {
		return nil
	}
	if launched, _ := r.doc.Engine.Bool(speedmatrix.EngineLaunched); !launched {
		return nil
	}
	ready, err := r.readiness()
	if err != nil || ready(ctx) {
		return err
	}
	text := fmt.Sprint(r.doc.LaunchCommand.Value)
	hint := "speedmatrix run --resume " + r.o.resume + " --launch " + launch.Quote([]string{text})
	if redact.Marked(text) {
		return usage("the run's server does not answer, and its command holds a secret that was not kept", "Start it as it was: "+hint)
	}
	if !r.o.yes {
		if !r.env.StdinTerminal {
			return usage("the run's server does not answer; this run had started it with: "+text, "Start it again with --yes, or with: "+hint)
		}
		if err := r.confirm(ctx, fmt.Sprintf("Start the server again with: %s? [y/N] ", text)); err != nil {
			return err
		}
	}
	r.command, err = launch.Parse(text, r.env.variable)
	return err
}

// readiness gives the function that asks a starting server whether it is ready: whether it answers with anything but a
// server's error.
func (r *runner) readiness() (func(ctx context.Context) bool, error) {
	u, err := r.address()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := r.o.tls()
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: r.env.Dial, TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	u = u.JoinPath("/v1/models")
	u.Path = strings.Replace(u.Path, "/v1/v1/", "/v1/", 1)
	return func(ctx context.Context) bool {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return false
		}
		q.Header = r.header.Clone()
		answer, err := client.Do(q)
		if _, certificate := errors.AsType[*tls.CertificateVerificationError](err); certificate {
			return true // it is there: the probe says what is wrong with it
		}
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode < http.StatusInternalServerError
	}, nil
}

// stopServer stops the server that the run started, and writes the rest of its log. It may be called again.
func (r *runner) stopServer() {
	server := r.launchedServer()
	if server == nil {
		return
	}
	begun := time.Now()
	alive := !server.Ended()
	server.Stop()
	if alive {
		r.show.say(fmt.Sprintf("The server has stopped, within %s.", unit.Duration(time.Since(begun).Truncate(time.Second)+time.Second)))
	}
	r.setLaunched(nil)
	if r.out.path() != "" {
		if err := r.store().saveLog(); err != nil {
			r.show.say("Warning: engine.log: " + err.Error())
		}
	}
}

// setLaunched and launchedServer hand the server over to the end at once, which comes from another goroutine.
func (r *runner) setLaunched(s *launch.Server) { r.launched.Store(s) }

func (r *runner) launchedServer() *launch.Server { return r.launched.Load() }

// readProcess takes into the server's facts what its command line and log say: of the process that was started, or of
// the one that listens at its address on this machine.
func (r *runner) readProcess(ctx context.Context) {
	if server := r.launchedServer(); server != nil {
		r.readLaunched(server)
	} else if r.server.SameMachine && r.env.Listening != nil {
		r.readListening(ctx)
	}
	s := r.server
	fill := func(into *int, facts speedmatrix.Facts, key string) {
		if n, ok := facts.Int(key); ok && *into == 0 {
			*into = n
		}
	}
	fill(&s.MaxLength, s.Facts.Model, speedmatrix.ModelMaxLength)
	fill(&s.RunningLimit, s.Facts.Engine, speedmatrix.EngineRunningLimit)
	fill(&s.KVTokens, s.Facts.Engine, speedmatrix.EngineKVTokens)
	fill(&s.KVBlockTokens, s.Facts.Engine, speedmatrix.EngineKVBlockTokens)
	if on, ok := s.Facts.Engine.Bool(speedmatrix.EnginePrefixCaching); ok && s.PrefixCaching == nil {
		s.PrefixCaching = &on
	}
}

func (r *runner) readLaunched(server *launch.Server) {
	engine := r.server.Facts.Engine
	engine.Set(speedmatrix.EngineLaunched, true, launch.Source)
	engine.Set(speedmatrix.EngineReadySeconds, math.Round(server.ReadyAfter().Seconds()*1000)/1000, launch.Source)
	r.takeCommand(r.command, r.command.Text)
	env := slices.Clone(r.command.Env)
	if r.env.Environ != nil {
		env = append(r.env.Environ(), env...)
	}
	r.takeEnvironment(env)
	r.takeFacts(nil, launch.ReadLog(r.log.Lines()))
}

func (r *runner) readListening(ctx context.Context) {
	port, err := strconv.Atoi(r.server.Base.Port())
	if err != nil {
		return
	}
	p := r.env.Listening(ctx, port)
	if p == nil {
		return
	}
	if p.Elsewhere && r.server.Facts.Engine.Text(speedmatrix.EngineProxy) == "" {
		r.server.EngineHere = false // a tunnel that no answer tells of
	}
	command := p.Command()
	if command == nil {
		return
	}
	r.takeCommand(command, command.Text)
	r.takeEnvironment(p.Env)
	if version := p.Version(); version != "" {
		r.server.Facts.Engine.Set(speedmatrix.EngineVersion, version, launch.Source)
	}
	r.takeFacts(nil, p.LogFacts())
}

// takeCommand records the command, and what it says where it is that of the engine that answers.
func (r *runner) takeCommand(command *launch.Command, text string) {
	r.launchCommand = &speedmatrix.Fact{Value: text, Source: launch.Source}
	if name := command.EngineName(); name == "" || name == string(r.server.Kind) {
		r.takeFacts(command.Facts())
	}
}

func (r *runner) takeFacts(model, engine speedmatrix.Facts) {
	for key, f := range model {
		// A file's name adds nothing to the name that the server gives.
		if _, known := r.server.Facts.Model[key]; key == speedmatrix.ModelName && known {
			continue
		}
		r.server.Facts.Model.Set(key, f.Value, f.Source)
	}
	for key, f := range engine {
		r.server.Facts.Engine.Set(key, f.Value, f.Source)
	}
}

func (r *runner) takeEnvironment(env []string) {
	if allowed := launch.Allowed(env); len(allowed) > 0 {
		r.server.Facts.Engine.Set(speedmatrix.EngineEnvironment, launch.Quote(allowed), launch.Source)
	}
}
