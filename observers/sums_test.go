package observers

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// anyFloat draws finite float32 numbers of all magnitudes, denormals and zeros among them.
func anyFloat(r *rand.Rand) float32 {
	for {
		v := math.Float32frombits(r.Uint32())
		if r.IntN(8) == 0 {
			v = math.Float32frombits(r.Uint32() & 0x807fffff)
		}
		if v-v == 0 {
			return v
		}
	}
}

func TestExactSumsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		var x, y, half Exact
		want := new(big.Float).SetPrec(2000)
		values := make([]float32, 1+r.IntN(300))
		for i := range values {
			values[i] = anyFloat(r)
			x.Add(values[i])
			want.Add(want, new(big.Float).SetFloat64(float64(values[i])))
		}
		r.Shuffle(len(values), func(i, k int) { values[i], values[k] = values[k], values[i] })
		for i, v := range values {
			if i%2 == 0 {
				y.Add(v)
			} else {
				half.Add(v)
			}
		}
		y.AddExact(&half)
		require.Equal(t, x, y, "neither order nor splitting changes a bit")
		f, _ := want.Float64()
		require.Equal(t, f, x.Float64())

		back, rest, err := parseExact(append(x.append(nil), 7))
		require.NoError(t, err)
		require.Equal(t, []byte{7}, rest)
		require.Equal(t, x, back)
	}
	var x Exact
	x.Add(math.MaxFloat32)
	x.Add(math.SmallestNonzeroFloat32)
	x.Add(-math.MaxFloat32)
	require.Equal(t, float64(math.SmallestNonzeroFloat32), x.Float64(), "nothing is absorbed")
}

func TestWindowsAddWhatExactSumsAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const n = 5
	for _, limits := range []Limits{NoLimits, {0, float32(math.Inf(1))}, {0, 6}, {-0.1, 0.3}, {1, 2}} {
		for _, spread := range []int{2, 60} {
			var got, want [n]Exact
			w := NewWindow(kernels.Select(cpu.Detect()), n, func(p int, v float32) {
				got[p].Add(v)
			}, func(p int, m int64, e int) { got[p].AddScaled(m, e) })
			for piece := range 40 {
				data := make([]float32, n*r.IntN(30))
				largest := float32(0)
				for i := range data {
					data[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(spread)-spread/2+piece/4))
					if r.IntN(4) == 0 {
						data[i] = 0
					}
					largest = max(largest, data[i], -data[i])
					want[i%n].Add(min(max(data[i], limits.Lo), limits.Hi))
				}
				for _, b := range []float32{limits.Lo, limits.Hi} {
					if !math.IsInf(float64(b), 0) {
						largest = max(largest, b, -b)
					}
				}
				open := w.Open(largest, int64(len(data)))
				if piece%2 == 0 {
					w.Rows(data, 0, n, limits, open)
					continue
				}
				for i := range n {
					var run []float32
					for k := i; k < len(data); k += n {
						run = append(run, data[k])
					}
					w.Run(run, i, limits, open)
				}
			}
			w.Close()
			require.Equal(t, want, got, "limits %v, spread %d", limits, spread)
		}
	}
}

func TestWindowsDoNotOverflow(t *testing.T) {
	var got, want Exact
	w := NewWindow(kernels.Select(cpu.Detect()), 1, func(_ int, v float32) { got.Add(v) }, func(_ int, m int64, e int) { got.AddScaled(m, e) })
	data := make([]float32, 1<<12)
	for i := range data {
		data[i] = 1.9999999
	}
	for range 3 * windowRoom / len(data) {
		w.Run(data, 0, NoLimits, w.Open(1.9999999, int64(len(data))))
	}
	w.Close()
	for range 3 * windowRoom / len(data) * len(data) {
		want.Add(1.9999999)
	}
	require.Equal(t, want, got)
}

func TestInputSumsAreCanonical(t *testing.T) {
	s := NewInputSums(nil, 2, 3)
	s.Count = 4
	s.Sums[4].Add(-3.5)
	s.Sums[1].Add(1e-40)
	b, err := s.MarshalBinary()
	require.NoError(t, err)
	back, err := ReadInputSums(nil, b)
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.Equal(t, -3.5/4, back.Mean(1, 1))
	for i := range b {
		for _, x := range []byte{1, 0x80} {
			c := append([]byte(nil), b...)
			c[i] ^= x
			if other, err := ReadInputSums(nil, c); err == nil {
				require.NotEqual(t, s, other, "byte %d", i)
			}
		}
	}
	_, err = ReadInputSums(nil, b[:len(b)-1])
	require.Error(t, err)
	require.Error(t, s.Merge(NewInputSums(nil, 2, 4)))
}

func TestTheDocumentSaysHowMuchMemory(t *testing.T) {
	text, err := os.ReadFile("../docs/statistics.md")
	require.NoError(t, err)
	kept := keptOctaves + 1 // the largest is one of them
	require.Contains(t, string(text), fmt.Sprintf("%d octaves of 8 KiB, %d for each histogram of rows", 2*kept, kept))
	source, err := os.ReadFile("state.go")
	require.NoError(t, err)
	require.Contains(t, string(source), fmt.Sprintf("%d octaves of 8 KiB, %d for each", 2*kept, kept))
}
