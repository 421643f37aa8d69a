package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// What an output is compared by is that of its real positions: its sums, how many elements a channel has, and its squares.
func TestMomentsOfPaddedSamples(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
		input x: f32[B,T,3]
		input mask: f32[B,1,T]
		const w: f32[3,3] = [1,0,2, 0,1,0, 1,1,0]
		y = MatMul(x, w); k = Transpose(x) {perm=[0,2,1]}
		s = MatMul(x, k); z = Add(s, mask); p = Softmax(z)
		output y: f32[B,T,3]
		output p: f32[B,T,T]`)
	require.Empty(t, graph.InferShapes(g))
	b := &Bench{Reference: g}
	sample := &exec.Sample{Mask: "mask", Feeds: map[string]*tensor.Tensor{"mask": tensor.FromF32([]float32{0, 0, -1e9, -1e9}, 1, 1, 4)}}
	s := &state{sample: sample, padded: b.padding(sample.Mask).Of(g, sample.Feeds)}
	q := tensor.FromF32([]float32{1, 2, 3, 4, 5, 6, 70, 80, 90, 1, 1, 1}, 1, 4, 3)
	f := tensor.FromF32([]float32{1, 2, 4, 4, 7, 6, 0, 0, 0, 9, 9, 9}, 1, 4, 3)
	y, _ := g.Lookup("y")
	got, err := s.moment(y, q, f, -1)
	require.NoError(t, err)
	want, err := momentOf(tensor.FromF32(q.F32()[:6], 1, 2, 3), tensor.FromF32(f.F32()[:6], 1, 2, 3), -1)
	require.NoError(t, err)
	require.Equal(t, want, got)
	all, err := (&state{padded: b.padding("").Of(g, sample.Feeds)}).moment(y, q, f, -1)
	require.NoError(t, err)
	require.Equal(t, 4, all.count)
}
