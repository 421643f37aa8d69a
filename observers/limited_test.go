package observers

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/ref"
)

// What Limited says of a tensor and of the tensor bounded is what two states say that look at both, whatever the values,
// however they are cut, before and after y stops following from x, and in statistics that are carried on.
func TestLimitedIsTwoStates(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 3))
	inf := float32(math.Inf(1))
	draws := map[string]func() float32{
		"normal": func() float32 { return float32(rng.NormFloat64()) },
		"wide":   func() float32 { return float32(rng.NormFloat64() * math.Exp2(rng.NormFloat64()*12)) },
		"low":    func() float32 { return -float32(math.Exp2(rng.Float64() * 40)) },
		"any": func() float32 {
			return [...]float32{0, float32(math.Copysign(0, -1)), 1e-40, -1e-42, 6, 5.999, 6.0001, -1, inf, -inf, 3e38, 1e-30,
				float32(math.NaN())}[rng.IntN(13)]
		},
	}
	followed, parted := 0, 0
	for name, draw := range draws {
		for _, b := range [][2]float32{{0, inf}, {0, 6}, {-1, 1}, {-inf, 2}, {0.5, 0.75}, {-3, -2}, {0, 1e-41}, {1e-20, 1e20},
			{-inf, inf}, {5, 5}} {
			for _, few := range []bool{false, true} {
				fresh := New
				if few {
					fresh = NewMinMax
				}
				x, y := fresh(), fresh()
				l := NewLimited(fresh(), fresh(), b[0], b[1])
				for piece := range 12 {
					const channels = 5
					data := make([]float32, rng.IntN(300))
					bounded := make([]float32, len(data))
					scale := float32(1)
					if piece > 8 && name == "normal" {
						scale = 1e6 // far above what was seen
					}
					for i := range data {
						data[i] = scale * draw()
						bounded[i] = ref.Limit(data[i], b[0], b[1])
					}
					from, inner := rng.IntN(50), 1+rng.IntN(2)*6
					wantX, nanX := x.ObservePiece(data, from, channels, inner)
					wantY, _ := y.ObservePiece(bounded, from, channels, inner)
					gotX, gotY, nan := l.ObservePiece(data, from, channels, inner)
					require.Equal(t, nanX, nan)
					require.Equal(t, wantX, gotX)
					require.Equal(t, wantY, gotY, "%s %v", name, b)
					if piece == 6 { // carried on
						a, c := l.States()
						l = NewLimited(a, c, b[0], b[1])
					} else if l.y == nil {
						followed++
					} else {
						parted++
					}
					if piece == 6 && rng.IntN(2) == 0 { // from the beginning
						x, y = fresh(), fresh()
						l = NewLimited(fresh(), fresh(), b[0], b[1])
					}
				}
				gotX, gotY := l.States()
				require.Equal(t, encodedState(t, x), encodedState(t, gotX), "%s %v: x", name, b)
				require.Equal(t, encodedState(t, y), encodedState(t, gotY), "%s %v: y", name, b)
			}
		}
	}
	require.Positive(t, followed)
	require.Positive(t, parted)
}

func encodedState(t *testing.T, st *State) []byte {
	t.Helper()
	b, err := st.MarshalBinary()
	require.NoError(t, err)
	return bytes.Clone(b)
}
