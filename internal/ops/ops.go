// Package ops is how the operator of a results site sees it: one log line and
// one count for each request, whether it is ready, and what it holds.
package ops

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Monitor counts and logs requests.
type Monitor struct {
	log      *slog.Logger
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

// New makes a monitor that writes its lines to a logger.
func New(log *slog.Logger) *Monitor {
	m := &Monitor{log: log, registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "speedmatrix_site_request_seconds",
			Help:    "Time from a request's head to the last byte of its answer, by route and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"method", "route", "status"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "speedmatrix_site_response_bytes_total",
			Help: "Bytes of answers, by route."}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "speedmatrix_site_requests_in_flight", Help: "Requests that are being answered."}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: "speedmatrix_site_faults_total", Help: "Requests that ended in a fault of the program."})}
	m.registry.MustRegister(m.requests, m.bytes, m.inFlight, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Gauge publishes a number that is asked for whenever the metrics are read.
func (m *Monitor) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "speedmatrix_site_" + name, Help: help}, value))
}

// Metrics serves what was counted, in the form of Prometheus.
func (m *Monitor) Metrics() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Health answers 200 while ready gives nil, else 503 and the reason.
func Health(ready func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := ready(r); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			// The one who asked is gone when this fails.
			_, _ = fmt.Fprintln(w, err)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
}

// Watch counts and logs every request of a mux, and turns a fault of a handler into a 500. It wraps the mux itself, which
// tells it the route.
func (m *Monitor) Watch(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := &answer{ResponseWriter: w}
		m.inFlight.Inc()
		defer func() {
			m.inFlight.Dec()
			if fault := recover(); fault != nil {
				m.fault(answer, r, fault)
			}
			m.record(answer, r, time.Since(began))
		}()
		mux.ServeHTTP(answer, r)
	})
}

func (m *Monitor) fault(a *answer, r *http.Request, fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // this very value is what net/http gives a meaning
		panic(fault)
	}
	m.panics.Inc()
	m.log.ErrorContext(r.Context(), "a handler has a fault", "route", r.Pattern, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
	if a.status == 0 {
		http.Error(a, "This site has a fault. Its operator finds the cause in its log.", http.StatusInternalServerError)
	}
}

func (m *Monitor) record(a *answer, r *http.Request, took time.Duration) {
	route := r.Pattern
	if route == "" {
		route = "none"
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	m.requests.WithLabelValues(r.Method, route, strconv.Itoa(a.status)).Observe(took.Seconds())
	m.bytes.WithLabelValues(route).Add(float64(a.bytes))
	level := slog.LevelInfo
	if a.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	m.log.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "route", route, "status", a.status,
		"bytes", a.bytes, "ms", float64(took.Microseconds())/1000)
}

// answer sees how a request was answered.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader keeps the status of the answer.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes of the answer.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController what stands behind.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
