package site

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
)

// runTable is a list of somebody's runs.
type runTable struct {
	Rows []ownRow
	Acts bool
}

type ownRow struct {
	Thumb                 template.HTML
	Title, Sub, Link      string
	Seen, Trust, Received string
	Review, ReviewText    string
}

// mostOwn bounds such a list.
const mostOwn = 500

func ownRows(runs []*catalog.Entry, acts bool) runTable {
	t := runTable{Acts: acts}
	for _, e := range runs[:min(len(runs), mostOwn)] {
		row := ownRow{Thumb: thumb(e, inTables, nil), Title: clip(e.Title(), 120), Sub: clip(quantizedOn(e), 120), Link: "/runs/" + e.ID, Seen: seenWords[e.Visibility],
			Trust: levelWord(e.Level, e.Reproductions), Received: date(e.ReceivedAt)}
		if acts {
			row.Review, row.ReviewText = "/upload/"+e.ID, "Edit"
			if e.Visibility == catalog.Draft {
				row.ReviewText = "Look and publish"
				row.Link = row.Review
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// seenWords say in lists who sees a run.
var seenWords = map[catalog.Visibility]string{catalog.Draft: "you alone (draft)", catalog.Quarantined: "who has the address (no account)", catalog.Unlisted: "who has the address",
	catalog.Public: "everyone", catalog.Withdrawn: "nobody (withdrawn)"}

// meView is the visitor's own page.
type meView struct {
	Name, Says                 string
	Moderates, SignOut, Tokens bool
	Table                      runTable
	CSRF                       template.HTML
}

// signedIn gives the visitor, or leads to the sign-in.
func (p *pages) signedIn(r *http.Request) (account.Visitor, error) {
	v := account.FromContext(r.Context())
	if !v.SignedIn() {
		return v, &failure{status: http.StatusUnauthorized, Title: "This needs an account", Says: "Sign in, then you come back here.", Link: "/signin?next=" + url.QueryEscape(r.URL.RequestURI()), LinkText: "Sign in"}
	}
	return v, nil
}

func (p *pages) me(w http.ResponseWriter, r *http.Request) error {
	v, err := p.signedIn(r)
	if err == nil {
		err = p.Rules.May(v, account.ListOwn, "")
	}
	if err != nil {
		return err
	}
	runs := p.Index.OwnedBy(v.Account.ID)
	drafts := 0
	for _, e := range runs {
		if e.Visibility == catalog.Draft {
			drafts++
		}
	}
	says := plural(len(runs), "run", "runs")
	if drafts > 0 {
		says += ", " + strconv.Itoa(drafts) + " of them not published"
	}
	p.show(w, r, view{title: "Your account", current: "/me", name: "me", unlisted: true,
		data: meView{Name: v.Account.Name, Says: says + ".", Moderates: p.moderates(v), SignOut: p.Accounts != nil, Tokens: p.Tokens != nil, Table: ownRows(runs, true), CSRF: p.csrf(r)}})
	return nil
}

// userView is somebody's public page; All and Self are the addresses of their runs among all runs and of the page.
type userView struct {
	Name, Says, All, Self string
	Table                 runTable
}

// user serves somebody's public runs, the newest first, as a page or a file: /users/NAME, NAME.json, NAME.csv, NAME.atom.
func (p *pages) user(w http.ResponseWriter, r *http.Request) error {
	name, form := r.PathValue("name"), ""
	for ext := range listKinds {
		if rest, ok := strings.CutSuffix(name, ext); ok {
			name, form = rest, ext
			break
		}
	}
	page, err := p.Index.Find(catalog.Query{Owner: name, Sort: catalog.ByNewest, All: true, Limit: pageOfIndex})
	if err != nil {
		return err
	}
	if page.Total == 0 {
		if name, err = p.uploader(r, name); err != nil {
			return err
		}
	}
	self := "/users/" + url.PathEscape(name)
	if form != "" {
		q, err := readQuestion(url.Values{"cursor": r.URL.Query()["cursor"]}, p.Now())
		if err != nil {
			return err
		}
		q.Owner, q.Sort, q.All = name, catalog.ByNewest, true
		return p.sendRuns(w, r, runsList{q, self, form, clip(name, 60) + ": newest runs"})
	}
	name = clip(name, 60)
	p.show(w, r, view{title: name, current: "/runs", name: "user", data: userView{Name: name, Says: plural(page.Total, "public run", "public runs") + ".",
		All: "/runs?uploader=" + url.QueryEscape(name) + "&all=1", Self: self, Table: ownRows(page.Entries, false)},
		head: template.HTML(`<link rel="alternate" type="application/atom+xml" href="` + template.HTMLEscapeString(self) + `.atom">`)})
	return nil
}

// uploader is the name of an account as it writes it, of one without public runs.
func (p *pages) uploader(r *http.Request, name string) (string, error) {
	if p.Accounts == nil {
		return "", nothing("uploader")
	}
	a, err := p.Accounts.AccountByName(r.Context(), name)
	if errors.Is(err, account.ErrNotFound) {
		return "", nothing("uploader")
	}
	return a.Name, err
}

// tokensView is the page of the visitor's tokens; Secret is that of the one that was just made.
type tokensView struct {
	Secret string
	Scopes []choiceView
	Tokens []tokenRow
	CSRF   template.HTML
}

type tokenRow struct{ ID, Name, May, Made, Used, Ends string }

// scopes are the rights of tokens, in words.
var scopes = []choiceView{
	{string(account.Submit), "upload.", "New runs and new versions of yours.", true},
	{string(account.ReadOwn), "read your own.", "Drafts and unlisted runs too.", true},
	{string(account.Manage), "manage your own.", "Publish, edit, withdraw and delete.", false},
}

var moderation = choiceView{string(account.Moderate), "moderate.", "What you may do as a moderator.", false}

func (p *pages) tokens(w http.ResponseWriter, r *http.Request) error { return p.showTokens(w, r, "") }

func (p *pages) showTokens(w http.ResponseWriter, r *http.Request, secret string) error {
	visitor, err := p.signedIn(r)
	if err != nil {
		return err
	}
	if p.Tokens == nil {
		return nothing("page of tokens")
	}
	list, err := p.Tokens.Tokens(r.Context(), visitor)
	if err != nil {
		return err
	}
	v := tokensView{Secret: secret, Scopes: slices.Clone(scopes), CSRF: p.csrf(r)}
	if p.moderates(visitor) {
		v.Scopes = append(v.Scopes, moderation)
	}
	for _, t := range list {
		row := tokenRow{ID: t.ID, Name: clip(t.Name, 60), May: scopeWords(t.Scopes), Made: date(t.CreatedAt), Used: "never", Ends: "never"}
		if !t.UsedAt.IsZero() {
			row.Used = date(t.UsedAt)
		}
		if !t.ExpiresAt.IsZero() {
			row.Ends = date(t.ExpiresAt)
		}
		v.Tokens = append(v.Tokens, row)
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	p.show(w, r, view{title: "Tokens", current: "/me", name: "tokens", data: v, unlisted: true})
	return nil
}

func scopeWords(list []account.Scope) string {
	var words []string
	for _, s := range append(slices.Clone(scopes), moderation) {
		if slices.Contains(list, account.Scope(s.Value)) {
			words = append(words, strings.TrimSuffix(s.Head, "."))
		}
	}
	return strings.Join(words, ", ")
}

func (p *pages) makeToken(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.signedIn(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	if p.Tokens == nil {
		return nothing("page of tokens")
	}
	days, err := strconv.Atoi(r.PostForm.Get("days"))
	if err != nil || days < 0 || days > 3660 {
		return &failure{status: http.StatusBadRequest, Title: "When does it end?", Says: "Choose a time, and make the token again.", Link: "/me/tokens", LinkText: "Tokens"}
	}
	wish := account.TokenWish{Name: strings.TrimSpace(r.PostForm.Get("name")), For: time.Duration(days) * 24 * time.Hour}
	for _, s := range r.PostForm["scope"] {
		wish.Scopes = append(wish.Scopes, account.Scope(s))
	}
	if wish.Name == "" || len(wish.Scopes) == 0 {
		return &failure{status: http.StatusBadRequest, Title: "A token needs a name and a right", Says: "Say what it is for, and what it may do.", Link: "/me/tokens", LinkText: "Tokens"}
	}
	secret, _, err := p.Tokens.MakeToken(r.Context(), visitor, wish)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return p.showTokens(w, r, secret)
}

func (p *pages) revokeToken(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.signedIn(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	if p.Tokens == nil {
		return nothing("page of tokens")
	}
	if err := p.Tokens.DropToken(r.Context(), visitor, r.PostForm.Get("id")); err != nil {
		return err
	}
	http.Redirect(w, r, "/me/tokens", http.StatusSeeOther)
	return nil
}

// signInView is the page to sign in.
type signInView struct {
	Says, Next string
	Ways       []choiceView
}

func (p *pages) signIn(w http.ResponseWriter, r *http.Request) error {
	v := signInView{Says: "An account is needed to upload, and for nothing else.", Next: account.Next(r.URL.Query().Get("next"))}
	if p.Accounts != nil {
		for _, way := range p.Accounts.Ways() {
			v.Ways = append(v.Ways, choiceView{Value: way[0], Head: "Sign in with " + way[1]})
		}
	}
	if visitor := account.FromContext(r.Context()); visitor.SignedIn() {
		v.Says = "You are signed in as " + visitor.Account.Name + "."
	}
	p.show(w, r, view{title: "Sign in", current: "/signin", name: "signin", data: v, unlisted: true})
	return nil
}

// deviceView is the page on which a command line is let in.
type deviceView struct {
	Says, Notice, Code, May string
	Ask, Done               bool
	CSRF                    template.HTML
}

func (p *pages) device(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.signedIn(r)
	if err != nil {
		return err
	}
	v := deviceView{Says: "Let it in only if you started it yourself, on a machine that you trust.", CSRF: p.csrf(r)}
	if code := strings.ToUpper(strings.TrimSpace(r.URL.Query().Get("code"))); code != "" && p.Accounts != nil {
		d, err := p.Accounts.Device(r.Context(), code)
		switch {
		case errors.Is(err, account.ErrNotFound):
			v.Notice = "There is no such code, or its time is over. Codes live for a few minutes: start the sign-in of the program again."
		case err != nil:
			return err
		default:
			v.Ask, v.Code, v.May = true, d.UserCode, scopeWords(d.Scopes)+", as "+visitor.Account.Name
		}
	}
	p.show(w, r, view{title: "A program wants to sign in", current: "/me", name: "device", data: v, unlisted: true})
	return nil
}

func (p *pages) answerDevice(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.signedIn(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	if p.Accounts == nil {
		return nothing("page of programs")
	}
	allow := r.PostForm.Get("answer") == "yes"
	if err := p.Accounts.AnswerDevice(r.Context(), visitor, r.PostForm.Get("code"), allow); err != nil {
		return err
	}
	v := deviceView{Says: "You can close this page.", Notice: "Refused. The program was told so.", Done: true}
	if allow {
		v.Notice = fmt.Sprintf("Done. The program goes on as %s; its token stands among your tokens, where you can revoke it.", visitor.Account.Name)
	}
	p.show(w, r, view{title: "A program wants to sign in", current: "/me", name: "device", data: v, unlisted: true})
	return nil
}
