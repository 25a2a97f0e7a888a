package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
	"speedmatrix/internal/siteclient"
	"speedmatrix/internal/unit"
)

// showRedaction shows what is sent, and what was taken out of it with the words that stood there.
func (s *submission) showRedaction(doc *speedmatrix.Run, changes []redact.Change, size int) {
	s.say("%s\n%d cells, %s to send\n\n", report.Clean(report.Build(doc).Title), len(doc.Cells), unit.Bytes(int64(size)))
	if len(changes) == 0 {
		s.say("Taken out before sending: nothing was found.\n\n")
		return
	}
	s.say("Taken out before sending:\n")
	for _, c := range changes {
		s.say("  %s\n", report.Clean(c.Pointer))
		if c.Before == "" {
			s.say("    - (gone since the run was saved)\n")
		} else {
			s.say("    - %s\n", report.Clean(c.Before))
		}
		s.say("    + %s\n", report.Clean(c.After))
	}
	s.say("\n")
}

// levelNames are the rungs of the ladder, as the site calls them.
var levelNames = []string{"", "Stated", "Complete", "Recomputed", "Self-consistent", "Reproduced by another"}

// showReceipt shows what the site found, rung by rung.
func (s *submission) showReceipt(r *siteclient.Receipt) {
	level := ""
	if r.Report.Level >= 0 && int(r.Report.Level) < len(levelNames) {
		level = levelNames[r.Report.Level]
	}
	s.say("What %s checked: level %d of 5, %s\n", s.base.Host, r.Report.Level, strings.ToLower(level))
	at := int64(0)
	for _, c := range r.Report.Checks {
		if c.Level != at && c.Level > 0 && int(c.Level) < len(levelNames) {
			at = c.Level
			reached := "not reached"
			if at <= r.Report.Level {
				reached = "reached"
			}
			s.say("\n  %s (%s)\n", levelNames[at], reached)
		}
		s.say("    %-8s %s: %s\n", report.Clean(c.Outcome), report.Clean(c.What), report.Clean(c.Detail))
	}
	if r.Report.Doubts != nil {
		s.say("\n  Cells that cannot be true as they are written\n")
		for _, d := range *r.Report.Doubts {
			s.say("    %s: %s\n", report.Clean(d.Cell), report.Clean(d.Why))
		}
	}
	if r.Report.ToReach != "" {
		s.say("\n  %s\n", report.Clean(r.Report.ToReach))
	}
	if r.Duplicate != nil && *r.Duplicate != "" {
		s.say("\n  These rows are here already: %s/runs/%s\n", s.base, report.Clean(*r.Duplicate))
	}
	s.say("\n")
}

// showAddress says where the run is now.
func (s *submission) showAddress(r *siteclient.Receipt) {
	switch r.Visibility {
	case "public":
		s.say("Published: %s/runs/%s\n", s.base, r.ID)
	case "unlisted":
		s.say("Unlisted, for those who have its address: %s/runs/%s\n", s.base, r.ID)
	case "draft":
		s.say("A draft, seen by you alone. Look at it and publish it: %s/upload/%s\n", s.base, r.ID)
	default:
		s.say("Uploaded without an account, for those who have its address: %s/runs/%s\n", s.base, r.ID)
	}
	if r.Claim != nil {
		s.say("To make it yours later, keep this: %s\n", *r.Claim)
	}
}

// publish makes the draft what the user wants.
func (s *submission) publish(ctx context.Context, r *siteclient.Receipt) (*siteclient.Receipt, error) {
	if s.draft || r.Visibility != "draft" {
		return r, nil
	}
	body := siteclient.ChangeRunJSONRequestBody{Visibility: siteclient.ChangeInputBodyVisibilityPublic}
	if s.unlisted {
		body.Visibility = siteclient.ChangeInputBodyVisibilityUnlisted
	}
	if s.why != "" {
		body.Why = &s.why
	}
	var changed *siteclient.ChangeRunResponse
	answer, err := s.again(ctx, "The publication", func() (got reply, err error) {
		if changed, err = s.client.ChangeRunWithResponse(ctx, r.ID, nil, body); err == nil {
			got = reply{changed.HTTPResponse, changed.ApplicationProblemJSONDefault}
		}
		return got, err
	})
	if err != nil {
		return nil, err
	}
	if changed.JSON200 == nil {
		return nil, s.refusal(answer)
	}
	out := *r
	out.Visibility = string(changed.JSON200.Visibility)
	return &out, nil
}

// login signs the user in elsewhere (RFC 8628): the site shows who asks, the user types the code there.
func (s *submission) login(ctx context.Context) error {
	begun, err := s.client.BeginDeviceWithResponse(ctx, siteclient.BeginDeviceJSONRequestBody{Scopes: []siteclient.DeviceInputBodyScopes{"read", "submit", "manage"}})
	if err != nil {
		return s.interruptedOr(ctx, s.noAnswer(err))
	}
	if begun.JSON200 == nil {
		return s.refusal(reply{begun.HTTPResponse, begun.ApplicationProblemJSONDefault})
	}
	d := begun.JSON200
	s.say("Sign in at %s and type the code %s\n", report.Clean(d.VerificationURI), report.Clean(d.UserCode))
	late := time.After(time.Duration(d.ExpiresIn) * time.Second)
	pause := time.Duration(max(1, cmp.Or(d.Interval, 5))) * time.Second
	for {
		select {
		case <-ctx.Done():
			return s.interruptedOr(ctx, ctx.Err())
		case <-late:
			return nobodySignedIn()
		case <-time.After(pause):
		}
		answer, err := s.client.DeviceTokenWithResponse(ctx, siteclient.DeviceTokenJSONRequestBody{DeviceCode: d.DeviceCode})
		switch {
		case err != nil:
			continue // the network may come back before the code expires
		case answer.JSON200 != nil:
			s.token = answer.JSON200.AccessToken
			s.keepToken()
			return nil
		}
		r := reply{answer.HTTPResponse, answer.ApplicationProblemJSONDefault}
		if r.later() {
			continue
		}
		if r.problem == nil {
			return s.refusal(r)
		}
		switch r.problem.Code {
		case "authorization_pending":
		case "slow_down":
			pause += 5 * time.Second
		case "access_denied":
			return &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: fmt.Sprintf("the login was refused at %s", s.base), Next: "Repeat the command, or give a token with --token-file."}
		case "not-found": // the site's clock was first
			return nobodySignedIn()
		default:
			return s.refusal(r)
		}
	}
}

func nobodySignedIn() error {
	return &speedmatrix.Error{Kind: speedmatrix.KindRefused, What: "nobody signed in in time", Next: "Repeat the command: it shows another code."}
}
