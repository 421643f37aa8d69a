package tune

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// Values of the quantized lane are kept as codes where these give every bit back, and as they are where one element is off the grid.
func TestValuesOnAGridAreKeptAsCodes(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 4, 20)
	list, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	w, err := b.walk(list, b.Fit)
	require.NoError(t, err)
	s, coded := w.states[0], 0
	for v := range graph.ValueID(b.Reference.NumValues()) {
		to, ok := w.grid(v)
		if !ok {
			continue
		}
		x, low := tensor.New(tensor.Float32, 3, 5, 700), float32(-to.Zero)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range x.F32() {
			x.F32()[i] = (low + float32(r.IntN(256))) * to.Divisor
		}
		kept := w.code(s, v, x)
		require.Equal(t, tensor.Uint8, kept.DType)
		require.Equal(t, x, w.open(s, kept))
		w.release(s, kept)
		require.Empty(t, s.coded)
		x.F32()[8000] += to.Divisor / 2
		require.Equal(t, x, w.code(s, v, x), "an element is off the grid")
		coded++
	}
	require.Positive(t, coded)
}
