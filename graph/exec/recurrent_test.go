package exec_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// ramp is a tensor of numbers in [-50/60, 50/60] that tests elsewhere can make too.
func ramp(k int, shape ...int) *tensor.Tensor {
	v := make([]float32, tensor.Count(shape))
	for i := range v {
		v[i] = float32((i*37+k*11)%101-50) / 60
	}
	return tensor.FromF32(v, shape...)
}

// recurrentFeeds are 2 samples of 3 steps (the second ends after 2) with 2 features, for 2 units.
func recurrentFeeds(gates, dirs int) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"x": ramp(1, 3, 2, 2), "w": ramp(2, dirs, gates*2, 2), "r": ramp(3, dirs, gates*2, 2),
		"b": ramp(4, dirs, 4*gates), "len": &tensor.Tensor{DType: tensor.Int32, Shape: []int{2}, Data: []int32{3, 2}}, "h": ramp(5, dirs, 2, 2)}
}

// TestRecurrent compares with what ONNX Runtime 1.31 computes.
func TestRecurrent(t *testing.T) {
	const inputs = "opset 14\ninput x: f32[3,2,2]; input w: f32[D,G,2]; input r: f32[D,G,2]; input b: f32[D,K]; input len: i32[2]; " +
		"input h: f32[D,2,2]\n"
	for _, c := range []struct {
		node        string
		gates, dirs int
		want        [][]float32
	}{
		{"input c: f32[D,2,2]; input p: f32[D,6]\noutput y, yh, yc\n" +
			"y, yh, yc = LSTM(x, w, r, b, len, h, c, p) {hidden_size=2, direction=\"bidirectional\", clip=0.9}", 4, 2, [][]float32{
			{0.0133608, 0.0298109, -0.0614666, -0.0125943, -0.0991411, 0.162914, 0.0235264, 0.151286, 0.0968099, 0.0727003, 0.0171641, 0.026972,
				-0.177236, 0.145235, 0.176874, 0.100352, 0.0791698, 0.039283, 0, 0, -0.218698, 0.114388, 0, 0},
			{0.0791698, 0.039283, 0.0171641, 0.026972, -0.0991411, 0.162914, 0.0235264, 0.151286},
			{0.281071, 0.0733966, 0.0594511, 0.0486041, -0.240339, 0.446358, 0.0554788, 0.580998}}},
		{"output y, yh\ny, yh = GRU(x, w, r, b, len, h) {hidden_size=2, direction=\"reverse\"}", 3, 1, [][]float32{
			{0.171893, -0.58469, -0.246285, -0.139364, 0.0579083, -0.451254, -0.128102, -0.319978, 0.226624, -0.360385, 0, 0},
			{0.171893, -0.58469, -0.246285, -0.139364}}},
		{"output y, yh\ny, yh = GRU(x, w, r, b, len, h) {hidden_size=2, linear_before_reset=1}", 3, 1, [][]float32{
			{0.308852, -0.319754, -0.102854, 0.141225, 0.340741, -0.373496, 0.191175, -0.386989, 0.481238, -0.514598, 0, 0},
			{0.481238, -0.514598, 0.191175, -0.386989}}},
		{"output y, yh\ny, yh = RNN(x, w, r, b, len, h) {hidden_size=2, activations=[\"Relu\"]}", 1, 1, [][]float32{
			{0, 0, 0, 1.41528, 0, 0.460556, 0.014537, 0.0854398, 0, 0, 0, 0}, {0, 0, 0.014537, 0.0854398}}},
	} {
		g := graphtest.Parse(t, inputs+c.node)
		feeds := recurrentFeeds(c.gates, c.dirs)
		if c.gates == 4 {
			feeds["c"], feeds["p"] = ramp(6, c.dirs, 2, 2), ramp(7, c.dirs, 6)
		}
		for i, out := range run(t, g, exec.Options{}, feeds, nil) {
			assert.InDeltaSlice(t, c.want[i], out.F32(), 4e-6, "%s: output %d", c.node, i)
		}
	}
}

// TestRecurrentLayouts: layout 1 is the same with batch first, and a sample does not depend on the others.
func TestRecurrentLayouts(t *testing.T) {
	first := graphtest.Parse(t, `
opset 14
input x: f32[3,N,2]; input w: f32[2,8,2]; input r: f32[2,8,2]
output y, last
y, last = LSTM(x, w, r) {hidden_size=2, direction="bidirectional"}
`)
	second := graphtest.Parse(t, `
opset 14
input x: f32[N,3,2]; input w: f32[2,8,2]; input r: f32[2,8,2]
output y, last
y, last = LSTM(x, w, r) {hidden_size=2, direction="bidirectional", layout=1}
`)
	swap := func(a *tensor.Tensor) *tensor.Tensor { // the first two axes
		m, n := a.Shape[0], a.Shape[1]
		inner := a.Len() / (m * n)
		var v []float32
		for j := range n {
			for i := range m {
				v = append(v, a.F32()[(i*n+j)*inner:][:inner]...)
			}
		}
		shape := slices.Clone(a.Shape)
		shape[0], shape[1] = n, m
		return tensor.FromF32(v, shape...)
	}
	x := ramp(1, 3, 4, 2)
	feeds := map[string]*tensor.Tensor{"x": x, "w": ramp(2, 2, 8, 2), "r": ramp(3, 2, 8, 2)}
	want := run(t, first, exec.Options{}, feeds, nil)
	feeds["x"] = swap(x)
	got := run(t, second, exec.Options{Threads: 2}, feeds, nil)
	// Y is [steps, dirs, batch, units] and [batch, steps, dirs, units].
	assert.Equal(t, want[1].F32(), swap(got[1]).F32())
	for n := range 4 {
		for k := range 3 * 2 {
			require.Equal(t, want[0].F32()[(k*4+n)*2:][:2], got[0].F32()[(n*6+k)*2:][:2])
		}
		feeds["x"] = tensor.FromF32(swap(x).F32()[n*6:][:6], 1, 3, 2)
		alone := run(t, second, exec.Options{}, feeds, nil)
		require.Equal(t, alone[0].F32(), got[0].F32()[n*12:][:12])
	}
}

// TestRecurrentRefusals: forms without an evaluator are refused before anything runs.
func TestRecurrentRefusals(t *testing.T) {
	for form, want := range map[string]string{
		`activations=["Cosine", "Tanh", "Tanh"]`: `activation "Cosine" is not supported`,
		`activations=["Sigmoid"]`:                "1 activations, wanted 3 per direction",
		`direction="sideways"`:                   `direction "sideways" is not supported`,
	} {
		g := graphtest.Parse(t, "opset 14\ninput x: f32[3,2,2]; input w: f32[1,8,2]; input r: f32[1,8,2]\noutput y\n"+
			"y = LSTM(x, w, r) {hidden_size=2, "+form+"}")
		_, err := exec.New(g, exec.Options{})
		require.ErrorContains(t, err, want)
	}
	g := graphtest.Parse(t, "opset 14\ninput x: f32[3,2,2]; input w: f32[1,2,2]; input r: f32[1,2,2]; input len: i32[2]\noutput y\n"+
		"y = RNN(x, w, r, _, len) {hidden_size=2}")
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	feeds := recurrentFeeds(1, 1)
	delete(feeds, "b")
	delete(feeds, "h")
	feeds["len"] = &tensor.Tensor{DType: tensor.Int32, Shape: []int{2}, Data: []int32{4, 0}}
	_, err = s.NewRunner().Run(context.Background(), feeds, nil)
	require.ErrorContains(t, err, "sequence length 4 of 3 steps")
}

// TestNonMaxSuppression: a box that overlaps a better one goes, equal scores keep their order, the number is limited per class.
func TestNonMaxSuppression(t *testing.T) {
	g := graphtest.Parse(t, `
opset 13
input boxes: f32[1,4,4]; input scores: f32[1,2,4]; input most: i64[]
const iou: f32[1] = [0.5]; const least: f32[1] = [0.1]
output kept
kept = NonMaxSuppression(boxes, scores, most, iou, least)
`)
	feeds := map[string]*tensor.Tensor{
		// The second lies on the first (corners in another order), the third beside both, the fourth is empty.
		"boxes":  tensor.FromF32([]float32{0, 0, 1, 1, 1, 1.1, 0, 0.1, 0, 2, 1, 3, 5, 5, 5, 5}, 1, 4, 4),
		"scores": tensor.FromF32([]float32{0.8, 0.9, 0.7, 0.1, 0.5, 0.5, 0.5, 0.6}, 1, 2, 4),
	}
	for most, want := range map[int64][]int64{
		0: {}, 1: {0, 0, 1, 0, 1, 3}, 9: {0, 0, 1, 0, 0, 2, 0, 1, 3, 0, 1, 0, 0, 1, 2},
	} {
		feeds["most"] = tensor.FromI64([]int64{most})
		out := run(t, g, exec.Options{}, feeds, nil)
		assert.Equal(t, []int{len(want) / 3, 3}, out[0].Shape)
		assert.Equal(t, want, out[0].I64()[:len(want)])
	}
}
