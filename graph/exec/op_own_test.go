package exec_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// An operator that a program brings along runs between others, in every batch and type; what its function gives is what its inference
// said, or an error that names the node.
func TestOwnOperator(t *testing.T) {
	run := func(t *testing.T, text string, x *tensor.Tensor, eval func(in []*tensor.Tensor) ([]*tensor.Tensor, error),
		hooks *exec.Hooks) (*tensor.Tensor, error) {
		g := graphtest.Parse(t, text)
		op := &graph.Operator{OpSpec: graph.OpSpec{Domain: "own", Name: "F", MinIn: 1, Infer: func(c *graph.InferCtx) error {
			c.SetOut(0, c.DType(0), c.Shape(0))
			return nil
		}}, Eval: func(_ *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return eval(in) }}
		require.NoError(t, g.Adopt([]*graph.Operator{op}))
		graph.InferShapes(g)
		s, err := exec.New(g, exec.Options{Threads: 2})
		require.NoError(t, err)
		out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, hooks)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
	const text = `graph g
opset 17
opset own 1
input x: f32[N,3]
a = Relu(x)
b = own::F(a)
y = Add(b, a)
output y
`
	x := tensor.FromF32([]float32{1, -2, 3, 4, 5, 6}, 2, 3)
	same := func(in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil }
	spoil := &exec.Hooks{Output: func(n *graph.Node, _ int, v *tensor.Tensor) error {
		if n.Op == "F" { // a hook may write to the result, and not to the input that the function returned
			for i := range v.F32() {
				v.F32()[i] = 100
			}
		}
		return nil
	}}
	y, err := run(t, text, x, same, nil)
	require.NoError(t, err)
	require.Equal(t, []float32{2, 0, 6, 8, 10, 12}, y.F32())
	y, err = run(t, text, x, same, spoil)
	require.NoError(t, err)
	require.Equal(t, []float32{101, 100, 103, 104, 105, 106}, y.F32())

	half := `graph g
opset 17
opset own 1
input x: f16[3]
y = own::F(x)
output y
`
	y, err = run(t, half, &tensor.Tensor{DType: tensor.Float16, Shape: []int{3}, Data: []uint16{0x3c00, 0x4000, 0xc000}},
		func(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			require.Equal(t, []float32{1, 2, -2}, in[0].F32(), "floats of 16 bits are computed with in float32")
			return in, nil
		}, nil)
	require.NoError(t, err)
	require.Equal(t, []uint16{0x3c00, 0x4000, 0xc000}, y.Data)

	for _, c := range []struct {
		eval func(in []*tensor.Tensor) ([]*tensor.Tensor, error)
		want string
	}{
		{func([]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil }, "returned no output 0"},
		{func([]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, errors.New("not today") }, "not today"},
		{func([]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.New(tensor.Float32, 3, 2)}, nil
		}, "its function returned f32[3,2], its inference said f32[2,3]"},
		{func([]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{2, 3}, Data: []float32{1}}}, nil
		}, "another length or type"},
	} {
		_, err := run(t, text, x, c.eval, nil)
		var at *graph.NodeError
		require.ErrorAs(t, err, &at)
		require.Equal(t, "F", at.Op)
		require.ErrorContains(t, err, c.want)
	}
}
