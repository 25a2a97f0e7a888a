package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/trust"
)

// codeOf is the code of a refusal, "" for none; another error fails the test.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	p := problemOf(err)
	if err != nil && p == nil {
		t.Fatalf("no refusal: %v", err)
	}
	if p == nil {
		return ""
	}
	return p.Code
}

// check gives the check of a code in a report.
func check(t *testing.T, r trust.Report, code string) trust.Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c trust.Check) bool { return c.Code == code })
	if i < 0 {
		t.Fatalf("no check is called %s", code)
	}
	return r.Checks[i]
}

func (w *world) set(by account.Visitor, id string, to catalog.Visibility) catalog.Entry {
	w.t.Helper()
	e, err := w.SetVisibility(w.t.Context(), by, id, ingest.Wish{Visibility: to, Why: "a reason"})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// history is what happened to a run, in words.
func (w *world) history(id string) (list []string) {
	w.t.Helper()
	changes, err := w.store.History(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range changes {
		list = append(list, c.What)
	}
	return list
}

func TestARunIsADraftUntilItIsPublished(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	dry, err := w.Check(t.Context(), ada, bytes.NewReader(packed(t, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.nothing()
	r := w.receive(ada, packed(t, nil))
	w.tidy()
	if dry.ID != "" || dry.Version != 0 || dry.Title != r.Title || dry.Report.Level != r.Report.Level || len(dry.Report.Checks) != len(r.Report.Checks) {
		t.Errorf("the dry run says %+v, the upload %+v", dry, r)
	}
	if r.Version != 1 || r.Visibility != catalog.Draft || r.Report.Level != catalog.SelfConsistent || check(t, r.Report, "recomputed").Outcome != trust.Passed {
		t.Errorf("%+v", r)
	}
	e, ok := w.index.Get(r.ID)
	if !ok || e.Owner != ada.Account.ID || e.OwnerName != "ada" || e.Level != r.Report.Level || len(e.EventsHash) != 64 || !e.ReceivedAt.Equal(today) || !e.PublishedAt.IsZero() {
		t.Errorf("%+v", e)
	}
	if list, err := w.index.Find(catalog.Query{All: true}); err != nil || len(list.Entries)+len(list.Apart) != 0 {
		t.Errorf("a draft is listed: %+v %v", list, err)
	}
	e1 := w.set(ada, r.ID, catalog.Public)
	if list, err := w.index.Find(catalog.Query{All: true}); err != nil || len(list.Entries) != 1 || !e1.PublishedAt.Equal(today) {
		t.Errorf("published at %v, listed: %+v %v", e1.PublishedAt, list, err)
	}
	if got := w.history(r.ID); !slices.Equal(got, []string{"received", "published"}) {
		t.Errorf("history: %v", got)
	}
	record, err := w.store.Get(t.Context(), r.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range record.Blobs {
		file, err := w.blobs.Open(t.Context(), b.Hash)
		if err != nil {
			t.Fatalf("%s: %v", b.Name, err)
		}
		if data, err := io.ReadAll(file); err != nil || int64(len(data)) != b.Size {
			t.Errorf("%s: %d bytes, %v", b.Name, len(data), err)
		}
	}
	if len(record.Blobs) != 7 || record.Blobs[0].Name != "run.json" || record.Blobs[0].Hash != record.Entry.DocumentHash {
		t.Errorf("%+v", record.Blobs)
	}
}

func TestWhatOneMayNotDo(t *testing.T) {
	w, ada, eve := newWorld(t), member("ada"), member("eve")
	moderator := account.Visitor{Account: account.Account{ID: "id-mod", Name: "mod", Role: account.Moderator}}
	r := w.receive(ada, packed(t, nil))
	for name, err := range map[string]error{
		"see another's draft":   errOf(w.SetVisibility(t.Context(), eve, r.ID, ingest.Wish{Visibility: catalog.Public})),
		"delete another's":      w.Remove(t.Context(), eve, r.ID),
		"decide for another":    errOf(w.Decide(t.Context(), eve, r.ID, ingest.ReadValid)),
		"delete what is not":    w.Remove(t.Context(), ada, "01nothing"),
		"publish what is not":   errOf(w.SetVisibility(t.Context(), ada, "01nothing", ingest.Wish{Visibility: catalog.Public})),
		"go on with no upload":  errOf(w.Append(t.Context(), ada, "01nothing", 0, bytes.NewReader(nil))),
		"claim what is not":     errOf(w.Claim(t.Context(), ada, "01nothing", "smc_x")),
		"finish what never was": errOf(w.Finish(t.Context(), ada, "01nothing")),
	} {
		if !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.set(ada, r.ID, catalog.Public)
	if err := w.Remove(t.Context(), ada, r.ID); codeOf(t, err) != "published" {
		t.Errorf("delete what is published: %v", err)
	}
	if _, err := w.SetVisibility(t.Context(), ada, r.ID, ingest.Wish{Visibility: catalog.Withdrawn, Why: " \n"}); codeOf(t, err) != "no-reason" {
		t.Errorf("withdraw without a reason: %v", err)
	}
	if _, err := w.SetVisibility(t.Context(), ada, r.ID, ingest.Wish{Visibility: catalog.Draft}); codeOf(t, err) != "no-way" {
		t.Errorf("back to a draft: %v", err)
	}
	var denied *account.Denied
	for name, err := range map[string]error{
		"unlist another's":   errOf(w.SetVisibility(t.Context(), eve, r.ID, ingest.Wish{Visibility: catalog.Unlisted})),
		"withdraw another's": errOf(w.SetVisibility(t.Context(), eve, r.ID, ingest.Wish{Visibility: catalog.Withdrawn, Why: "x"})),
		"upload as nobody":   errOf(w.Receive(t.Context(), account.Visitor{}, bytes.NewReader(packed(t, nil)))),
		"begin as nobody":    errOf(w.Begin(t.Context(), account.Visitor{}, 5, "x")),
		"claim as nobody":    errOf(w.Claim(t.Context(), account.Visitor{}, r.ID, "smc_x")),
	} {
		if !errors.As(err, &denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.set(ada, r.ID, catalog.Withdrawn)
	if e := w.set(ada, r.ID, catalog.Unlisted); e.Visibility != catalog.Unlisted || !slices.Equal(w.history(r.ID), []string{"received", "published", "withdrawn", "restored"}) {
		t.Errorf("%s after %v", e.Visibility, w.history(r.ID))
	}
	if err := w.Remove(t.Context(), moderator, r.ID); err != nil {
		t.Fatal(err)
	}
	w.nothing()
}

func errOf[T any](_ T, err error) error { return err }

func TestTheSameRunAgainIsSeen(t *testing.T) {
	w, ada, bob := newWorld(t), member("ada"), member("bob")
	first := w.receive(ada, packed(t, nil))
	if again := w.receive(ada, packed(t, nil)); again.ID != first.ID || again.Duplicate != "" || w.store.Len() != 1 {
		t.Errorf("one's own run again: %+v", again)
	}
	if r := w.receive(bob, packed(t, nil)); r.Duplicate != "" || check(t, r.Report, "new").Outcome != trust.Passed {
		t.Errorf("a draft of another shows through: %+v", r)
	}
	w.set(ada, first.ID, catalog.Public)
	carol := w.receive(member("carol"), packed(t, nil))
	if c := check(t, carol.Report, "new"); carol.Duplicate != first.ID || c.Outcome != trust.Found || !strings.Contains(c.Detail, "the same raw rows are here as "+first.ID) {
		t.Errorf("another's run again: %+v %+v", carol.Duplicate, c)
	}
	renamed := w.receive(bob, named(t, "20261201T000000Z-mine"))
	if c := check(t, renamed.Report, "new"); renamed.Duplicate != first.ID || !strings.Contains(c.Detail, "same raw rows") {
		t.Errorf("the same rows under another name: %+v", c)
	}
	edited := w.receive(bob, archived(t, regular("run.json", document(t, func(run map[string]any) {
		cell := cellOf(run, 0)
		cell["total_tokens_per_second"] = cell["total_tokens_per_second"].(float64) * 1.5
	}))))
	if c := check(t, edited.Report, "new"); c.Outcome != trust.Found || !strings.Contains(c.Detail, "one of the two was edited") {
		t.Errorf("edited: %+v", c)
	}
	table := w.receive(bob, archived(t, regular("run.json", document(t, func(run map[string]any) { run["warnings"] = []any{} }))))
	if c := check(t, table.Report, "new"); table.Duplicate != first.ID || !strings.Contains(c.Detail, "the same run is here as "+first.ID) {
		t.Errorf("without its rows: %+v", c)
	}
}

func TestRowsHaveTheSameHashInWhateverFileTheyStand(t *testing.T) {
	w := newWorld(t)
	first := w.receive(member("ada"), packed(t, nil))
	replace := map[string][]byte{}
	for _, name := range []string{"decode-0-x2.parquet", "requests-decode-0-x2.parquet"} {
		data, err := os.ReadFile("testdata/reencoded/" + name)
		if err != nil {
			t.Fatal(err)
		}
		replace["cells/"+name] = data
	}
	other := w.receive(member("bob"), packed(t, replace))
	a, _ := w.index.Get(first.ID)
	b, _ := w.index.Get(other.ID)
	if a.EventsHash != b.EventsHash || other.Report.Level != catalog.SelfConsistent {
		t.Errorf("%s and %s, level %s", a.EventsHash, b.EventsHash, other.Report.Level)
	}
	third := w.receive(member("bob"), packed(t, map[string][]byte{"cells/decode-0-x2.parquet": readFile(t, small+"/cells/decode-0-x1.parquet")}))
	if c, _ := w.index.Get(third.ID); c.EventsHash == a.EventsHash || third.Report.Level != catalog.Complete {
		t.Errorf("other rows have the same hash, or their numbers agree: %s", third.Report.Level)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestARunWithoutAnAccountIsInQuarantineUntilItIsClaimed(t *testing.T) {
	w := newWorld(t, func(o *ingest.Options) { o.Rules.Anonymous = true })
	r := w.receive(account.Visitor{}, packed(t, nil))
	if r.Visibility != catalog.Quarantined || !strings.HasPrefix(r.Claim, "smc_") {
		t.Fatalf("%+v", r)
	}
	e, _ := w.index.Get(r.ID)
	if e.HasOwner() || strings.Contains(e.Owner, r.Claim) || e.OwnerName != "" {
		t.Errorf("owned by %q, %q", e.Owner, e.OwnerName)
	}
	if _, err := w.Claim(t.Context(), member("eve"), r.ID, "smc_guess"); codeOf(t, err) != "claim" {
		t.Errorf("claimed with a guess: %v", err)
	}
	claimed, err := w.Claim(t.Context(), member("ada"), r.ID, r.Claim)
	if err != nil || claimed.Owner != "id-ada" || claimed.Visibility != catalog.Draft {
		t.Errorf("%+v %v", claimed, err)
	}
	if _, err := w.Claim(t.Context(), member("eve"), r.ID, r.Claim); codeOf(t, err) != "claim" {
		t.Errorf("claimed twice: %v", err)
	}
	if again := w.receive(account.Visitor{}, packed(t, nil)); again.ID == r.ID || again.Claim == "" {
		t.Errorf("nobody's run again: %+v", again)
	}
}

func TestWhatFailsLeavesNothing(t *testing.T) {
	failure := errors.New("the disk is full")
	for name, change := range map[string]func(o *ingest.Options){
		"store":   func(o *ingest.Options) { o.Store = failing{Store: o.Store, err: failure} },
		"entropy": func(o *ingest.Options) { o.Entropy = strings.NewReader("") },
		"rows": func(o *ingest.Options) {
			o.Examine = func(context.Context, string) (ingest.Examination, error) { return ingest.Examination{}, failure }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			if _, err := w.Receive(t.Context(), member("ada"), bytes.NewReader(packed(t, nil))); err == nil {
				t.Error("it was taken")
			}
			w.nothing()
		})
	}
}

// failing is a store that cannot keep a run.
type failing struct {
	catalog.Store
	err error
}

func (f failing) Put(context.Context, catalog.Record, catalog.Change) (catalog.Entry, error) {
	return catalog.Entry{}, f.err
}

func TestFilesThatAnotherRunHasStay(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	first := w.receive(ada, packed(t, nil))
	second := w.receive(ada, named(t, "20261201T000000Z-second"))
	if w.blobs.Len() != 8 {
		t.Errorf("%d files of two runs that differ in one", w.blobs.Len())
	}
	if err := w.Remove(t.Context(), ada, first.ID); err != nil {
		t.Fatal(err)
	}
	if w.blobs.Len() != 7 || w.index.Len() != 1 {
		t.Errorf("%d files, %d runs", w.blobs.Len(), w.index.Len())
	}
	if err := w.Remove(t.Context(), ada, second.ID); err != nil {
		t.Fatal(err)
	}
	w.nothing()
}

func TestOldDraftsGo(t *testing.T) {
	w, ada := newWorld(t), member("ada")
	r := w.receive(ada, packed(t, nil))
	kept := w.receive(ada, named(t, "20261201T000000Z-kept"))
	w.set(ada, kept.ID, catalog.Unlisted)
	draft, _ := w.index.Get(r.ID)
	other, _ := w.index.Get(kept.ID)
	list := []*catalog.Entry{draft, other}
	if err := w.DropOldDrafts(t.Context(), list, time.Hour); err != nil || w.store.Len() != 2 {
		t.Errorf("%d runs are left of two young ones: %v", w.store.Len(), err)
	}
	if err := w.DropOldDrafts(t.Context(), list, 0); err != nil || w.store.Len() != 1 || w.index.Len() != 1 {
		t.Errorf("%d runs are left, %d known: %v", w.store.Len(), w.index.Len(), err)
	}
}
