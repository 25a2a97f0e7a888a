package account_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"speedmatrix/internal/account"
)

// visitors are every kind of visitor: who it is, and what a token of theirs may.
func visitors() map[string]account.Visitor {
	list := map[string]account.Visitor{"nobody": {}}
	for _, who := range []string{"owner", "other", "moderator", "administrator", "blocked"} {
		role := account.Member
		if who != "owner" && who != "other" {
			role = account.Role(who)
		}
		a := account.Account{ID: who, Name: who, Role: role}
		list[who] = account.Visitor{Account: a}
		for _, scope := range []account.Scope{account.ReadOwn, account.Submit, account.Manage, account.Moderate} {
			list[who+" by token "+string(scope)] = account.Visitor{Account: a, Token: true, Scopes: []account.Scope{scope}}
		}
	}
	return list
}

// rightsOf says, for each action on a run of the owner's, who may.
func rightsOf(a account.Action) []string {
	all := []string{"owner", "other", "moderator", "administrator"}
	tokens := func(scope string, who ...string) (list []string) {
		for _, w := range who {
			list = append(list, w+" by token "+scope)
		}
		return list
	}
	owners := []string{"owner", "moderator", "administrator"}
	switch a {
	case account.See:
		return append(append(owners, tokens("read", "owner")...), tokens("moderate", "moderator", "administrator")...)
	case account.ListOwn:
		return append(all, tokens("read", all...)...)
	case account.Check, account.Upload, account.Claim:
		return append(all, tokens("submit", all...)...)
	case account.Publish:
		return append(append(owners, tokens("submit", "owner")...), tokens("moderate", "moderator", "administrator")...)
	case account.Edit, account.Withdraw, account.Delete:
		return append(append(owners, tokens("manage", "owner")...), tokens("moderate", "moderator", "administrator")...)
	case account.Erase, account.Moderating:
		return append([]string{"moderator", "administrator"}, tokens("moderate", "moderator", "administrator")...)
	case account.SetRole:
		return []string{"administrator"}
	case account.UseTokens, account.ApproveDevice:
		return all
	}
	return nil
}

func TestWhoMayDoWhat(t *testing.T) {
	for _, action := range account.Actions() {
		may := rightsOf(action)
		if may == nil {
			t.Errorf("%s: nobody said who may", action)
		}
		for name, v := range visitors() {
			err := account.Rules{}.May(v, action, "owner")
			if (err == nil) != slices.Contains(may, name) {
				t.Errorf("%s as %s: %v", action, name, err)
			}
			d, ok := errors.AsType[*account.Denied](err)
			if err != nil && (!ok || d.SignIn != (name == "nobody") || d.Status() != map[bool]int{true: 401, false: 403}[name == "nobody"]) {
				t.Errorf("%s as %s: %#v", action, name, err)
			}
		}
	}
}

func TestNobodyOwnsWhatNobodySignedInFor(t *testing.T) {
	for _, action := range []account.Action{account.See, account.Edit, account.Delete} {
		if err := (account.Rules{}).May(account.Visitor{Account: account.Account{ID: "", Role: account.Member}}, action, ""); err == nil {
			t.Errorf("%s: nobody may", action)
		}
		if err := (account.Rules{}).May(visitors()["other"], action, ""); err == nil {
			t.Errorf("%s: any member may", action)
		}
	}
}

func TestAReadOnlySiteRefusesEveryChangeOfEveryone(t *testing.T) {
	reads := []account.Action{account.See, account.Check, account.ListOwn, account.Moderating}
	for _, action := range account.Actions() {
		for name, v := range visitors() {
			err := account.Rules{ReadOnly: true, Anonymous: true}.May(v, action, "owner")
			if d, _ := errors.AsType[*account.Denied](err); !slices.Contains(reads, action) && (d == nil || !d.ReadOnly) {
				t.Errorf("%s as %s: %v", action, name, err)
			}
		}
	}
}

func TestAnonymousUploadsAreForThoseWithoutAnAccountAlone(t *testing.T) {
	rules := account.Rules{Anonymous: true}
	for _, action := range account.Actions() {
		err := rules.May(account.Visitor{}, action, "owner")
		if open := action == account.Check || action == account.Upload; (err == nil) != open {
			t.Errorf("%s: %v", action, err)
		}
	}
	if err := rules.May(visitors()["blocked"], account.Upload, ""); err == nil {
		t.Error("who is blocked uploads")
	}
	if err := rules.May(visitors()["owner by token read"], account.Upload, ""); err == nil || !strings.Contains(err.Error(), "submit") {
		t.Errorf("a token without the right: %v", err)
	}
}
