package qmath

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a line of testdata/requantize.txt.gz: an accumulator, a channel and the code of every profile that has one.
type vector struct {
	acc        int32
	channel    Channel
	zp, lo, hi int32
	want       map[string]int32
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	f, err := os.Open("testdata/requantize.txt.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	integer := func(s string) int32 {
		v, err := strconv.ParseInt(s, 10, 32)
		require.NoError(t, err)
		return int32(v)
	}
	float := func(s string) float32 {
		v, err := strconv.ParseUint(s, 16, 32)
		require.NoError(t, err)
		return math.Float32frombits(uint32(v))
	}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		w := strings.Fields(lines.Text())
		v := vector{acc: integer(w[0]), channel: Channel{X: float(w[1]), W: float(w[2]), Y: float(w[3]), Bias: float(w[4])},
			zp: integer(w[5]), lo: integer(w[6]), hi: integer(w[7]), want: map[string]int32{}}
		for _, pair := range w[8:] {
			name, code, _ := strings.Cut(pair, "=")
			v.want[name] = integer(code)
		}
		all = append(all, v)
	}
	require.NotEmpty(t, all)
	return all
}

// Every profile gives the codes that testdata/requantize.py derived with integers and fractions.
func TestRequantizeVectors(t *testing.T) {
	compared := map[string]int{}
	for _, v := range vectors(t) {
		for name, want := range v.want {
			p := named(t, name)
			m, err := p.Prepare(v.channel)
			require.NoError(t, err, name)
			require.Equal(t, want, p.Requantize(v.acc, m, v.zp, v.lo, v.hi), "%s: %d of %+v, zero point %d", name, v.acc, v.channel, v.zp)
			compared[name]++
		}
	}
	for _, p := range Profiles() {
		if !p.Saturates && !p.Double { // TestTFLite holds litert
			assert.GreaterOrEqual(t, compared[p.Name], 400, p.Name)
		}
	}
}

// A profile that saturates differs from ort in the sum, not in what becomes of it.
func TestSaturatingIsORT(t *testing.T) {
	a, b := named(t, "avx2-saturating"), named(t, "ort")
	assert.True(t, a.Saturates)
	a.Name, a.Doc, a.Saturates = b.Name, b.Doc, false
	assert.Equal(t, b, a)
}
