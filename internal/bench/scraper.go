package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"speedmatrix"
)

// scraper reads the server's gauges once a second, and faster while somebody waits for an empty server.
type scraper struct {
	server Server
	mu     sync.Mutex
	rows   []speedmatrix.ServerRow
	cell   string
	fast   bool
	wake   chan struct{}
}

const scrapeEvery = time.Second

func newScraper(server Server) *scraper {
	return &scraper{server: server, wake: make(chan struct{}, 1)}
}

// run scrapes until ctx ends.
func (s *scraper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		started := time.Now()
		s.once(ctx)
		timer.Reset(max(s.pause()-time.Since(started), 0))
	}
}

func (s *scraper) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	row := s.server.Scrape(ctx)
	if ctx.Err() != nil && row.Error != "" {
		row.Error = "no answer within 5 s"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row.Cell = s.cell
	s.rows = append(s.rows, row)
}

func (s *scraper) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fast {
		return drainPoll
	}
	return scrapeEvery
}

// mark names the cell that the next scrapes belong to.
func (s *scraper) mark(cell string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell = cell
}

// marked is the cell that was named last.
func (s *scraper) marked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cell
}

// hurry makes the scraper poll fast, or at its usual pace again.
func (s *scraper) hurry(fast bool) {
	s.mu.Lock()
	changed := fast && !s.fast
	s.fast = fast
	s.mu.Unlock()
	if changed {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// mostFailures is the number of scrapes that fail in a row from which the gauges count as unknown.
const mostFailures = 10

// gauges gives the last scrape that succeeded.
func (s *scraper) gauges() Gauges {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := 0
	for i := len(s.rows) - 1; i >= 0; i-- {
		r := &s.rows[i]
		if r.Running == nil {
			if failed++; failed >= mostFailures {
				return Gauges{}
			}
			continue
		}
		g := Gauges{Known: true, SentNS: r.SentNS, Running: *r.Running, KVUsage: r.KVUsage}
		if r.Waiting != nil {
			g.WaitingKnown, g.Waiting = true, *r.Waiting
		}
		return g
	}
	return Gauges{Known: s.server.Gauges()}
}

// failing gives the error of the last scrape and how many failed in a row up to it.
func (s *scraper) failing() (n int, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.rows) - 1; i >= 0 && s.rows[i].Error != ""; i-- {
		if n++; n == 1 {
			words = s.rows[i].Error
		}
	}
	return n, words
}

// since copies the scrapes sent at or after from.
func (s *scraper) since(from int64) []speedmatrix.ServerRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.rows)
	for i > 0 && s.rows[i-1].SentNS >= from {
		i--
	}
	return slices.Clone(s.rows[i:])
}
