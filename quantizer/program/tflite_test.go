package program_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// drawn are int8 codes from a linear congruential generator, as those who recorded TFLite's answers drew them.
func drawn(seed uint32, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		seed = (seed*1103515245 + 12345) & (1<<31 - 1)
		out[i] = int32(int8(seed >> 16))
	}
	return out
}

// imported compiles a file of Q and DQ for TFLite's arithmetic.
func imported(t *testing.T, text string) *lower.Program {
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	q, err := qdq.Read(g)
	require.NoError(t, err)
	im, err := q.Configure(&target.TFLite)
	require.NoError(t, err)
	require.Empty(t, im.Warnings)
	pr, err := qmath.ProfileNamed("tflite2")
	require.NoError(t, err)
	p, err := lower.Compile(im.Graph, im.Set, &target.TFLite, pr)
	require.NoError(t, err)
	return p
}

// A global average on one grid is TFLite's AVERAGE_POOL_2D, a mean over axes its MEAN, whatever the grids: what LiteRT 2.3 answers
// (reference, optimized and XNNPACK kernels alike for the pool) for 24 channels of 4 x 4 integers.
func TestTFLiteMeans(t *testing.T) {
	pool := []int32{-10, 19, 9, 18, -9, 16, 14, -14, 17, -16, -9, -7, -36, 25, -19, -5, -20, 12, 10, 47, -15, -2, 8, -26}
	mean := []int32{-10, 19, 9, 18, -8, 16, 14, -14, 17, -16, -8, -6, -36, 26, -19, -5, -20, 12, 10, 47, -15, -2, 9, -26}
	const text = `
opset 17
input x: f32[1,24,4,4]
const s: f32[] = [0.0235]
const z: i8[] = [-77]
xq = QuantizeLinear(x, s, z)
xd = DequantizeLinear(xq, s, z)
m = OPERATOR
mq = QuantizeLinear(m, s, z)
y = DequantizeLinear(mq, s, z)
output y: f32[1,24,1,1]
`
	codes := drawn(20261122, 4*4*24)
	x := tensor.New(tensor.Float32, 1, 24, 4, 4)
	for i, q := range codes { // the codes stand channels last
		x.F32()[i%24*16+i/24] = float32(q+77) * 0.0235
	}
	for operator, want := range map[string][]int32{
		`GlobalAveragePool(xd) "mean"`:                    pool,
		`AveragePool(xd) {kernel_shape=[4, 4]} "mean"`:    pool,
		`ReduceMean(xd) {axes=[2, 3], keepdims=1} "mean"`: mean,
	} {
		p := imported(t, strings.Replace(text, "OPERATOR", operator, 1))
		for _, b := range []program.Backend{program.Reference, program.CPU} {
			e, err := program.New(p, b, 1)
			require.NoError(t, err)
			var got []int32
			_, err = e.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
				if p.Name(s.ID) == "mean" {
					got = out[0].Integers()
				}
				return nil, nil
			})
			require.NoError(t, err)
			require.Equal(t, want, got, "%s on %s", operator, b.Name)
		}
	}
}
