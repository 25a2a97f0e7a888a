package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Provider is a service that says who someone is.
type Provider interface {
	// Name stands in addresses, Label is for people.
	Name() string
	Label() string
	// Begin gives the address to send the browser to; state, nonce and verifier come back or are asked for at the end.
	Begin(ctx context.Context, flow Flow) (string, error)
	// End exchanges the code for who it is.
	End(ctx context.Context, flow Flow, code string) (Identity, error)
}

// Flow is what binds the end of a sign-in to its beginning.
type Flow struct{ State, Nonce, Verifier string }

// The bounds of what is asked of a provider.
const (
	providerTime  = 15 * time.Second
	providerBytes = 1 << 20
)

// guarded is the client for a provider: one host, no redirects to elsewhere, bounded answers.
func guarded(host string, base http.RoundTripper) *http.Client {
	return &http.Client{Timeout: providerTime, Transport: &oneHost{host: host, base: base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the provider sends elsewhere") }}
}

// oneHost lets requests to one host through, so that what a provider says of itself cannot send this site anywhere else.
type oneHost struct {
	host string
	base http.RoundTripper
}

// RoundTrip refuses other hosts.
func (o *oneHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != o.host {
		return nil, fmt.Errorf("%s is not the provider's host %s", r.URL.Host, o.host)
	}
	base := o.base
	if base == nil {
		base = http.DefaultTransport
	}
	answer, err := base.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, providerBytes), answer.Body}
	}
	return answer, err
}

// OIDC is a provider of OpenID Connect.
type OIDC struct {
	issuer, clientID, secret, redirect string
	client                             *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
}

// Client is this site as a provider knows it.
type Client struct {
	ID, Secret string
	// Base is the site's address without a slash at its end.
	Base string
	// Transport is nil for the system's.
	Transport http.RoundTripper
}

// NewOIDC names a provider by its issuer; it is asked when someone first signs in.
func NewOIDC(issuer string, c Client) (*OIDC, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of an OpenID Connect provider", issuer)
	}
	return &OIDC{issuer: issuer, clientID: c.ID, secret: c.Secret, redirect: c.Base + "/auth/oidc/callback", client: guarded(u.Host, c.Transport)}, nil
}

// Name is that in addresses.
func (*OIDC) Name() string { return "oidc" }

// Label is the provider's host.
func (o *OIDC) Label() string {
	u, err := url.Parse(o.issuer)
	if err != nil {
		return o.issuer
	}
	return u.Host
}

// discover asks the provider about itself, once it answers.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	// The keys are fetched long after the visitor who made us ask is gone.
	p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.client), o.issuer)
	if err != nil {
		return nil, fmt.Errorf("the provider %s does not say what it is: %w", o.issuer, err)
	}
	o.provider = p
	return p, nil
}

func (o *OIDC) config(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: o.clientID, ClientSecret: o.secret, Endpoint: p.Endpoint(), RedirectURL: o.redirect, Scopes: []string{oidc.ScopeOpenID, "profile"}}
}

// Begin sends the browser to the provider.
func (o *OIDC) Begin(ctx context.Context, f Flow) (string, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	return o.config(p).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// End checks the signature, issuer, audience, time and nonce of the ID token.
func (o *OIDC) End(ctx context.Context, f Flow, code string) (Identity, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, o.client)
	token, err := o.config(p).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Identity{}, fmt.Errorf("the provider does not take the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Identity{}, errors.New("the provider gave no ID token")
	}
	id, err := p.Verifier(&oidc.Config{ClientID: o.clientID}).Verify(ctx, raw)
	if err != nil {
		return Identity{}, fmt.Errorf("the provider's ID token does not hold: %w", err)
	}
	if id.Nonce != f.Nonce {
		return Identity{}, errors.New("the provider's ID token is for another sign-in")
	}
	var claims struct {
		Preferred string `json:"preferred_username"`
		Nickname  string `json:"nickname"`
		Name      string `json:"name"`
	}
	if err := id.Claims(&claims); err != nil {
		return Identity{}, err
	}
	who := Identity{Provider: o.issuer, Subject: id.Subject, Name: claims.Preferred}
	for _, name := range []string{claims.Nickname, claims.Name, "user"} {
		if who.Name == "" {
			who.Name = name
		}
	}
	return who, nil
}

// GitHub is GitHub, or an Enterprise server of it.
type GitHub struct {
	config oauth2.Config
	api    string
	web    *http.Client
	user   *http.Client
}

// NewGitHub names GitHub by its addresses: https://github.com and https://api.github.com, or those of another server.
func NewGitHub(web, api string, c Client) (*GitHub, error) {
	w, errWeb := url.Parse(web)
	a, errAPI := url.Parse(api)
	if errWeb != nil || errAPI != nil || w.Host == "" || a.Host == "" {
		return nil, fmt.Errorf("%q and %q are no addresses of GitHub", web, api)
	}
	return &GitHub{config: oauth2.Config{ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: c.Base + "/auth/github/callback",
		Endpoint: oauth2.Endpoint{AuthURL: web + "/login/oauth/authorize", TokenURL: web + "/login/oauth/access_token"}},
		api: api, web: guarded(w.Host, c.Transport), user: guarded(a.Host, c.Transport)}, nil
}

// Name is that in addresses.
func (*GitHub) Name() string { return "github" }

// Label is for people.
func (*GitHub) Label() string { return "GitHub" }

// Begin sends the browser to GitHub.
func (g *GitHub) Begin(_ context.Context, f Flow) (string, error) {
	return g.config.AuthCodeURL(f.State, oauth2.S256ChallengeOption(f.Verifier)), nil
}

// End asks GitHub whose the code is. The number of the account stays when its name changes.
func (g *GitHub) End(ctx context.Context, f Flow, code string) (Identity, error) {
	token, err := g.config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, g.web), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Identity{}, fmt.Errorf("GitHub does not take the code: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.api+"/user", nil)
	if err != nil {
		return Identity{}, err
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	token.SetAuthHeader(r)
	answer, err := g.user.Do(r)
	if err != nil {
		return Identity{}, fmt.Errorf("GitHub does not say who it is: %w", err)
	}
	defer answer.Body.Close()
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&user); err != nil || answer.StatusCode != http.StatusOK || user.ID == 0 {
		return Identity{}, fmt.Errorf("GitHub does not say who it is: %s", answer.Status)
	}
	return Identity{Provider: "github", Subject: strconv.FormatInt(user.ID, 10), Name: user.Login}, nil
}
