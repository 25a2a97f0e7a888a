package account_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/account/accounttest"
)

// town is the accounts of a site over a database of their own, on a clock of the test's.
type town struct {
	t       *testing.T
	now     time.Time
	store   *accounttest.Memory
	service *account.Service
	web     *account.Web
	handler http.Handler
	// seen is the visitor of the last request that came through.
	seen account.Visitor
}

// pretender is a provider that vouches for whoever the code names.
type pretender struct{ name string }

func (p pretender) Name() string  { return p.name }
func (p pretender) Label() string { return "The " + p.name }
func (p pretender) Begin(_ context.Context, f account.Flow) (string, error) {
	return "https://id.example.org/authorize?state=" + f.State, nil
}

func (p pretender) End(_ context.Context, _ account.Flow, code string) (account.Identity, error) {
	if code == "bad" {
		return account.Identity{}, errors.New("no such code")
	}
	return account.Identity{Provider: p.name, Subject: "subject of " + code, Name: code}, nil
}

func newTown(t *testing.T) *town {
	t.Helper()
	s := accounttest.NewMemory()
	w := &town{t: t, now: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), store: s}
	w.service = account.New(account.Options{Store: s, Providers: []account.Provider{pretender{"one"}, pretender{"two"}}, Administrator: "ada",
		Now: func() time.Time { return w.now }})
	w.web = &account.Web{Service: w.service, Base: "https://speed.example.org", Log: slog.New(slog.DiscardHandler),
		Fail: func(out http.ResponseWriter, _ *http.Request, status int, detail string) {
			http.Error(out, detail, status)
		}}
	mux := http.NewServeMux()
	w.web.Register(mux)
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { w.seen = account.FromContext(r.Context()) })
	w.handler = account.Headers(true, account.OnlyHosts(w.web.Base, w.web.Fail, w.web.Visitors(w.web.OwnWrites(mux))))
	return w
}

// ask sends a request with cookies and headers.
func (w *town) ask(method, path, body string, cookies []*http.Cookie, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://speed.example.org"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	out := httptest.NewRecorder()
	w.seen = account.Visitor{}
	w.handler.ServeHTTP(out, r)
	return out
}

// begin begins a sign-in and gives its cookie and its state.
func (w *town) begin(path string) ([]*http.Cookie, string) {
	w.t.Helper()
	out := w.ask("GET", path, "", nil)
	u, err := url.Parse(out.Header().Get("Location"))
	if err != nil || out.Code != http.StatusSeeOther || u.Host != "id.example.org" {
		w.t.Fatalf("%d to %v, %v", out.Code, u, err)
	}
	return out.Result().Cookies(), u.Query().Get("state")
}

// signIn gives the cookie of a session.
func (w *town) signIn(name string) []*http.Cookie {
	w.t.Helper()
	cookies, state := w.begin("/auth/one")
	out := w.ask("GET", "/auth/one/callback?code="+name+"&state="+state, "", cookies)
	session := kept(out)
	if out.Code != http.StatusSeeOther || len(session) != 1 {
		w.t.Fatalf("%d %s %v", out.Code, out.Body, session)
	}
	return session
}

// kept are the cookies that an answer sets, without those that it takes back.
func kept(out *httptest.ResponseRecorder) (list []*http.Cookie) {
	for _, c := range out.Result().Cookies() {
		if c.MaxAge >= 0 {
			list = append(list, c)
		}
	}
	return list
}

func TestASignInMakesAnAccountAndASession(t *testing.T) {
	w := newTown(t)
	cookies, state := w.begin("/auth/one?next=/runs%3Fq%3Da")
	out := w.ask("GET", "/auth/one/callback?code=Grace+Hopper&state="+state, "", cookies)
	if out.Code != http.StatusSeeOther || out.Header().Get("Location") != "/runs?q=a" {
		t.Errorf("%d to %q", out.Code, out.Header().Get("Location"))
	}
	session := kept(out)[0]
	if session.Name != "__Host-session" || !session.HttpOnly || !session.Secure || session.SameSite != http.SameSiteLaxMode || session.Path != "/" || session.Domain != "" || len(session.Value) != 64 {
		t.Errorf("the cookie %+v", session)
	}
	w.ask("GET", "/", "", []*http.Cookie{session})
	if w.seen.Account.Name != "grace-hopper" || w.seen.Account.Role != account.Member || w.seen.Token {
		t.Errorf("%+v", w.seen)
	}
	w.ask("GET", "/", "", w.signIn("ada"))
	if w.seen.Account.Role != account.Administrator {
		t.Errorf("the named administrator is %+v", w.seen.Account)
	}
	again := w.signIn("Grace+Hopper")
	w.ask("GET", "/", "", again)
	if w.seen.Account.Name != "grace-hopper" {
		t.Errorf("the second sign-in made %+v", w.seen.Account)
	}
}

func TestAttacksOnTheSignIn(t *testing.T) {
	for name, attack := range map[string]func(w *town) *httptest.ResponseRecorder{
		"a callback that nobody began": func(w *town) *httptest.ResponseRecorder {
			return w.ask("GET", "/auth/one/callback?code=eve&state=", "", nil)
		},
		"the state of another browser": func(w *town) *httptest.ResponseRecorder {
			mine, _ := w.begin("/auth/one")
			_, theirs := w.begin("/auth/one")
			return w.ask("GET", "/auth/one/callback?code=eve&state="+theirs, "", mine)
		},
		"another provider's answer": func(w *town) *httptest.ResponseRecorder {
			cookies, state := w.begin("/auth/one")
			return w.ask("GET", "/auth/two/callback?code=eve&state="+state, "", cookies)
		},
		"a code that the provider does not know": func(w *town) *httptest.ResponseRecorder {
			cookies, state := w.begin("/auth/one")
			return w.ask("GET", "/auth/one/callback?code=bad&state="+state, "", cookies)
		},
		"an error of the provider": func(w *town) *httptest.ResponseRecorder {
			cookies, state := w.begin("/auth/one")
			return w.ask("GET", "/auth/one/callback?error=access_denied&code=eve&state="+state, "", cookies)
		},
		"a cookie made up": func(w *town) *httptest.ResponseRecorder {
			return w.ask("GET", "/auth/one/callback?code=eve&state=", "", []*http.Cookie{{Name: "__Host-signin", Value: "e30"}})
		},
		"a cookie that another host set as well": func(w *town) *httptest.ResponseRecorder {
			cookies, state := w.begin("/auth/one")
			return w.ask("GET", "/auth/one/callback?code=eve&state="+state, "", append(cookies, cookies[0]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := attack(newTown(t))
			if out.Code < 400 || out.Code > 499 || len(kept(out)) != 0 {
				t.Errorf("%d, cookies %v", out.Code, kept(out))
			}
		})
	}
}

func TestASessionCannotBePlanted(t *testing.T) {
	w := newTown(t)
	planted := w.signIn("eve")
	cookies, state := w.begin("/auth/one")
	out := w.ask("GET", "/auth/one/callback?code=victim&state="+state, "", append(cookies, planted...))
	if fresh := kept(out); len(fresh) != 1 || fresh[0].Value == planted[0].Value {
		t.Fatalf("the session stayed: %v", fresh)
	}
	if w.ask("GET", "/", "", planted); w.seen.SignedIn() {
		t.Errorf("the planted session is %s", w.seen.Account.Name)
	}
}

func TestSessionsEnd(t *testing.T) {
	w := newTown(t)
	session := w.signIn("grace")
	if w.ask("GET", "/", "", append(session, session[0])); w.seen.SignedIn() {
		t.Error("a cookie sent twice counts")
	}
	w.now = w.now.Add(account.SessionLasts - time.Second)
	if w.ask("GET", "/", "", session); !w.seen.SignedIn() {
		t.Error("it ended too soon")
	}
	w.now = w.now.Add(account.SessionLasts - time.Second) // in use it lasts longer
	if w.ask("GET", "/", "", session); !w.seen.SignedIn() {
		t.Error("it was not made longer")
	}
	w.now = w.now.Add(account.SessionLasts)
	if w.ask("GET", "/", "", session); w.seen.SignedIn() {
		t.Error("it did not end")
	}
	session = w.signIn("grace")
	out := w.ask("POST", "/signout", "csrf="+w.proof(session), session, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	if w.ask("GET", "/", "", session); w.seen.SignedIn() || out.Code != http.StatusSeeOther {
		t.Errorf("signed out with %d, and still %v", out.Code, w.seen)
	}
}

func (w *town) proof(session []*http.Cookie) string {
	r := httptest.NewRequest("GET", "https://speed.example.org/", nil)
	for _, c := range session {
		r.AddCookie(c)
	}
	return w.web.Proof(r)
}

func TestNoOtherSiteChangesAnything(t *testing.T) {
	w := newTown(t)
	session := w.signIn("grace")
	form, file := "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
	for name, c := range map[string]struct {
		path, body string
		header     []string
		ok         bool
	}{
		"from another site":                    {"/x", "csrf=" + w.proof(session), []string{"Content-Type", form, "Sec-Fetch-Site", "cross-site"}, false},
		"from another host of the domain":      {"/x", "csrf=" + w.proof(session), []string{"Content-Type", form, "Sec-Fetch-Site", "same-site"}, false},
		"from another origin, an old browser":  {"/x", "csrf=" + w.proof(session), []string{"Content-Type", form, "Origin", "https://evil.example.org"}, false},
		"a form without the proof":             {"/x", "a=b", []string{"Content-Type", form, "Sec-Fetch-Site", "same-origin"}, false},
		"a form with another's proof":          {"/x", "csrf=" + w.proof(w.signIn("eve")), []string{"Content-Type", form, "Sec-Fetch-Site", "same-origin"}, false},
		"a file without the proof":             {"/x", "", []string{"Content-Type", file, "Sec-Fetch-Site", "same-origin"}, false},
		"the site's own form":                  {"/x", "csrf=" + w.proof(session), []string{"Content-Type", form, "Sec-Fetch-Site", "same-origin"}, true},
		"the site's own form with a file":      {"/x?csrf=" + w.proof(session), "", []string{"Content-Type", file, "Sec-Fetch-Site", "same-origin"}, true},
		"JSON, which no form of another sends": {"/x", "{}", []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}, true},
	} {
		out := w.ask("POST", c.path, c.body, session, c.header...)
		if ok := out.Code == http.StatusOK && w.seen.SignedIn(); ok != c.ok {
			t.Errorf("%s: %d %s", name, out.Code, out.Body)
		}
	}
}

func TestOnlyTheSitesOwnNameIsAnswered(t *testing.T) {
	w := newTown(t)
	for _, host := range []string{"evil.example.org", "speed.example.org.evil.org", "127.0.0.1", "speed.example.org:444", ""} {
		if out := w.ask("GET", "/", "", nil, "Host", host); out.Code != http.StatusMisdirectedRequest {
			t.Errorf("%q: %d", host, out.Code)
		}
	}
	reached := false
	local := account.OnlyHosts("http://127.0.0.1:8090", w.web.Fail, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	for host, ok := range map[string]bool{"127.0.0.1:8090": true, "localhost:8090": true, "[::1]:8090": true, "rebind.example.org:8090": false, "localhost.example.org": false} {
		reached = false
		r := httptest.NewRequest("GET", "http://x/", nil)
		r.Host = host
		local.ServeHTTP(httptest.NewRecorder(), r)
		if reached != ok {
			t.Errorf("%q reached %v", host, reached)
		}
	}
}

func TestOnwardsIsWithinTheSite(t *testing.T) {
	for text, want := range map[string]string{
		"/runs?q=a#b": "/runs?q=a#b", "": "/", "https://evil.example.org": "/", "//evil.example.org": "/", `/\evil.example.org`: "/", "javascript:alert(1)": "/",
		"/a\r\nSet-Cookie: x=y": "/", "runs": "/", "/%0d%0aX": "/%0d%0aX", "http:/x": "/", "///x": "/",
	} {
		if got := account.Next(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestAnswersTellBrowsersWhatToRefuse(t *testing.T) {
	h := newTown(t).ask("GET", "/", "", nil).Header()
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Strict-Transport-Security": "max-age=31536000"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("%q lacks %q", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy %q", policy)
	}
}

func TestTokensAreShownOnceAndEnd(t *testing.T) {
	w := newTown(t)
	w.ask("GET", "/", "", w.signIn("grace"))
	me := w.seen
	ctx := context.Background()
	secret, token, err := w.service.MakeToken(ctx, me, account.TokenWish{Name: "laptop", Scopes: []account.Scope{account.Submit}, For: time.Hour})
	if err != nil || !strings.HasPrefix(secret, "smx_") || len(secret) != 68 {
		t.Fatalf("%q, %v", secret, err)
	}
	list, err := w.service.Tokens(ctx, me)
	if err != nil || len(list) != 1 || strings.Contains(fmt.Sprintf("%+v %x", list, list), secret[4:]) {
		t.Errorf("%+v, %v", list, err)
	}
	bearer := func(secret string) int { return w.ask("GET", "/", "", nil, "Authorization", "Bearer "+secret).Code }
	if bearer(secret); !w.seen.Token || w.seen.Account.Name != "grace" || w.seen.Scopes[0] != account.Submit {
		t.Errorf("%+v", w.seen)
	}
	for name, wrong := range map[string]string{"another": "smx_" + strings.Repeat("0", 64), "shorter": secret[:60], "longer": secret + "0", "no prefix": secret[4:], "empty": "", "another case": strings.ToUpper(secret)} {
		if code := bearer(wrong); code != http.StatusUnauthorized || w.seen.SignedIn() {
			t.Errorf("%s: %d %+v", name, code, w.seen)
		}
	}
	if code := w.ask("GET", "/", "", nil, "Authorization", "Basic "+secret).Code; code != http.StatusUnauthorized {
		t.Errorf("another scheme: %d", code)
	}
	byToken := account.Visitor{Account: me.Account, Token: true, Scopes: []account.Scope{account.Manage, account.Submit, account.ReadOwn}}
	if _, _, err := w.service.MakeToken(ctx, byToken, account.TokenWish{Name: "x", Scopes: []account.Scope{account.Moderate}}); err == nil {
		t.Error("a token makes a token")
	}
	w.now = w.now.Add(time.Hour)
	if code := bearer(secret); code != http.StatusUnauthorized {
		t.Errorf("expired: %d", code)
	}
	if err := w.service.DropToken(ctx, me, token.ID); err != nil {
		t.Error(err)
	}
}

func TestACommandLineSignsIn(t *testing.T) {
	w := newTown(t)
	ctx := context.Background()
	w.ask("GET", "/", "", w.signIn("grace"))
	me := w.seen
	login, err := w.service.BeginDevice(ctx, []account.Scope{account.Submit})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want error) {
		t.Helper()
		if _, err := w.service.DeviceToken(ctx, login.Code); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	ask(account.ErrPending)
	ask(account.ErrSlowDown)
	w.now = w.now.Add(account.DeviceInterval)
	ask(account.ErrPending)
	if err := w.service.AnswerDevice(ctx, account.Visitor{}, login.UserCode, true); err == nil {
		t.Error("nobody allowed it")
	}
	if err := w.service.AnswerDevice(ctx, me, strings.ToLower(strings.ReplaceAll(login.UserCode, "-", " ")), true); err != nil {
		t.Fatal(err)
	}
	if err := w.service.AnswerDevice(ctx, me, login.UserCode, false); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("answered twice: %v", err)
	}
	secret, err := w.service.DeviceToken(ctx, login.Code)
	if err != nil {
		t.Fatal(err)
	}
	if w.ask("GET", "/", "", nil, "Authorization", "Bearer "+secret); w.seen.Account.Name != "grace" {
		t.Errorf("%+v", w.seen)
	}
	ask(account.ErrNotFound) // it is given once
	for name, answer := range map[string]func(code string) error{
		"refused": func(code string) error { return w.service.AnswerDevice(ctx, me, code, false) },
		"late":    func(string) error { w.now = w.now.Add(time.Hour); return nil },
	} {
		login, err = w.service.BeginDevice(ctx, []account.Scope{account.Submit})
		if err == nil {
			err = answer(login.UserCode)
		}
		if err != nil {
			t.Fatal(err)
		}
		ask(map[string]error{"refused": account.ErrRefused, "late": account.ErrNotFound}[name])
	}
	if _, err := w.service.BeginDevice(ctx, []account.Scope{"everything"}); err == nil {
		t.Error("a right that there is not")
	}
}

func TestWhoIsBlockedIsSignedOutEverywhere(t *testing.T) {
	w := newTown(t)
	ctx := context.Background()
	session := w.signIn("grace")
	w.ask("GET", "/", "", session)
	grace := w.seen.Account
	w.ask("GET", "/", "", w.signIn("ada"))
	ada := w.seen
	if err := w.service.SetRole(ctx, ada, ada.Account.ID, account.Member); err == nil {
		t.Error("the last administrator left")
	}
	if err := w.service.SetRole(ctx, ada, grace.ID, account.Blocked); err != nil {
		t.Fatal(err)
	}
	if w.ask("GET", "/", "", session); w.seen.SignedIn() {
		t.Error("still signed in")
	}
}
