package ingest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/trust"
)

// receiptOf is what the uploader of a run that is here was told.
func (s *Service) receiptOf(ctx context.Context, id string) (*Receipt, error) {
	r, err := s.o.Store.Get(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	receipt := &Receipt{ID: id, Version: r.Entry.Version, Visibility: r.Entry.Visibility, Title: r.Entry.Title()}
	return receipt, json.Unmarshal(r.Checks, &receipt.Report)
}

// own reads the latest version of a run and says whether the visitor may do something to it. What may not even be seen is not
// there.
func (s *Service) own(ctx context.Context, by account.Visitor, id string, a account.Action) (catalog.Record, error) {
	r, err := s.o.Store.Get(ctx, id, 0)
	if err != nil {
		return r, err
	}
	return r, s.allowed(by, &r.Entry, a)
}

// allowed says whether a visitor may do something to a run; of one that they may not even see nothing is told.
func (s *Service) allowed(by account.Visitor, e *catalog.Entry, a account.Action) error {
	err := s.o.Rules.May(by, a, e.Owner)
	if err != nil && !MaySee(s.o.Rules, by, e) {
		return fmt.Errorf("run %s: %w", e.ID, catalog.ErrNotFound)
	}
	return err
}

// MaySee says whether a visitor who has a run's address may look at it.
func MaySee(rules account.Rules, v account.Visitor, e *catalog.Entry) bool {
	return e.Visibility != catalog.Draft || rules.May(v, account.See, e.Owner) == nil
}

// changes are the ways from one visibility to another, each with the right that it needs and what the history calls it.
func changes(from, to catalog.Visibility) (account.Action, string, bool) {
	switch {
	case to == catalog.Public && (from == catalog.Draft || from == catalog.Unlisted):
		return account.Publish, "published", true
	case to == catalog.Unlisted && (from == catalog.Draft || from == catalog.Public):
		return account.Publish, "unlisted", true
	case to == catalog.Withdrawn && from != catalog.Withdrawn && from != catalog.Draft:
		return account.Withdraw, "withdrawn", true
	case to == catalog.Unlisted && from == catalog.Withdrawn:
		return account.Withdraw, "restored", true
	case to == catalog.Public && from == catalog.Quarantined:
		return account.Moderating, "published", true
	}
	return "", "", false
}

// Wish is what shall become of a run, and the sentence on it that its history keeps.
type Wish struct {
	Visibility catalog.Visibility
	Why        string
}

// longestWhy is the longest sentence of a history, in bytes.
const longestWhy = 500

// sentence is what someone says of a change, in one line of letters that can be seen.
func sentence(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestWhy {
		text = strings.ToValidUTF8(text[:longestWhy], "") + "…"
	}
	return text
}

// SetVisibility publishes, unlists, withdraws or restores a run.
func (s *Service) SetVisibility(ctx context.Context, by account.Visitor, id string, w Wish) (catalog.Entry, error) {
	to := w.Visibility
	r, err := s.o.Store.Get(ctx, id, 0)
	if err != nil {
		return catalog.Entry{}, err
	}
	need, what, ok := changes(r.Entry.Visibility, to)
	if r.Entry.Visibility == to || !ok {
		need = account.Publish
	}
	if err := s.allowed(by, &r.Entry, need); err != nil {
		return catalog.Entry{}, err
	}
	if r.Entry.Visibility == to {
		return r.Entry, nil
	}
	if !ok {
		return r.Entry, refuse(http.StatusConflict, "no-way", "A run that is "+string(r.Entry.Visibility)+" cannot become "+printable(string(to)), "A draft is published or unlisted; what is published is unlisted or withdrawn.")
	}
	why := sentence(w.Why)
	if to == catalog.Withdrawn && why == "" {
		return r.Entry, bad("no-reason", "A run is not withdrawn without a reason", "Its address stays and says why: give a sentence.", "")
	}
	if to == catalog.Public && r.Entry.PublishedAt.IsZero() {
		r.Entry.PublishedAt = s.o.Now()
	}
	r.Entry.Visibility = to
	e, err := s.o.Store.Set(ctx, r, catalog.Change{At: s.o.Now(), By: by.Account.ID, What: what, Why: why})
	if err != nil {
		return e, err
	}
	s.o.Index.Apply(e)
	return e, s.lookAgain(ctx, &e)
}

// lookAgain judges anew the runs that a change may have reproduced, or left without the one that reproduced them.
func (s *Service) lookAgain(ctx context.Context, changed *catalog.Entry) error {
	for _, other := range append(s.o.Index.Neighbours(changed), changed) {
		if other.Owner == changed.Owner && other.ID != changed.ID {
			continue
		}
		if err := s.countAgain(ctx, other.ID); err != nil {
			return err
		}
	}
	return nil
}

// mostTries is how often a run is judged anew that others change at the same time.
const mostTries = 5

// countAgain counts again by whom a run was reproduced. One that is gone has nobody to tell.
func (s *Service) countAgain(ctx context.Context, id string) (err error) {
	for range mostTries {
		if err = s.reproductions(ctx, id); !errors.Is(err, catalog.ErrConflict) {
			break
		}
	}
	if errors.Is(err, catalog.ErrNotFound) {
		return nil
	}
	return err
}

// reproductions counts again by whom a run was reproduced.
func (s *Service) reproductions(ctx context.Context, id string) error {
	r, err := s.o.Store.Get(ctx, id, 0)
	if err != nil {
		return err
	}
	var report trust.Report
	if err := json.Unmarshal(r.Checks, &report); err != nil {
		return err
	}
	before := slices.Clone(report.Reproducers)
	report.Reproduce(&r.Entry, s.o.Index.Neighbours(&r.Entry))
	if slices.Equal(before, report.Reproducers) && report.Level == r.Entry.Level {
		return nil
	}
	r.Entry.Level, r.Entry.Reproductions = report.Level, len(report.Reproducers)
	if r.Checks, err = json.Marshal(report); err != nil {
		return err
	}
	e, err := s.o.Store.Set(ctx, r, catalog.Change{At: s.o.Now(), What: "checked again"})
	if err != nil {
		return err
	}
	s.o.Index.Apply(e)
	return nil
}

// Remove takes a draft out, or as a moderator any run, with its files that no other run has.
func (s *Service) Remove(ctx context.Context, by account.Visitor, id string) error {
	r, err := s.own(ctx, by, id, account.Delete)
	if err != nil {
		return err
	}
	if r.Entry.Visibility != catalog.Draft {
		if err := s.o.Rules.May(by, account.Erase, r.Entry.Owner); err != nil {
			return refuse(http.StatusConflict, "published", "What was published is not deleted", "Withdraw it: its address stays and says why. A moderator can erase it.")
		}
	}
	return s.erase(ctx, r)
}

func (s *Service) erase(ctx context.Context, r catalog.Record) error {
	id := r.Entry.ID
	blobs := slices.Clone(r.Blobs)
	for version := 1; version < r.Entry.Version; version++ {
		old, err := s.o.Store.Get(ctx, id, version)
		if err != nil {
			return err
		}
		blobs = append(blobs, old.Blobs...)
	}
	if err := s.o.Store.Remove(ctx, id); err != nil {
		return err
	}
	if err := s.load(ctx, id); err != nil {
		return err
	}
	if err := s.lookAgain(ctx, &r.Entry); err != nil {
		return err
	}
	return s.dropFiles(ctx, blobs)
}

// load tells the index what became of a run.
func (s *Service) load(ctx context.Context, id string) error {
	known, ok := s.o.Index.Get(id)
	if !ok {
		return nil
	}
	for e, err := range s.o.Store.Since(ctx, known.Sequence) {
		if err != nil {
			return err
		}
		s.o.Index.Apply(e)
	}
	return nil
}

// Claim makes a run that was uploaded without an account a draft of the visitor's.
func (s *Service) Claim(ctx context.Context, by account.Visitor, id, secret string) (catalog.Entry, error) {
	if err := s.o.Rules.May(by, account.Claim, ""); err != nil {
		return catalog.Entry{}, err
	}
	r, err := s.o.Store.Get(ctx, id, 0)
	if err != nil {
		return catalog.Entry{}, err
	}
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare([]byte(catalog.ClaimPrefix+hex.EncodeToString(sum[:])), []byte(r.Entry.Owner)) != 1 {
		return catalog.Entry{}, refuse(http.StatusForbidden, "claim", "This is not the secret of that run", "It stands in the receipt of the upload.")
	}
	r.Entry.Owner, r.Entry.OwnerName, r.Entry.Visibility = by.Account.ID, by.Account.Name, catalog.Draft
	e, err := s.o.Store.Set(ctx, r, catalog.Change{At: s.o.Now(), By: by.Account.ID, What: "claimed"})
	if err != nil {
		return e, err
	}
	s.o.Index.Apply(e)
	return e, nil
}

// DropOldDrafts removes drafts, and runs in quarantine, that nobody took up for a time.
func (s *Service) DropOldDrafts(ctx context.Context, list []*catalog.Entry, age time.Duration) error {
	for _, e := range list {
		if (e.Visibility != catalog.Draft && e.Visibility != catalog.Quarantined) || s.o.Now().Sub(e.ReceivedAt) < age {
			continue
		}
		r, err := s.o.Store.Get(ctx, e.ID, 0)
		if err == nil {
			err = s.erase(ctx, r)
		}
		if err != nil && !errors.Is(err, catalog.ErrNotFound) {
			return err
		}
	}
	return nil
}
