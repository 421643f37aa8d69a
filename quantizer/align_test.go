package quantizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
)

const residual = `
input x: f32[1,4,8,8]
const w1: f32[4,4,1,1] = normal(1)
const w2: f32[4,4,1,1] = normal(2)
a = Conv(x, w1) "left"
b = Conv(x, w2) "right"
c = Relu(b) "relu"
d = Sub(a, c) "sub"
e = Conv(d, w1) "next"
output e
`

// The left branch is read by a pool as well.
const shared = `
input x: f32[1,4,8,8]
const w1: f32[4,4,1,1] = normal(1)
const w2: f32[4,4,1,1] = normal(2)
a = Conv(x, w1) "left"
b = Conv(x, w2) "right"
d = Add(a, b) "add"
e = MaxPool(a) {kernel_shape=[1,1]} "max"
f = AveragePool(d) {kernel_shape=[2,2], strides=[2,2]} "pool"
output e; output f
`

// Which tensors of an operator share a scale is a property of the target's row.
func TestAlignment(t *testing.T) {
	row := func(op string, align target.Align, overlap bool) *target.Target {
		tg := target.ONNXRuntime
		tg.BorderCost = 0
		tg.Ops = append(slices.Clone(tg.Ops), target.Op{Type: "Sub", Role: target.Arithmetic})
		for i := range tg.Ops {
			if tg.Ops[i].Type == op {
				tg.Ops[i].Align, tg.Ops[i].Overlap = align, overlap
			}
		}
		require.NoError(t, tg.Validate())
		return &tg
	}
	for _, c := range []struct {
		claim, graph string
		target       *target.Target
		want         []string // lines of describe
	}{
		{"without alignment every branch has its own scale", residual, row("Sub", target.AlignNone, false), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=INITIAL",
			"relu INT8 (with right) in0=OVERLAPPED<relu.out0 out0=INITIAL",
			"sub INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<relu.out0 out0=INITIAL",
		}},
		{"large: the second branch, with what is fused behind it, takes the scale of the first", residual, row("Sub", target.AlignLarge, false), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=INITIAL",
			"relu INT8 (with right) in0=OVERLAPPED<left.out0 out0=PASSIVE_INIT<left.out0",
			"sub INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<left.out0 out0=INITIAL",
		}},
		{"output: both branches take that of the result", residual, row("Sub", target.AlignOutput, false), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=PASSIVE_INIT<sub.out0",
			"relu INT8 (with right) in0=OVERLAPPED<sub.out0 out0=PASSIVE_INIT<sub.out0",
		}},
		{"a branch that others read keeps its scale", shared, row("Add", target.AlignOutput, false), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=INITIAL",
			"right INT8 in0=PASSIVE_INIT<left.in0 in1=INITIAL/channel0 out0=PASSIVE_INIT<add.out0",
			"max INT8 in0=OVERLAPPED<left.out0 out0=PASSIVE_INIT<left.out0",
		}},
		{"overlap: it takes the common scale, and so do they", shared, row("Add", target.AlignOutput, true), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=PASSIVE_INIT<add.out0",
			"max INT8 in0=OVERLAPPED<add.out0 out0=PASSIVE_INIT<add.out0",
		}},
		{"large without overlap: nothing to share where only one branch takes part", shared, row("Add", target.AlignLarge, false), []string{
			"left INT8 in0=INITIAL in1=INITIAL/channel0 out0=INITIAL",
			"right INT8 in0=PASSIVE_INIT<left.in0 in1=INITIAL/channel0 out0=INITIAL",
		}},
		{"input: a pool keeps the scale of what it reads", shared, row("AveragePool", target.AlignInput, false), []string{
			"pool INT8 in0=OVERLAPPED<add.out0 out0=PASSIVE_INIT<add.out0",
		}},
		{"output: what a pool reads has the scale of what it computes", shared, row("AveragePool", target.AlignOutput, false), []string{
			"add INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<right.out0 out0=PASSIVE_INIT<pool.out0",
			"pool INT8 in0=OVERLAPPED<pool.out0 out0=INITIAL",
		}},
	} {
		g := graphtest.Parse(t, c.graph)
		require.Empty(t, graph.InferShapes(g))
		a, err := dispatch.Assign(g, c.target, dispatch.Options{})
		require.NoError(t, err)
		set, _, err := quantizer.Configure(g, a, c.target, quantizer.Options{})
		require.NoError(t, err)
		lines := strings.Split(describe(g, set), "\n")
		for _, w := range c.want {
			require.Contains(t, lines, w, c.claim)
		}
	}
}
