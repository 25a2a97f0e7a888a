package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The size units of tokens: a K of context is 1,024 tokens.
const (
	Ki = 1 << 10
	Mi = 1 << 20
)

// ParseTokens reads a number of tokens: "16384", "16,384", "16K", "1.5k",
// "1M", where K is 1,024 and M is 1,048,576. The number must be whole and
// not negative.
func ParseTokens(text string) (int, error) {
	number, factor := strings.TrimSpace(text), 1.0
	if n := len(number); n > 0 {
		switch number[n-1] {
		case 'k', 'K':
			number, factor = number[:n-1], Ki
		case 'm', 'M':
			number, factor = number[:n-1], Mi
		}
	}
	digits, ok := ungroup(strings.TrimSpace(number))
	if !ok {
		return 0, fmt.Errorf("%q is not a number of tokens (write 16384, 16K or 1M)", text)
	}
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of tokens (write 16384, 16K or 1M)", text)
	}
	tokens := value * factor
	switch {
	case tokens != math.Trunc(tokens):
		return 0, fmt.Errorf("%q is not a whole number of tokens", text)
	case tokens > math.MaxInt32:
		return 0, fmt.Errorf("%q is more than %s tokens", text, Count(math.MaxInt32))
	}
	return int(tokens), nil
}

// ungroup takes the commas between thousands out; ok is false unless digits,
// well placed commas and at most one point are all there is.
func ungroup(number string) (digits string, ok bool) {
	whole, fraction, point := strings.Cut(number, ".")
	groups := strings.Split(whole, ",")
	for i, group := range groups {
		if !isDigits(group) || i > 0 && len(group) != 3 || i == 0 && len(groups) > 1 && len(group) > 3 {
			return "", false
		}
	}
	digits = strings.Join(groups, "")
	if !point {
		return digits, true
	}
	return digits + "." + fraction, isDigits(fraction)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// FormatTokens writes a number of tokens as a label: "0", "16K", "1M", and
// "5,000" where it is no multiple of 1,024. ParseTokens reads all of them.
func FormatTokens(n int) string {
	switch {
	case n > 0 && n%Mi == 0:
		return Count(n/Mi) + "M"
	case n > 0 && n%Ki == 0:
		return Count(n/Ki) + "K"
	}
	return Count(n)
}

// Bytes writes a size in decimal units with three digits: "512 B",
// "4.84 GB".
func Bytes(n int64) string {
	v, unit := float64(n), "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB", "PB"} {
		if round3(math.Abs(v)) < 1000 {
			break
		}
		v, unit = v/1000, larger
	}
	return significant(v) + " " + unit
}

// Memory writes the size of memory the way makers name it, in units of
// 1,024³ bytes: "24 GB", "22.9 GB", and "512 MB" below one.
func Memory(n int64) string {
	const gib = 1 << 30
	v, unit := float64(n)/gib, "GB"
	if v != 0 && math.Abs(v) < 0.95 {
		v, unit = float64(n)/Mi, "MB"
	}
	return strings.TrimSuffix(Fixed(v, 1), ".0") + " " + unit
}
