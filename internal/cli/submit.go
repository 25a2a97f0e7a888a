package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/siteclient"
)

const submitLong = `Sends a run to a results site. First the run is made ready on this machine: what must
not leave it is taken out, and shown with the words it had. Then the site checks it
without keeping anything, and says how far its numbers can be believed and why. Only
after your yes is it uploaded and published.

An upload that breaks off goes on where it stopped when the command is repeated; the
same run twice is one run.

A token for the site comes from --token-file, from $SPEEDMATRIX_TOKEN, or from a login:
at a terminal the command shows an address and a code to sign in with, and keeps the
token for the next time.`

const submitExample = `  speedmatrix submit runs/20261130T201500Z-… --to http://127.0.0.1:8090 --dry-run
  speedmatrix submit runs/20261130T201500Z-… --to https://speed.example.org
  speedmatrix submit run1 --to https://speed.example.org --yes --unlisted`

// submission carries one `submit` from its options to its end.
type submission struct {
	env *Env

	to, tokenFile, why           string
	dryRun, yes, draft, unlisted bool
	json                         bool

	base   *url.URL
	client *siteclient.ClientWithResponses
	token  string
	// fromLogin says that the token was kept from an earlier login; answered, that the site has answered; began, that an
	// upload was begun.
	fromLogin, answered, began bool
}

func newSubmit(env *Env) *cobra.Command {
	s := &submission{env: env}
	cmd := &cobra.Command{Use: "submit RUN --to URL", Short: "send a run to a results site", Long: submitLong, Example: submitExample, Args: exactlyOne("run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			ctx, in := listenForInterrupts(cmd.Context(), env, func() {})
			defer in.close()
			return s.submit(ctx, args[0])
		}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&s.to, "to", "", "`URL` of the site (default: $SPEEDMATRIX_SITE)")
	fs.BoolVar(&s.dryRun, "dry-run", false, "show what would be sent and what the site says of it; send nothing that is kept")
	fs.BoolVar(&s.yes, "yes", false, "upload without the question")
	fs.BoolVar(&s.draft, "draft", false, "do not publish: look at it on the site first")
	fs.BoolVar(&s.unlisted, "unlisted", false, "publish it for those who have its address; no list shows it")
	fs.StringVar(&s.why, "why", "", "a `SENTENCE` about this run, shown in its history")
	fs.StringVar(&s.tokenFile, "token-file", "", "`FILE` that holds the token (default: $SPEEDMATRIX_TOKEN, or that of the last login)")
	fs.BoolVar(&s.json, "json", false, "print the site's receipt as JSON on standard output, and nothing else there")
	return cmd
}

func (s *submission) check() error {
	s.to = cmp.Or(s.to, s.env.Getenv("SPEEDMATRIX_SITE"))
	if s.to == "" {
		return usage("submit needs to know the site", "Such as --to http://127.0.0.1:8090, where `speedmatrix serve` serves one.")
	}
	u, err := url.Parse(s.to)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage(fmt.Sprintf("--to %q is no address of a site", s.to), "It is such as https://speed.example.org, or http://127.0.0.1:8090 of `speedmatrix serve`.")
	}
	if u.User != nil {
		return usage("--to carries a user name or a password", "A token for the site comes from --token-file or $SPEEDMATRIX_TOKEN.")
	}
	if s.draft && s.why != "" {
		return usage("--why is said when a run is published, and --draft publishes nothing", "Leave one of the two out.")
	}
	if s.draft && s.unlisted {
		return usage("--draft and --unlisted exclude each other", "A draft is seen by you alone, an unlisted run by whoever has its address.")
	}
	s.base = u
	s.base.Path = strings.TrimRight(u.Path, "/")
	s.base.RawQuery, s.base.Fragment = "", ""
	return nil
}

func (s *submission) submit(ctx context.Context, path string) error {
	archive, err := s.pack(path)
	if err != nil {
		return err
	}
	s.env.shown = s.env.shown.Keeping(s.base.Hostname())
	if err := s.connect(); err != nil {
		return err
	}
	receipt, err := s.checkThere(ctx, archive)
	if err != nil {
		return err
	}
	s.showReceipt(receipt)
	if s.dryRun {
		s.say("Nothing was kept. Without --dry-run it is uploaded after your yes.\n")
		return s.print(receipt)
	}
	if err := s.confirm(ctx); err != nil {
		return err
	}
	if receipt, err = s.upload(ctx, archive); err != nil {
		return err
	}
	if receipt, err = s.publish(ctx, receipt); err != nil {
		return err
	}
	s.showAddress(receipt)
	return s.print(receipt)
}

// packed is a run as it is sent.
type packed struct {
	data []byte
	hash string
}

// pack makes the archive of the run without what must not leave, and shows what was taken out.
func (s *submission) pack(path string) (*packed, error) {
	dir, doc, err := openRun(s.env, path)
	if err != nil {
		return nil, err
	}
	clean, err := redact.Copy(s.env.shown, doc)
	if err != nil {
		return nil, err
	}
	changes, err := redact.Changes(doc, clean)
	if err != nil {
		return nil, err
	}
	var document bytes.Buffer
	if err := runfile.Encode(&document, clean); err != nil {
		return nil, err
	}
	log, err := dir.Log()
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	err = ingest.Pack(&archive, os.DirFS(dir.Path()), map[string][]byte{"run.json": document.Bytes(), "engine.log": s.cleanLog(ingest.CutLog(log))})
	if err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("the run in %s cannot be packed: %v", path, err), Next: "Look at its files: speedmatrix verify " + path, Err: err}
	}
	sum := sha256.Sum256(archive.Bytes())
	p := &packed{data: archive.Bytes(), hash: hex.EncodeToString(sum[:])}
	s.showRedaction(clean, changes, len(p.data))
	return p, nil
}

// cleanLog redacts the engine's log; nothing where there is none.
func (s *submission) cleanLog(log []byte) []byte {
	if len(log) == 0 {
		return nil
	}
	line := s.env.shown.Lines()
	var out bytes.Buffer
	for l := range strings.Lines(string(log)) {
		out.WriteString(line(l))
	}
	return out.Bytes()
}

// connect makes the client of the site.
func (s *submission) connect() error {
	if err := s.findToken(); err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: s.env.Dial, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 2 * time.Minute}
	// A redirect would take the token and the run to where nobody sent them.
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return &away{r.URL}
	}}
	var err error
	s.client, err = siteclient.NewClientWithResponses(s.base.String()+"/api/v1", siteclient.WithHTTPClient(client),
		siteclient.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("User-Agent", "speedmatrix/"+tool().Version)
			if s.token != "" {
				r.Header.Set("Authorization", "Bearer "+s.token)
			}
			return nil
		}))
	return err
}

// findToken reads the token from where the user put it, or from the last login.
func (s *submission) findToken() error {
	from := "$SPEEDMATRIX_TOKEN"
	s.token = strings.TrimSpace(s.env.Getenv("SPEEDMATRIX_TOKEN"))
	if s.tokenFile != "" {
		data, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return unreadable("token file", err)
		}
		from, s.token = s.tokenFile, strings.TrimSpace(string(data))
		if s.token == "" {
			return usage(fmt.Sprintf("the token file %s is empty", s.tokenFile), "A token comes from "+s.base.String()+"/me/tokens.")
		}
	}
	if strings.ContainsFunc(s.token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return usage("what stands in "+from+" is no token", "It is one word without blanks, from "+s.base.String()+"/me/tokens.")
	}
	if s.token == "" {
		s.token = s.env.siteTokens()[s.base.String()]
		s.fromLogin = s.token != ""
	}
	return nil
}

// tokenPath is the file of the tokens of logins, "" where nothing can be kept.
func (e *Env) tokenPath() string {
	if e.ConfigDir == "" {
		return ""
	}
	return filepath.Join(e.ConfigDir, "speedmatrix", "sites.json")
}

// siteTokens are the tokens of logins, by the site's address.
func (e *Env) siteTokens() map[string]string {
	tokens := map[string]string{}
	if data, err := os.ReadFile(e.tokenPath()); err == nil && (json.Unmarshal(data, &tokens) != nil || tokens == nil) {
		return map[string]string{}
	}
	return tokens
}

// keepToken keeps the token of a login for the next time, where that is possible.
func (s *submission) keepToken() {
	path := s.env.tokenPath()
	if path == "" {
		return
	}
	tokens := s.env.siteTokens()
	tokens[s.base.String()] = s.token
	data, err := json.MarshalIndent(tokens, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_, _ = fmt.Fprintf(s.env.Stderr, "speedmatrix: warning: the login holds for this command alone: the token cannot be kept: %s\n", report.Clean(s.env.shownText(err.Error())))
	}
}

func (s *submission) say(format string, args ...any) {
	// What cannot be shown is not worth the upload.
	_, _ = fmt.Fprintf(s.screen(), format, args...)
}

// screen is where people read: beside the document, if one is printed.
func (s *submission) screen() io.Writer {
	if s.json {
		return s.env.Stderr
	}
	return s.env.Stdout
}

// print gives programs the receipt.
func (s *submission) print(r *siteclient.Receipt) error {
	if !s.json {
		return nil
	}
	e := json.NewEncoder(s.env.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// confirm asks whether to upload.
func (s *submission) confirm(ctx context.Context) error {
	if s.yes {
		return nil
	}
	if !s.env.StdinTerminal {
		return usage("nothing was uploaded: there is no terminal to ask on", "Upload with --yes, or look only with --dry-run.")
	}
	s.say("Upload to %s? [y/N] ", s.base)
	answer, err := readLine(ctx, s.env.Stdin)
	if err != nil {
		return s.interruptedOr(ctx, err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "nothing was uploaded, as you wished"}
	}
	return nil
}
