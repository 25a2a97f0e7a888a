package api

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"

	"speedmatrix/internal/account"
)

// Rate is how often one visitor may do a kind of thing: so many in a minute, all of them at once if it likes.
type Rate struct{ PerMinute int }

// Limits are what one visitor may do: an account, or for those without one an address.
type Limits struct{ Reads, Checks, Uploads, SignIns Rate }

// DefaultLimits let a program read as fast as it reads pages, and keep one visitor from filling a disk.
func DefaultLimits() Limits {
	return Limits{Reads: Rate{6000}, Checks: Rate{120}, Uploads: Rate{60}, SignIns: Rate{30}}
}

// kind is what a limit counts.
type kind string

const (
	reads   kind = "reads"
	checks  kind = "checks"
	uploads kind = "uploads"
	signIns kind = "sign-ins"
)

func (l Limits) of(k kind) Rate {
	switch k {
	case checks:
		return l.Checks
	case uploads:
		return l.Uploads
	case signIns:
		return l.SignIns
	}
	return l.Reads
}

// mostVisitors bounds the memory of the limiter; beyond it those that are not held back are forgotten.
const mostVisitors = 20000

// limiter counts by kind and visitor.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{limits: l, now: now, buckets: map[string]*rate.Limiter{}}
}

// allowance is where a visitor stands after a request.
type allowance struct {
	ok                bool
	limit, left       int
	full, comeAgainIn time.Duration
}

func (l *limiter) take(k kind, visitor string) allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, limit := l.now(), l.limits.of(k).PerMinute
	key := string(k) + " " + visitor
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= mostVisitors {
			l.forget(now)
		}
		b = rate.NewLimiter(rate.Limit(float64(limit)/60), limit)
		l.buckets[key] = b
	}
	a := allowance{limit: limit, ok: b.AllowN(now, 1)}
	tokens := b.TokensAt(now)
	a.left = max(0, int(tokens))
	perToken := time.Minute / time.Duration(limit)
	a.full = time.Duration((float64(limit) - tokens) * float64(perToken))
	if !a.ok {
		a.comeAgainIn = time.Duration((1 - tokens) * float64(perToken))
	}
	return a
}

// forget drops the buckets that are full again.
func (l *limiter) forget(now time.Time) {
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(l.buckets, key)
		}
	}
}

// limited holds an operation to a kind's limit and says in every answer where the visitor stands.
func (s *Server) limited(k kind) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		a := s.limiter.take(k, visitorKey(ctx))
		ctx.SetHeader("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=60", k, a.limit))
		ctx.SetHeader("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", k, a.left, seconds(a.full)))
		if a.ok {
			next(ctx)
			return
		}
		ctx.SetHeader("Retry-After", fmt.Sprint(max(1, seconds(a.comeAgainIn))))
		writeProblem(s.api, ctx, &Problem{Title: http.StatusText(http.StatusTooManyRequests), Status: http.StatusTooManyRequests, Code: "too-many-requests",
			Detail: fmt.Sprintf("At most %d %s a minute. Come again in %d s.", a.limit, k, max(1, seconds(a.comeAgainIn)))})
	}}
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// visitorKey names who asks: the account, else the network address (for IPv6 its /64).
func visitorKey(ctx huma.Context) string {
	if v := account.FromContext(ctx.Context()); v.SignedIn() {
		return v.Account.ID
	}
	host, _, err := net.SplitHostPort(ctx.RemoteAddr())
	if err != nil {
		return ctx.RemoteAddr()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}
