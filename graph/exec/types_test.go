package exec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// typedNodes are nodes and the shapes of their inputs a, b, c, ... All are of one type unless a type stands before the shape. Every
// layer and every function that has evaluators of its own for float64 is here.
var typedNodes = []struct{ node, shapes string }{
	{"MatMul(a, b)", "3,4 4,5"}, {"MatMul(a, b)", "2,3,4 2,4,5"}, {"MatMul(a, b)", "4 3,4,2"},
	{"Gemm(a, b, c) {alpha=0.5, beta=2.0, transA=1, transB=1}", "4,3 5,4 5"}, {"Gemm(a, b)", "3,4 4,5"},
	{"Conv(a, b, c) {pads=[1,0,2,1], strides=[2,1], dilations=[1,2]}", "2,4,7,6 4,4,3,2 4"},
	{"Conv(a, b) {group=2, auto_pad=\"SAME_UPPER\"}", "1,4,5 6,2,2"}, {"Conv(a, b)", "1,2,4,4,3 3,2,2,2,2"},
	{"ConvTranspose(a, b, c) {group=2, strides=[2,3], pads=[1,0,0,1], output_padding=[1,0]}", "2,4,3,4 4,3,3,2 6"},
	{"ConvTranspose(a, b) {dilations=[2]}", "1,2,4 2,3,2"},
	{"MaxPool(a) {kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,0]}", "2,3,6,5"},
	{"MaxPool(a) {kernel_shape=[2], ceil_mode=1, strides=[2], dilations=[2]}", "1,2,7"},
	{"AveragePool(a) {kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}", "1,2,5,4"},
	{"AveragePool(a) {kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,2], ceil_mode=1}", "1,2,6,5"},
	{"LpPool(a) {kernel_shape=[2,2], p=3}", "1,2,4,4"}, {"GlobalAveragePool(a)", "2,3,4,5"}, {"GlobalMaxPool(a)", "2,3,4,5"},
	{"GlobalLpPool(a) {p=2}", "2,3,4"},
	{"BatchNormalization(a, b, c, d, e)", "2,3,4 3 3 3 +3"}, {"InstanceNormalization(a, b, c)", "2,3,4,5 3 3"},
	{"GroupNormalization(a, b, c) {num_groups=2}", "2,4,3 4 4"}, {"LayerNormalization(a, b, c) {axis=1}", "2,3,4 3,4 4"},
	{"LayerNormalization(a, b)", "2,3,4 4"},
	{"RMSNormalization(a, b)", "2,3,4 4"}, {"LRN(a) {size=3}", "1,5,2,2"}, {"LpNormalization(a) {axis=1, p=1}", "2,3,4"},
	{"LpNormalization(a)", "2,3,4"},
	{"MeanVarianceNormalization(a)", "2,3,4,2"}, {"Softmax(a) {axis=1}", "2,3,4"}, {"LogSoftmax(a)", "2,3,4"}, {"Hardmax(a) {axis=0}", "3,4"},
	{"Einsum(a, b) {equation=\"bij,bjk->bik\"}", "2,3,4 2,4,2"}, {"Einsum(a) {equation=\"...ii->...i\"}", "2,3,3"},
	{"LSTM(a, b, c, d) {hidden_size=3, direction=\"bidirectional\"}", "4,2,3 2,12,3 2,12,3 2,24"},
	{"GRU(a, b, c, d) {hidden_size=2, linear_before_reset=1}", "3,2,3 1,6,3 1,6,2 1,12"},
	{"RNN(a, b, c) {hidden_size=2, activations=[\"Affine\"], activation_alpha=[0.25], activation_beta=[0.5]}", "3,2,3 1,2,3 1,2,2"},
	{"Resize(a, _, b) {mode=\"linear\"}", "1,1,4,5 f32:scales"}, {"Resize(a, _, b) {mode=\"cubic\"}", "1,1,4,5 f32:scales"},
	{"ReduceSum(a)", "3,4"}, {"ReduceMean(a)", "3,4"}, {"ReduceL2(a)", "3,4"}, {"ReduceLogSumExp(a)", "3,4"}, {"ReduceMax(a)", "3,4"},
	{"CumSum(a, b)", "3,4 i64:one"}, {"Clip(a, b, c)", "3,4 - +"}, {"Mean(a, b, c)", "3,4 4 3,1"}, {"PRelu(a, b)", "3,4 4"},
	{"Mod(a, b) {fmod=1}", "3,4 +4"},
	{"Pow(a, b)", "+3,4 4"}, {"Max(a, b)", "3,4 4"}, {"TopK(a, b)", "3,4 i64:one"}, {"Where(b, a, a)", "3,4 bool:3,4"}, {"Relu(a)", "3,4"},
	{"LeakyRelu(a)", "3,4"}, {"Elu(a)", "3,4"}, {"Celu(a) {alpha=2.0}", "3,4"}, {"ThresholdedRelu(a)", "3,4"}, {"Selu(a)", "3,4"},
	{"HardSigmoid(a)", "3,4"},
	{"HardSwish(a)", "3,4"}, {"Shrink(a) {bias=0.25}", "3,4"}, {"Gelu(a)", "3,4"}, {"Swish(a) {alpha=0.5}", "3,4"}, {"Softsign(a)", "3,4"},
	{"Reciprocal(a)", "+3,4"}, {"Sqrt(a)", "+3,4"}, {"Sigmoid(a)", "3,4"}, {"Erf(a)", "3,4"}, {"Mish(a)", "3,4"}, {"Abs(a)", "3,4"},
	{"Round(a)", "3,4"},
}

// typedCase parses a case with inputs of type d. Values are multiples of 1/8 that every float type holds.
func typedCase(node, shapes string, d tensor.DType) (string, map[string]*tensor.Tensor) {
	rng := rand.New(rand.NewPCG(1, 2))
	text, feeds := "opset 24\n", map[string]*tensor.Tensor{}
	for i, s := range strings.Fields(shapes) {
		name, own := string(rune('a'+i)), d
		values := func(int) float64 { return float64(rng.IntN(33)-16) / 8 }
		switch {
		case s == "f32:scales":
			own, s = tensor.Float32, "4"
			values = func(i int) float64 { return []float64{1, 1, 2, 0.5}[i] }
		case s == "i64:one":
			own, s = tensor.Int64, "1"
			values = func(int) float64 { return 1 }
		case strings.HasPrefix(s, "bool:"):
			own, s = tensor.Bool, s[5:]
		case s[0] == '+':
			s = s[1:]
			values = func(int) float64 { return float64(1+rng.IntN(16)) / 8 }
		case s == "-":
			s, values = "", func(int) float64 { return -1 }
		}
		var shape []int
		for _, n := range strings.Split(s, ",") {
			var k int
			if _, err := fmt.Sscan(n, &k); err == nil {
				shape = append(shape, k)
			}
		}
		x := make([]float64, tensor.Count(shape))
		for k := range x {
			x[k] = values(k)
		}
		feeds[name] = exec.CastTo(own, &tensor.Tensor{DType: tensor.Float64, Shape: append([]int{}, shape...), Data: x})
		text += fmt.Sprintf("input %s: %s[%s]\n", name, own, s)
	}
	return text + "output y\ny = " + node, feeds
}

// TestEveryFloatType: what a node gives in float64 it gives in float32 within the error of that, and in float16 and bfloat16 that
// float32 result rounded, to the bit.
func TestEveryFloatType(t *testing.T) {
	for _, c := range typedNodes {
		result := func(d tensor.DType) *tensor.Tensor {
			text, feeds := typedCase(c.node, c.shapes, d)
			return run(t, graphtest.Parse(t, text), exec.Options{Threads: 2}, feeds, nil)[0]
		}
		single, wide := result(tensor.Float32), result(tensor.Float64)
		require.Equal(t, tensor.Float64, wide.DType, c.node)
		for i, v := range tensor.Of[float64](wide) {
			require.InDelta(t, v, float64(single.F32()[i]), 2e-5*max(1, math.Abs(v)), "%s, element %d", c.node, i)
		}
		for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			require.Equal(t, exec.CastTo(d, single), result(d), "%s in %s", c.node, d)
		}
	}
}

// TestFloat64IsNotRounded: differences that float32 does not hold are in the result of every operator that is not constant there.
func TestFloat64IsNotRounded(t *testing.T) {
	for _, c := range typedNodes {
		if op, _, _ := strings.Cut(c.node, "("); op == "Hardmax" || op == "Round" || op == "CumSum" {
			continue
		}
		text, feeds := typedCase(c.node, c.shapes, tensor.Float64)
		for _, x := range feeds {
			for i, v := range tensor.Of[float64](x) {
				tensor.Of[float64](x)[i] = v + 1e-11*float64(1+i%3)
			}
		}
		out := run(t, graphtest.Parse(t, text), exec.Options{}, feeds, nil)[0]
		exact := 0
		for _, v := range tensor.Of[float64](out) {
			if float64(float32(v)) != v {
				exact++
			}
		}
		assert.NotZero(t, exact, c.node)
	}
}

// TestHalvesRoundEveryResult: what float32 computes in one pass over a chain, or in the epilogue of a layer, is rounded between the
// operators in float16. 2048 + 1 is 2048 there.
func TestHalvesRoundEveryResult(t *testing.T) {
	one := func(v float64) *tensor.Tensor {
		return exec.CastTo(tensor.Float16, &tensor.Tensor{DType: tensor.Float64, Shape: []int{1, 1}, Data: []float64{v}})
	}
	for _, text := range []string{
		"p = Add(x, one)\nq = Add(p, one)\ny = Sub(q, x)",
		"p = MatMul(x, one)\nq = Add(p, one)\nr = Add(q, one)\ny = Sub(r, x)",
		"p = Gemm(x, one, one)\nq = Add(p, one)\ny = Sub(q, x)",
	} {
		g := graphtest.Parse(t, "opset 17\ninput x: f16[1,1]; input one: f16[1,1]\noutput y\n"+text)
		out := run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": one(2048), "one": one(1)}, nil)
		assert.Equal(t, one(0), out[0], text)
	}
}

// TestMoversKeepBits: NaNs keep their payloads, and elements of half a byte their places.
func TestMoversKeepBits(t *testing.T) {
	nans := &tensor.Tensor{DType: tensor.Float16, Shape: []int{2, 3}, Data: []uint16{0x7c01, 0xfe55, 0x8000, 1, 0x7dff, 0x3c00}}
	g := graphtest.Parse(t, "opset 21\ninput x: f16[2,3]\noutput y\np = Transpose(x)\nq = Concat(p, p) {axis=0}\nconst i: i64[2] = [5, 0]\n"+
		"y = Gather(q, i)")
	out := run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": nans}, nil)
	assert.Equal(t, []uint16{0x8000, 0x3c00, 0x7c01, 1}, out[0].Data)

	packed := &tensor.Tensor{DType: tensor.Int4, Shape: []int{3, 3}, Data: []uint8{0x21, 0x43, 0x65, 0x87, 0x9}}
	g = graphtest.Parse(t, "opset 21\ninput x: i4[3,3]\noutput y, z\ny = Transpose(x)\nz = Cast(y) {to=7}")
	out = run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": packed}, nil)
	assert.Equal(t, []uint8{0x41, 0x27, 0x85, 0x63, 0x9}, out[0].Data)
	assert.Equal(t, []int64{1, 4, 7, 2, 5, -8, 3, 6, -7}, out[1].I64())
}

// TestIntegerLayers: what the standard allows beside floats, exact beyond what float64 holds, wrapping.
func TestIntegerLayers(t *testing.T) {
	big := int64(1)<<53 + 1
	a, b := tensor.FromI64([]int64{big, 1, 2, big}, 2, 2), tensor.FromI64([]int64{1, 1 << 62, 0, 4}, 2, 2)
	feeds := map[string]*tensor.Tensor{"a": a, "b": b}
	for node, want := range map[string][]int64{
		"MatMul(a, b)":                          {big, 1<<62 + 4, 2, math.MinInt64 + 4*big},
		"Einsum(a, b) {equation=\"ij,jk->ik\"}": {big, 1<<62 + 4, 2, math.MinInt64 + 4*big},
		"Gemm(a, b, b) {transB=1}":              {big + 1<<62 + 1, 4 + 1<<62, 2 + 1<<62, 4*big + 4},
		"Mul(a, a)":                             {1<<54 + 1, 1, 4, 1<<54 + 1},
		"Pow(a, two)":                           {1<<54 + 1, 1, 4, 1<<54 + 1},
		"ReduceMax(a) {keepdims=0}":             {big},
	} {
		g := graphtest.Parse(t, "opset 18\ninput a: i64[2,2]; input b: i64[2,2]\nconst two: i64[] = 2\noutput y\ny = "+node)
		assert.Equal(t, want, run(t, g, exec.Options{}, feeds, nil)[0].I64(), node)
	}
	top := &tensor.Tensor{DType: tensor.Uint64, Shape: []int{3}, Data: []uint64{1<<63 + 1, 1 << 63, 3}}
	for op, want := range map[string]uint64{"ReduceMax": 1<<63 + 1, "ReduceMin": 3, "ReduceSum": 4, "ReduceL1": 4, "ReduceMean": 1} {
		g := graphtest.Parse(t, "opset 18\ninput x: u64[3]\noutput y\ny = "+op+"(x)")
		assert.Equal(t, []uint64{want}, run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": top}, nil)[0].Data, op)
	}
	short := &tensor.Tensor{DType: tensor.Int16, Shape: []int{3}, Data: []int16{-300, 7, 500}}
	for op, want := range map[string]int16{"ReduceMax": 500, "ReduceMin": -300} { // codes of 16 bits
		g := graphtest.Parse(t, "opset 18\ninput x: i16[3]\noutput y\ny = "+op+"(x)")
		assert.Equal(t, []int16{want}, run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": short}, nil)[0].Data, op)
	}
}
