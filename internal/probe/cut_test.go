package probe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// gauged is a vLLM whose gauge is true: a long request runs until it is done or, lag after
// its connection is gone, unless deaf.
type gauged struct {
	fake *fake
	now  atomic.Int32
	lag  time.Duration
	deaf bool
	// others run too.
	others int32
}

func newGauged() *gauged {
	r := &gauged{fake: newFake(), lag: 700 * time.Millisecond}
	r.fake.honours, r.fake.everyUsage, r.fake.cached = true, true, true
	r.fake.get("/version", `{"version":"0.32.0"}`).get("/v1/models", listVLLM)
	r.fake.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} 0\n", r.now.Load()+r.others)
	})
	return r
}

func (r *gauged) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPost && strings.HasPrefix(request.URL.Path, "/v1/c") {
		r.now.Add(1)
		defer func() {
			if request.Context().Err() != nil {
				<-time.After(r.lag)
			}
			if !r.deaf || request.Context().Err() == nil {
				r.now.Add(-1)
			}
		}()
	}
	r.fake.ServeHTTP(w, request)
}

func TestAClosedConnectionIsSeenToEndTheRequest(t *testing.T) {
	for _, c := range []struct {
		name        string
		change      func(r *gauged, o *Options)
		want, warns string
	}{
		{"it ends", func(*gauged, *Options) {}, "by closing the connection", ""},
		{"it runs on", func(r *gauged, _ *Options) { r.deaf = true }, "not by closing the connection", "runs_on"},
		{"others use the server", func(r *gauged, _ *Options) { r.others = 1 }, "", ""},
		{"it may be shared", func(_ *gauged, o *Options) { o.Shared = true }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				r := newGauged()
				s := found(t, n, r, func(o *Options) { c.change(r, o) })
				abort := s.Facts.Engine[speedmatrix.EngineAbort]
				if got := s.Facts.Engine.Text(speedmatrix.EngineAbort); got != c.want || c.name == "it ends" && abort.Source != "tried, within 750.0 ms" {
					t.Errorf("abort %+v, want %q", abort, c.want)
				}
				if c.warns != "" && !s.warned(c.warns) {
					t.Errorf("no warning %s: %v", c.warns, s.Warnings)
				}
				has(t, s.Facts.Engine, facts{speedmatrix.EngineDrain: "running and waiting at 0"})
			})
		})
	}
}

func TestARepeatedPromptShowsAPrefixCache(t *testing.T) {
	for _, reused := range []int{0, 100} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := newFake().get("/v1/models", listPlain)
			f.cached, f.reused = true, reused
			s := found(t, n, f, nil)
			on, known := s.Facts.Engine.Bool(speedmatrix.EnginePrefixCaching)
			if known != (reused > 0) || on != known {
				t.Errorf("%d tokens reused: %v, %v", reused, on, known)
			}
		})
	}
}
