package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

type visitorKey struct{}

// FromContext gives the visitor of a request; nobody where no middleware told.
func FromContext(ctx context.Context) Visitor {
	v, _ := ctx.Value(visitorKey{}).(Visitor)
	return v
}

// NewContext is a context with a visitor.
func NewContext(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// Web is the part of the accounts that stands in front of pages: who asks, and the way through a provider.
type Web struct {
	Service *Service
	// Base is the site's address without a slash at its end.
	Base string
	Log  *slog.Logger
	// Fail answers a request that cannot be let through, in the form of the site.
	Fail func(w http.ResponseWriter, r *http.Request, status int, detail string)
}

// flowLasts is how long someone may be at the provider.
const flowLasts = 10 * time.Minute

func (w *Web) secure() bool { return strings.HasPrefix(w.Base, "https://") }

// cookie is one that only this site's own pages get back. With https its name keeps other hosts of the domain from setting
// it.
func (w *Web) cookie(name, value string, lasts time.Duration) *http.Cookie {
	if w.secure() {
		name = "__Host-" + name
	}
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: w.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(lasts / time.Second)}
	if lasts <= 0 {
		c.MaxAge = -1
	}
	return c
}

// sent gives the value of a cookie. One that is sent twice was set by someone else as well, and counts as none.
func (w *Web) sent(r *http.Request, name string) string {
	if w.secure() {
		name = "__Host-" + name
	}
	if all := r.CookiesNamed(name); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

const (
	sessionCookie = "session"
	flowCookie    = "signin"
	// formField carries the proof that a form is the site's own.
	formField = "csrf"
)

// Visitors finds out who asks: a token's account, else a session's, else nobody. A token that does not hold is refused, so
// that nobody takes a reading without rights for one with.
func (w *Web) Visitors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		v, err := w.visitor(r)
		if errors.Is(err, ErrToken) {
			out.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.Fail(out, r, http.StatusUnauthorized, "The token is not known, was revoked, or has expired.")
			return
		}
		if err != nil {
			w.Log.ErrorContext(r.Context(), "who asks cannot be found out", "error", err)
			w.Fail(out, r, http.StatusInternalServerError, "This site has a fault. Its operator finds the cause in its log.")
			return
		}
		if v.SignedIn() {
			out.Header().Add("Vary", "Cookie, Authorization")
		}
		next.ServeHTTP(out, r.WithContext(NewContext(r.Context(), v)))
	})
}

func (w *Web) visitor(r *http.Request) (Visitor, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		secret, ok := strings.CutPrefix(header, "Bearer ")
		if !ok {
			return Visitor{}, ErrToken
		}
		return w.Service.byToken(r.Context(), strings.TrimSpace(secret))
	}
	if secret := w.sent(r, sessionCookie); secret != "" {
		return w.Service.bySession(r.Context(), secret)
	}
	return Visitor{}, nil
}

// OnlyVisitor makes everyone who asks the administrator of a site for one user.
func OnlyVisitor(next http.Handler) http.Handler {
	v := Visitor{Account: Account{ID: "you", Provider: "local", Subject: "you", Name: "you", Role: Administrator}}
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(out, r.WithContext(NewContext(r.Context(), v)))
	})
}

// OnlyHosts refuses requests for other hosts than the site's, so that a page from elsewhere cannot reach a site on this
// machine under a name of its own (DNS rebinding). Loopback names are the site's where it is a loopback one.
func OnlyHosts(base string, fail func(http.ResponseWriter, *http.Request, int, string), next http.Handler) http.Handler {
	own := ""
	if u, err := url.Parse(base); err == nil {
		own = u.Host
	}
	loopback := isLoopback(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == own || loopback && isLoopback(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		fail(w, r, http.StatusMisdirectedRequest, "This site is not served under that name. Its address is "+base+".")
	})
}

func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// OwnWrites refuses changes that another site's page asks for in the visitor's name: by what the browser says of the origin,
// and for forms of a signed-in browser by a field that only the site's own pages know.
func (w *Web) OwnWrites(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.Fail(out, r, http.StatusForbidden, "Another site's page asked for this change in your name.")
	}))
	return protection.Handler(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !w.ownForm(out, r) {
			w.Fail(out, r, http.StatusForbidden, "This form is too old, or not from this site. Load the page again.")
			return
		}
		next.ServeHTTP(out, r)
	}))
}

// mostForm is the greatest form without a file.
const mostForm = 64 << 10

// ownForm says whether a form carries the visitor's proof. Only forms can be sent by a page of another site without asking
// first; one with a file carries the proof in its address.
func (w *Web) ownForm(out http.ResponseWriter, r *http.Request) bool {
	session := w.sent(r, sessionCookie)
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead || session == "" || r.Header.Get("Authorization") != "":
		return true
	case kind == "multipart/form-data":
		return hmac.Equal([]byte(r.URL.Query().Get(formField)), []byte(proof(session)))
	case kind == "application/x-www-form-urlencoded":
		r.Body = http.MaxBytesReader(out, r.Body, mostForm)
		return hmac.Equal([]byte(r.PostFormValue(formField)), []byte(proof(session)))
	}
	return true
}

// proof is what a form of a session carries: it follows from the session's secret and does not tell it.
func proof(session string) string {
	sum := hmac.New(sha256.New, []byte(session))
	sum.Write([]byte("form"))
	return hex.EncodeToString(sum.Sum(nil))
}

// Proof gives the value of the field "csrf" for the visitor's forms, "" without a session.
func (w *Web) Proof(r *http.Request) string {
	if session := w.sent(r, sessionCookie); session != "" {
		return proof(session)
	}
	return ""
}

// Next is an address within this site to go on to, "/" for any other.
func Next(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(text, "/") ||
		strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\r\n\t") {
		return "/"
	}
	return text
}

// remembered is a sign-in that is under way, in a cookie of the browser that began it.
type remembered struct {
	Flow
	Provider, Next string
}

// Register adds the way through the providers: /auth/{provider} begins, /auth/{provider}/callback ends it, /signout signs
// out.
func (w *Web) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /auth/{provider}", w.begin)
	mux.HandleFunc("GET /auth/{provider}/callback", w.end)
	mux.HandleFunc("POST /signout", w.signOut)
}

func (s *Service) provider(name string) (Provider, bool) {
	for _, p := range s.o.Providers {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}

// Ways are the providers: the name in addresses, and that for people.
func (s *Service) Ways() (list [][2]string) {
	for _, p := range s.o.Providers {
		list = append(list, [2]string{p.Name(), p.Label()})
	}
	return list
}

func (w *Web) begin(out http.ResponseWriter, r *http.Request) {
	p, ok := w.Service.provider(r.PathValue("provider"))
	if !ok {
		w.Fail(out, r, http.StatusNotFound, "There is no such way to sign in.")
		return
	}
	state, errState := w.Service.secret("")
	nonce, errNonce := w.Service.secret("")
	flow := Flow{State: state, Nonce: nonce, Verifier: oauth2.GenerateVerifier()}
	address, err := p.Begin(r.Context(), flow)
	if err = errors.Join(errState, errNonce, err); err != nil {
		w.Log.ErrorContext(r.Context(), "a sign-in cannot begin", "error", err)
		w.Fail(out, r, http.StatusBadGateway, p.Label()+" does not answer. Try again later.")
		return
	}
	text, err := json.Marshal(remembered{Flow: flow, Provider: p.Name(), Next: Next(r.URL.Query().Get("next"))})
	if err != nil {
		w.Fail(out, r, http.StatusInternalServerError, "The sign-in cannot be remembered.")
		return
	}
	http.SetCookie(out, w.cookie(flowCookie, base64.RawURLEncoding.EncodeToString(text), flowLasts))
	out.Header().Set("Cache-Control", "no-store")
	http.Redirect(out, r, address, http.StatusSeeOther)
}

func (w *Web) end(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Cache-Control", "no-store")
	flow, err := w.remembered(r)
	http.SetCookie(out, w.cookie(flowCookie, "", 0))
	if err != nil {
		w.Fail(out, r, http.StatusBadRequest, "This sign-in was not begun in this browser, or too long ago. Begin again.")
		return
	}
	p, ok := w.Service.provider(r.PathValue("provider"))
	query := r.URL.Query()
	switch {
	case !ok || p.Name() != flow.Provider || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(flow.State)) != 1:
		w.Fail(out, r, http.StatusBadRequest, "This is the end of another sign-in. Begin again.")
		return
	case query.Get("error") != "":
		w.Fail(out, r, http.StatusForbidden, p.Label()+" did not let you in.")
		return
	}
	who, err := p.End(r.Context(), flow.Flow, query.Get("code"))
	if err != nil {
		w.Log.WarnContext(r.Context(), "a sign-in failed", "error", err)
		w.Fail(out, r, http.StatusForbidden, p.Label()+" does not vouch for this sign-in. Begin again.")
		return
	}
	if err := w.signIn(out, r, who); err != nil {
		w.Log.ErrorContext(r.Context(), "a sign-in cannot be kept", "error", err)
		w.Fail(out, r, http.StatusInternalServerError, "The sign-in cannot be kept. Its operator finds the cause in the log.")
		return
	}
	http.Redirect(out, r, flow.Next, http.StatusSeeOther)
}

// signIn gives the browser a new session; one that it had before ends, so that nobody can plant one.
func (w *Web) signIn(out http.ResponseWriter, r *http.Request, who Identity) error {
	a, err := w.Service.enter(r.Context(), who)
	if err != nil {
		return err
	}
	if old := w.sent(r, sessionCookie); old != "" {
		if err := w.Service.o.Store.DropSession(r.Context(), hashOf(old)); err != nil {
			return err
		}
	}
	secret, err := w.Service.begin(r.Context(), a.ID)
	if err != nil {
		return err
	}
	http.SetCookie(out, w.cookie(sessionCookie, secret, SessionLasts))
	return nil
}

func (w *Web) remembered(r *http.Request) (remembered, error) {
	var flow remembered
	text, err := base64.RawURLEncoding.DecodeString(w.sent(r, flowCookie))
	if err == nil {
		err = json.Unmarshal(text, &flow)
	}
	if err == nil && (len(flow.State) < 2*secretBytes || flow.Verifier == "") {
		err = fmt.Errorf("no sign-in is under way")
	}
	flow.Next = Next(flow.Next)
	return flow, err
}

func (w *Web) signOut(out http.ResponseWriter, r *http.Request) {
	if secret := w.sent(r, sessionCookie); secret != "" {
		if err := w.Service.o.Store.DropSession(r.Context(), hashOf(secret)); err != nil {
			w.Log.ErrorContext(r.Context(), "a session cannot be ended", "error", err)
		}
	}
	http.SetCookie(out, w.cookie(sessionCookie, "", 0))
	http.Redirect(out, r, "/", http.StatusSeeOther)
}
