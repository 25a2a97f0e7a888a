package redact

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Kind says what stood where a mark stands now.
type Kind string

// The kinds of what is taken out.
const (
	APIKey      Kind = "api key"
	Token       Kind = "token"
	Password    Kind = "password"
	Credentials Kind = "credentials"
	PrivateKey  Kind = "private key"
	Cookie      Kind = "cookie"
	Header      Kind = "header"
	User        Kind = "user name"
	Email       Kind = "email"
	Host        Kind = "host name"
	Address     Kind = "ip address"
	MAC         Kind = "mac address"
	Serial      Kind = "serial number"
	UUID        Kind = "uuid"
)

// identities are kinds of which it matters whether two are the same: their marks carry a salted hash.
var identities = []Kind{Host, Address, MAC, Serial, UUID}

// Secret is a text that is known to be secret.
type Secret struct {
	Kind  Kind
	Value string
}

// Options are what is known beforehand; all may be left out.
type Options struct {
	Secrets []Secret
	// Home, User and Host are this machine's: the user's home folder and name, and the name of the machine.
	Home, User, Host string
	// Salt makes hashes of identities that nobody can look up; without one marks carry no hash.
	Salt []byte
}

// Redactor takes secrets out. It is safe for concurrent use.
type Redactor struct {
	salt    []byte
	kept    []string
	secrets []known
	own     []rule
}

// New makes a redactor.
func New(o Options) *Redactor {
	return &Redactor{salt: o.Salt, secrets: knownSecrets(o.Secrets), own: ownRules(o)}
}

// With gives a redactor that knows further secrets.
func (r *Redactor) With(secrets ...Secret) *Redactor {
	more := *r
	more.secrets = append(slices.Clone(r.secrets), knownSecrets(secrets)...)
	slices.SortStableFunc(more.secrets, longestFirst)
	return &more
}

// Keeping gives a redactor that lets the names and addresses of some hosts stand.
func (r *Redactor) Keeping(hosts ...string) *Redactor {
	less := *r
	for _, host := range hosts {
		if host != "" {
			less.kept = append(slices.Clone(less.kept), strings.ToLower(host))
		}
	}
	return &less
}

func (r *Redactor) keeps(host string) bool { return slices.Contains(r.kept, strings.ToLower(host)) }

func longestFirst(a, b known) int { return cmp.Compare(len(b.text), len(a.text)) }

const (
	markBegin = "«redacted: "
	markEnd   = "»"
)

// marked matches what Mark gives.
var marked = regexp.MustCompile(`«redacted: ([a-z ]+?)(?: [0-9a-f]{8})?»`)

// Mark is what stands in the place of a value.
func (r *Redactor) Mark(kind Kind, value string) string {
	if len(r.salt) == 0 || !slices.Contains(identities, kind) {
		return markBegin + string(kind) + markEnd
	}
	mac := hmac.New(sha256.New, r.salt)
	_, _ = mac.Write([]byte(string(kind) + "\x00" + strings.ToLower(value)))
	return markBegin + string(kind) + " " + hex.EncodeToString(mac.Sum(nil))[:8] + markEnd
}

// Marked says whether something was taken out of a text.
func Marked(text string) bool { return strings.Contains(text, markBegin) }

// Text takes secrets and identities out of a text of any length and number of lines.
func (r *Redactor) Text(text string) string {
	for _, s := range r.secrets {
		text = outside(text, func(part string) string { return s.hide(part, r) })
	}
	low := strings.ToLower(text)
	for _, list := range [][]rule{shapes, named, r.own, places} {
		for i := range list {
			if list[i].may(text, low) {
				text = list[i].apply(text, r)
			}
		}
	}
	return text
}

// Words is Text for the words of a server, which a limit may have cut: the beginning of a known secret at their
// end goes too.
func (r *Redactor) Words(text string) string {
	text = r.Text(text)
	for _, s := range r.secrets {
		text = s.hideCut(text, r)
	}
	return text
}

// Lines gives Text for the lines of a log, one after the other: a private key may stand on several.
func (r *Redactor) Lines() func(line string) string {
	inKey := false
	return func(line string) string {
		begins, ends := keyBegin.MatchString(line), keyEnd.MatchString(line)
		switch {
		case inKey:
			inKey = !ends
			return markBegin + string(PrivateKey) + markEnd
		case begins && !ends:
			inKey = true
		}
		return r.Text(line)
	}
}

// outside applies f to the parts of a text between marks.
func outside(text string, f func(string) string) string {
	if !Marked(text) {
		return f(text)
	}
	var b strings.Builder
	at := 0
	for _, m := range marked.FindAllStringIndex(text, -1) {
		b.WriteString(f(text[at:m[0]]))
		b.WriteString(text[m[0]:m[1]])
		at = m[1]
	}
	b.WriteString(f(text[at:]))
	return b.String()
}
