package passes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

// A bias of one number is one number for each output channel.
func TestGemmBiasOfOneNumber(t *testing.T) {
	for _, shape := range []string{"[]", "[1]", "[1,1]"} {
		g := graphtest.Parse(t, `
opset 17
input x: f32[2,3]
const w: f32[3,4] = normal(seed=1, std=1)
const b: f32`+shape+` = [0.5]
y = Gemm(x, w, b)
output y: f32[2,4]
`)
		log, err := Run(context.Background(), g, Normalize)
		require.NoError(t, err)
		require.Equal(t, 1, log.Count(GemmFactors.Name))
		b := g.Const(g.Node(g.Nodes()[0]).Inputs[2])
		require.Equal(t, []int{4}, b.Shape)
		require.Equal(t, []float32{0.5, 0.5, 0.5, 0.5}, b.F32())
	}
}

// A bias of as many axes as the data becomes one of the columns alone: ONNX has a Gemm of matrices, which it would not broadcast to.
func TestBiasOfManyAxesBecomesOneOfColumns(t *testing.T) {
	g := graphtest.Parse(t, `
opset 17
input x: f32[2,3,3]
const w: f32[3,4] = normal(seed=1, std=1)
const b: f32[1,1,4] = [1, 2, 3, 4]
m = MatMul(x, w)
y = Add(m, b)
output y: f32[2,3,4]
`)
	log, err := Run(context.Background(), g, Normalize)
	require.NoError(t, err)
	require.Equal(t, 1, log.Count("matmul-add-to-gemm"))
	b := g.Const(g.Node(g.Nodes()[0]).Inputs[2])
	require.Equal(t, []int{4}, b.Shape)
	require.Equal(t, []float32{1, 2, 3, 4}, b.F32())
}
