package account_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/need"
)

// authority is an OpenID Connect provider that can lie in any part of what it says.
type authority struct {
	*httptest.Server
	key    *rsa.PrivateKey
	claims map[string]any
	// header and signature are changed by a liar.
	header  map[string]any
	signer  *rsa.PrivateKey
	jwksURI string
	asked   url.Values
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, signer: key, header: map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		a.say(w, map[string]any{"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token", "jwks_uri": a.jwksURI,
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		a.say(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		a.asked = r.PostForm
		a.say(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": a.token(t)})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	a.jwksURI = a.URL + "/keys"
	a.claims = map[string]any{"iss": a.URL, "aud": "site", "sub": "42", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "nonce": "n", "preferred_username": "grace"}
	return a
}

func (a *authority) say(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token is an ID token with the authority's claims.
func (a *authority) token(t *testing.T) string {
	header, err := json.Marshal(a.header)
	if err != nil {
		t.Error(err)
	}
	claims, err := json.Marshal(a.claims)
	if err != nil {
		t.Error(err)
	}
	text := b64(header) + "." + b64(claims)
	if a.header["alg"] == "none" {
		return text + "."
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.signer, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return text + "." + b64(signature)
}

func TestOnlyATrueIDTokenLetsIn(t *testing.T) {
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the site was sent elsewhere") }))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		lie func(a *authority)
		ok  bool
	}{
		"the truth":                       {func(*authority) {}, true},
		"another site's token":            {func(a *authority) { a.claims["aud"] = "other" }, false},
		"another issuer's":                {func(a *authority) { a.claims["iss"] = "https://evil.example.org" }, false},
		"another sign-in's":               {func(a *authority) { a.claims["nonce"] = "m" }, false},
		"without a nonce":                 {func(a *authority) { delete(a.claims, "nonce") }, false},
		"expired":                         {func(a *authority) { a.claims["exp"] = time.Now().Add(-time.Hour).Unix() }, false},
		"without a signature":             {func(a *authority) { a.header["alg"] = "none" }, false},
		"signed by someone else":          {func(a *authority) { a.signer = foreign }, false},
		"of a key that is not known":      {func(a *authority) { a.header["kid"] = "9"; a.signer = foreign }, false},
		"signed by another way":           {func(a *authority) { a.header["alg"] = "HS256" }, false},
		"keys that are said to be abroad": {func(a *authority) { a.jwksURI = elsewhere.URL + "/keys" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			c.lie(a)
			p, err := account.NewOIDC(a.URL, account.Client{ID: "site", Secret: "s", Base: "https://speed.example.org"})
			if err != nil {
				t.Fatal(err)
			}
			who, err := p.End(context.Background(), account.Flow{State: "s", Nonce: "n", Verifier: "v"}, "code")
			if (err == nil) != c.ok {
				t.Fatalf("%+v, %v", who, err)
			}
			if c.ok && (who != account.Identity{Provider: a.URL, Subject: "42", Name: "grace"} || a.asked.Get("code_verifier") != "v" || a.asked.Get("redirect_uri") != "https://speed.example.org/auth/oidc/callback") {
				t.Errorf("%+v, asked with %v", who, a.asked)
			}
		})
	}
}

func TestGitHubSaysWhoItIs(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "t-" + r.FormValue("code"), "token_type": "bearer"})
	})
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t-good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 7, "login": "Grace"})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p, err := account.NewGitHub(s.URL, s.URL, account.Client{ID: "id", Secret: "s", Base: "https://speed.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	begin, err := p.Begin(context.Background(), account.Flow{State: "st", Verifier: "v"})
	if err != nil || !strings.Contains(begin, "state=st") || !strings.Contains(begin, "code_challenge=") {
		t.Errorf("%s, %v", begin, err)
	}
	who, err := p.End(context.Background(), account.Flow{}, "good")
	if err != nil || who != (account.Identity{Provider: "github", Subject: "7", Name: "Grace"}) {
		t.Errorf("%+v, %v", who, err)
	}
	if who, err := p.End(context.Background(), account.Flow{}, "bad"); err == nil {
		t.Errorf("%+v", who)
	}
}

// part finds something in a provider's page.
func part(t *testing.T, page, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no %s in %s", pattern, page)
	}
	return m[1]
}

func TestRealAProviderLetsSomeoneIn(t *testing.T) {
	issuer := need.Setting(t, need.OIDC)
	const base = "http://127.0.0.1:8090"
	p, err := account.NewOIDC(issuer, account.Client{ID: "speedmatrix", Secret: "secret", Base: base})
	if err != nil {
		t.Fatal(err)
	}
	flow := account.Flow{State: strings.Repeat("s", 64), Nonce: strings.Repeat("n", 64), Verifier: strings.Repeat("v", 64)}
	address, err := p.Begin(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), base) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page := visit(t, browser, address, nil)
	page = visit(t, browser, part(t, page, `action="([^"]+)"`), url.Values{"prompt": {"login"}, "login": {"grace"}, "password": {"any"}})
	visit(t, browser, part(t, page, `action="([^"]+)"`), url.Values{"prompt": {"consent"}})
	if back == nil || back.Path != "/auth/oidc/callback" || back.Query().Get("state") != flow.State {
		t.Fatalf("the provider leads to %v", back)
	}
	who, err := p.End(t.Context(), flow, back.Query().Get("code"))
	if err != nil || who.Subject != "grace" || who.Provider != issuer {
		t.Errorf("%+v, %v", who, err)
	}
	if who, err := p.End(t.Context(), flow, back.Query().Get("code")); err == nil {
		t.Errorf("the code twice: %+v", who)
	}
	flow.Verifier = strings.Repeat("w", 64)
	if _, err := p.End(t.Context(), flow, "made-up"); err == nil {
		t.Error("a code made up")
	}
}

// visit gets a page, or sends a form, and gives the page where it ends.
func visit(t *testing.T, browser *http.Client, address string, form url.Values) string {
	t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
