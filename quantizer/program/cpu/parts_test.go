package cpu_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/programtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
)

const batches = `graph batches
	opset 17
	input x: f32[N,3,160,170]
	output p, q
	const w0: f32[8,3,3,3] = normal(seed=1, std=0.2); const b0: f32[8] = normal(seed=2)
	const w1: f32[8,1,3,3] = normal(seed=3); const fc: f32[8,5] = normal(seed=5); const fb: f32[5] = normal(seed=6)
	const flat: i64[2] = [0, -1]
	a = Conv(x, w0, b0) {strides=[2, 2]}
	r = Relu(a)
	d = Conv(r, w1) {pads=[1, 1, 1, 1], group=8}
	s = Add(d, r)
	q = MaxPool(s) {kernel_shape=[3, 3], strides=[3, 3]}
	g = GlobalAveragePool(s)
	f = Reshape(g, flat)
	z = Gemm(f, fc, fb)
	p = Softmax(z)
`

// A batch that is run in parts gives the bits that it gives as a whole, for any number of samples and threads; small samples, hooked runs
// and graphs in which samples meet are not divided.
func TestBatchInParts(t *testing.T) {
	g := graphtest.Parse(t, batches)
	require.Empty(t, graph.InferShapes(g))
	set, _ := lowertest.Configure(t, g, &target.ONNXRuntime)
	p := programtest.Compiled(t, g, set, "onnxruntime", "ort").Program()
	ctx := context.Background()
	whole := programtest.Reference(t, p, 1)
	parts := map[int]map[int]int{1: {8: 8, 1: 1, 2: 2, 7: 7, 3: 3}, 2: {8: 4, 1: 1, 2: 1, 7: 1, 3: 1}}
	for threads := range parts {
		engine, err := cpu.Backend.New(p, threads)
		require.NoError(t, err)
		e, err := program.New(p, cpu.Backend, threads)
		require.NoError(t, err)
		for _, n := range []int{8, 1, 2, 7, 3, 8} {
			x := graphtest.Normal(uint64(n), n, 3, 160, 170)
			feeds := map[string]*tensor.Tensor{"x": x}
			want, err := whole.Run(ctx, feeds, nil)
			require.NoError(t, err)
			got, err := e.Run(ctx, feeds, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got, n)
			require.Equal(t, parts[threads][n], cpu.Parts(engine, []*tensor.Tensor{x}), n)
		}
	}
	g, set, _ = lowertest.Configured(t, "graph g\n\topset 13\n\tinput x: f32[N,6]\n\toutput y\n\ty = Softmax(x) {axis=0}\n", "onnxruntime")
	engine, err := cpu.Backend.New(programtest.Compiled(t, g, set, "onnxruntime", "ort").Program(), 1)
	require.NoError(t, err)
	require.Equal(t, 1, cpu.Parts(engine, []*tensor.Tensor{graphtest.Normal(1, 8, 6)}))
}
