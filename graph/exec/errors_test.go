package exec_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

func TestBadInputIsAClearError(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ok := input(1)["x"]
	for _, c := range []struct {
		feeds map[string]*tensor.Tensor
		want  string
	}{
		{nil, `input "x" is missing; the graph has the inputs "x" f32[N,3,12,10]`},
		{map[string]*tensor.Tensor{"y": ok}, `there is no input "y"; the graph has the inputs "x"`},
		{map[string]*tensor.Tensor{"x": ok, "y": ok}, `there is no input "y"; the graph has the inputs "x"`},
		{map[string]*tensor.Tensor{"x": nil}, `input "x" is nil`},
		{map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 3, 12, 11)}, `input "x" is f32[N,3,12,10], got f32[1,3,12,11]`},
		{map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 12, 10)}, "got f32[1,12,10]"},
		{map[string]*tensor.Tensor{"x": tensor.New(tensor.Int64, 1, 3, 12, 10)}, "got i64[1,3,12,10]"},
		{map[string]*tensor.Tensor{"x": {DType: tensor.Float32, Shape: []int{1, 3, 12, 10}, Data: []float32{1}}}, "does not fit"},
		{map[string]*tensor.Tensor{"x": {DType: tensor.Float32, Shape: []int{1, 3, 12, 10}, Data: make([]int64, 360)}}, "does not fit"},
	} {
		_, err := r.Run(context.Background(), c.feeds, nil)
		assert.ErrorContains(t, err, c.want)
	}
	_, err = r.Run(context.Background(), input(1), nil)
	assert.NoError(t, err, "the runner can be used after an error")
}

func TestUnsupportedOperatorsAreListedAtOnce(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		opset 13
		input x: f32[1,3,4,4]
		output y
		a = com.example::Magic(x)
		b = ImageDecoder(a, a)
		c = ImageDecoder(b, a)
		d = Relu(c)
		y = Pad(d) {mode="mirror"}
	`)
	_, err := exec.New(g, exec.Options{})
	var e *exec.UnsupportedError
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Ops, 3)
	assert.Equal(t, "ImageDecoder", e.Ops[0].Op)
	assert.Equal(t, int64(13), e.Ops[0].Version)
	assert.Len(t, e.Ops[0].Nodes, 2)
	assert.Equal(t, `mode "mirror" is not supported`, e.Ops[1].Reason)
	assert.Equal(t, "com.example", e.Ops[2].Domain)
	assert.ErrorContains(t, err, "ImageDecoder (ai.onnx 13, 2 nodes: ")
}

func TestErrorsNameTheNode(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		input x: f32[A,B]
		input i: i64[C]
		output y
		y = Gather(x, i) "pick rows"
	`)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	_, err = s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{
		"x": tensor.New(tensor.Float32, 3, 2), "i": tensor.FromI64([]int64{3}, 1)}, nil)
	var e *graph.NodeError
	require.ErrorAs(t, err, &e)
	assert.EqualError(t, err, `execute: node "pick rows" (Gather, f32[3,2], i64[1]): index 3 is out of range for axis 0 of [3,2]`)
}

func TestCancellation(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	seen := 0
	_, err = s.NewRunner().Run(ctx, input(1), &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error {
		if seen++; seen == 5 {
			cancel()
		}
		return nil
	}})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 5, seen)
}

func TestHookErrorsStopTheRun(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	mine := errors.New("mine")
	_, err = s.NewRunner().Run(context.Background(), input(1), &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error {
		return mine
	}})
	assert.ErrorIs(t, err, mine)
}

// TestHostileAttributes states windows and axes that no memory could hold or that point nowhere.
func TestHostileAttributes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"input x: f32[1,1,1,1]; const w: f32[1,1,1,1] = fill(1); y = ConvTranspose(x, w) {strides=[20000, 20000]}", "are too large"},
		{"input x: f32[1,1,1,1]; const w: f32[1,1,2,2] = fill(1); y = ConvTranspose(x, w) {dilations=[60000, 60000], pads=[60000, 60000, 0, 0]}",
			"is too large"},
		{"input x: f32[1,1,1,1]; const w: f32[1,1,2,2] = fill(1); y = Conv(x, w) {dilations=[60000, 60000], pads=[60000, 60000, 0, 0]}",
			"is too large"},
		{"input x: f32[1,1,1,2,2]; const w: f32[1,1,2,1,1] = fill(1); y = ConvTranspose(x, w) {pads=[1, 0, 0, 1, 0, 0]}",
			"an empty spatial axis 0"},
		{"input x: f32[1,1,0,2,2]; const w: f32[1,1,1,1,1] = fill(1); y = Conv(x, w) {pads=[1, 0, 0, 1, 0, 0]}", "an empty spatial axis 0"},
		{"input x: f32[3,2]; y = Transpose(x) {perm=[0, -1]}", "perm [0 -1] is no permutation"},
		{"input x: f32[0,4]; y = ArgMax(x) {axis=0}", "axis 0 of f32[0,4] is empty"},
	} {
		g := graphtest.Parse(t, "opset 13; "+c.text+"; output y")
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err)
		shape, _ := g.Value(g.Inputs[0]).Shape.Ints()
		_, err = s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, shape...)}, nil)
		assert.ErrorContains(t, err, c.want, c.text)
	}
}

// ONNX does not say what a global pool gives of planes without elements: it is an error that names the shape, in both executors.
func TestGlobalPoolsOfNothing(t *testing.T) {
	for _, op := range []string{"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"} {
		g := graphtest.Parse(t, "input x: f32[1,2,H,3]\ny = "+op+`(x) "pool"`+"\noutput y")
		for _, o := range []exec.Options{{}, {Float64: true}} {
			s, err := exec.New(g, o)
			require.NoError(t, err)
			_, err = s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 2, 0, 3)}, nil)
			require.ErrorContains(t, err, "planes without elements: [1 2 0 3]", op)
		}
	}
}
