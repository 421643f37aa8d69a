package passes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Weights that are a vector are a matrix of one column, in every opset; those behind axes of length 1 lose these.
func TestMatMulVectors(t *testing.T) {
	for _, c := range []struct {
		opset, w string
		ops      []string
	}{{"17", "[4]", []string{"MatMul", "Squeeze"}}, {"11", "[4]", []string{"MatMul", "Squeeze"}}, {"17", "[1,4,5]", []string{"MatMul"}},
		{"17", "[2,4,5]", []string{"MatMul"}}, {"17", "[1,1,1,4,5]", []string{"MatMul"}}} {
		g := graphtest.Parse(t, "opset "+c.opset+"\ninput x: f32[2,3,4]\nconst w: f32"+c.w+" = normal(seed=1, std=1)\n"+
			"y = MatMul(x, w) \"product\"\noutput y")
		feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(3, 2, 3, 4)}
		want := outputs(t, g, feeds)["y"].ToRowMajor()
		log, err := Run(context.Background(), g, Normalize)
		require.NoError(t, err)
		var ops []string
		for _, id := range g.Nodes() {
			ops = append(ops, g.Node(id).Op)
		}
		require.Equal(t, c.ops, ops, c.w)
		changed := c.w == "[4]" || c.w == "[1,4,5]"
		require.Equal(t, changed, log.Count(MatMulVectors.Name) > 0, c.w)
		require.Equal(t, want, outputs(t, g, feeds)["y"].ToRowMajor(), c.w)
	}
}
