package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/api"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/ops"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/site"
	"speedmatrix/internal/store"
)

// results is a results site with all that it stands on.
type results struct {
	o       *serveOptions
	env     *Env
	log     *slog.Logger
	store   *store.Store
	blobs   blob.Store
	index   *catalog.Index
	runs    *ingest.Service
	people  *account.Service
	rules   account.Rules
	monitor *ops.Monitor
}

// How uploads are worked on, and how often the site looks after itself.
const (
	uploadsAtOnce  = 2
	uploadPatience = 20 * time.Second
	keepUploads    = 24 * time.Hour
	followEvery    = 2 * time.Second
	examineTime    = 2 * time.Minute
)

// The memory of a site that the user sets no bound for: entries of a hundred thousand runs live in it for ever, so little
// garbage may gather beside them.
const (
	siteGarbage = 40 // percent of what lives
	siteMemory  = 256 << 20
)

// serve serves the site until the first interrupt.
func (o *serveOptions) serve(ctx context.Context, env *Env) error {
	if env.Getenv("GOMEMLIMIT") == "" && env.Getenv("GOGC") == "" {
		debug.SetGCPercent(siteGarbage)
		debug.SetMemoryLimit(siteMemory)
	}
	if err := o.check(); err != nil {
		return err
	}
	o.siteOptions.letNamesStand(env, o.addr, o.base, o.issuer)
	l, err := env.listen("tcp", o.addr)
	if err != nil {
		next := "Name another with --addr."
		if isInUse(err) {
			next = "Another program has it: name another with --addr."
		}
		return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("%s cannot be listened on: %v", o.addr, err), Next: next, Err: err}
	}
	if o.base == "" {
		o.base = reachedAt(o.addr, l)
	}
	if err := o.folder(); err != nil {
		return errors.Join(err, l.Close())
	}
	r, err := o.open(ctx, env)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is served at %s (Ctrl-C ends it)\n", o.name, o.base)
	if err == nil {
		background, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		all.Go(func() {
			r.index.Follow(background, r.store, followEvery, func(err error) { r.log.Error("the store cannot be followed", "error", err) })
		})
		all.Go(func() { r.sweep(background) })
		err = o.run(ctx, env, l, r.handler())
		cancel()
		all.Wait() // they read the store
	}
	return errors.Join(err, r.store.Close())
}

// open opens the store and the files, and reads every run's entry.
func (o *serveOptions) open(ctx context.Context, env *Env) (*results, error) {
	r := &results{o: o, env: env, log: o.logger(env), index: catalog.NewIndex(), rules: account.Rules{ReadOnly: o.readOnly, Anonymous: o.anonymous}}
	var err error
	if r.blobs, err = o.blobs(ctx, env); err != nil {
		return nil, err
	}
	if r.store, err = store.Open(ctx, o.database); err != nil {
		return nil, kept(err)
	}
	if err = r.index.Load(ctx, r.store); err == nil {
		err = r.services()
	}
	if err != nil {
		return nil, errors.Join(kept(err), r.store.Close())
	}
	return r, nil
}

// kept is the error of what a site stands on, in one line.
func kept(err error) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: oneLine(err), Next: "Look at --data, --database and --files.", Err: err}
}

// oneLine words an error of several lines in one.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// services makes the parts that decide.
func (r *results) services() (err error) {
	o := r.o
	limits := ingest.DefaultLimits()
	limits.Archive = o.maxUpload
	r.runs, err = ingest.New(ingest.Options{Store: r.store, Blobs: r.blobs, Index: r.index, Rules: r.rules, Examine: r.examine, Limits: limits,
		Folder: filepath.Join(o.data, "uploads"), Now: time.Now, Entropy: rand.Reader, AtOnce: uploadsAtOnce, Patience: uploadPatience, KeepUploads: keepUploads})
	if err != nil {
		return err
	}
	if o.accounts() {
		providers, err := o.providers(r.env)
		if err != nil {
			return err
		}
		r.people = account.New(account.Options{Store: r.store, Providers: providers, Administrator: o.admin, Rules: r.rules, Now: time.Now})
	}
	r.monitor = ops.New(r.log)
	r.monitor.Gauge("runs", "Runs that the site knows, whatever their visibility.", func() float64 { return float64(r.index.Len()) })
	return nil
}

// providers are the services that say who someone is; their secrets come from the environment.
func (o *serveOptions) providers(env *Env) (list []account.Provider, err error) {
	if o.githubClient != "" {
		p, err := account.NewGitHub("https://github.com", "https://api.github.com", account.Client{ID: o.githubClient, Secret: env.Getenv("SPEEDMATRIX_GITHUB_CLIENT_SECRET"), Base: o.base})
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if o.issuer != "" {
		p, err := account.NewOIDC(o.issuer, account.Client{ID: o.oidcClient, Secret: env.Getenv("SPEEDMATRIX_OIDC_CLIENT_SECRET"), Base: o.base})
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// handler is the whole site as HTTP.
func (r *results) handler() http.Handler {
	mux := http.NewServeMux()
	pages := site.Options{Base: r.o.base, Name: r.o.name, Version: tool().Version, Index: r.index, Store: r.store, Files: r.blobs, Rows: r.rows,
		Runs: r.runs, Rules: r.rules, MaxUpload: r.o.maxUpload, Now: time.Now, Log: r.log}
	machines := api.Options{Base: r.o.base, Name: r.o.name, Version: tool().Version, Store: r.store, Index: r.index, Runs: r.runs, Rules: r.rules,
		Limits: api.DefaultLimits(), Now: time.Now, Log: r.log}
	web := &account.Web{Service: r.people, Base: r.o.base, Log: r.log}
	if r.people != nil {
		pages.Accounts, pages.Tokens, pages.CSRF = r.people, r.people, web.Proof
		machines.Accounts = r.people
		web.Register(mux)
	}
	s := site.New(pages)
	machines.Page = s.Page
	web.Fail = s.Fail
	s.Routes(mux)
	api.Configure()
	api.New(mux, machines)
	mux.Handle("GET "+healthPath, ops.Health(func(q *http.Request) error { return r.store.Ready(q.Context()) }))
	mux.Handle("GET "+metricsPath, r.monitor.Metrics())
	inner := bounded(r.monitor.Watch(mux))
	inner = web.OwnWrites(inner)
	if r.people != nil {
		inner = web.Visitors(inner)
	} else if !r.rules.ReadOnly || local(r.o.addr) {
		inner = account.OnlyVisitor(inner)
	}
	named := account.OnlyHosts(r.o.base, s.Fail, inner)
	return account.Headers(strings.HasPrefix(r.o.base, "https:"), http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == healthPath || q.URL.Path == metricsPath && numbered(q.Host) { // who watches processes knows them by their number alone
			inner.ServeHTTP(w, q)
			return
		}
		named.ServeHTTP(w, q)
	}))
}

const (
	healthPath  = "/healthz"
	metricsPath = "/metrics"
)

// numbered says whether a host is a number, which no page from elsewhere can make its own as it can a name.
func numbered(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// The bounds of a request that is no upload, and of the silence within one.
const (
	requestTime = 30 * time.Second
	answerTime  = 60 * time.Second
	uploadTime  = 10 * time.Minute
)

// bounded ends requests that take too long to come, and answers that nobody takes.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, now, longest := http.NewResponseController(w), time.Now(), requestTime
		if r.ContentLength > 1<<20 || r.ContentLength < 0 {
			longest = uploadTime
		}
		// A connection without deadlines is one of a test.
		_ = c.SetReadDeadline(now.Add(longest))
		_ = c.SetWriteDeadline(now.Add(longest + answerTime))
		next.ServeHTTP(w, r)
	})
}

// sweep forgets from time to time what has expired.
func (r *results) sweep(ctx context.Context) {
	if r.rules.ReadOnly {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		err := errors.Join(r.runs.Sweep(ctx), r.store.DropExpired(ctx, time.Now()))
		if r.o.drafts > 0 {
			waiting := append(r.index.WithVisibility(catalog.Draft), r.index.WithVisibility(catalog.Quarantined)...)
			err = errors.Join(err, r.runs.DropOldDrafts(ctx, waiting, r.o.drafts))
		}
		if err != nil && ctx.Err() == nil {
			r.log.Error("what has expired cannot be forgotten", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// blobs opens the place of the files.
func (o *siteOptions) blobs(ctx context.Context, env *Env) (blob.Store, error) {
	keys := blob.Keys{ID: env.Getenv("AWS_ACCESS_KEY_ID"), Secret: env.Getenv("AWS_SECRET_ACCESS_KEY")}
	if strings.HasPrefix(o.files, "s3://") && (keys.ID == "" || keys.Secret == "") {
		return nil, usage(fmt.Sprintf("--files %s needs the keys of its bucket", o.files), "They come from $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY.")
	}
	files, err := blob.Open(ctx, o.files, keys)
	if err != nil {
		return nil, kept(err)
	}
	return files, nil
}

// examine reads the rows of an upload in a process of its own, whose memory and time are bounded: rows from outside may make
// a reader take any amount.
func (r *results) examine(ctx context.Context, folder string) (ingest.Examination, error) {
	if r.env.Examine != nil {
		return r.env.Examine(ctx, folder)
	}
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return ingest.Examination{}, err
	}
	return examineApart(ctx, program, folder)
}

// rows reads the raw rows of a run among its files.
func (r *results) rows(ctx context.Context, files []catalog.Blob) (report.Rows, error) {
	names, hashes := make([]string, len(files)), map[string]string{}
	for i, f := range files {
		names[i], hashes[f.Name] = f.Name, f.Hash
	}
	return runfile.ReadFiles(names, func(name string) (io.ReadSeekCloser, error) { return r.blobs.Open(ctx, hashes[name]) }), nil
}
