package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// What differs at positions that the mask marks as padding is no loss: of float outputs, of class scores, and of integers.
func TestPaddingIsNoLoss(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
		input x: f32[B,T,2]
		input mask: bool[B,T]
		const ax: i64[1] = [1]; const low: f32[] = -inf
		u = Unsqueeze(mask, ax); t = Transpose(x) {perm=[0,2,1]}; s = MatMul(x, t); z = Where(u, s, low); p = Softmax(z)
		y = MatMul(p, x)
		classes = Softmax(y)
		best = ArgMax(y) {axis=2, keepdims=0}
		output y
		output classes
		output best
	`)
	require.Empty(t, graph.InferShapes(g))
	j := NewJudge(g)
	s := &exec.Sample{Mask: "mask", Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32(make([]float32, 12), 2, 3, 2),
		"mask": {DType: tensor.Bool, Shape: []int{2, 3}, Data: []bool{true, true, false, true, false, false}}}}
	verdict := func(padding float32, class int64, real float32, mask string) *Verdict {
		v := j.verdict()
		y := tensor.FromF32([]float32{1, real, 3, 4, padding, 9, 5, 6, padding, padding, 7, padding}, 2, 3, 2)
		v.Outputs([]*tensor.Tensor{y, y, tensor.FromI64([]int64{1, 1, class, 1, class, class}, 2, 3)})
		v.scores[1] = y
		s := *s
		s.Mask = mask
		j.Hide(v, &s)
		return v
	}
	losses := func(q, f *Verdict) []float64 {
		l, err := j.Losses(q, f)
		require.NoError(t, err)
		sums, err := j.sums(q.outputs, f.outputs, true)
		require.NoError(t, err)
		return append(l[:2:2], sums[0].noise, sums[1].noise, sums[2].noise)
	}
	require.Equal(t, []float64{0, 0, 0, 0, 0}, losses(verdict(100, 0, 2, "mask"), verdict(-7, 1, 2, "mask")))
	for _, x := range losses(verdict(100, 0, 2, ""), verdict(-7, 1, 2, "")) {
		require.Positive(t, x, "it would be one")
	}
	l := losses(verdict(100, 0, 4, "mask"), verdict(-7, 1, 2, "mask"))
	require.InDelta(t, 4/(1+4+9+16+25+36+1e-7), l[0], 1e-9, "what differs elsewhere is")
	require.Len(t, verdict(1, 1, 1, "mask").Own()[0].F32(), 12, "the network's own outputs stay")
	require.Equal(t, float32(1), verdict(1, 1, 1, "mask").Own()[0].F32()[4])
}
