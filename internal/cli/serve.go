package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"speedmatrix"
)

const serveLong = `Serves a results site: runs are uploaded to it, checked, listed, compared and linked to.

Everything is kept in one folder: a SQLite database and the files of the runs. Another
database or another place for the files is named by its URL.

On a loopback address there are no accounts: whoever sits at this machine is its
administrator. On any other address people sign in with an identity provider; without
one the site is read only.`

const serveExample = `  speedmatrix serve
  speedmatrix serve --addr 127.0.0.1:8090 --data site
  speedmatrix serve --addr :8090 --url https://speed.example.org \
    --github-client-id ID --administrator NAME
  speedmatrix serve --database postgres://speedmatrix@db/speedmatrix --files s3://bucket`

// siteOptions say where a site keeps what it has.
type siteOptions struct {
	data, database, files string
}

func (o *siteOptions) flags(fs flags) {
	fs.StringVar(&o.data, "data", "site", "`DIR` of the database and the files")
	fs.StringVar(&o.database, "database", "", "`URL` of the database: postgres://…, or sqlite:FILE (default: DIR/site.db)")
	fs.StringVar(&o.files, "files", "", "`URL` of the files of the runs: s3://BUCKET/PREFIX?endpoint=…, or a folder (default: DIR/files); S3's keys come from $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY")
}

// serveOptions are the options of serve.
type serveOptions struct {
	siteOptions
	addr, base, name    string
	issuer, oidcClient  string
	githubClient, admin string
	anonymous, readOnly bool
	json                bool
	drafts              time.Duration
	maxUpload           int64
}

func newServe(env *Env) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{Use: "serve", Short: "a site that collects runs", Long: serveLong, Example: serveExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.serve(cmd.Context(), env) }}
	where, people, rules := flagSet("where"), flagSet("people"), flagSet("rules")
	where.StringVar(&o.addr, "addr", "127.0.0.1:8090", "`ADDRESS` to listen on")
	where.StringVar(&o.base, "url", "", "`URL` at which people reach the site (default: http:// and the address)")
	where.StringVar(&o.name, "name", "speedmatrix", "what the site calls itself")
	o.siteOptions.flags(where)
	people.StringVar(&o.issuer, "oidc-issuer", "", "`URL` of an OpenID Connect provider to sign in with")
	people.StringVar(&o.oidcClient, "oidc-client-id", "", "`ID` of this site there; its secret comes from $SPEEDMATRIX_OIDC_CLIENT_SECRET")
	people.StringVar(&o.githubClient, "github-client-id", "", "`ID` of this site as an OAuth app of GitHub; its secret comes from $SPEEDMATRIX_GITHUB_CLIENT_SECRET")
	people.StringVar(&o.admin, "administrator", "", "`NAME` of the first administrator's account, as the provider calls it")
	people.BoolVar(&o.anonymous, "anonymous", false, "take uploads without an account; they are marked, and no list shows them until someone claims them")
	rules.BoolVar(&o.readOnly, "read-only", false, "refuse every change")
	rules.DurationVar(&o.drafts, "keep-drafts", 30*24*time.Hour, "`TIME` after which a draft that nobody published is removed; 0 keeps them")
	rules.Int64Var(&o.maxUpload, "max-upload", 64<<20, "greatest upload in `BYTES`")
	rules.BoolVar(&o.json, "log-json", false, "log as JSON, one object a line")
	groups := []flagGroup{{"Where", where.FlagSet}, {"Who", people.FlagSet}, {"Rules", rules.FlagSet}}
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetHelpFunc(helpOf(env, groups))
	return cmd
}

// local says whether only this machine reaches the address.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// check refuses options that do not go together.
func (o *serveOptions) check() error {
	if _, _, err := net.SplitHostPort(o.addr); err != nil {
		return usage(fmt.Sprintf("--addr %q is no address", o.addr), "It is a host and a port, such as 127.0.0.1:8090 or :8090.")
	}
	if o.maxUpload < 1 || o.drafts < 0 {
		return usage("--max-upload and --keep-drafts are not below zero, and an upload has a byte at least", "Leave them out for 64 MB and 30 days; --keep-drafts 0 keeps drafts.")
	}
	if err := o.checkBase(); err != nil {
		return err
	}
	if !o.accounts() && !o.readOnly && !local(o.addr) {
		return usage("a site that others reach needs to know who they are", "Name a provider with --github-client-id or --oidc-issuer, or serve it --read-only. On 127.0.0.1 neither is needed.")
	}
	if o.base == "" && everywhere(o.addr) {
		return usage(fmt.Sprintf("--addr %s does not say at which name people reach the site, and it answers for its own name alone", o.addr), "Name it with --url, such as https://speed.example.org.")
	}
	return nil
}

// checkBase refuses a --url that is no address of a site, and leaves of it what is.
func (o *serveOptions) checkBase() error {
	if o.base == "" {
		return nil
	}
	u, err := url.Parse(o.base)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return usage(fmt.Sprintf("--url %q is no address of a site", o.base), "It is such as https://speed.example.org, without a path.")
	}
	o.base = u.Scheme + "://" + u.Host
	return nil
}

// everywhere says whether an address is that of all networks of this machine, and so no name of any.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.IsUnspecified())
}

// reachedAt is the address of a site that was given none: its host, and the port that it got.
func reachedAt(addr string, l net.Listener) string {
	host, port, err := net.SplitHostPort(addr)
	if _, got, gotErr := net.SplitHostPort(l.Addr().String()); err == nil && gotErr == nil {
		port = got
	}
	return "http://" + net.JoinHostPort(host, port)
}

// accounts says whether people sign in.
func (o *serveOptions) accounts() bool { return o.issuer != "" || o.githubClient != "" }

// logger writes the site's log.
func (o *serveOptions) logger(env *Env) *slog.Logger {
	if o.json {
		return slog.New(slog.NewJSONHandler(env.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, nil))
}

// The bounds of a request and of the end of the site.
const (
	headTime   = 10 * time.Second
	idleTime   = 2 * time.Minute
	graceTime  = 30 * time.Second
	headBytes  = 64 << 10
	sweepEvery = time.Hour
)

// run serves a handler until the first interrupt, then lets the requests that are under way end.
func (o *serveOptions) run(ctx context.Context, env *Env, l net.Listener, handler http.Handler) error {
	ctx, in := listenForInterrupts(ctx, env, func() {})
	defer in.close()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		ErrorLog: slog.NewLogLogger(o.logger(env).Handler(), slog.LevelWarn)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	go func() {
		select {
		case <-in.twice:
			cancel()
		case <-grace.Done():
		}
	}()
	if err := server.Shutdown(grace); err != nil {
		// What is still open was told to end and did not.
		return errors.Join(server.Close())
	}
	return nil
}

// folder makes the site's folder.
func (o *siteOptions) folder() error {
	if err := os.MkdirAll(o.data, 0o750); err != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("the folder %s cannot be made: %v", o.data, err), Next: "Name another with --data.", Err: err}
	}
	if o.database == "" {
		o.database = "sqlite:" + filepath.Join(o.data, "site.db")
	}
	if o.files == "" {
		o.files = filepath.Join(o.data, "files")
	}
	return nil
}

// letNamesStand shows the operator the names of hosts in the options and in some other addresses.
func (o *siteOptions) letNamesStand(env *Env, addresses ...string) {
	addresses = append(addresses, o.database)
	if u, err := url.Parse(o.files); err == nil {
		addresses = append(addresses, u.Query().Get("endpoint"))
	}
	for _, a := range addresses {
		env.shown = env.shown.Keeping(hostOf(a))
	}
}
