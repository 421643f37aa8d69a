package quantizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/decision"
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
		{"large: the second branch, with what is fused behind it, takes the scale of the first", residual,
			row("Sub", target.AlignLarge, false), []string{
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

		// Decided for the operator it is the same, whatever else the row says.
		for i := range c.target.Ops {
			op := &c.target.Ops[i]
			if op.Align == target.AlignNone || op.Overlap || op.Type == "Concat" {
				continue
			}
			for _, other := range []target.Align{target.AlignNone, target.AlignOutput} {
				tg := *c.target
				tg.Ops = slices.Clone(tg.Ops)
				tg.Ops[i].Align = other
				decided, _, err := quantizer.Configure(g, a, &tg, quantizer.Options{Decisions: fold(t, g, "type:"+op.Type, "align="+op.Align.String())})
				require.NoError(t, err)
				require.Equal(t, describe(g, set), describe(g, decided), "%s; decided over %s", c.claim, other)
			}
		}
	}
}

// fold makes a table of one decision.
func fold(t *testing.T, g *graph.Graph, selector string, words ...string) *decision.Table {
	t.Helper()
	p, err := decision.ParseProperties(words)
	require.NoError(t, err)
	d := decision.Decision{By: decision.ByUser, Properties: p}
	if selector != "" {
		d.Select = decision.Select{selector}
	}
	table, err := decision.Fold(g, []decision.Decision{d})
	require.NoError(t, err)
	return table
}

// How the tensors of an operator share scales can be decided as far as the operator can have it; a decision that no tensor takes part
// in has no effect, and one that an operator cannot have is an error that says what it can.
func TestDecidedAlignment(t *testing.T) {
	const concat = `
input x: f32[1,4,8,8]
const w1: f32[4,4,1,1] = normal(1)
const w2: f32[4,4,1,1] = normal(2)
const k: f32[1,4,8,8] = normal(3)
a = Conv(x, w1) "left"
b = Conv(x, w2) "right"
c = Concat(a, b) {axis=1} "concat"
d = Softmax(c) {axis=3} "softmax"
e = Concat(k, d) {axis=1} "constant"
f = AveragePool(e) {kernel_shape=[2,2], strides=[2,2]} "pool"
output f
`
	for _, c := range []struct {
		claim, graph  string
		base          target.Target
		select_, word string
		want, fails   string
		unused        bool
	}{
		{claim: "none parts what the platform lets share", graph: concat, base: target.ONNXRuntime, select_: "concat", word: "none",
			want: "concat INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<right.out0 out0=INITIAL"},
		{claim: "large leaves the output its own scale", graph: concat, base: target.ONNXRuntime, select_: "concat", word: "large",
			want: "concat INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<left.out0 out0=INITIAL"},
		{claim: "input", graph: concat, base: target.ONNXRuntime, select_: "pool", word: "input",
			want: "pool INT8 in0=OVERLAPPED<constant.out0 out0=PASSIVE_INIT<constant.out0"},
		{claim: "on another platform", graph: residual, base: target.OpenVINO, select_: "sub", word: "large",
			want: "sub INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<left.out0 out0=INITIAL"},
		{claim: "what others read takes no part", graph: shared, base: target.ONNXRuntime, select_: "add", word: "large", unused: true,
			want: "add INT8 in0=OVERLAPPED<left.out0 in1=OVERLAPPED<right.out0 out0=INITIAL"},
		{claim: "one input", graph: concat, base: target.ONNXRuntime, select_: "pool", word: "large",
			fails: "pool: onnxruntime: scales of AveragePool with 1 input that is quantized cannot be aligned as large: one of none, output, input"},
		{claim: "no operator that computes new numbers", graph: concat, base: target.ONNXRuntime, select_: "left", word: "output",
			fails: "left: onnxruntime: scales of Conv cannot be aligned as output: one of none"},
		{claim: "a prescribed scale", graph: concat, base: target.ONNXRuntime, select_: "softmax", word: "output",
			fails: "scales of Softmax cannot be aligned as output: one of none"},
		{claim: "the range of one input is not that of a sum", graph: shared, base: target.ONNXRuntime, select_: "add", word: "input",
			fails: "scales of Add cannot be aligned as input: one of none, output, large"},
		{claim: "no quantizers at outputs", graph: shared, base: target.TRTInt8, select_: "add", word: "large",
			fails: "trt_int8: scales of Add cannot be aligned as large: one of none"},
	} {
		g := graphtest.Parse(t, c.graph)
		require.Empty(t, graph.InferShapes(g))
		c.base.BorderCost = 0
		a, err := dispatch.Assign(g, &c.base, dispatch.Options{})
		require.NoError(t, err)
		var effects quantizer.Effects
		set, _, err := quantizer.Configure(g, a, &c.base, quantizer.Options{Decisions: fold(t, g, c.select_, "align="+c.word), Effects: &effects})
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, c.claim)
			require.ErrorContains(t, err, "decision #1", c.claim)
			continue
		}
		require.NoError(t, err, c.claim)
		require.Contains(t, strings.Split(describe(g, set), "\n"), c.want, c.claim)
		require.Equal(t, !c.unused, effects.Used[1], c.claim)
	}
}
