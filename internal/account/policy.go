package account

import (
	"fmt"
	"net/http"
	"slices"
)

// Action is something that not everyone may do.
type Action string

// The actions.
const (
	// See looks at a run that no list shows and that its address does not open: a draft, or what was withdrawn.
	See Action = "see"
	// Check asks what an upload would become; Upload keeps it.
	Check  Action = "check"
	Upload Action = "upload"
	// Publish makes a draft public or unlisted; Edit makes a new version, or decides about doubtful cells; Withdraw takes the
	// numbers away and leaves the address; Delete removes a draft without a trace.
	Publish  Action = "publish"
	Edit     Action = "edit"
	Withdraw Action = "withdraw"
	Delete   Action = "delete"
	// Claim makes a run that was uploaded without an account one's own.
	Claim Action = "claim"
	// Erase removes any run for good; Moderating sees what awaits a moderator; SetRole changes what an account may do.
	Erase      Action = "erase"
	Moderating Action = "moderate"
	SetRole    Action = "set role"
	// UseTokens lists, makes and revokes one's own tokens; ApproveDevice answers the login of a command line.
	UseTokens     Action = "use tokens"
	ApproveDevice Action = "approve device"
	// ListOwn lists one's own runs, drafts too.
	ListOwn Action = "list own"
)

// Actions lists all of them.
func Actions() []Action {
	return []Action{See, Check, Upload, Publish, Edit, Withdraw, Delete, Claim, Erase, Moderating, SetRole, UseTokens, ApproveDevice, ListOwn}
}

// Rules are what a site allows at all.
type Rules struct {
	// ReadOnly refuses every change.
	ReadOnly bool
	// Anonymous takes uploads from those without an account.
	Anonymous bool
}

// Denied says why someone may not do something.
type Denied struct {
	Action Action
	// SignIn says that an account would help; ReadOnly that the site takes no change from anyone.
	SignIn, ReadOnly bool
	// Scope is the one that the token lacks, "" where no token was used or none would do.
	Scope Scope
}

func (d *Denied) Error() string {
	switch {
	case d.ReadOnly:
		return "this site is read only for now"
	case d.SignIn:
		return fmt.Sprintf("to %s needs an account: sign in, or send a token", d.Action)
	case d.Scope != "":
		return fmt.Sprintf("this token may not %s: it lacks the scope %q", d.Action, d.Scope)
	}
	return fmt.Sprintf("you may not %s here", d.Action)
}

// Status is that of an answer.
func (d *Denied) Status() int {
	if d.SignIn {
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// right is who may do something: the scope that a token needs, and whether it is for the owner of the run, for moderators, or
// for administrators.
type right struct {
	scope                                 Scope
	owner, member, moderator, administers bool
	reads                                 bool
	// browser is for people: no token will do.
	browser bool
}

// rights is the table of all actions.
func rights(a Action) right {
	switch a {
	case See:
		return right{scope: ReadOwn, owner: true, moderator: true, reads: true}
	case ListOwn:
		return right{scope: ReadOwn, member: true, reads: true}
	case Check:
		return right{scope: Submit, member: true, reads: true}
	case Upload, Claim:
		return right{scope: Submit, member: true}
	case Publish:
		return right{scope: Submit, owner: true, moderator: true}
	case Edit, Withdraw, Delete:
		return right{scope: Manage, owner: true, moderator: true}
	case Erase:
		return right{scope: Moderate, moderator: true}
	case Moderating:
		return right{scope: Moderate, moderator: true, reads: true}
	case SetRole:
		return right{administers: true, browser: true}
	case UseTokens, ApproveDevice:
		return right{member: true, browser: true}
	}
	return right{}
}

// May says whether a visitor may do something to a run of an owner ("" for nobody's, or where no run is concerned); the
// error is a *Denied.
func (r Rules) May(v Visitor, a Action, owner string) error {
	need := rights(a)
	if r.ReadOnly && !need.reads {
		return &Denied{Action: a, ReadOnly: true}
	}
	if !v.SignedIn() {
		if r.Anonymous && (a == Check || a == Upload) {
			return nil
		}
		return &Denied{Action: a, SignIn: true}
	}
	own := need.owner && owner != "" && owner == v.Account.ID
	if !need.allows(v.Account.Role, own) {
		return &Denied{Action: a}
	}
	if !v.Token {
		return nil
	}
	return need.token(v, a, own)
}

// allows says whether an account may, whatever it came with.
func (need right) allows(role Role, own bool) bool {
	switch role {
	case Blocked:
		return false
	case Administrator:
		return need.member || own || need.moderator || need.administers
	case Moderator:
		return need.member || own || need.moderator
	}
	return need.member || own
}

// token says whether a token that came for an account that may has the scope for it: that of a moderator, where it may only
// as one.
func (need right) token(v Visitor, a Action, own bool) error {
	scope := need.scope
	if !own && !need.member {
		scope = Moderate
	}
	switch {
	case need.browser:
		return &Denied{Action: a}
	case !slices.Contains(v.Scopes, scope):
		return &Denied{Action: a, Scope: scope}
	}
	return nil
}
