package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"regexp"
	"strings"
	"unicode"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/launch"
)

// headerName is what HTTP calls a token.
var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")

// header gives the headers of every request, the key among them.
func (o *runOptions) header(env *Env, command *launch.Command) (http.Header, error) {
	h := http.Header{}
	for _, line := range o.headers {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, usage("--header needs NAME: VALUE", `Such as --header "X-Team: speed".`)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	api, err := o.dialect()
	if err != nil {
		return nil, err
	}
	key, err := o.key(env, api)
	if err != nil {
		return nil, err
	}
	if key == "" && command != nil {
		key = command.APIKey() // the server is told to ask for it
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return nil, usage("the API key holds a line break or another character that no key can have", "Look at the file or the variable that it comes from.")
	}
	for name, value := range api.Headers(key) {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	}
	return h, nil
}

// key is the API key: the flag, the file, the environment.
func (o *runOptions) key(env *Env, api dialect.Dialect) (string, error) {
	if o.apiKey != "" {
		return o.apiKey, nil
	}
	if o.apiKeyFile != "" {
		data, err := os.ReadFile(o.apiKeyFile)
		if err != nil {
			return "", unreadable("key file", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	return env.Getenv(api.KeyVariable()), nil
}

// tls gives the TLS settings, nil for the system's.
func (o *runOptions) tls() (*tls.Config, error) {
	if o.caFile == "" && !o.insecure {
		return nil, nil
	}
	c := &tls.Config{InsecureSkipVerify: o.insecure} //nolint:gosec // the user asked for it
	if o.caFile == "" {
		return c, nil
	}
	data, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, unreadable("certificate file", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, usage(o.caFile+" holds no certificate in PEM form", "It begins with -----BEGIN CERTIFICATE-----.")
	}
	c.RootCAs = pool
	return c, nil
}

// stated are the facts that the user stated, sorted into the run's sections.
type stated struct {
	model, engine, hardware speedmatrix.Facts
	launchCommand           string
}

func (o *runOptions) stated() (*stated, error) {
	s := &stated{model: speedmatrix.Facts{}, engine: speedmatrix.Facts{}, hardware: speedmatrix.Facts{}}
	for _, text := range o.states {
		key, value, ok := strings.Cut(text, "=")
		section, name, dotted := strings.Cut(key, ".")
		value = strings.Trim(value, `"`)
		if ok && key == "launch_command" {
			s.launchCommand = value
			continue
		}
		facts := map[string]speedmatrix.Facts{"model": s.model, "engine": s.engine, "hardware": s.hardware}[section]
		if !ok || !dotted || name == "" || facts == nil {
			return nil, usage("--state "+text+" states nothing", `Write model.KEY=VALUE, engine.KEY=VALUE, hardware.KEY=VALUE or launch_command=VALUE, such as hardware.gpu="RTX 3090".`)
		}
		facts.Set(name, value, speedmatrix.SourceUser)
	}
	return s, nil
}
