package probe

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"speedmatrix"
)

// findLimit bounds the look at one port: a local server answers at once.
const findLimit = 2 * time.Second

// usualPorts are the ports on which the engines listen by default.
var usualPorts = [...]int{8000, 8080, 30000, 11434, 1234}

// Found is what answers on one of the usual local ports.
type Found struct {
	Port   int
	URL    string
	Kind   Kind // "" when it is no LLM server
	Models []Model
	// Note says what it is or wants if it gave no list of models: "401 Unauthorized".
	Note string
}

// Serves says whether an LLM server answers there, one that wants a key or is still
// loading included.
func (f Found) Serves() bool { return f.Kind != "" }

// String names the place for a message: "http://127.0.0.1:8000 (vLLM, bench)".
func (f Found) String() string {
	what := string(f.Kind)
	switch {
	case f.Note != "":
		what += ", " + f.Note
	case len(f.Models) > 1:
		what += fmt.Sprintf(", %d models", len(f.Models))
	case len(f.Models) == 1:
		what += ", " + f.Models[0].Name
	}
	return fmt.Sprintf("%s (%s)", f.URL, what)
}

// Find looks at the usual local ports, all at once, and gives what answers, in the
// order of the ports. Ports where nothing listens are left out. Options.URL is ignored.
func Find(ctx context.Context, o Options) ([]Found, error) {
	found := make([]Found, len(usualPorts))
	var all sync.WaitGroup
	for i, port := range usualPorts {
		all.Go(func() { found[i] = lookAt(ctx, o, port) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var answered []Found
	for _, f := range found {
		if f.Port != 0 {
			answered = append(answered, f)
		}
	}
	return answered, nil
}

// lookAt gives the zero Found when nothing answers at the port.
func lookAt(ctx context.Context, o Options, port int) Found {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	base := &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)}
	c := newCaller(o, base)
	defer c.close()
	a, err := c.get(ctx, "/v1/models")
	if err != nil {
		return Found{}
	}
	f := Found{Port: port, URL: base.String()}
	models, listed := readModels(a)
	if listed {
		f.Models = models
		e, _ := (&sight{models: models, listing: a}).look(ctx, c)
		f.Kind = e.kind
		return f
	}
	f.Note = says(a.status, "")
	if !a.html && (a.status == 401 || a.status == 403 || a.status == 503) {
		f.Kind = KindOpenAI
	}
	return f
}

// choose gives the URL of the one LLM server on the usual local ports.
func choose(ctx context.Context, o Options) (string, error) {
	found, err := Find(ctx, o)
	if err != nil {
		return "", err
	}
	var serving, places []string
	for _, f := range found {
		if f.Serves() {
			serving, places = append(serving, f.URL), append(places, f.String())
		}
	}
	switch len(serving) {
	case 0:
		return "", fail(speedmatrix.KindNoServer,
			usualPlaces+" Start one, or give its URL: speedmatrix run http://HOST:PORT. Without any server: speedmatrix demo.",
			"no LLM server on this machine's usual ports")
	case 1:
		return serving[0], nil
	}
	return "", fail(speedmatrix.KindUsage, "Give the URL of the one to measure.",
		"several LLM servers answer on this machine: %s", list(places))
}
