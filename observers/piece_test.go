package observers

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// However a tensor is cut into pieces and in whatever order they come, the state is that of the tensor.
func TestPiecesAreTheTensor(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for _, shape := range [][]int{{3, 7, 5, 2}, {2, 5000, 3}, {2, 3, 5000}, {40, 300}, {600}, {1, 1, 9, 9}, {2, 8, 1, 1}, {0, 4, 3}} {
		for _, layout := range []tensor.Layout{tensor.RowMajor, tensor.ChannelsLast} {
			if layout == tensor.ChannelsLast && len(shape) < 3 {
				continue
			}
			for kind := range 4 {
				x := tensor.New(tensor.Float32, shape...)
				x.Layout = layout
				for i := range x.F32() {
					x.F32()[i] = float32(rng.NormFloat64())
					if kind == 1 && rng.IntN(50) == 0 {
						x.F32()[i] = float32(math.Inf(rng.IntN(2) - 1))
					}
				}
				fresh := New
				if kind == 2 {
					fresh = NewMinMax
				}
				axis := 1
				if len(shape) < 2 || kind == 3 {
					axis = -1
				}
				want, got := fresh(), fresh()
				wantExtent, err := want.Observe(x, axis)
				require.NoError(t, err)
				channels, inner := -1, 1
				if axis >= 0 {
					_, channels, inner = x.Blocks(axis)
				}
				cuts := []int{0}
				for cuts[len(cuts)-1] < x.Len() {
					cuts = append(cuts, min(x.Len(), cuts[len(cuts)-1]+1+rng.IntN(x.Len()/3+1)))
				}
				if x.Len() == 0 {
					cuts = []int{0, 0}
				}
				extent := NoExtent
				for _, k := range rng.Perm(len(cuts) - 1) {
					e, nan := got.ObservePiece(x.F32()[cuts[k]:cuts[k+1]], cuts[k], channels, inner)
					require.Zero(t, nan)
					extent = extent.Union(e)
				}
				require.Equal(t, wantExtent, extent, "%v %v", shape, layout)
				require.Equal(t, encodedState(t, want), encodedState(t, got), "%v %v", shape, layout)
			}
		}
	}
}
