package cli

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/launch"
	"speedmatrix/internal/redact"
)

// secretName is the name of a header or a variable whose value is a secret, however short.
var secretName = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|passw|session|signature|credential`)

const (
	// leastSecret is the length from which any header's value is taken out of a server's words.
	leastSecret = 8
	// saltBytes is the length of the salt of hashes.
	saltBytes = 16
)

// redactor knows whose machine this is, and the secrets of the environment.
func (e *Env) redactor() *redact.Redactor {
	return redact.New(redact.Options{Home: e.Home, User: e.User, Host: e.Host, Salt: e.salt(), Secrets: e.secrets()})
}

// secrets are the values of the environment's variables that are named as secrets are.
func (e *Env) secrets() (list []redact.Secret) {
	if e.Environ == nil {
		return nil
	}
	for _, line := range e.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if len(value) >= leastSecret && secretName.MatchString(name) && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") {
			list = append(list, redact.Secret{Kind: kindOf(name), Value: value})
		}
	}
	return list
}

func kindOf(name string) redact.Kind {
	low := strings.ToLower(name)
	switch {
	case strings.Contains(low, "cookie"):
		return redact.Cookie
	case strings.Contains(low, "passw"):
		return redact.Password
	case strings.Contains(low, "token"):
		return redact.Token
	case strings.Contains(low, "key"), strings.Contains(low, "auth"):
		return redact.APIKey
	}
	return redact.Credentials
}

// salt is a secret of this installation, so that hashes of identities mean something to its own runs alone. Where it
// cannot be kept it lasts as long as the program.
func (e *Env) salt() []byte {
	fresh := make([]byte, saltBytes)
	_, _ = rand.Read(fresh)
	if e.ConfigDir == "" {
		return fresh
	}
	path := filepath.Join(e.ConfigDir, "speedmatrix", "salt")
	if kept, err := os.ReadFile(path); err == nil && len(kept) == saltBytes {
		return kept
	}
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = os.WriteFile(path, fresh, 0o600)
	}
	return fresh
}

// headerSecrets gives the secrets in the headers of the requests: whole values, and without the scheme before them.
// A header of another name is none outside a server's words.
func headerSecrets(header http.Header) (everywhere, inWords []redact.Secret) {
	for name, values := range header {
		for _, value := range values {
			forms := []string{value}
			if _, bare, ok := strings.Cut(value, " "); ok && strings.TrimSpace(bare) != "" {
				forms = append(forms, strings.TrimSpace(bare))
			}
			for _, form := range forms {
				switch {
				case secretName.MatchString(name):
					everywhere = append(everywhere, redact.Secret{Kind: kindOf(name), Value: form})
				case len(form) >= leastSecret:
					inWords = append(inWords, redact.Secret{Kind: redact.Header, Value: form})
				}
			}
		}
	}
	return everywhere, inWords
}

// hideSecrets makes the redactors of a run: of its documents, of the screen, where the address that the user gave
// stays, and of the server's words.
func (r *runner) hideSecrets() error {
	everywhere, inWords := headerSecrets(r.header)
	if r.command != nil {
		everywhere = append(everywhere, redact.Secret{Kind: redact.APIKey, Value: r.command.APIKey()})
		for _, line := range r.command.Env {
			if name, value, _ := strings.Cut(line, "="); secretName.MatchString(name) {
				everywhere = append(everywhere, redact.Secret{Kind: kindOf(name), Value: value})
			}
		}
	}
	r.redact = r.env.redactor().With(everywhere...)
	r.hide = r.redact.With(inWords...).Words
	r.env.shown = r.redact.Keeping(hostOf(r.url))
	if r.redact.Text(r.o.Salt) != r.o.Salt {
		return usage("--salt looks like a secret, but every run says what its salt was", "Give another text, or none.")
	}
	return nil
}

// hostOf is the host in a URL that may lack its scheme.
func hostOf(text string) string {
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	text, _, _ = strings.Cut(text, "/")
	text = text[strings.LastIndexByte(text, '@')+1:]
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		text = text[:i]
	}
	return strings.Trim(text, "[]")
}

// clean gives the document as it may leave.
func (r *runner) clean(doc *speedmatrix.Run) (*speedmatrix.Run, error) {
	return redact.Copy(r.redact, doc)
}

// cleanStore keeps a run without what must not leave, and beside it the log of a server that the run started.
type cleanStore struct {
	Store
	redact *redact.Redactor
	log    *launch.Log
}

func (r *runner) store() *cleanStore {
	return &cleanStore{Store: r.out.store, redact: r.redact, log: r.log}
}

func (s *cleanStore) SaveRun(doc *speedmatrix.Run) error {
	clean, err := redact.Copy(s.redact, doc)
	if err != nil {
		return err
	}
	if err := s.Store.SaveRun(clean); err != nil {
		return err
	}
	return s.saveLog()
}

// saveLog writes the log where there is one and the store keeps logs.
func (s *cleanStore) saveLog() error {
	keeper, ok := s.Store.(logs)
	if s.log == nil || !ok {
		return nil
	}
	return keeper.SaveLog(s.log)
}

func (s *cleanStore) SaveCell(key string, requests []speedmatrix.RequestRow, events rowsOf) error {
	for i := range requests {
		q := &requests[i]
		q.FinishReason, q.Error = s.redact.Text(q.FinishReason), s.redact.Text(q.Error)
	}
	return s.Store.SaveCell(key, requests, events)
}

func (s *cleanStore) SaveServer(rows []speedmatrix.ServerRow) error {
	for i := range rows {
		rows[i].Error = s.redact.Text(rows[i].Error)
	}
	return s.Store.SaveServer(rows)
}

// shownText is a text as it may be shown.
func (e *Env) shownText(text string) string {
	return cmp.Or(e.shown, redact.New(redact.Options{})).Text(text)
}
