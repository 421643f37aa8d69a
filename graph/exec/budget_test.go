package exec_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

// runWith executes a text graph with 8 MiB for its values; x is f32[1,1,4,4] of ones.
func runWith(t *testing.T, text string, ctx context.Context) error {
	t.Helper()
	g := graphtest.Parse(t, "opset 17\n"+text)
	graph.InferShapes(g)
	s, err := exec.New(g, exec.Options{Memory: 8 << 20})
	if err != nil {
		return err
	}
	feeds := map[string]*tensor.Tensor{}
	if _, ok := g.Lookup("x"); ok {
		x := tensor.New(tensor.Float32, 1, 1, 4, 4)
		for i := range x.F32() {
			x.F32()[i] = 1
		}
		feeds["x"] = x
	}
	r := s.NewRunner()
	if _, err := r.Run(ctx, feeds, nil); err != nil {
		return err
	}
	_, err = r.Run(ctx, feeds, nil) // with a plan
	return err
}

// Numbers in a small model may ask for far more memory than there is: the node that does is named, with the bytes.
func TestMemoryBudget(t *testing.T) {
	for what, c := range map[string]struct{ node, text string }{
		"ConstantOfShape": {"big", "const s: i64[1] = [1000000000]\ny = ConstantOfShape(s) \"big\"\noutput y"},
		"computed shape": {"big", "input x: f32[1,1,4,4]\nconst k: i64[4] = [100000, 1, 1, 100]\ns = Shape(x)\nm = Mul(s, k)\n" +
			"y = ConstantOfShape(m) \"big\"\noutput y"},
		"Expand": {"big", "input x: f32[1,1,4,4]\nconst s: i64[4] = [10000, 1000, 4, 4]\ny = Expand(x, s) \"big\"\noutput y"},
		"Tile":   {"big", "input x: f32[1,1,4,4]\nconst s: i64[4] = [10000, 1000, 1, 1]\ny = Tile(x, s) \"big\"\noutput y"},
		"Range":  {"big", "const a: i64[] = [0]; const b: i64[] = [100000000]; const c: i64[] = [1]\ny = Range(a, b, c) \"big\"\noutput y"},
		"Resize": {"big", "input x: f32[1,1,4,4]\nconst s: f32[4] = [1, 1, 5000, 5000]\ny = Resize(x, _, s) {mode=\"nearest\"} \"big\"\n" +
			"output y"},
		"Pad": {"big", "input x: f32[1,1,4,4]\nconst p: i64[8] = [0, 0, 9999, 9999, 0, 0, 0, 0]\ny = Pad(x, p) \"big\"\noutput y"},
		"OneHot": {"big", "const i: i64[3] = [1, 2, 3]; const d: i64[] = [90000000]; const v: f32[2] = [0, 1]\n" +
			"y = OneHot(i, d, v) \"big\"\noutput y"},
		"a sum of few": {"big", "const a: f32[5000,1] = fill(1); const b: f32[1,5000] = fill(1)\ny = Add(a, b) \"big\"\noutput y"},
		"convolution": {"big", "input x: f32[1,1,4,4]\nconst w: f32[1,1,1,1] = fill(1)\n" +
			"y = Conv(x, w) {pads=[5000, 5000, 5000, 5000]} \"big\"\noutput y"},
		"a loop that doubles": {"loop", `input x: f32[1,1,4,4]
const n: i64[] = [60]; const yes: bool[] = [true]
y = Loop(n, yes, x) {body=graph {
	input i: i64[], c: bool[], v
	d = Concat(v, v) {axis=0}
	e = Identity(c)
	output e, d
}} "loop"
output y`},
		"a loop that collects": {"loop", `input x: f32[1,1,4,4]
const n: i64[] = [100000000]; const yes: bool[] = [true]
y = Loop(n, yes) {body=graph {
	input i: i64[], c: bool[]
	e = Identity(c)
	d = Identity(x)
	output e, d
}} "loop"
output y`},
	} {
		t.Run(what, func(t *testing.T) {
			err := runWith(t, c.text, t.Context())
			var full *exec.MemoryError
			require.ErrorAs(t, err, &full)
			require.ErrorContains(t, err, fmt.Sprintf("%q", c.node))
			require.ErrorContains(t, err, "budget of")
			require.Positive(t, full.Bytes)
			require.LessOrEqual(t, full.Budget, int64(8<<20))
			require.Greater(t, full.Bytes+full.Held, full.Budget)
		})
	}
}

// Only what is alive at the same time counts: 40 values of 1 MB in a chain need two at a time, 40 of which all are results do not fit.
func TestMemoryBudgetCountsWhatLives(t *testing.T) {
	const first = "input x: f32[1,1,4,4]\nconst s: i64[4] = [40, 400, 4, 4]\nv0 = Expand(x, s)\n"
	chain, fan := first, first
	for i := range 40 {
		chain += fmt.Sprintf("v%d = Softmax(v%d)\n", i+1, i)
		fan += fmt.Sprintf("w%d = Softmax(v0) {axis=%d}\n", i, i%4)
	}
	chain += "output v40"
	fan += "y = Sum("
	for i := range 40 {
		if i > 0 {
			fan += ", "
		}
		fan += fmt.Sprintf("w%d", i)
	}
	fan += ")\noutput y"
	require.NoError(t, runWith(t, chain, t.Context()))
	var full *exec.MemoryError
	require.ErrorAs(t, runWith(t, fan, t.Context()), &full)
	require.Greater(t, full.Held, int64(5<<20), "others are alive")
}

// A loop without end stops when it is told to.
func TestEndlessLoop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := runWith(t, `input x: f32[1,1,4,4]
const yes: bool[] = [true]
y = Loop(_, yes, x) {body=graph {
	input i: i64[], c: bool[], v
	e = Identity(c)
	d = Neg(v)
	output e, d
}}
output y`, ctx)
	require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
}

// Windows far larger than what they look at take no more time than what they look at.
func TestHugeWindows(t *testing.T) {
	for what, node := range map[string]string{
		"MaxPool":              "y = MaxPool(x) {kernel_shape=[30000, 30000], pads=[29999, 29999, 29999, 29999], strides=[30000, 30000]}",
		"MaxPool with indices": "y, i = MaxPool(x) {kernel_shape=[30000, 30000], pads=[29999, 29999, 29999, 29999], strides=[30000, 30000]}",
		"AveragePool":          "y = AveragePool(x) {kernel_shape=[30000, 30000], pads=[29999, 29999, 29999, 29999], strides=[30000, 30000]}",
		"LpPool":               "y = LpPool(x) {kernel_shape=[30000, 30000], pads=[29999, 29999, 29999, 29999], strides=[30000, 30000]}",
		"dilated":              "y, i = MaxPool(x) {kernel_shape=[2, 2], dilations=[1000000000, 1000000000], pads=[1, 1, 999999999, 999999999]}",
		"far padding":          "const w: f32[1,1,1,1] = fill(1)\ny = Conv(x, w) {pads=[1000000000, 0, 1000000000, 0], strides=[1000000000, 1]}",
		"stride":               "y = MaxPool(x) {kernel_shape=[2, 2], strides=[2147483647, 2147483647]}",
	} {
		t.Run(what, func(t *testing.T) {
			start := time.Now()
			err := runWith(t, "input x: f32[1,1,4,4]\n"+node+"\noutput y", t.Context())
			t.Log(time.Since(start), err)
			require.Less(t, time.Since(start), longtest.Hang)
		})
	}
}
