package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

const largeSamples = `graph large
	opset 17
	input x: f32[N,3,200,210]
	output p, q
	const w0: f32[8,3,3,3] = normal(seed=1, std=0.2); const b0: f32[8] = normal(seed=2)
	const w1: f32[8,1,3,3] = normal(seed=3); const fc: f32[8,5] = normal(seed=5); const fb: f32[5] = normal(seed=6)
	const flat: i64[2] = [0, -1]; const scale: f32[8,1,1] = uniform(seed=9, low=0.5, high=2)
	a = Conv(x, w0, b0) {strides=[2, 2]}
	r = Relu(a)
	d = Conv(r, w1) {pads=[1, 1, 1, 1], group=8}
	s = Add(d, r)
	m = Mul(s, scale)
	c = Concat(m, r) {axis=1}
	q = MaxPool(c) {kernel_shape=[9, 9], strides=[9, 9]}
	g = GlobalAveragePool(m)
	f = Reshape(g, flat)
	z = Gemm(f, fc, fb)
	p = Softmax(z)
`

// A batch that is run in parts gives what it gives as a whole, whatever rest there is, and counts as one.
func TestBatchInParts(t *testing.T) {
	g := graphtest.Parse(t, largeSamples)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	require.True(t, s.Apart())
	ctx := context.Background()
	r := s.NewRunner()
	outs := make([]*tensor.Tensor, 2)
	for _, n := range []int{7, 1, 2, 3, 7} {
		feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(n), n, 3, 200, 210)}
		whole := s.NewRunner()
		want, err := whole.Run(ctx, feeds, &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { return nil }})
		require.NoError(t, err)
		require.NoError(t, r.RunInto(ctx, feeds, nil, outs))
		equalAll(t, want, outs, "in parts")
		assert.Equal(t, whole.MACs(), r.MACs())
	}
	_, err = r.Run(ctx, map[string]*tensor.Tensor{"x": graphtest.Normal(1, 4, 3, 200, 210), "extra": graphtest.Normal(1, 4, 3)}, nil)
	assert.ErrorContains(t, err, `no input "extra"`)
	_, err = r.Run(ctx, map[string]*tensor.Tensor{"x": graphtest.Normal(1, 4, 3, 200, 21)}, nil)
	assert.ErrorContains(t, err, `input "x" is`)
}

// Graphs in which samples may meet are run as a whole.
func TestSamplesThatMeet(t *testing.T) {
	for name, text := range map[string]string{
		"axis 0":           "y = Concat(x, x) {axis=0}",
		"softmax":          "y = Softmax(x) {axis=0}",
		"softmax negative": "y = Softmax(x) {axis=-2}",
		"transposed":       "y = Gemm(x, w) {transA=1}\n\tconst w: f32[4,3] = normal(seed=1)",
		"reshaped":         "y = Reshape(x, s)\n\tconst s: i64[2] = [-1, 2]",
		"one per sample":   "y = Add(x, b)\n\tconst b: f32[4,6] = normal(seed=1)",
		"raised":           "y = Add(x, b)\n\tconst b: f32[2,1,6] = normal(seed=1)",
		"reduced":          "y = ReduceMean(x) {axes=[0]}",
		"on both sides":    "y = MatMul(x, x)",
		"constant output":  "y = Relu(b)\n\tconst b: f32[4,6] = normal(seed=1)",
	} {
		g := graphtest.Parse(t, "graph g\n\topset 13\n\tinput x: f32[N,6]\n\toutput y\n\t"+text+"\n")
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err, name)
		assert.False(t, s.Apart(), name)
	}
}
