package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number formats a measured value with up to four significant digits. JSON has the exact value.
func Number(x float64) string {
	if a := math.Abs(x); a >= 1e-4 && a < 1e5 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 3, 64), 64)
		return strconv.FormatFloat(r, 'f', -1, 64)
	}
	return extreme(x, 2)
}

// small formats an error, a noise-to-signal ratio for instance, with two significant digits.
func small(x float64) string {
	if a := math.Abs(x); a >= 1e-4 && a < 1e5 {
		return strconv.FormatFloat(x, 'f', max(1-exponent(x, 1), 0), 64)
	}
	return extreme(x, 1)
}

// part is a part of an error. What is left of rounded sums below 0 is none; what makes up for other parts is further below.
func part(x float64) string {
	if x < 0 && x > -1e-6 {
		x = 0
	}
	return small(x)
}

// extreme formats 0, NaN, infinity and what needs an exponent.
func extreme(x float64, decimals int) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case x == 0:
		return "0"
	}
	return strconv.FormatFloat(x, 'e', decimals, 64)
}

// IntegerShare says how much of the work, in multiply-accumulates, runs on integers; empty where nobody knows.
// What is not all of it is never rounded to that.
func IntegerShare(share *float64) string {
	if share == nil {
		return ""
	}
	text := fmt.Sprintf("%.2g", 100**share)
	switch {
	case *share >= 1:
		text = "100"
	case *share >= 0.9995:
		text = "over 99.9"
	case *share >= 0.95:
		text = fmt.Sprintf("%.1f", 100**share)
	}
	return text + " % of the work on integers"
}

// WithError formats a measured value with its standard error: two digits of the error, the value to the last of them, both in one notation:
// "0.044 ± 0.024". Without an error the value has two digits.
func WithError(x float64, err *float64) string {
	if err == nil {
		return small(x)
	}
	e := *err
	last, first := exponent(e, 1)-1, exponent(x, -1)
	if !(e > 0) || math.IsInf(e, 0) || math.IsNaN(x) || math.IsInf(x, 0) || first-last > 9 {
		return Number(x) + " ± " + small(e)
	}
	if size := max(math.Abs(x), e); size >= 1e-4 && size < 1e5 && last >= -9 {
		return fixed(x, last) + " ± " + fixed(e, last)
	}
	return extreme(x, max(first-last, 0)) + " ± " + extreme(e, 1)
}

// exponent is that of a value rounded to so many decimals in scientific notation; -1: not rounded.
func exponent(x float64, decimals int) int {
	text := strconv.FormatFloat(x, 'e', decimals, 64)
	n, _ := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	return n
}

// fixed writes a value up to the place 10^last, without a sign where nothing is left of it.
func fixed(x float64, last int) string {
	if last > 0 {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'e', max(exponent(x, -1)-last, 0), 64), 64)
	}
	text := strconv.FormatFloat(x, 'f', max(-last, 0), 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return text
}

// cosine formats a value whose distance from 1 is what matters.
func cosine(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }

// count formats a number of operations or elements with a decimal prefix.
func count(n int64) string {
	for _, u := range []struct {
		f    float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(float64(n)) >= u.f {
			r, _ := strconv.ParseFloat(strconv.FormatFloat(float64(n)/u.f, 'g', 3, 64), 64) // 999.9k is 1000k, not 1e+03k
			return strconv.FormatFloat(r, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 2, 64) + " %" }

// shorten keeps the end of long names, which tells them apart.
func shorten(name string, n int) string {
	r := []rune(name)
	if len(r) <= n {
		return name
	}
	return "…" + string(r[len(r)-n+1:])
}

// Shorten keeps the last n letters of a longer name, one of them for the mark that there was more. Full names stand in JSON, and in HTML
// where one points at a short one.
func Shorten(name string, n int) string { return shorten(name, n) }

// shortenEnd keeps the beginning of a long sentence.
func shortenEnd(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}
