package fidelity_test

import "testing"

// The bed itself: a plain server's numbers are its script's.
func TestThePlainServerIsMeasuredExactly(t *testing.T) {
	w := bed{}.measure(t)
	c := w.valid()
	w.exact(c)
	near(t, "total tok/s", c.TotalTokensPerSecond, 100)
	near(t, "time between tokens", c.TimeBetweenTokens.P50, 20)
}
