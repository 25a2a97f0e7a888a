package site

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/trust"
	"speedmatrix/internal/unit"
)

// uploadView is the page on how to upload.
type uploadView struct {
	Commands  []string
	Levels    []struct{ Name, What string }
	Most      string
	MayUpload bool
	WhyNot    string
	SignIn    bool
	// Proof stands in the address of the form, which has a file.
	Proof string
}

func (p *pages) upload(w http.ResponseWriter, r *http.Request) error {
	v := uploadView{Commands: []string{"speedmatrix run --launch 'vllm serve …'", "speedmatrix submit RUN --to " + p.Base}, Most: unit.Bytes(p.MaxUpload), Proof: p.proof(r)}
	for _, l := range levels {
		v.Levels = append(v.Levels, struct{ Name, What string }{l.name, l.what})
	}
	visitor := account.FromContext(r.Context())
	switch {
	case p.Rules.ReadOnly:
		v.WhyNot = "This site is read only at the moment."
	case visitor.Account.Role == account.Blocked:
		v.WhyNot = "Your account may read, and nothing else."
	case !visitor.SignedIn() && !p.Rules.Anonymous:
		v.WhyNot, v.SignIn = "An upload needs an account.", true
	default:
		v.MayUpload = true
	}
	p.show(w, r, view{title: "Upload", current: "/upload", name: "upload", data: v})
	return nil
}

// receive takes an archive from the form.
func (p *pages) receive(w http.ResponseWriter, r *http.Request) error {
	// The archive stands in a form, which is a little longer.
	r.Body = http.MaxBytesReader(w, r.Body, p.MaxUpload+1<<20)
	form, err := r.MultipartReader()
	if err != nil {
		return &failure{status: http.StatusBadRequest, Title: "No archive came", Says: "Choose the archive of a run directory and send the form again.", Link: "/upload", LinkText: "Upload"}
	}
	for {
		field, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return &failure{status: http.StatusBadRequest, Title: "No archive came", Says: "Choose the archive of a run directory and send the form again.", Link: "/upload", LinkText: "Upload"}
		}
		if err != nil {
			return brokenForm(err)
		}
		if field.FormName() != "archive" {
			continue
		}
		receipt, err := p.Runs.Receive(r.Context(), account.FromContext(r.Context()), field)
		if err != nil {
			return cmp.Or(brokenForm(err), err)
		}
		return p.received(w, r, receipt)
	}
}

// brokenForm is what the sender of a form that was cut or too long is told; nil for other errors.
func brokenForm(err error) error {
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return &failure{status: http.StatusRequestEntityTooLarge, Title: "The archive is too large", Says: "This site takes at most " + unit.Bytes(long.Limit) + ".", Link: "/upload", LinkText: "Upload"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{status: http.StatusBadRequest, Title: "The archive did not come whole", Says: "The connection broke off. The command line goes on where it was: speedmatrix submit.", Link: "/upload", LinkText: "Upload"}
	}
	return nil
}

// received leads to what was found; who has no account is told how to claim the run later.
func (p *pages) received(w http.ResponseWriter, r *http.Request, receipt *ingest.Receipt) error {
	if receipt.Claim == "" {
		http.Redirect(w, r, "/upload/"+receipt.ID, http.StatusSeeOther)
		return nil
	}
	p.show(w, r, view{title: "Received", current: "/upload", name: "claim", data: receipt, unlisted: true})
	return nil
}

// reviewView is the page on which an uploader decides.
type reviewView struct {
	ID, Title, Eyebrow, Standing, Origin, OriginWord string
	Provenance                                       []string
	noticeView
	Ladder      []rung
	ToReach     template.HTML
	DoubtsTitle string
	Doubts      []doubtView
	Reasons     []string
	Choices     []choiceView
	Thumb       template.HTML
	ThumbSays   string
	Redaction   redactionView
	Sent        string
	RawRows     string
	MayEdit     bool
	ActTitle    string
	ActSays     string
	WhyLabel    string
	Acts        []actView
	MayDelete   bool
	DeleteSays  string
	CSRF        template.HTML
}

// claimView is the page on which someone says that a run without an account is theirs.
type claimView struct {
	ID, Title string
	SignedIn  bool
	CSRF      template.HTML
}

// choiceView is one of several things to choose.
type choiceView struct {
	Value, Head, Rest string
	Checked           bool
}

// actView is a button.
type actView struct {
	Value, Text string
	Main        bool
}

// choices are what may become of doubtful cells.
var choices = []choiceView{
	{ingest.KeepLabel, "keep the label, with this doubt beside it.", "The source’s words stay; their speeds are left out of boards.", true},
	{ingest.ReadValid, "read Valid, “label corrected by the uploader”.", "The first label stays in the history.", false},
	{ingest.NoSpeed, "have no speed.", "The status stays, the numbers move to the history.", false},
}

// owned reads a run that the visitor may decide about.
func (p *pages) owned(r *http.Request) (catalog.Record, error) {
	rec, err := p.record(r, 0)
	if err != nil {
		return rec, err
	}
	if !p.decides(account.FromContext(r.Context()), &rec.Entry) {
		return rec, nothing("upload of yours")
	}
	return rec, nil
}

func (p *pages) review(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.record(r, 0)
	if err != nil {
		return err
	}
	if v := account.FromContext(r.Context()); rec.Entry.Visibility == catalog.Quarantined && !p.moderates(v) {
		p.show(w, r, view{title: "Claim a run", current: "/upload", name: "claiming", unlisted: true,
			data: claimView{ID: rec.Entry.ID, Title: clip(rec.Entry.Title(), 200), SignedIn: v.SignedIn(), CSRF: p.csrf(r)}})
		return nil
	}
	if rec, err = p.owned(r); err != nil {
		return err
	}
	run, _, err := runfile.Decode(rec.Document)
	if err != nil {
		return fmt.Errorf("read the document of run %s: %w", rec.Entry.ID, err)
	}
	v := p.reviewOf(r, &rec, run)
	p.show(w, r, view{title: "Your upload: " + v.Title, current: "/upload", name: "review", data: v, unlisted: true})
	return nil
}

func (p *pages) reviewOf(r *http.Request, rec *catalog.Record, run *speedmatrix.Run) reviewView {
	e, found := &rec.Entry, checksOf(rec)
	v := reviewView{ID: e.ID, Title: clip(e.Title(), 200), Eyebrow: eyebrows[e.Visibility], Standing: standing(found), Origin: e.Origin, OriginWord: originWord(e),
		Provenance: append(originSays(e), seenBy(e.Visibility)), Ladder: ladder(found, "/runs/"+e.ID), ToReach: withCommands(found.ToReach),
		Redaction: redaction(rec.Document), MayEdit: !p.Rules.ReadOnly, CSRF: p.csrf(r)}
	v.setDoubts(e, found, run)
	var rows int64
	files := 0
	for _, b := range rec.Blobs {
		if b.Name != "run.json" {
			files, rows = files+1, rows+b.Size
		}
	}
	v.Sent, v.RawRows = "run.json "+unit.Bytes(int64(len(rec.Document))), "none were sent"
	if e.EventsHash != "" {
		v.Sent += ", " + plural(files, "file", "files") + " of raw rows and samples " + unit.Bytes(rows)
		v.RawRows = "sent; every published number was computed again from them"
	}
	v.setActs(e, p.moderates(account.FromContext(r.Context())))
	if e.Visibility != catalog.Draft && e.Visibility != catalog.Withdrawn {
		v.Notice, v.NoticeLink, v.NoticeText = capital(seenBy(e.Visibility))+".", "/runs/"+e.ID, "The run’s page"
	}
	return v
}

// eyebrows stand above the title of a review.
var eyebrows = map[catalog.Visibility]string{catalog.Draft: "Your upload, seen only by you", catalog.Quarantined: "An upload without an account", catalog.Unlisted: "Your run, unlisted",
	catalog.Public: "Your run, public", catalog.Withdrawn: "Your run, withdrawn"}

// seenBy says who sees a run.
func seenBy(v catalog.Visibility) string {
	switch v {
	case catalog.Draft:
		return "nothing is public yet"
	case catalog.Quarantined:
		return "seen by those who have its address, in no list"
	case catalog.Unlisted:
		return "seen by those who have its address"
	case catalog.Withdrawn:
		return "its address says who withdrew it, and why"
	}
	return "seen by everyone"
}

// setDoubts fills the part on cells that cannot be true as they are written.
func (v *reviewView) setDoubts(e *catalog.Entry, found *trust.Report, run *speedmatrix.Run) {
	v.Doubts = doubts(found, "/runs/"+e.ID)
	if len(v.Doubts) == 0 {
		return
	}
	v.DoubtsTitle = capital(countWord(len(v.Doubts))) + " cells to decide"
	if len(v.Doubts) == 1 {
		v.DoubtsTitle = "One cell to decide"
	}
	byKey := map[string]*report.Measurement{}
	for _, m := range report.Build(run).Measurements {
		byKey[m.Key] = m
	}
	var keys []string
	said := map[string]bool{}
	for i := range v.Doubts {
		d := &v.Doubts[i]
		keys = append(keys, d.Key)
		d.Total, d.TTFT, d.Active, d.Status = unit.Dash, unit.Dash, unit.Dash, unit.Dash
		if m := byKey[d.Key]; m != nil {
			d.Total, d.TTFT, d.Active, d.Status = m.Total, m.TTFT, m.Active, string(m.Status)
		}
		if !said[d.Why] && len(v.Reasons) < 6 {
			said[d.Why] = true
			v.Reasons = append(v.Reasons, sentence(d.Why))
		}
	}
	v.Choices, v.Thumb = choices, thumb(e, inReview, keys)
	v.ThumbSays = "Total tok/s, context by requests at once, as others will see it in lists. Ringed: " + strings.ToLower(v.DoubtsTitle) + "."
}

// countWord writes a small number as a word.
func countWord(n int) string {
	words := strings.Fields("no one two three four five six seven eight nine")
	if n < len(words) {
		return words[n]
	}
	return unit.Count(n)
}

// setActs says what can be done with the run, and what that means.
func (v *reviewView) setActs(e *catalog.Entry, moderator bool) {
	publish, unlist := actView{string(catalog.Public), "Publish", true}, actView{string(catalog.Unlisted), "Keep unlisted", false}
	withdraw := actView{string(catalog.Withdrawn), "Withdraw", false}
	v.ActTitle, v.WhyLabel = "Change who sees it", "Why (needed to withdraw)"
	v.ActSays = "What you do stands in the history of the run. A withdrawn page says who withdrew it and why, and shows its numbers no more."
	v.MayDelete = e.Visibility == catalog.Draft || moderator
	v.DeleteSays = "The run goes with all its versions, files and history. Its address is gone for good."
	switch e.Visibility {
	case catalog.Draft:
		v.ActTitle, v.WhyLabel = "Publish", "A sentence for its history (need not be)"
		v.ActSays = fmt.Sprintf("The page will say “%s, %s” and list everything found above. You can edit or withdraw it later; the history stays visible, and a withdrawn page says why.", v.OriginWord, strings.ToLower(levelWord(e.Level, e.Reproductions)))
		v.Acts = []actView{publish, unlist}
	case catalog.Unlisted, catalog.Quarantined:
		v.Acts = []actView{publish, withdraw}
	case catalog.Withdrawn:
		unlist.Text, unlist.Main = "Restore it, unlisted", true
		v.Acts = []actView{unlist}
	default:
		unlist.Text, withdraw.Main = "Take out of lists", true
		v.Acts = []actView{withdraw, unlist}
	}
}

// formBytes bounds a form without a file.
const formBytes = 64 << 10

// readForm reads a form without a file.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if err := r.ParseForm(); err != nil {
		return &failure{status: http.StatusBadRequest, Title: "The form could not be read", Says: "Go back and send it again."}
	}
	return nil
}

func (p *pages) setVisibility(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	id, to := r.PathValue("id"), catalog.Visibility(r.PostForm.Get("to"))
	if _, err := p.Runs.SetVisibility(r.Context(), account.FromContext(r.Context()), id, ingest.Wish{Visibility: to, Why: r.PostForm.Get("why")}); err != nil {
		return err
	}
	next := "/upload/" + id
	if to == catalog.Public || to == catalog.Unlisted {
		next = "/runs/" + id
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

func (p *pages) decide(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, err := p.Runs.Decide(r.Context(), account.FromContext(r.Context()), id, r.PostForm.Get("cells")); err != nil {
		return err
	}
	http.Redirect(w, r, "/upload/"+id+"#cells", http.StatusSeeOther)
	return nil
}

// claim makes a run that was uploaded without an account the visitor's, and leads to its review.
func (p *pages) claim(w http.ResponseWriter, r *http.Request) error {
	visitor, err := p.signedIn(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, err := p.Runs.Claim(r.Context(), visitor, id, strings.TrimSpace(r.PostForm.Get("claim"))); err != nil {
		return err
	}
	http.Redirect(w, r, "/upload/"+id, http.StatusSeeOther)
	return nil
}

func (p *pages) remove(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	if err := p.Runs.Remove(r.Context(), account.FromContext(r.Context()), r.PathValue("id")); err != nil {
		return err
	}
	http.Redirect(w, r, "/me", http.StatusSeeOther)
	return nil
}
