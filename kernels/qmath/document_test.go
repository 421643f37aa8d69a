package qmath_test

import (
	"go/doc"
	"go/parser"
	"go/token"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

// docs/numerics.md states tables, and the output of the example; the tests below hold it to them.
func document(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/numerics.md")
	require.NoError(t, err)
	return string(b)
}

func TestDocumentShowsExample(t *testing.T) {
	src, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "example_test.go", src, parser.ParseComments)
	require.NoError(t, err)
	examples := doc.Examples(file)
	require.Len(t, examples, 1)
	assert.Contains(t, document(t), "```\n"+strings.TrimSpace(examples[0].Output)+"\n```\n", "its output is not that of the example")
}

// rows returns the cells of the table whose first heading is given, without its heading.
func rows(t *testing.T, text, heading string) (head []string, body [][]string) {
	t.Helper()
	_, table, ok := strings.Cut(text, "\n| "+heading+" |")
	require.True(t, ok, "the document has no table %q", heading)
	for i, line := range strings.Split("| "+heading+" |"+table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for k := range cells {
			cells[k] = strings.Trim(strings.TrimSpace(cells[k]), "`")
		}
		switch {
		case i == 0:
			head = cells
		case i > 1:
			require.Len(t, cells, len(head), line)
			body = append(body, cells)
		}
	}
	require.NotEmpty(t, body)
	return head, body
}

func TestDocumentRoundingTable(t *testing.T) {
	head, body := rows(t, document(t), "mode")
	require.Len(t, body, int(qmath.Down)+1, "one row per mode")
	for _, cells := range body {
		var mode qmath.Rounding
		require.NoError(t, mode.UnmarshalText([]byte(cells[0])))
		for i := 1; i < len(cells); i++ {
			assert.Equal(t, number(t, cells[i]), mode.Round(number(t, head[i]))+0, "%s of %s", mode, head[i])
		}
	}
}

// All cases stand in testdata/ranges.md; the document's rows are some of them.
func TestDocumentRangeTable(t *testing.T) {
	all, err := os.ReadFile("testdata/ranges.md")
	require.NoError(t, err)
	_, body := rows(t, string(all), "range")
	_, shown := rows(t, document(t), "range")
	require.Subset(t, body, shown)
	for _, cells := range body {
		lo, hi, ok := strings.Cut(strings.Trim(cells[0], "[]"), ", ")
		require.True(t, ok, cells[0])
		scale, zero, outcome, err := qmath.ScaleFromRange(number(t, lo), number(t, hi), scheme(t, cells[1]))
		if cells[2] == "error" {
			assert.Error(t, err, cells)
			continue
		}
		require.NoError(t, err, cells)
		assert.Equal(t, float32(number(t, cells[2])), scale, cells)
		assert.Equal(t, cells[3], strconv.Itoa(int(zero)), cells)
		assert.Equal(t, cells[4], outcome.String(), cells)
	}
}

func TestDocumentReciprocalTable(t *testing.T) {
	_, body := rows(t, document(t), "scale")
	for _, cells := range body {
		s, x := float32(number(t, cells[0])), float32(number(t, cells[1]))
		reciprocal := 1 / s
		assert.Equal(t, cells[2], strconv.FormatFloat(float64(x/s), 'g', -1, 32))
		assert.Equal(t, cells[4], strconv.FormatFloat(float64(x*reciprocal), 'g', -1, 32))
		assert.Equal(t, number(t, cells[3]), qmath.HalfEven.Round(float64(x/s)))
		assert.Equal(t, number(t, cells[5]), qmath.HalfEven.Round(float64(x*reciprocal)))
		assert.NotEqual(t, cells[3], cells[5])
	}
}

// scheme reads "symmetric [-128, 127]", followed by "pow2" or "/ divisor".
func scheme(t *testing.T, text string) qmath.Scheme {
	t.Helper()
	kind, rest, _ := strings.Cut(text, " [")
	bounds, extra, ok := strings.Cut(rest, "]")
	require.True(t, ok, text)
	lo, hi, _ := strings.Cut(bounds, ", ")
	s := qmath.Scheme{Symmetric: kind == "symmetric", QMin: int32(number(t, lo)), QMax: int32(number(t, hi))}
	switch extra = strings.TrimSpace(extra); {
	case extra == "pow2":
		s.PowerOfTwo = true
	case extra != "":
		s.Divisor = number(t, strings.TrimPrefix(extra, "/ "))
	}
	return s
}

// number evaluates products and quotients of decimals, 2^n, max (the largest float32), inf and NaN.
func number(t *testing.T, text string) float64 {
	t.Helper()
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		return -number(t, rest)
	}
	if i := strings.LastIndexAny(text, "*/"); i > 0 {
		a, b := number(t, text[:i]), number(t, text[i+1:])
		if text[i] == '*' {
			return a * b
		}
		return a / b
	}
	switch exponent, power := strings.CutPrefix(text, "2^"); {
	case power:
		return math.Exp2(number(t, exponent))
	case text == "max":
		return math.MaxFloat32
	case text == "NaN":
		return math.NaN()
	}
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err, text)
	return v
}
