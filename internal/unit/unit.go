// Package unit writes numbers the way the page and the terminal show them,
// one function per shape, and reads token counts such as "16K". Text is
// English: a comma between thousands, a point before decimals, a true minus
// sign. Every function gives Dash for a number that is not finite.
package unit

import (
	"math"
	"strconv"
	"strings"
)

// Dash stands for a number that is unknown or was not measured.
const Dash = "—"

// Minus is the sign before negative numbers.
const Minus = "−"

// Maybe writes *v with format, or Dash when v is nil.
func Maybe(v *float64, format func(float64) string) string {
	if v == nil {
		return Dash
	}
	return format(*v)
}

// MaybeCount writes *n as Count does, or Dash when n is nil.
func MaybeCount(n *int) string {
	if n == nil {
		return Dash
	}
	return Count(*n)
}

// Count writes a whole number with thousands: "2,125".
func Count[T ~int | ~int32 | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		return Minus + thousands(rest)
	}
	return thousands(digits)
}

// Fixed writes v with thousands and exactly that many decimals, halves rounded
// away from zero: "8.0", "1,376.60".
func Fixed(v float64, decimals int) string {
	if !finite(v) {
		return Dash
	}
	size := math.Abs(v)
	if scale := math.Pow10(decimals); size*scale < 1<<52 {
		size = math.Round(size*scale) / scale
	}
	text := strconv.FormatFloat(size, 'f', decimals, 64)
	whole, fraction, has := strings.Cut(text, ".")
	out := thousands(whole)
	if has {
		out += "." + fraction
	}
	if v < 0 && strings.Trim(text, "0.") != "" {
		return Minus + out
	}
	return out
}

// Rate writes tokens per second for tables: "94.1", "1,376.6", and from
// 10,000 on three digits, "10.8K".
func Rate(v float64) string {
	if !finite(v) {
		return Dash
	}
	if math.Round(v*10)/10 >= 10_000 {
		return scaled(v)
	}
	return Fixed(v, 1)
}

// Short writes tokens per second where room is scarce, for narrow cells and
// headline numbers of prefill: "686.0", "9,015", "10.8K".
func Short(v float64) string {
	if !finite(v) {
		return Dash
	}
	switch {
	case math.Round(v) >= 10_000:
		return scaled(v)
	case math.Round(v*10)/10 >= 1000:
		return Fixed(v, 0)
	}
	return Fixed(v, 1)
}

// Many writes a large count for reading at a glance: "524,288", "2.0 M",
// "1.3 G".
func Many(n int64) string {
	switch v := float64(n); {
	case n >= 999_950_000:
		return Fixed(v/1e9, 1) + " G"
	case n >= 1_000_000:
		return Fixed(v/1e6, 1) + " M"
	}
	return Count(n)
}

// Percent writes a share of 0…1 as whole percent: "57 %".
func Percent(share float64) string {
	return percent(share, 0)
}

// PercentFine writes a small share of 0…1 so that it does not vanish:
// "57 %", "6.2 %", "0.07 %".
func PercentFine(share float64) string {
	size := math.Abs(share) * 100
	switch {
	case size == 0:
		return percent(share, 0)
	case size < 0.095:
		return percent(share, 2)
	case size < 9.95:
		return percent(share, 1)
	}
	return percent(share, 0)
}

// Change writes a relative change with its sign: "+2.1 %", "−1.9 %",
// "0.0 %".
func Change(share float64) string {
	text := percent(share, 1)
	if share > 0 && text != percent(0, 1) && text != Dash {
		return "+" + text
	}
	return text
}

// ChangeFine writes a relative change like Change, with two decimals below 1 %, where one
// would hide it: "+0.04 %", "−2.1 %".
func ChangeFine(share float64) string {
	if text := percent(share, 2); share > -0.01 && share < 0.01 && text != percent(0, 2) {
		if share > 0 {
			return "+" + text
		}
		return text
	}
	return Change(share)
}

// PlusMinus writes half the width of an interval, relative to its middle:
// "±0.4 %".
func PlusMinus(share float64) string {
	if !finite(share) {
		return Dash
	}
	return "±" + percent(math.Abs(share), 1)
}

// Energy writes joules with three digits: "0.37 J", "12.5 J", "1,250 J".
func Energy(joules float64) string {
	return withUnit(significant(joules), "J")
}

// Amount writes a quantity of any unit with three digits: "0.42 EUR", "12.5 kWh".
func Amount(v float64, of string) string {
	return withUnit(significant(v), of)
}

func percent(share float64, decimals int) string {
	return withUnit(Fixed(share*100, decimals), "%")
}

func withUnit(number, unit string) string {
	if number == Dash {
		return Dash
	}
	return number + " " + unit
}

// scaled writes three significant digits with K, M or G, without decimals
// that are zero.
func scaled(v float64) string {
	suffixes := [...]string{"K", "M", "G"}
	v /= 1000
	i := 0
	for i < len(suffixes)-1 && round3(v) >= 1000 {
		v /= 1000
		i++
	}
	return significant(v) + suffixes[i]
}

// significant writes three significant digits (more before the point when
// the number is larger), without decimals that are zero.
func significant(v float64) string {
	if !finite(v) {
		return Dash
	}
	decimals := 2
	switch size := round3(math.Abs(v)); {
	case size >= 100:
		decimals = 0
	case size >= 10:
		decimals = 1
	case size != 0 && size < 0.1:
		decimals = min(9, 2-int(math.Floor(math.Log10(size))))
	}
	text := Fixed(v, decimals)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// round3 is v at three significant digits.
func round3(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func thousands(digits string) string {
	if len(digits) <= 3 {
		return digits
	}
	var out strings.Builder
	first := (len(digits)-1)%3 + 1
	out.WriteString(digits[:first])
	for i := first; i < len(digits); i += 3 {
		out.WriteByte(',')
		out.WriteString(digits[i : i+3])
	}
	return out.String()
}

func finite(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}
