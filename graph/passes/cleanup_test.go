package passes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNoOps(t *testing.T) {
	const head = `opset 13
		input x: f32[2,3]
		input s: f32[]
		const zero: f32[] = 0
		const one: f32[] = 1
		const ones: f32[1,1] = [1]
		const deep: f32[1,1,1] = [1]
		const none: i64[4] = [0, 0, 0, 0]
		const some: i64[4] = [0, 0, 0, 1]
		const front: i64[1] = [0]; const far: i64[1] = [9223372036854775807]; const back: i64[1] = [-1]; const before: i64[1] = [-10]
		const axis: i64[1] = [1]; const same: i64[2] = [2, 3]; const all: i64[2] = [1, 1]; const once: f32[2] = [1, 1]
		const near: f32[2] = [1, 1.1]
		input open: f32[N,3]; input void: f32[2,0]; const wide: i64[2] = [2, 0]; input image: f32[1,9,6,5]`
	runCases(t, NoOps, head, []passCase{
		{"Identity inside", "i = Identity(x); y = Relu(i); output y", "Relu", ""},
		{"Identity before an output: the producer takes its name", "r = Relu(x); y = Identity(r); output y", "Relu", ""},
		{"and other readers follow", "r = Relu(x); y = Identity(r); z = Exp(r); output y, z", "Relu Exp", ""},
		{"Identity of an input that is an output", "y = Identity(x); output y", "Identity", "keep their names"},
		{"Identity between two outputs", "r = Relu(x); y = Identity(r); output y, r", "Relu Identity", "keep their names"},
		{"two Identities of one value are outputs", "r = Relu(x); y = Identity(r); z = Identity(r); output y, z", "Relu Identity",
			"keep their names"},
		{"sum and concatenation of one", "a = Sum(x); y = Concat(a) {axis=1}; z = Relu(y); output z", "Relu", ""},
		{"neutral elements", "a = Add(x, zero); b = Mul(one, a); c = Sub(b, zero); d = Div(c, one); e = Pow(d, one); y = Relu(e); output y",
			"Relu", ""},
		{"1 minus and 0 divided by are not neutral", "a = Div(one, x); y = Sub(zero, a); output y", "Div Sub", ""},
		{"a neutral element of the same rank", "a = Mul(x, ones); y = Relu(a); output y", "Relu", ""},
		{"one that raises the rank", "a = Mul(x, deep); y = Relu(a); output y", "Mul Relu", "more dimensions"},
		{"padding by nothing", "a = Pad(x, none); y = Relu(a); output y", "Relu", ""},
		{"padding by something", "a = Pad(x, some); y = Relu(a); output y", "Pad Relu", ""},
		{"a Slice of everything", "a = Slice(x, front, far, axis); y = Relu(a); output y", "Relu", ""},
		{"of an open batch", "a = Slice(open, front, far, axis); y = Relu(a); output y", "Relu", ""},
		{"a Slice that turns around", "a = Slice(x, back, before, axis, back); y = Relu(a); output y", "Slice Relu", ""},
		{"a Slice of some", "a = Slice(x, axis, far, axis); y = Relu(a); output y", "Slice Relu", ""},
		{"Expand, Tile and Resize to the same size", "a = Expand(x, same); b = Tile(a, all); c = Resize(b, _, once); y = Relu(c); output y",
			"Relu", ""},
		{"an Expand of nothing", "a = Expand(void, wide); y = Relu(a); output y", "Expand Relu", ""},
		{"a Resize that moves places", "a = Resize(x, _, near) {mode=\"linear\"}; y = Relu(a); output y", "Resize Relu", ""},
	})
}

// Sizes are rounded up where that makes one larger alone: not for a window that would begin behind the end.
func TestPoolsRoundedUp(t *testing.T) {
	for sizes, want := range map[string]int64{"1,9,6,5": 0, "1,9,5,6": 1, "1,9,N,5": 1} {
		g, _ := rewrite(t, "input x: f32["+sizes+"]\ny = MaxPool(x) {kernel_shape=[1,3], strides=[2,2], ceil_mode=1} \"n\"\noutput y", NoOps)
		id, _ := g.LookupNode("n")
		require.Equal(t, want, g.Node(id).AttrInt("ceil_mode", 0), sizes)
	}
}

// The padding of a pool that steps over the end is stated, of any size where the window has one element.
func TestPoolsStepOverTheEnd(t *testing.T) {
	for text, want := range map[string][]int64{
		"1,9,6,6 MaxPool kernel_shape=[1,1], strides=[2,2]":                  {0, 0, 0, 0},
		"1,9,6,6 AveragePool kernel_shape=[1,3], strides=[2,2], ceil_mode=1": {0, 0, 0, 1},
		"1,9,9,9 LpPool kernel_shape=[2,2], strides=[3,3]":                   {0, 0, 0, 0},
		"1,9,H,W MaxPool kernel_shape=[1,1], strides=[2,1]":                  {0, 0, 0, 0},
		"1,9,6,6 MaxPool kernel_shape=[2,2], strides=[2,2]":                  nil,
		"1,9,H,6 MaxPool kernel_shape=[2,1], strides=[3,3]":                  nil,
	} {
		f := strings.SplitN(text, " ", 3)
		g, _ := rewrite(t, "opset 18; input x: f32["+f[0]+"]; y = "+f[1]+"(x) {auto_pad=\"SAME_UPPER\", "+f[2]+"} \"n\"; output y", NoOps)
		id, _ := g.LookupNode("n")
		require.Equal(t, want, g.Node(id).AttrInts("pads"), text)
		require.Equal(t, want == nil, g.Node(id).AttrStr("auto_pad", "") != "", text)
		require.Zero(t, g.Node(id).AttrInt("ceil_mode", 0), text)
	}
}

func TestIdentityReadInABodyStays(t *testing.T) {
	g := parseGraph(t, `opset 13
		input x: f32[2]
		input c: bool[]
		i = Identity(x)
		y = Exp(i)
		z = If(c) {then_branch=graph a { t = Neg(i); output t }, else_branch=graph b { e = Exp(i); output e }}
		output y, z`)
	log := normalize(t, g, NoOps)
	requireReason(t, log, "inside a subgraph")
	requireOps(t, g, "Identity Exp If")
}

func TestDropouts(t *testing.T) {
	const head = `
		input x: f32[2,3]
		const ratio: f32[] = 0.5
		const off: bool[] = false
		const on: bool[] = true`
	runCases(t, Dropouts, "opset 7"+head, []passCase{
		{"opset 7", "d = Dropout(x) {ratio=0.5}; y = Relu(d); output y", "Relu", ""},
	})
	runCases(t, Dropouts, "opset 13"+head, []passCase{
		{"no training mode", "d, m = Dropout(x, ratio); y = Relu(d); output y", "Relu", ""},
		{"training mode off", "d = Dropout(x, _, off); y = Relu(d); output y", "Relu", ""},
	})
	g := parseGraph(t, "opset 13"+head+"\nd = Dropout(x, ratio, on); y = Relu(d); output y")
	requireReason(t, normalize(t, g, Dropouts), "training mode")
	g = parseGraph(t, "opset 6"+head+"\nd = Dropout(x) {ratio=0.5}; y = Relu(d); output y")
	requireReason(t, normalize(t, g, Dropouts), "training mode")
	g = parseGraph(t, "opset 13"+head+"\nd, m = Dropout(x); y = Relu(d); output y, m")
	requireReason(t, normalize(t, g, Dropouts), "graph output")
	requireOps(t, g, "Dropout Relu")
}

func TestCasts(t *testing.T) {
	const head = `opset 13
		input x: f32[2,3]
		input i: i32[2]
		input b: bool[2]
		input l: i64[2]`
	runCases(t, Casts, head, []passCase{
		{"to the same type", "c = Cast(x) {to=1}; y = Relu(c); output y", "Relu", ""},
		{"there and back", "c = Cast(x) {to=11}; d = Cast(c) {to=1}; y = Relu(d); output y", "Relu", ""},
		{"there and back to an output", "c = Cast(x) {to=11}; y = Cast(c) {to=1}; output y", "Identity", ""},
		{"bool by way of float", "c = Cast(b) {to=1}; y = Cast(c) {to=7}; output y", "Cast", ""},
		{"int32 by way of int64", "c = Cast(i) {to=7}; y = Cast(c) {to=11}; output y", "Cast", ""},
		{"float16 loses digits", "c = Cast(x) {to=10}; y = Cast(c) {to=1}; output y", "Cast Cast", "does not hold every"},
		{"int64 does not fit into int32", "c = Cast(l) {to=6}; y = Cast(c) {to=7}; output y", "Cast Cast", "does not hold every"},
		{"another reader", "c = Cast(i) {to=7}; y = Cast(c) {to=11}; z = Add(c, c); output y, z", "Cast Cast Add", "also read by"},
	})
}

func TestTransposes(t *testing.T) {
	const head = "opset 13\ninput x: f32[2,3,4]"
	runCases(t, Transposes, head, []passCase{
		{"nothing", "a = Transpose(x) {perm=[0, 1, 2]}; y = Relu(a); output y", "Relu", ""},
		{"inverse", "a = Transpose(x) {perm=[1, 2, 0]}; c = Transpose(a) {perm=[2, 0, 1]}; y = Relu(c); output y", "Relu", ""},
		{"two make one", "a = Transpose(x) {perm=[1, 2, 0]}; y = Transpose(a) {perm=[0, 2, 1]}; output y", "Transpose", ""},
		{"default order twice", "a = Transpose(x); c = Transpose(a); y = Relu(c); output y", "Relu", ""},
		{"default order and a stated one", "a = Transpose(x); y = Transpose(a) {perm=[1, 2, 0]}; output y", "Transpose", ""},
		{"another reader", "a = Transpose(x); c = Transpose(a); y = Relu(c); z = Exp(a); output y, z", "Transpose Transpose Relu Exp",
			"also read by"},
	})
}

func TestReshapes(t *testing.T) {
	const head = `opset 13
		input x: f32[2,3,4]
		const same: i64[3] = [2, -1, 4]
		const flat: i64[2] = [2, 12]
		const keep: i64[2] = [0, -1]
		const halves: i64[3] = [0, 2, -1]
		const back: i64[3] = [0, 3, 4]
		const split: i64[3] = [0, 0, -1]
		const open: i64[3] = [-1, 4, 3]
		const ax: i64[1] = [1]
		const ax2: i64[1] = [2]`
	runCases(t, Reshapes, head, []passCase{
		{"to the shape it has", "a = Reshape(x, same); y = Relu(a); output y", "Relu", ""},
		{"between two outputs", "r = Relu(x); y = Reshape(r, same); output y, r", "Relu Identity", ""},
		{"two make one", "a = Reshape(x, flat); y = Reshape(a, open); output y", "Reshape", ""},
		{"and one that goes back is none", "a = Reshape(x, flat); c = Reshape(a, back); y = Relu(c); output y", "Relu", ""},
		{"a copied dimension that was given as a number", "a = Reshape(x, open); c = Relu(a); d = Reshape(c, flat); y = Reshape(d, " +
			"keep); output y", "Reshape Relu Reshape", ""},
		{"a copied dimension that is not known", "a = Reshape(x, open); y = Reshape(a, keep); output y", "Reshape Reshape", "not known"},
		{"Flatten and Reshape", "a = Flatten(x) {axis=1}; y = Reshape(a, open); output y", "Reshape", ""},
		{"Flatten and a copied dimension", "a = Flatten(x) {axis=2}; y = Reshape(a, halves); output y", "Flatten Reshape", "copies a dimension"},
		{"Unsqueeze and Squeeze", "a = Unsqueeze(x, ax); c = Squeeze(a, ax); y = Relu(c); output y", "Relu", ""},
		{"of other axes", "a = Unsqueeze(x, ax); c = Unsqueeze(a, ax); d = Squeeze(c, ax2); y = Relu(d); output y",
			"Unsqueeze Unsqueeze Squeeze Relu", "after axes"},
	})
}

func TestCommonSubexpressions(t *testing.T) {
	const head = "opset 13\ninput x: f32[2,3]"
	runCases(t, CommonSubexpressions, head, []passCase{
		{"twice", "a = Relu(x); b = Relu(x); y = Add(a, b); output y", "Relu Add", ""},
		{"in a row", "a = Relu(x); c = Exp(a); b = Relu(x); d = Exp(b); y = Add(c, d); output y", "Relu Exp Add", ""},
		{"other attributes", "a = LeakyRelu(x) {alpha=0.1}; b = LeakyRelu(x) {alpha=0.2}; y = Add(a, b); output y",
			"LeakyRelu LeakyRelu Add", ""},
		{"the later one is an output", "a = Relu(x); c = Exp(a); b = Relu(x); output c, b", "Relu Exp", ""},
		{"both are outputs", "a = Relu(x); b = Relu(x); output a, b", "Relu Relu", "names are needed"},
	})
	g := parseGraph(t, "opset 13\na = RandomNormal() {shape=[2]}\nb = RandomNormal() {shape=[2]}\ny = Add(a, b)\noutput y")
	normalize(t, g, CommonSubexpressions)
	requireOps(t, g, "RandomNormal RandomNormal Add")
}

func TestDeadCodeAndConstants(t *testing.T) {
	g, log := rewrite(t, `opset 13
		input x: f32[2]
		input w: f32[2] = [1, 2]
		const k: f32[2] = [3, 4]
		const k2: f32[2] = [3, 4]
		const lost: f32[2] = [5, 6]
		a = Add(x, k)
		d = Mul(a, k2)
		dead = Exp(d)
		deader = Relu(dead)
		y = Mul(a, k2)
		output y`, DeadCode, MergeConstants, SweepConstants)
	requireOps(t, g, "Add Mul")
	assert.Equal(t, 3, log.Count("dead-code"))
	assert.Equal(t, 1, log.Count("merge-constants"))
	assert.Len(t, g.Inputs, 1, "an initializer that was an input in name only")
	for _, name := range []string{"w", "k2", "lost"} {
		_, there := g.Lookup(name)
		assert.False(t, there, name)
	}
}

func TestAConstantReadInABodySurvives(t *testing.T) {
	g := parseGraph(t, `opset 13
		input c: bool[]
		k = Constant() {value=f32[2] [1, 2]}
		z = If(c) {then_branch=graph a { t = Neg(k); output t }, else_branch=graph b { e = Exp(k); output e }}
		output z`)
	normalize(t, g, Normalize...)
	requireOps(t, g, "If")
	v, ok := g.Lookup("k")
	require.True(t, ok)
	require.NotNil(t, g.Const(v))
}

func TestFoldConstants(t *testing.T) {
	const head = `opset 13
		input x: f32[2,3]
		input n: f32[batch,3]
		const a: f32[2] = [1, 2]
		const b: f32[2] = [3, 4]
		const s: i64[1] = [2]
		const huge: i64[2] = [600, 600]
		const one: i64[1] = [1]`
	runCases(t, FoldConstants, head, []passCase{
		{"a chain", "c = Add(a, b); d = Mul(c, a); e = ReduceSum(d); y = Mul(x, e); output y", "Mul", ""},
		{"a node with several results", "c, d = Split(a) {axis=0}; e = Add(c, d); y = Mul(x, e); output y", "Mul", ""},
		{"the shape of a fixed input", "c = Shape(x); d = Gather(c, one); e = Cast(d) {to=1}; y = Mul(x, e); output y", "Mul", ""},
		{"the shape of an open input", "c = Shape(n); y = Gather(c, one); output y", "Shape Gather", ""},
		{"the shape of an inner value", "h = Relu(x); c = Shape(h); d = Gather(c, one); e = Cast(d) {to=1}; y = Mul(h, e); output y",
			"Relu Mul", ""},
		{"the fixed part of an open shape", "h = Relu(n); c = Shape(h) {start=1}; e = Cast(c) {to=1}; y = Mul(h, e); output y", "Relu Mul", ""},
		{"the size of an inner value", "h = Relu(x); c = Size(h); e = Cast(c) {to=1}; y = Mul(h, e); output y", "Relu Mul", ""},
		{"a shape that is known once another one is folded", "c = Shape(x); f = Cast(c) {to=1}; r = Sqrt(f); q = Mul(r, r); k = Round(q); i = " +
			"Cast(k) {to=7}; h = Reshape(x, i); z = Shape(h); e = Cast(z) {to=1}; d = Gather(e, one); y = Mul(h, d); output y", "Reshape Mul", ""},
		{"the open part of an open shape", "h = Relu(n); c = Shape(h) {end=1}; e = Cast(c) {to=1}; y = Mul(n, e); output y",
			"Relu Shape Cast Mul", ""},
		{"a shape that depends on data", "h: f32[6] = Compress(n, q); c = Shape(h); e = Cast(c) {to=1}; y = Mul(n, e); output y; const q: " +
			"bool[3] = [true, false, true]", "Compress Shape Cast Mul", ""},
		{"an output keeps its node", "y = Add(a, b); output y", "Add", "graph output"},
		{"a result that would be large", "c = ConstantOfShape(huge); y = ReduceSum(c); output y", "ConstantOfShape ReduceSum", "360000 elements"},
	})
	g := parseGraph(t, `opset 13
		const q: i8[2] = [1, 2]
		const s: f32[] = 0.5
		input x: f32[2]
		w = DequantizeLinear(q, s)
		y = Add(x, w)
		output y`)
	normalize(t, g, FoldConstants)
	requireOps(t, g, "DequantizeLinear Add")
}

func TestConstantNodes(t *testing.T) {
	g, _ := rewrite(t, `opset 13
		input x: f32[2]
		a = Constant() {value=f32[2] [1, 2]}
		b = Constant() {value_float=2.0}
		c = Constant() {value_floats=[1.0, 2.0]}
		d = Constant() {value_int=0}
		e = Constant() {value_ints=[0, 1]}
		f = Add(x, a)
		g1 = Mul(f, b)
		h = Add(g1, c)
		i = Gather(h, d)
		j = Gather(h, e)
		y = Mul(i, j)
		output y`, ConstantNodes)
	requireOps(t, g, "Add Mul Add Gather Gather Mul")
	v, ok := g.Lookup("a")
	require.True(t, ok, "the constant keeps its name")
	require.NotNil(t, g.Const(v))
}

func TestFoldPad(t *testing.T) {
	const head = `opset 13
		input x: f32[1,4,6,6]
		const w: f32[5,4,3,3] = normal(seed=1)
		const p: i64[8] = [0, 0, 1, 2, 0, 0, 0, 1]
		const small: i64[8] = [0, 0, 1, 1, 0, 0, 0, 1]
		const chan: i64[8] = [0, 1, 0, 0, 0, 0, 0, 0]
		const crop: i64[8] = [0, 0, -1, 0, 0, 0, 0, 0]
		const w5: f32[5,5,3,3] = normal(seed=2)
		const one: f32[] = 1
		const zero: f32[] = 0`
	runCases(t, FoldPad, head, []passCase{
		{"Conv", "a = Pad(x, p); y = Conv(a, w); output y", "Conv", ""},
		{"a Conv with padding", "a = Pad(x, p, zero); y = Conv(a, w) {pads=[1, 1, 1, 1], strides=[2, 2]}; output y", "Conv", ""},
		{"VALID", "a = Pad(x, p); y = Conv(a, w) {auto_pad=\"VALID\"}; output y", "Conv", ""},
		{"SAME", "a = Pad(x, p); y = Conv(a, w) {auto_pad=\"SAME_UPPER\"}; output y", "Pad Conv", "pads by itself"},
		{"another value", "a = Pad(x, p, one); y = Conv(a, w); output y", "Pad Conv", "not 0"},
		{"reflect", "a = Pad(x, p) {mode=\"reflect\"}; y = Conv(a, w); output y", "Pad Conv", "reflect"},
		{"channels", "a = Pad(x, chan); y = Conv(a, w5); output y", "Pad Conv", "not spatial"},
		{"cropping", "a = Pad(x, crop); y = Conv(a, w); output y", "Pad Conv", "crops"},
		{"AveragePool", "a = Pad(x, small); y = AveragePool(a) {kernel_shape=[2, 2], strides=[2, 2]}; output y", "AveragePool", ""},
		{"AveragePool with padding of its own", "a = Pad(x, small); y = AveragePool(a) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}; output y",
			"Pad AveragePool", "of its own"},
		{"AveragePool rounding up", "a = Pad(x, small); y = AveragePool(a) {kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1}; output y",
			"Pad AveragePool", "rounds its size up"},
		{"MaxPool of values >= 0", "r = Relu(x); a = Pad(r, small); y = MaxPool(a) {kernel_shape=[2, 2]}; output y", "Relu MaxPool", ""},
		{"MaxPool of any values", "a = Pad(x, small); y = MaxPool(a) {kernel_shape=[2, 2]}; output y", "Pad MaxPool", "may be negative"},
		{"MaxPool windows in the padding", "r = Relu(x); a = Pad(r, p); y = MaxPool(a) {kernel_shape=[2, 2]}; output y", "Relu Pad MaxPool",
			"in the padding alone"},
		{"another reader", "a = Pad(x, p); y = Conv(a, w); z = Relu(a); output y, z", "Pad Conv Relu", "also read by"},
	})
	runCases(t, FoldPad, "opset 9\ninput x: f32[1,4,6,6]\nconst w: f32[5,4,3,3] = normal(seed=1)", []passCase{
		{"attributes", "a = Pad(x) {pads=[0, 0, 1, 1, 0, 0, 1, 1]}; y = Conv(a, w); output y", "Conv", ""},
		{"a value", "a = Pad(x) {pads=[0, 0, 1, 1, 0, 0, 1, 1], value=2.0}; y = Conv(a, w); output y", "Pad Conv", "not 0"},
	})
}
