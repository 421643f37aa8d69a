package grad

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// cases are graphs in the text form without their outputs' seeds: gradients with respect to all inputs of floats are held to differences.
var cases = []struct{ name, text string }{
	{"add, repeated along axes", "input a: T[2,3,4], b: T[3,1]; y = Add(a, b)"},
	{"add, more axes", "input a: T[4], b: T[2,3,4]; y = Add(a, b)"},
	{"sub", "input a: T[2,1], b: T[1,3]; y = Sub(a, b)"},
	{"mul, the same twice", "input a: T[2,3]; y = Mul(a, a)"},
	{"mul", "input a: T[2,3], b: T[3]; y = Mul(a, b)"},
	{"div", "input a: T[2,3], b: T[2,1]; e = Exp(b); y = Div(a, e)"},
	{"pow", "input a: T[2,3], b: T[3]; e = Exp(a); y = Pow(e, b)"},
	{"sum and mean", "input a: T[2,3], b: T[3], c: T[2,1]; s = Sum(a, b, c); y = Mean(s, a, b)"},
	{"max", "input a: T[2,3], b: T[3], c: T[1]; y = Max(a, b, c)"},
	{"min", "input a: T[2,3], b: T[3]; y = Min(a, b)"},
	{"where", "input a: T[2,3], b: T[3]; c = Greater(a, b); y = Where(c, a, b)"},
	{"functions", "input a: T[7]; b = Exp(a); c = Log(b); d = Sqrt(b); e = Reciprocal(d); f = Sin(c); g = Cos(f); h = Erf(g); i = Abs(a); " +
		"j = Neg(i); k = Identity(j); l = Mul(e, h); y = Add(k, l)"},
	{"relu", "input a: T[9]; y = Relu(a)"},
	{"leaky relu", "input a: T[9]; y = LeakyRelu(a) {alpha=0.3}"},
	{"thresholded relu", "input a: T[9]; y = ThresholdedRelu(a) {alpha=0.2}"},
	{"prelu", "input a: T[2,3,4], s: T[3,1]; y = PRelu(a, s)"},
	{"clip", "const lo: T[] = [-0.5]; const hi: T[] = [0.25]; input a: T[20]; y = Clip(a, lo, hi)"},
	{"sigmoid", "input a: T[9]; y = Sigmoid(a)"},
	{"tanh", "input a: T[9]; y = Tanh(a)"},
	{"hard sigmoid", "input a: T[20]; const k: T[] = [4.0]; b = Mul(a, k); y = HardSigmoid(b)"},
	{"hard swish", "input a: T[20]; const k: T[] = [4.0]; b = Mul(a, k); y = HardSwish(b)"},
	{"elu", "input a: T[9]; y = Elu(a) {alpha=0.7}"},
	{"selu", "input a: T[9]; y = Selu(a)"},
	{"celu", "input a: T[9]; y = Celu(a) {alpha=0.6}"},
	{"softplus, softsign", "input a: T[9]; b = Softplus(a); y = Softsign(b)"},
	{"gelu", "opset 20; input a: T[9]; y = Gelu(a)"},
	{"gelu by tanh", "opset 20; input a: T[9]; y = Gelu(a) {approximate=\"tanh\"}"},
	{"mish", "opset 18; input a: T[9]; y = Mish(a)"},
	{"swish", "opset 24; input a: T[9]; y = Swish(a) {alpha=1.5}"},

	{"matmul", "input a: T[3,4], b: T[4,5]; y = MatMul(a, b)"},
	{"matmul, a matrix behind", "input a: T[2,3,4], b: T[4,5]; y = MatMul(a, b)"},
	{"matmul, stacks that repeat", "input a: T[2,1,3,4], b: T[6,4,5]; y = MatMul(a, b)"},
	{"gemm", "input a: T[3,4], b: T[4,5], c: T[5]; y = Gemm(a, b, c) {alpha=0.5, beta=2.0}"},
	{"gemm, transposed", "input a: T[4,3], b: T[5,4], c: T[3,1]; y = Gemm(a, b, c) {transA=1, transB=1, alpha=1.5}"},
	{"gemm, one transposed", "input a: T[4,3], b: T[4,5]; y = Gemm(a, b) {transA=1}"},

	{"conv", "input x: T[2,3,5,6], w: T[4,3,3,2], b: T[4]; y = Conv(x, w, b) {pads=[1,0,1,1]}"},
	{"conv, strides and dilations", "input x: T[2,2,9,8], w: T[3,2,3,2]; y = Conv(x, w) {pads=[1,2,0,1], strides=[2,3], dilations=[2,1]}"},
	{"conv, some read by none", "input x: T[1,2,8,8], w: T[3,2,3,3]; y = Conv(x, w) {strides=[3,3]}"},
	{"conv, groups", "input x: T[2,4,5,5], w: T[6,2,3,3]; y = Conv(x, w) {group=2, pads=[1,1,1,1]}"},
	{"conv, depthwise", "input x: T[2,4,6,5], w: T[4,1,3,3]; y = Conv(x, w) {group=4, strides=[2,2], auto_pad=\"SAME_UPPER\"}"},
	{"conv, two of a channel", "input x: T[2,3,6,5], w: T[6,1,3,3]; y = Conv(x, w) {group=3}"},
	{"conv, pointwise", "input x: T[2,3,4,4], w: T[5,3,1,1], b: T[5]; y = Conv(x, w, b)"},
	{"conv, one axis", "input x: T[2,3,9], w: T[4,3,4]; y = Conv(x, w) {pads=[2,1]}"},
	{"conv, three axes", "input x: T[1,2,3,4,3], w: T[2,2,2,2,2]; y = Conv(x, w)"},
	{"conv transpose", "input x: T[2,3,4,3], w: T[3,2,3,2], b: T[2]; y = ConvTranspose(x, w, b) {strides=[2,2], pads=[1,0,0,1]}"},
	{"conv transpose, more at the end", "input x: T[1,2,4], w: T[2,3,3]; y = ConvTranspose(x, w) {strides=[3], output_padding=[2]}"},
	{"conv transpose, groups", "input x: T[2,4,3,3], w: T[4,1,2,2]; y = ConvTranspose(x, w) {group=2, strides=[2,2]}"},
	{"conv transpose, depthwise", "input x: T[2,3,3,3], w: T[3,1,4,4]; y = ConvTranspose(x, w) {group=3, strides=[2,2], pads=[1,1,1,1]}"},

	{"average pool", "input x: T[2,3,5,6]; y = AveragePool(x) {kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,1]}"},
	{"average pool, padding counts", "input x: T[1,2,5,5]; y = AveragePool(x) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], " +
		"count_include_pad=1, ceil_mode=1}"},
	{"max pool", "input x: T[2,3,5,6]; y = MaxPool(x) {kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,1]}"},
	{"max pool, dilations", "input x: T[1,2,7]; y = MaxPool(x) {kernel_shape=[3], dilations=[2], ceil_mode=1, strides=[2]}"},
	{"global pools", "input x: T[2,3,4,5]; a = GlobalAveragePool(x); b = GlobalMaxPool(x); y = Mul(a, b)"},

	{"softmax", "input x: T[2,3,4]; y = Softmax(x) {axis=1}"},
	{"softmax of old", "opset 12; input x: T[2,3,4]; y = Softmax(x) {axis=1}"},
	{"log softmax", "input x: T[2,5]; y = LogSoftmax(x)"},
	{"layer norm", "input x: T[2,3,4], s: T[3,4], b: T[3,4]; y = LayerNormalization(x, s, b) {axis=1, epsilon=0.01}"},
	{"layer norm without bias", "input x: T[2,3,4], s: T[4]; y = LayerNormalization(x, s)"},
	{"rms norm", "opset 23; input x: T[2,3,4], s: T[4]; y = RMSNormalization(x, s) {epsilon=0.1}"},
	{"instance norm", "input x: T[2,3,4,2], s: T[3], b: T[3]; y = InstanceNormalization(x, s, b)"},
	{"batch norm", "input x: T[2,3,4], s: T[3], b: T[3]; const m: T[3] = normal(seed=1); const v: T[3] = uniform(low=0.5,high=2.0); " +
		"y = BatchNormalization(x, s, b, m, v)"},

	{"reduce", "const a: i64[1] = [1]; input x: T[2,3,4]; m = ReduceSum(x, a) {keepdims=0}; y = ReduceMean(m) {axes=[-1]}"},
	{"reduce all", "input x: T[2,3]; y = ReduceMean(x) {keepdims=0}"},
	{"shapes", "const s: i64[2] = [4,6]; const a: i64[1] = [0]; input x: T[2,3,4]; r = Reshape(x, s); f = Flatten(r); u = Unsqueeze(f, a); " +
		"q = Squeeze(u, a); y = Transpose(q)"},
	{"transpose", "input x: T[2,3,4]; y = Transpose(x) {perm=[1,2,0]}"},
	{"expand", "const s: i64[3] = [2,3,4]; input x: T[3,1]; y = Expand(x, s)"},
	{"concat and split", "input a: T[2,3], b: T[2,2]; c = Concat(a, b, a) {axis=-1}; const n: i64[3] = [4,1,3]; " +
		"d, e, f = Split(c, n) {axis=1}; g = Mul(e, d); h = Tanh(g); const k: i64[1] = [1]; i = ReduceSum(h, k); y = Concat(i, e) {axis=1}"},
	{"slice", "const s: i64[2] = [-1,1]; const e: i64[2] = [-99,99]; const a: i64[2] = [0,2]; const t: i64[2] = [-2,2]; input x: T[4,2,5]; " +
		"y = Slice(x, s, e, a, t)"},
	{"gather", "const i: i64[2,2] = [0,-1,0,1]; input x: T[2,3,4]; y = Gather(x, i) {axis=1}"},
	{"gather one", "const i: i64[] = [1]; input x: T[2,3,4]; y = Gather(x, i) {axis=1}"},
	{"pad", "const p: i64[4] = [1,-1,0,2]; input x: T[3,4]; y = Pad(x, p)"},
	{"pad, reflected", "const p: i64[4] = [1,2,0,2]; input x: T[3,4]; y = Pad(x, p) {mode=\"reflect\"}"},
	{"pad, edges", "const p: i64[4] = [1,2,0,2]; input x: T[3,4]; y = Pad(x, p) {mode=\"edge\"}"},
	{"tile", "const r: i64[2] = [2,3]; input x: T[2,3]; y = Tile(x, r)"},
	{"depth to space", "input x: T[1,8,2,3]; y = DepthToSpace(x) {blocksize=2}"},
	{"depth to space, columns first", "input x: T[1,8,2,3]; y = DepthToSpace(x) {blocksize=2, mode=\"CRD\"}"},
	{"space to depth", "input x: T[1,2,4,6]; y = SpaceToDepth(x) {blocksize=2}"},
	{"resize, nearest", "const s: f32[4] = [1.0,1.0,2.0,2.0]; input x: T[1,2,3,4]; y = Resize(x, _, s) {mode=\"nearest\"}"},
	{"resize, linear", "const s: i64[4] = [1,2,5,3]; input x: T[1,2,3,4]; y = Resize(x, _, _, s) {mode=\"linear\"}"},
	{"resize, cubic", "const s: i64[4] = [1,2,5,4]; input x: T[1,2,3,4]; y = Resize(x, _, _, s) {mode=\"cubic\"}"},

	{"a residual block", "input x: T[2,3,5,5], w: T[3,3,3,3], v: T[3,3,3,3]; a = Conv(x, w) {pads=[1,1,1,1]}; b = Relu(a); " +
		"c = Conv(b, v) {pads=[1,1,1,1]}; d = Add(c, x); y = Relu(d)"},
	{"attention", "input x: T[2,3,4], q: T[4,4], k: T[4,4], v: T[4,4]; a = MatMul(x, q); b = MatMul(x, k); c = MatMul(x, v); " +
		"t = Transpose(b) {perm=[0,2,1]}; s = MatMul(a, t); p = Softmax(s); y = MatMul(p, c)"},
}

// differentiated is a case with its gradients: an output y, and one for each input of floats.
type differentiated struct {
	session *exec.Session
	inputs  []string
	feeds   map[string]*tensor.Tensor
	seed    []float64
}

func differentiate(t *testing.T, text, float string) *differentiated {
	t.Helper()
	g, err := graph.Parse(strings.ReplaceAll(text, ": T[", ": "+float+"[") + "\noutput y")
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(g))
	y := g.Outputs[0]
	shape, ok := g.Value(y).Shape.Ints()
	require.True(t, ok)
	random := rand.New(rand.NewPCG(1, 2))
	d := &differentiated{feeds: map[string]*tensor.Tensor{}}
	seed := filled(random, g.Value(y).DType, shape)
	for i := range seed.Len() {
		d.seed = append(d.seed, at(seed, i))
	}
	for _, v := range g.Inputs {
		s, _ := g.Value(v).Shape.Ints()
		d.inputs = append(d.inputs, g.Value(v).Name)
		d.feeds[g.Value(v).Name] = filled(random, g.Value(v).DType, s)
	}
	list, err := Add(g, map[graph.ValueID]graph.ValueID{y: g.AddConst("seed", seed)}, g.Inputs)
	require.NoError(t, err)
	require.NotContains(t, list, graph.NoValue)
	g.Outputs = append(g.Outputs, list...)
	require.Empty(t, graph.InferShapes(g))
	d.session, err = exec.New(g, exec.Options{})
	require.NoError(t, err)
	return d
}

func filled(random *rand.Rand, d tensor.DType, shape []int) *tensor.Tensor {
	x := tensor.New(d, shape...)
	for i := range x.Len() {
		set(x, i, random.NormFloat64())
	}
	return x
}

func at(x *tensor.Tensor, i int) float64 {
	if x.DType == tensor.Float64 {
		return x.Data.([]float64)[i]
	}
	return float64(x.F32()[i])
}

func set(x *tensor.Tensor, i int, v float64) {
	if x.DType == tensor.Float64 {
		x.Data.([]float64)[i] = v
	} else {
		x.F32()[i] = float32(v)
	}
}

func (d *differentiated) run(t *testing.T) []*tensor.Tensor {
	t.Helper()
	out, err := d.session.NewRunner().Run(context.Background(), d.feeds, nil)
	require.NoError(t, err)
	return out
}

func (d *differentiated) loss(t *testing.T) (sum float64) {
	y := d.run(t)[0]
	for i := range y.Len() {
		sum += d.seed[i] * at(y, i)
	}
	return sum
}

// TestGradientsAreDifferences holds every element of every gradient, in float64, to the difference of the loss on its two sides.
func TestGradientsAreDifferences(t *testing.T) {
	const h = 1e-6
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := differentiate(t, c.text, "f64")
			gradients := d.run(t)[1:]
			for k, name := range d.inputs {
				x, g := d.feeds[name], gradients[k]
				require.Equal(t, x.Shape, g.Shape, name)
				for i := range x.Len() {
					v := at(x, i)
					set(x, i, v+h)
					above := d.loss(t)
					set(x, i, v-h)
					below := d.loss(t)
					set(x, i, v)
					want := (above - below) / (2 * h)
					require.InDelta(t, want, at(g, i), 1e-6*(1+math.Abs(want)), "%s[%d]", name, i)
				}
			}
		})
	}
}

// TestGradientsInFloat32 holds the same graphs in the type that networks have, and its vector kernels, to those in float64.
func TestGradientsInFloat32(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wide, narrow := differentiate(t, c.text, "f64"), differentiate(t, c.text, "f32")
			for name, x := range narrow.feeds { // the same numbers
				for i := range x.Len() {
					set(wide.feeds[name], i, at(x, i))
				}
			}
			want, got := wide.run(t), narrow.run(t)
			for k := range want {
				for i := range want[k].Len() {
					require.InDelta(t, at(want[k], i), at(got[k], i), 1e-4*(1+math.Abs(at(want[k], i))), "result %d, element %d", k, i)
				}
			}
		})
	}
}

// TestEveryRuleIsHeld: each operator with a gradient that is not none stands in a case.
func TestEveryRuleIsHeld(t *testing.T) {
	constant := []string{"ArgMax", "Cast", "Ceil", "Dropout", "Equal", "Floor", "GreaterOrEqual", "Less", "LessOrEqual", "Round", "Shape",
		"Sign"}
	for _, op := range Operators() {
		held := slices.ContainsFunc(cases, func(c struct{ name, text string }) bool { return strings.Contains(c.text, "= "+op+"(") })
		require.True(t, held || slices.Contains(constant, op), op)
	}
}

func TestRoundIsStraightThrough(t *testing.T) {
	d := differentiate(t, "input x: T[5]; y = Round(x)", "f32")
	g := d.run(t)[1]
	for i, s := range d.seed {
		require.InDelta(t, s, at(g, i), 0)
	}
}

func TestTiesGoToTheFirst(t *testing.T) {
	d := differentiate(t, "input x: T[1,1,4]; y = MaxPool(x) {kernel_shape=[2], strides=[2]}", "f32")
	for i := range 4 {
		set(d.feeds["x"], i, 1)
	}
	g := d.run(t)[1]
	require.Equal(t, []float32{float32(d.seed[0]), 0, float32(d.seed[1]), 0}, g.F32())
}

func TestWhatHasNoGradient(t *testing.T) {
	for text, want := range map[string]string{
		"input x: f32[3]; y = CumSum(x, i); const i: i64[] = [0]; output y":   `grad: CumSum "y": there is no rule for its gradient`,
		"input x: f32[N,3]; y = Relu(x); output y":                            `grad: Relu "y": the shape [N,3] of input 0 is not known`,
		"input x: f32[3], w: f32[3,2]; y = MatMul(x, w); output y":            `grad: MatMul "y": a product of a vector, shapes [3] and [3 2]`,
		"opset 9; input x: f32[3]; y = Relu(x); output y":                     "grad: opset 9, at least 11 is needed",
		"input x: f32[2,3], p: i64[4]; y = Pad(x, p); output y: f32[2,3]":     `grad: Pad "y": its pads are not constant`,
		"input x: f32[3]; d = Cast(x) {to=11}; y = Relu(d); output y: f64[3]": `grad: Cast "d": the gradient would have to pass from`,
	} {
		g, err := graph.Parse(text)
		require.NoError(t, err, text)
		graph.InferShapes(g)
		y := g.Outputs[0]
		_, err = Add(g, map[graph.ValueID]graph.ValueID{y: y}, g.Inputs[:1])
		require.ErrorContains(t, err, want)
	}
}

func TestWhatNothingDependsOn(t *testing.T) {
	g, err := graph.Parse("input x: f32[3], z: f32[3]; y = Relu(x); u = Relu(z); output y, u")
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(g))
	list, err := Add(g, map[graph.ValueID]graph.ValueID{g.Outputs[0]: g.Outputs[0]}, g.Inputs)
	require.NoError(t, err)
	require.NotEqual(t, graph.NoValue, list[0])
	require.Equal(t, graph.NoValue, list[1])
}
