package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/siteclient"
)

func TestADryRunKeepsNothing(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--dry-run")
		w.ended(0)
		w.shows("2 cells, 23.1 kB to send", "Taken out before sending", "What speed.example.org checked: level 4 of 5", "Nothing was kept.")
		w.holds(0)
	})
}

// visibility is that of the only run of the site.
func (w *submitWorld) visibility() catalog.Visibility {
	w.t.Helper()
	ids, err := w.r.store.ByRunID(w.t.Context(), w.documentID())
	if err != nil || len(ids) != 1 {
		w.t.Fatalf("runs %v, %v", ids, err)
	}
	e, ok := w.r.index.Get(ids[0])
	if !ok {
		w.t.Fatal("the index lacks the run")
	}
	return e.Visibility
}

func (w *submitWorld) documentID() string {
	data, err := os.ReadFile(filepath.Join(w.run, "run.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var doc struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		w.t.Fatal(err)
	}
	return doc.ID
}

func TestARunIsPublishedAsWished(t *testing.T) {
	for _, tt := range []struct {
		option string
		want   catalog.Visibility
		says   string
	}{
		{"--why=night shift", catalog.Public, "Published: " + submitSite + "/runs/"},
		{"--unlisted", catalog.Unlisted, "Unlisted, for those who have its address: " + submitSite + "/runs/"},
		{"--draft", catalog.Draft, "A draft, seen by you alone. Look at it and publish it: " + submitSite + "/upload/"},
	} {
		t.Run(tt.option, func(t *testing.T) {
			submitting(t, func(t *testing.T, w *submitWorld) {
				w.signedIn()
				w.submit("--yes", tt.option)
				w.ended(0)
				w.shows(tt.says)
				w.holds(1)
				if got := w.visibility(); got != tt.want {
					t.Errorf("the run is %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestTheReceiptStandsAloneOnStandardOutput(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		for _, options := range [][]string{{"--json", "--dry-run"}, {"--json", "--yes"}} {
			w.submit(options...)
			w.ended(0)
			var receipt siteclient.Receipt
			d := json.NewDecoder(strings.NewReader(w.out.String()))
			if err := d.Decode(&receipt); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(io.MultiReader(d.Buffered())); err != nil || strings.TrimSpace(string(rest)) != "" {
				t.Errorf("%v: behind the receipt: %q, %v", options, rest, err)
			}
			if receipt.Report.Level != 4 || (options[1] == "--yes") != (receipt.Visibility == "public" && receipt.ID != "") {
				t.Errorf("%v: level %d, %q, %q", options, receipt.Report.Level, receipt.Visibility, receipt.ID)
			}
			if !strings.Contains(w.err.String(), "What speed.example.org checked") {
				t.Errorf("%v: people are told nothing: %s", options, w.err.String())
			}
		}
	})
}

func TestTheQuestionIsAnsweredByAYesAlone(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		w.terminal = true
		for _, answer := range []string{"n\n", "\n", "", "yesterday\n"} {
			w.stdin = answer
			w.submit()
			w.shows("Upload to " + submitSite + "? [y/N] ")
			w.ended(130, "nothing was uploaded, as you wished")
			w.holds(0)
		}
		for _, answer := range []string{"y\n", " YES \n"} {
			w.stdin = answer
			w.submit()
			w.ended(0)
			w.holds(1)
		}
	})
}

func TestWithoutATerminalNothingIsUploadedUnasked(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		w.stdin = "y\n"
		w.submit()
		w.ended(2, "nothing was uploaded: there is no terminal to ask on", "Upload with --yes, or look only with --dry-run.")
		w.holds(0)
	})
}

func TestAWrongSubmitIsExplainedBeforeAnythingIsSent(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		folder := t.TempDir()
		empty, lines := filepath.Join(folder, "empty"), filepath.Join(folder, "lines")
		for name, text := range map[string]string{empty: " \n", lines: "smx_one\nsmx_two\n"} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			args       []string
			what, next string
			code       int
		}{
			{[]string{w.run}, "submit needs to know the site", "Such as --to http://127.0.0.1:8090", 2},
			{[]string{"--to", submitSite}, "submit takes one run directory, but was given 0 arguments", "Usage:", 2},
			{[]string{w.run, "--to", "localhost:8090"}, `--to "localhost:8090" is no address of a site`, "It is such as https://speed.example.org", 2},
			{[]string{w.run, "--to", "127.0.0.1:8090"}, `--to "127.0.0.1:8090" is no address of a site`, "such as", 2},
			{[]string{w.run, "--to", "ftp://speed.example.org"}, "is no address of a site", "such as", 2},
			{[]string{w.run, "--to", "http://"}, "is no address of a site", "such as", 2},
			{[]string{w.run, "--to", "http://:80"}, "is no address of a site", "such as", 2},
			{[]string{w.run, "--to", "http://ann:sesame@speed.example.org"}, "--to carries a user name or a password", "--token-file", 2},
			{[]string{w.run, "--to", submitSite, "--draft", "--unlisted"}, "--draft and --unlisted exclude each other", "A draft is seen by you alone", 2},
			{[]string{w.run, "--to", submitSite, "--draft", "--why", "x"}, "--draft publishes nothing", "Leave one", 2},
			{[]string{w.run, "--to", submitSite, "--token-file", "none"}, "the token file cannot be read: open none", "Check its name", 2},
			{[]string{w.run, "--to", submitSite, "--token-file", empty}, "is empty", submitSite + "/me/tokens", 2},
			{[]string{w.run, "--to", submitSite, "--token-file", lines}, "is no token", submitSite + "/me/tokens", 2},
			{[]string{"none", "--to", submitSite}, "there is no run directory none", "it holds run.json", 6},
		} {
			w.main(append([]string{"submit", "--yes"}, tt.args...)...)
			w.ended(tt.code, tt.what, tt.next)
			if strings.Contains(w.err.String(), "sesame") {
				t.Errorf("the password is shown: %s", w.err.String())
			}
			if w.times("") != 0 {
				t.Fatalf("%v: the site was asked something", tt.args)
			}
		}
	})
}

func TestTheSiteComesFromTheEnvironmentToo(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		w.env["SPEEDMATRIX_SITE"] = submitSite + "/?from=mail#x"
		w.main("submit", w.run, "--yes")
		w.ended(0)
		w.holds(1)
	})
}

// keepLogin puts a token where a login keeps it.
func (w *submitWorld) keepLogin(text string) {
	w.t.Helper()
	path := filepath.Join(w.config, "speedmatrix", "sites.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestATokenComesFromAFileTheEnvironmentOrALogin(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		good, wrong := w.token("owner's submit token"), w.token("wrong token")
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(good+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.keepLogin(`{"` + submitSite + `": "` + wrong + `"}`)
		w.env["SPEEDMATRIX_TOKEN"] = wrong
		w.submit("--dry-run", "--token-file", file)
		w.ended(0)
		w.env["SPEEDMATRIX_TOKEN"] = good + "\n"
		w.submit("--dry-run")
		w.ended(0)
		delete(w.env, "SPEEDMATRIX_TOKEN")
		w.keepLogin(`{"https://other.example.org": "` + wrong + `", "` + submitSite + `": "` + good + `"}`)
		w.main("submit", w.run, "--to", submitSite+"/", "--dry-run")
		w.ended(0)
		for _, damaged := range []string{"null", "{", "[]"} {
			w.keepLogin(damaged)
			w.submit("--dry-run")
			w.ended(4, "refused the run (sign-in)", submitSite+"/me/tokens")
		}
	})
}

func TestARefusedTokenIsExplained(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		for visitor, says := range map[string]string{
			"wrong token":          submitSite + " refused the token (unauthorized)",
			"expired token":        submitSite + " refused the token (unauthorized)",
			"owner's read token":   `it lacks the scope "submit"`,
			"owner's manage token": `it lacks the scope "submit"`,
			"nobody":               submitSite + " refused the run (sign-in)",
		} {
			w.env["SPEEDMATRIX_TOKEN"] = w.token(visitor)
			before := w.times("")
			w.submit("--yes")
			w.ended(4, says, "A token comes from "+submitSite+"/me/tokens: give it as $SPEEDMATRIX_TOKEN or with --token-file.")
			if n := w.times("") - before; n != 1 {
				t.Errorf("%s: the site was asked %d times", visitor, n)
			}
			w.holds(0)
		}
	})
}

// answersCode waits until the program shows a code and answers it as the owner does at the site.
func (w *submitWorld) answersCode(allow bool) {
	for {
		time.Sleep(time.Second)
		synctest.Wait()
		_, rest, found := strings.Cut(w.out.String(), "and type the code ")
		if !found {
			continue
		}
		code, _, _ := strings.Cut(rest, "\n")
		if err := w.r.people.AnswerDevice(w.t.Context(), w.owner(), code, allow); err != nil {
			w.t.Error(err)
		}
		return
	}
}

func TestALoginAtATerminalIsKeptForTheNextTime(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.terminal, w.stdin = true, "y\n"
		go w.answersCode(true)
		began := time.Now()
		w.submit()
		w.ended(0)
		w.shows("Sign in at "+submitSite+"/device and type the code ", "Published: ")
		if took := time.Since(began); took != account.DeviceInterval {
			t.Errorf("it took %s", took)
		}
		info, err := os.Stat(filepath.Join(w.config, "speedmatrix", "sites.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token: %v, %v", info, err)
		}
		w.terminal = false
		w.submit("--yes")
		w.ended(0)
		w.holds(1)
	})
}

func TestALoginThatWasRevokedIsMadeAgain(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.keepLogin(`{"` + submitSite + `": "` + w.token("wrong token") + `"}`)
		w.submit("--yes")
		w.ended(4, "refused the token (unauthorized)")
		w.terminal = true
		go w.answersCode(true)
		w.submit("--yes")
		w.ended(0)
		w.holds(1)
	})
}

func TestALoginThatCannotBeKeptHoldsForOneCommand(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.terminal = true
		w.config = filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(w.config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		go w.answersCode(true)
		w.submit("--yes")
		w.ended(0, "warning: the login holds for this command alone")
		w.holds(1)
	})
}

func TestHowALoginFails(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.terminal = true
		go w.answersCode(false)
		w.submit("--yes")
		w.ended(4, "the login was refused at "+submitSite, "Repeat the command")

		began := time.Now()
		w.submit("--yes")
		w.ended(4, "nobody signed in in time", "Repeat the command")
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("it waited %s", took)
		}
		w.holds(0)
	})
}

func TestAReadOnlySiteTakesNoRun(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--dry-run")
		w.ended(0)
		w.submit("--yes")
		w.ended(4, "refused the run (read-only)", "This site is read only for now.")
		if strings.Contains(w.err.String(), "A token comes from") {
			t.Errorf("a token would not help: %s", w.err.String())
		}
		w.holds(0)
	}, func(o *serveOptions) { o.readOnly = true })
}

func TestARunLargerThanTheSitesLimitIsRefused(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--yes")
		w.ended(4, "refused the run (archive-too-large)", "An archive may have 8192 bytes at most.")
		if n := w.times(""); n != 1 {
			t.Errorf("the site was asked %d times", n)
		}
		w.holds(0)
	}, func(o *serveOptions) { o.maxUpload = 8192 })
}

func TestTheSameRunTwiceIsOneRun(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--yes")
		w.ended(0)
		_, first, _ := strings.Cut(w.out.String(), "Published: ")
		sent := w.sent
		w.submit("--yes")
		w.ended(0)
		w.holds(1)
		if w.sent != sent {
			t.Errorf("it was sent again: %d bytes, then %d", sent, w.sent)
		}
		w.shows(strings.TrimSpace(first))
	})
}

// Who deleted or withdrew a run may send it again.
func TestARunThatIsGoneIsSentAgain(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.signedIn()
		w.submit("--yes", "--draft")
		w.ended(0)
		w.changes(http.MethodDelete, "/api/v1/runs/"+w.address("/upload/"), "")
		w.holds(0)
		w.submit("--yes")
		w.ended(0)
		first := w.address("/runs/")
		w.changes(http.MethodPatch, "/api/v1/runs/"+first, `{"visibility":"withdrawn","why":"wrong cable"}`)
		w.submit("--yes")
		w.ended(0)
		w.shows("Published: ")
		if w.address("/runs/") == first {
			w.t.Error("the withdrawn run was taken for the new one")
		}
		w.holds(2)
	})
}

// address is the ID of the run that the command names under that path at its end.
func (w *submitWorld) address(path string) string {
	return strings.TrimSpace(w.out.String()[strings.LastIndex(w.out.String(), path)+len(path):])
}

// changes has the owner change something at the site.
func (w *submitWorld) changes(method, path, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, submitSite+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonKind)
	w.visits["owner's manage token"](r)
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	if out.Code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, out.Code, out.Body)
	}
}

// What must not leave is shown with the words that stood there, and does not arrive.
func TestSecretsStayOnThisMachine(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		const secret = "a-key-of-ours-0123456789"
		w.environ = []string{"OUR_API_KEY=" + secret}
		document := filepath.Join(w.run, "run.json")
		text, err := os.ReadFile(document)
		if err == nil {
			text = []byte(strings.Replace(string(text), `"AMD EPYC 7302P"`, `"AMD EPYC 7302P `+secret+`"`, 1))
			err = errors.Join(os.WriteFile(document, text, 0o600), os.WriteFile(filepath.Join(w.run, "engine.log"), []byte("started\nkey "+secret+"\n"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.signedIn()
		w.submit("--yes")
		w.ended(0)
		w.shows("Taken out before sending:\n", secret, "«redacted: api key")
		r, err := w.r.store.Get(t.Context(), w.address("/runs/"), 0)
		if err != nil || !strings.Contains(string(r.Document), "«redacted: api key") {
			t.Fatalf("%v, %.300s", err, r.Document)
		}
		logs := 0
		for _, b := range r.Blobs {
			file, err := w.r.blobs.Open(t.Context(), b.Hash)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := io.ReadAll(file)
			if err = errors.Join(err, file.Close()); err != nil || strings.Contains(string(kept), secret) {
				t.Errorf("%s: the secret arrived, or %v", b.Name, err)
			}
			if b.Name == "engine.log" && strings.Contains(string(kept), "started\nkey «redacted") {
				logs++
			}
		}
		if logs != 1 {
			t.Error("the log did not arrive without its secret")
		}
	})
}

func TestTheSitesOwnNameIsShown(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.main("submit", w.run, "--to", "http://site.internal:8090", "--yes")
		w.ended(3, "http://site.internal:8090 did not answer")
	})
}

func TestAnAddressAtWhichNobodyListensIsToldAtOnce(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		began := time.Now()
		w.main("submit", w.run, "--to", nobodyHome, "--yes")
		w.ended(3, nobodyHome+" did not answer: dial tcp nobody.example.org:80: connect: connection refused", "Is its address right, and is the site served there?")
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited %s for an address at which nobody listens", took)
		}
	})
}

func TestAServerThatIsNoSiteIsNamed(t *testing.T) {
	submitting(t, func(_ *testing.T, w *submitWorld) {
		w.listen("other.example.org:80", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/ok/api/v1/runs:check":
				_, _ = io.WriteString(out, "<html>hello")
			case "/json/api/v1/runs:check":
				out.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(out, `{"report": 1}`)
			default:
				http.NotFound(out, r)
			}
		}))
		for _, path := range []string{"", "/ok", "/json"} {
			w.main("submit", w.run, "--to", "http://other.example.org"+path, "--yes")
			w.ended(4, "not as a results site does", "Is it the address of a site of `speedmatrix serve`?")
		}
	})
}

func TestATokenDoesNotFollowARedirect(t *testing.T) {
	submitting(t, func(t *testing.T, w *submitWorld) {
		w.signedIn()
		elsewhere := 0
		w.listen("elsewhere.example.org:80", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			w.spoil(func(out http.ResponseWriter, r *http.Request) bool {
				http.Redirect(out, r, "http://elsewhere.example.org"+r.URL.Path, status)
				return true
			})
			began := time.Now()
			w.submit("--yes")
			w.ended(3, submitSite+" sends to http://elsewhere.example.org", "Nothing was sent there.", "--to http://elsewhere.example.org")
			if took := time.Since(began); took != 0 {
				t.Errorf("it was tried for %s", took)
			}
		}
		if elsewhere != 0 {
			t.Errorf("elsewhere was asked %d times", elsewhere)
		}
	})
}
