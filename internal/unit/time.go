package unit

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Millis writes a time between tokens given in milliseconds: "8.5 ms",
// "16.0 ms", and from 100 on whole, "1,639 ms".
func Millis(ms float64) string {
	if math.Round(ms*10)/10 >= 100 {
		return withUnit(Fixed(ms, 0), "ms")
	}
	return withUnit(Fixed(ms, 1), "ms")
}

// TTFT writes a time to first token given in milliseconds: whole, "54 ms",
// "1,639 ms", with one decimal below 10, "8.5 ms".
func TTFT(ms float64) string {
	if math.Round(ms*10)/10 >= 10 {
		return withUnit(Fixed(ms, 0), "ms")
	}
	return withUnit(Fixed(ms, 1), "ms")
}

// Wait writes a time given in ms for a sentence or a chart: "54 ms", "8.6 s", "6 min".
func Wait(ms float64) string {
	short := func(v float64, of string) string { return strings.TrimSuffix(Fixed(v, 1), ".0") + " " + of }
	switch {
	case math.Abs(ms) >= 1e12 && !math.IsInf(ms, 0):
		return strconv.FormatFloat(ms, 'e', 2, 64)
	case ms < 999.5 || !finite(ms):
		return TTFT(ms)
	case ms < 59_950:
		return short(ms/1000, "s")
	}
	return short(ms/60_000, "min")
}

// Seconds writes seconds with one decimal: "30.0 s".
func Seconds(s float64) string {
	return withUnit(Fixed(s, 1), "s")
}

// Latency writes a time given in milliseconds for a sentence: "285 ms",
// "23.2 s".
func Latency(ms float64) string {
	if finite(ms) && ms >= 10_000 {
		return Seconds(ms / 1000)
	}
	return TTFT(ms)
}

// Fine writes a small error of timing: "9 µs", "0.3 ms", "12.0 ms", "1.5 s".
func Fine(d time.Duration) string {
	switch size := d.Abs(); {
	case size < time.Microsecond:
		return Count(d.Nanoseconds()) + " ns"
	case size < 99_500*time.Nanosecond:
		return Fixed(float64(d)/1e3, 0) + " µs"
	case size < 999_500*time.Microsecond:
		return Fixed(float64(d)/1e6, 1) + " ms"
	}
	return Fixed(d.Seconds(), 1) + " s"
}

// Duration writes a time for people: "27 s", "11 min", "1 h 5 min", "2 d 3 h".
// Below two minutes it is in seconds; a duration above zero is at least "1 s".
func Duration(d time.Duration) string {
	if d < 0 {
		return Minus + Duration(-d)
	}
	seconds := int64(math.Round(d.Seconds()))
	if d > 0 {
		seconds = max(1, seconds)
	}
	if seconds < 120 {
		return strconv.FormatInt(seconds, 10) + " s"
	}
	minutes := (seconds + 30) / 60
	if minutes < 60 {
		return strconv.FormatInt(minutes, 10) + " min"
	}
	if hours := minutes / 60; hours < 24 {
		return pair(hours, "h", minutes%60, "min")
	}
	hours := (minutes + 30) / 60
	return pair(hours/24, "d", hours%24, "h")
}

func pair(large int64, largeUnit string, small int64, smallUnit string) string {
	text := Count(large) + " " + largeUnit
	if small == 0 {
		return text
	}
	return text + " " + Count(small) + " " + smallUnit
}
