package reports

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is a figure and how it is written: as a measured value, an error, a cosine, a share, of what is whole a number of operations, and
// with an error.
type written struct {
	Value  float64 `json:"value"`
	Number string  `json:"number"`
	Small  string  `json:"small"`
	Cosine string  `json:"cosine"`
	Share  string  `json:"percent"`
	Count  string  `json:"count"`
	// Error is a standard error of Value, and Both how the two are written.
	Error float64 `json:"error"`
	Both  string  `json:"withError"`
}

// TestFiguresOfPages: the table that a test in a browser holds reports/page/format.js against is how figures are written here. Halves,
// powers of ten and the ends of the notations are in it. QWB_REWRITE=1 writes it.
func TestFiguresOfPages(t *testing.T) {
	const file = "page/testdata/figures.json"
	write := func(x, e float64) written {
		return written{x, Number(x), small(x), cosine(x), percent(x), count(int64(x)), e, WithError(x, &e)}
	}
	if os.Getenv("QWB_REWRITE") != "" {
		values := []float64{0, 1, 2.0625, 0.5, 0.125, 3.25, 2.5, 12.5, 1e-4, 9.9995e-5, 99999.5, 1e5, -2.0625, 99995, 94994.9999, 5e-324, 1.25e-5,
			1024.5, 999.95, 999_499, 999_500, 999_949, 1e9 - 1, 2.5e6, 12_345}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 175 {
			x := math.Exp(r.Float64()*50 - 30)
			if i%3 == 0 { // many of these are halves
				x = float64(r.IntN(1<<16)) / float64(int(1)<<r.IntN(12))
			}
			values = append(values, x)
		}
		var now []written
		for _, x := range values {
			now = append(now, write(x, math.Abs(x)*math.Exp(r.Float64()*30-25)))
		}
		text, err := json.MarshalIndent(now, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var was []written
	require.NoError(t, json.Unmarshal(text, &was))
	require.Len(t, was, 200)
	for _, w := range was {
		require.Equal(t, write(w.Value, w.Error), w, "format.js writes it as the table says: change both")
	}
}

// TestFiguresWithTheirErrors: two digits of the error, and the value to the last of them.
func TestFiguresWithTheirErrors(t *testing.T) {
	for _, w := range []struct {
		x, e float64
		want string
	}{{0.04351, 0.024, "0.044 ± 0.024"}, {0.1115, 0.031, "0.112 ± 0.031"}, {0.0606, 0.0054, "0.0606 ± 0.0054"}, {1234, 560,
		"1230 ± 560"}, {4.351e-5, 2.4e-6, "4.35e-05 ± 2.4e-06"},
		{1e-9, 0.05, "0.000 ± 0.050"}, {-1e-9, 0.05, "0.000 ± 0.050"}, {0.5, 1e-12, "0.5 ± 1.0e-12"}, {0.5, 0, "0.5 ± 0"},
		{0.25, 0.0996, "0.25 ± 0.10"}, {234567, 5600, "2.346e+05 ± 5.6e+03"},
		{0, 2e-6, "0 ± 2.0e-06"}, {0.5, math.Inf(1), "0.5 ± +Inf"}} {
		require.Equal(t, w.want, WithError(w.x, &w.e))
	}
	require.Equal(t, "0.044", WithError(0.04351, nil))
}
