package unit

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNumbersAreShownAsOnThePage(t *testing.T) {
	tests := []struct {
		name   string
		format func(float64) string
		want   map[float64]string
	}{
		{"Rate", Rate, map[float64]string{
			0: "0.0", 56.2: "56.2", 94.1: "94.1", 117.3: "117.3", 955: "955.0", 999.96: "1,000.0", 1376.6: "1,376.6", 2124.5: "2,124.5",
			9015: "9,015.0", 9999.94: "9,999.9", 9999.95: "10K", 9999.99: "10K", 10_000: "10K", 10_005: "10K", 10_790: "10.8K", 99_940: "99.9K",
			99_960: "100K", 154_000: "154K", 999_400: "999K", 999_600: "1M", 1_050_000: "1.05M", 2.5e9: "2.5G", 2.5e12: "2,500G",
		}},
		{"Short", Short, map[float64]string{
			374: "374.0", 686: "686.0", 999.94: "999.9", 999.96: "1,000", 1376.6: "1,377", 2124.5: "2,125", 9015: "9,015", 9999.4: "9,999", 9999.6: "10K", 10_049: "10K", 10_780: "10.8K",
		}},
		{"Millis", Millis, map[float64]string{
			0: "0.0 ms", 8.5: "8.5 ms", 16: "16.0 ms", 54.1: "54.1 ms", 99.94: "99.9 ms", 99.96: "100 ms", 105: "105 ms", 1639: "1,639 ms", 362_642.4: "362,642 ms",
		}},
		{"TTFT", TTFT, map[float64]string{
			0.04: "0.0 ms", 8.5: "8.5 ms", 9.94: "9.9 ms", 9.96: "10 ms", 30: "30 ms", 54.4: "54 ms", 1639.2: "1,639 ms", 94_695: "94,695 ms",
		}},
		{"Latency", Latency, map[float64]string{285: "285 ms", 9999: "9,999 ms", 23_154: "23.2 s"}},
		{"Seconds", Seconds, map[float64]string{30: "30.0 s", 1234.56: "1,234.6 s"}},
		{"Percent", Percent, map[float64]string{0.57: "57 %", 1: "100 %", 1.17: "117 %", 0: "0 %", -0.02: "−2 %", -0.001: "0 %"}},
		{"PercentFine", PercentFine, map[float64]string{
			0: "0 %", 0.0007: "0.07 %", 0.002: "0.2 %", 0.062: "6.2 %", 0.57: "57 %", 0.0995: "10 %", 0.00094: "0.09 %", 0.00096: "0.1 %",
		}},
		{"ChangeFine", ChangeFine, map[float64]string{0.021: "+2.1 %", 0.0123: "+1.2 %", 0.0004: "+0.04 %", -0.0096: "−0.96 %", 0: "0.0 %", 0.00001: "0.0 %"}},
		{"Change", Change, map[float64]string{0.021: "+2.1 %", -0.019: "−1.9 %", 0: "0.0 %", 0.0004: "0.0 %", -0.0004: "0.0 %", 12: "+1,200.0 %"}},
		{"PlusMinus", PlusMinus, map[float64]string{0.004: "±0.4 %", -0.011: "±1.1 %"}},
		{"Energy", Energy, map[float64]string{0: "0 J", 0.37: "0.37 J", 0.0451: "0.0451 J", 12.54: "12.5 J", 1250: "1,250 J", 9.999: "10 J", 99.96: "100 J"}},
	}
	for _, test := range tests {
		for v, want := range test.want {
			if got := test.format(v); got != want {
				t.Errorf("%s(%v) = %q, want %q", test.name, v, got, want)
			}
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if got := test.format(v); got != Dash {
				t.Errorf("%s(%v) = %q, want a dash", test.name, v, got)
			}
		}
	}
}

func TestUnknownNumbersAreDashes(t *testing.T) {
	v, n := 94.1, 3517
	for _, test := range [][2]string{
		{Maybe(nil, Rate), "—"}, {Maybe(&v, Rate), "94.1"}, {MaybeCount(nil), "—"}, {MaybeCount(&n), "3,517"},
	} {
		if test[0] != test[1] {
			t.Errorf("got %q, want %q", test[0], test[1])
		}
	}
}

func TestCountsHaveThousands(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 2125: "2,125", 524_288: "524,288", 1_234_567: "1,234,567", -5: "−5", -1000: "−1,000", math.MinInt64: "−9,223,372,036,854,775,808",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		524_288: "524,288", 999_999: "999,999", 1_000_000: "1.0 M", 2_049_000: "2.0 M", 999_949_999: "999.9 M", 999_950_000: "1.0 G",
	} {
		if got := Many(n); got != want {
			t.Errorf("Many(%d) = %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{16: "16.0", -0.04: "0.0", -1234.56: "−1,234.6", 1e15: "1,000,000,000,000,000.0"} {
		if got := Fixed(v, 1); got != want {
			t.Errorf("Fixed(%v, 1) = %q, want %q", v, got, want)
		}
	}
}

func TestTimesAreForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", time.Millisecond: "1 s", 27 * time.Second: "27 s", 119 * time.Second: "119 s", 119_600 * time.Millisecond: "2 min",
		11 * time.Minute: "11 min", 11*time.Minute + 31*time.Second: "12 min", 59*time.Minute + 29*time.Second: "59 min", 59*time.Minute + 31*time.Second: "1 h",
		65 * time.Minute: "1 h 5 min", 24*time.Hour - 31*time.Second: "23 h 59 min", 24*time.Hour - time.Second: "1 d",
		51*time.Hour + 10*time.Minute: "2 d 3 h", 48 * time.Hour: "2 d", -27 * time.Second: "−27 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 9 * time.Microsecond: "9 µs", 99_400: "99 µs", 99_500: "0.1 ms", 300 * time.Microsecond: "0.3 ms",
		12 * time.Millisecond: "12.0 ms", 999_600 * time.Microsecond: "1.0 s", -9 * time.Microsecond: "−9 µs",
	} {
		if got := Fine(d); got != want {
			t.Errorf("Fine(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestSizesOfDataAndMemory(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 512: "512 B", 999: "999 B", 1000: "1 kB", 32_768: "32.8 kB", 999_600: "1 MB", 4_840_000_000: "4.84 GB", 1 << 62: "4,610 PB", -1500: "−1.5 kB",
	} {
		if got := Bytes(n); got != want && n != 1<<62 || n == 1<<62 && !strings.HasSuffix(got, " PB") {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		24_576 << 20: "24 GB", 24_564 << 20: "24 GB", 23_450 << 20: "22.9 GB", 512 << 20: "512 MB", 0: "0 GB", 1000 << 20: "1 GB",
	} {
		if got := Memory(n); got != want {
			t.Errorf("Memory(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTokensAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "16384": 16384, "16,384": 16384, "16K": 16384, "16k": 16384, " 16 K ": 16384, "1.5K": 1536, "1M": 1 << 20, "0.5m": 1 << 19, "1,000K": 1_024_000, "5000": 5000, "248K": 253_952,
	} {
		if got, err := ParseTokens(text); got != want || err != nil {
			t.Errorf("ParseTokens(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "K", "x", "-1", "+1", "1.5", "0.0001K", "1e3", "0x10", "Inf", "NaN", "1,00", "1,0000", "1234,567", ",5", "5,", "1..5K", "1.5,0K", ".5K", "5.K", "16KK", "16KB", "4096M", "99999999999999999999"} {
		if got, err := ParseTokens(text); err == nil || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("ParseTokens(%q) = %d, %v; want an error that quotes it", text, got, err)
		}
	}
	for n, want := range map[int]string{
		0: "0", 1: "1", 512: "512", 1024: "1K", 8192: "8K", 16384: "16K", 5000: "5,000", 131_072: "128K", 1 << 20: "1M", 1536 << 10: "1,536K", 262_143: "262,143", -1024: "−1,024",
	} {
		if got := FormatTokens(n); got != want {
			t.Errorf("FormatTokens(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestEveryLabelOfTokensIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, math.MaxInt32), rapid.Map(rapid.IntRange(0, 2000), func(k int) int { return k * 1024 })).Draw(t, "tokens")
		if got, err := ParseTokens(FormatTokens(n)); got != n || err != nil {
			t.Fatalf("%d is written %q and read %d, %v", n, FormatTokens(n), got, err)
		}
	})
}

func TestParseTokensOfAnyTextReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9,.]{0,12}[kKmM]?`)).Draw(t, "text")
		if n, err := ParseTokens(text); err == nil && (n < 0 || n > math.MaxInt32) {
			t.Fatalf("%q gives %d", text, n)
		}
	})
}

func TestRatesOfNeighboursAreInOrderAndShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0, 999_000_000).Draw(t, "rate")
		for _, text := range []string{Rate(v), Short(v)} {
			if utf8.RuneCountInString(text) > 7 || strings.HasSuffix(text, ".0K") || strings.Contains(text, ",") && strings.HasSuffix(text, "K") {
				t.Fatalf("%v is written %q", v, text)
			}
		}
	})
}

func TestNearestFindsTheNameThatWasMeant(t *testing.T) {
	models := []string{"Qwen3-Coder-30B-A3B-AWQ", "Agents-A1-4B-FP8"}
	fields := []string{"concurrency", "contexts", "duration", "url", "model"}
	tests := []struct {
		word       string
		candidates []string
		want       string
	}{
		{"concurency", fields, "concurrency"}, {"Contexts", fields, "contexts"}, {"duraiton", fields, "duration"}, {"ulr", fields, "url"},
		{"modle", fields, "model"}, {"speed", fields, ""}, {"contexts", fields, ""}, {"", fields, ""}, {"x", fields, ""}, {"a", []string{"b"}, ""},
		{"agents-a1-4b-fp8", models, "Agents-A1-4B-FP8"}, {"Agents-A1-4B", models, "Agents-A1-4B-FP8"}, {"durée", []string{"duré"}, "duré"},
		{"abc", []string{"abd", "abe"}, "abd"}, {"anything", nil, ""},
	}
	for _, test := range tests {
		if got := Nearest(test.word, test.candidates); got != test.want {
			t.Errorf("Nearest(%q) = %q, want %q", test.word, got, test.want)
		}
	}
}

func TestAWaitIsWrittenForAReader(t *testing.T) {
	for ms, want := range map[float64]string{53: "53 ms", 999.4: "999 ms", 1000: "1 s", 8616: "8.6 s", 23154: "23.2 s", 362642: "6 min", 90000: "1.5 min"} {
		if got := Wait(ms); got != want {
			t.Errorf("%v ms: %s, want %s", ms, got, want)
		}
	}
}
