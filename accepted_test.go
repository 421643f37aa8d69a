package qwb

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/graph/tflite"
	"qwb/internal/longtest"
	"qwb/quantizer/tqc"
)

// small is a network of one operator, or a few.
type small struct{ name, text string }

// smalls lists networks of each operator with its attributes, at each rank.
func smalls() (list []small) {
	add := func(name, shape, rest string) {
		rest = front(shape) + rest
		list = append(list, small{name, "opset 17\n" + rest + "\noutput y\n"})
	}
	shapes := map[int]string{1: "[6]", 2: "[1,6]", 3: "[1,6,8]", 4: "[1,6,8,8]", 5: "[1,6,4,4,4]"}
	for rank := 1; rank <= 5; rank++ {
		s := shapes[rank]
		for _, op := range []string{"Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "LeakyRelu", "Exp", "Neg", "Abs", "Erf", "Gelu",
			"Softmax", "Identity", "Flatten", "Softplus"} {
			attrs := ""
			if op == "Gelu" {
				continue
			}
			add(fmt.Sprintf("%s/%d", op, rank), s, "y = "+op+"(x)"+attrs)
		}
		for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min"} {
			add(fmt.Sprintf("%s of two/%d", op, rank), s, "a = Sigmoid(x)\ny = "+op+"(x, a)")
			add(fmt.Sprintf("%s of a number/%d", op, rank), s, "const c: f32[] = [1.5]\ny = "+op+"(x, c)")
			add(fmt.Sprintf("%s of a constant/%d", op, rank), s, "const c: f32"+s+" = normal(seed=4, std=1)\ny = "+op+"(x, c)")
		}
		for axis := -1; axis < rank; axis++ {
			add(fmt.Sprintf("Concat along %d/%d", axis, rank), s, fmt.Sprintf("a = Sigmoid(x)\ny = Concat(x, a) {axis=%d}", axis))
			add(fmt.Sprintf("Softmax along %d/%d", axis, rank), s, fmt.Sprintf("y = Softmax(x) {axis=%d}", axis))
			for _, op := range []string{"ReduceMean", "ReduceMax", "ReduceMin"} {
				for keep := range 2 {
					add(fmt.Sprintf("%s along %d, keepdims %d/%d", op, axis, keep, rank), s, fmt.Sprintf("y = %s(x) {axes=[%d], keepdims=%d}",
						op, axis, keep))
				}
			}
			add(fmt.Sprintf("ReduceSum along %d/%d", axis, rank), s, fmt.Sprintf("const a: i64[1] = [%d]\ny = ReduceSum(x, a)", axis))
			add(fmt.Sprintf("Slice along %d/%d", axis, rank), s,
				fmt.Sprintf("const b: i64[1] = [0]\nconst e: i64[1] = [1]\nconst a: i64[1] = [%d]\ny = Slice(x, b, e, a)", axis))
			add(fmt.Sprintf("Slice with steps along %d/%d", axis, rank), s,
				fmt.Sprintf("const b: i64[1] = [0]\nconst e: i64[1] = [4]\nconst a: i64[1] = [%d]\nconst s: i64[1] = [2]\ny = Slice(x, b, e, a, s)",
					axis))
			add(fmt.Sprintf("Gather along %d/%d", axis, rank), s, fmt.Sprintf("const i: i64[2] = [0, 0]\ny = Gather(x, i) {axis=%d}", axis))
			add(fmt.Sprintf("Gather of one along %d/%d", axis, rank), s, fmt.Sprintf("const i: i64[] = [0]\ny = Gather(x, i) {axis=%d}", axis))
			add(fmt.Sprintf("Unsqueeze at %d/%d", axis, rank), s, fmt.Sprintf("const a: i64[1] = [%d]\ny = Unsqueeze(x, a)", axis))
		}
		if rank > 1 {
			perm := make([]string, rank)
			for i := range perm {
				perm[i] = fmt.Sprint(rank - 1 - i)
			}
			add(fmt.Sprintf("Transpose/%d", rank), s, "y = Transpose(x) {perm=["+strings.Join(perm, ", ")+"]}")
			add(fmt.Sprintf("PRelu of one/%d", rank), s, "const a: f32[1] = [0.1]\ny = PRelu(x, a)")
			add(fmt.Sprintf("Squeeze/%d", rank), s, "const a: i64[1] = [0]\ny = Squeeze(x, a)")
			add(fmt.Sprintf("Split/%d", rank), s, "const n: i64[2] = [2, 4]\ny, b = Split(x, n) {axis=1}\noutput b")
			add(fmt.Sprintf("Reshape/%d", rank), s, "const n: i64[2] = [2, -1]\ny = Reshape(x, n)")
			last := map[int]int{2: 6, 3: 8, 4: 8, 5: 4}[rank]
			for name, bias := range map[string]string{"": "", "[]": "[]", "[1]": "[1]", "[5]": "[5]", "[1,5]": "[1,5]"} {
				text := fmt.Sprintf("const w: f32[%d,5] = normal(seed=2, std=0.4)\n", last)
				if bias == "" {
					text += "y = MatMul(x, w)"
				} else {
					text += "const b: f32" + bias + " = normal(seed=3, std=0.4)\nm = MatMul(x, w)\ny = Add(m, b)"
				}
				add(fmt.Sprintf("MatMul with bias %s/%d", name, rank), s, text)
			}
			add(fmt.Sprintf("MatMul of two/%d", rank), s, "a = Sigmoid(x)\n"+transposed(rank)+"y = MatMul(x, t)")
			add(fmt.Sprintf("LayerNormalization/%d", rank), s,
				fmt.Sprintf("const g: f32[%d] = fill(1)\ny = LayerNormalization(x, g) {axis=-1}", last))
			pads := make([]string, 2*rank)
			for i := range pads {
				pads[i] = fmt.Sprint(i % 2)
			}
			for _, mode := range []string{"constant", "edge", "reflect"} {
				add(fmt.Sprintf("Pad %s/%d", mode, rank), s, fmt.Sprintf("const p: i64[%d] = [%s]\ny = Pad(x, p) {mode=%q}", 2*rank,
					strings.Join(pads, ", "), mode))
			}
		}
	}
	for _, bias := range []string{"[]", "[1]", "[5]", "[1,5]", "[1,1]"} {
		for _, trans := range []int{0, 1} {
			add(fmt.Sprintf("Gemm with C %s, transB %d", bias, trans), "[1,6]",
				fmt.Sprintf("const w: f32%s = normal(seed=2, std=0.4)\nconst b: f32%s = normal(seed=3, std=0.4)\n"+
					"y = Gemm(x, w, b) {transB=%d}", []string{"[6,5]", "[5,6]"}[trans], bias, trans))
		}
	}
	for _, c := range []string{"[2,5]", "[2,1]"} {
		add("Gemm with C "+c, "[2,6]", "const w: f32[6,5] = normal(seed=2, std=0.4)\nconst b: f32"+c+" = normal(seed=3, std=0.4)\n"+
			"y = Gemm(x, w, b)")
	}
	for _, attrs := range []string{"alpha=2.0", "beta=2.0", "alpha=2.0, beta=0.5"} {
		add("Gemm, "+attrs, "[1,6]", "const w: f32[6,5] = normal(seed=2, std=0.4)\nconst b: f32[5] = normal(seed=3, std=0.4)\n"+
			"y = Gemm(x, w, b) {"+attrs+"}")
	}
	add("Gemm, transA", "[6,1]", "const w: f32[6,5] = normal(seed=2, std=0.4)\nconst b: f32[5] = normal(seed=3, std=0.4)\n"+
		"y = Gemm(x, w, b) {transA=1}")
	for spatial := 1; spatial <= 3; spatial++ {
		s := shapes[spatial+2]
		kernel := strings.Repeat(",3", spatial)
		ones := func(n int) string { return strings.TrimSuffix(strings.Repeat(fmt.Sprint(n)+", ", spatial), ", ") }
		twice := func(n int) string { return strings.TrimSuffix(strings.Repeat(fmt.Sprint(n)+", ", 2*spatial), ", ") }
		for _, group := range []int{1, 2, 3, 6} {
			for _, out := range []int{6, 12} {
				for _, attrs := range []string{"", ", pads=[" + twice(1) + "]", ", strides=[" + ones(2) + "]", ", dilations=[" + ones(2) + "], pads=[" +
					twice(2) + "]",
					", pads=[" + twice(1)[:len(twice(1))-1] + "0]", `, auto_pad="SAME_UPPER"`} {
					add(fmt.Sprintf("Conv of %d axes, %d groups, %d outputs%s", spatial, group, out, attrs), s,
						fmt.Sprintf("const w: f32[%d,%d%s] = normal(seed=2, std=0.3)\nconst b: f32[%d] = normal(seed=3, std=0.3)\n"+
							"y = Conv(x, w, b) {group=%d%s}", out, 6/group, kernel, out, group, attrs))
				}
				if out == 6 {
					for _, attrs := range []string{"", ", strides=[" + ones(2) + "]", ", pads=[" + twice(1) + "], strides=[" + ones(2) +
						"], output_padding=[" + ones(1) + "]"} {
						add(fmt.Sprintf("ConvTranspose of %d axes, %d groups%s", spatial, group, attrs), s,
							fmt.Sprintf("const w: f32[6,%d%s] = normal(seed=2, std=0.3)\nconst b: f32[%d] = normal(seed=3, std=0.3)\n"+
								"y = ConvTranspose(x, w, b) {group=%d%s}", 6/group, kernel, 6/group*group, group, attrs))
					}
				}
			}
		}
		for _, op := range []string{"MaxPool", "AveragePool"} {
			for _, attrs := range []string{"", ", strides=[" + ones(2) + "]", ", pads=[" + twice(1) + "]",
				", strides=[" + ones(2) + "], ceil_mode=1", `, auto_pad="SAME_UPPER", strides=[` + ones(2) + "]"} {
				add(fmt.Sprintf("%s of %d axes%s", op, spatial, attrs), s, fmt.Sprintf("y = %s(x) {kernel_shape=[%s]%s}", op, ones(3), attrs))
			}
		}
		add(fmt.Sprintf("AveragePool of %d axes, padding counts", spatial), s,
			fmt.Sprintf("y = AveragePool(x) {kernel_shape=[%s], pads=[%s], count_include_pad=1}", ones(3), twice(1)))
		add(fmt.Sprintf("GlobalAveragePool of %d axes", spatial), s, "y = GlobalAveragePool(x)")
		add(fmt.Sprintf("GlobalMaxPool of %d axes", spatial), s, "y = GlobalMaxPool(x)")
		add(fmt.Sprintf("PRelu of %d axes", spatial), s, "const a: f32[6"+strings.Repeat(",1", spatial)+"] = normal(seed=2, std=0.3)\n"+
			"y = PRelu(x, a)")
		add(fmt.Sprintf("BatchNormalization of %d axes", spatial), s, "const a: f32[6] = fill(1.5)\ny = BatchNormalization(x, a, a, a, a)")
		add(fmt.Sprintf("InstanceNormalization of %d axes", spatial), s, "const a: f32[6] = fill(1.5)\ny = InstanceNormalization(x, a, a)")
		for _, mode := range []string{"nearest", "linear", "cubic"} {
			for _, place := range []string{"asymmetric", "half_pixel", "align_corners"} {
				for _, factor := range []string{"2", "0.5", "1.5"} {
					scales := "1, 1" + strings.Repeat(", "+factor, spatial)
					add(fmt.Sprintf("Resize of %d axes, %s, %s, %s times", spatial, mode, place, factor), s,
						fmt.Sprintf("const s: f32[%d] = [%s]\ny = Resize(x, _, s) {mode=%q, coordinate_transformation_mode=%q}", spatial+2, scales,
							mode, place))
				}
			}
		}
	}
	for _, mode := range []string{"DCR", "CRD"} {
		add("DepthToSpace "+mode, "[1,8,4,4]", "y = DepthToSpace(x) {blocksize=2, mode=\""+mode+"\"}")
	}
	add("SpaceToDepth", "[1,6,8,8]", "y = SpaceToDepth(x) {blocksize=2}")
	for _, c := range []string{"low, high", "low", "_, high"} {
		add("Clip "+c, "[1,6,8,8]", "const low: f32[] = [-0.5]\nconst high: f32[] = [0.7]\ny = Clip(x, "+c+")")
	}
	add("Where", "[1,6]", "const z: f32[] = [0]\nc = Greater(x, z)\na = Sigmoid(x)\ny = Where(c, x, a)")
	add("Tile", "[1,6]", "const n: i64[2] = [2, 3]\ny = Tile(x, n)")
	add("Expand", "[1,6]", "const n: i64[2] = [4, 6]\ny = Expand(x, n)")
	add("TopK", "[1,6]", "const k: i64[1] = [3]\ny, i = TopK(x, k)\noutput i")
	add("ArgMax", "[1,6]", "y = ArgMax(x) {axis=1}")
	add("Equal", "[1,6]", "const z: f32[] = [0]\nc = Equal(x, z)\ny = Cast(c) {to=1}")
	add("LSTM", "[4,1,6]", "const w: f32[1,20,6] = normal(seed=2, std=0.3)\nconst r: f32[1,20,5] = normal(seed=3, std=0.3)\n"+
		"y = LSTM(x, w, r) {hidden_size=5}")
	add("Pow", "[1,6]", "const z: f32[] = [2]\ny = Pow(x, z)")
	return list
}

// front makes x behind an operator with weights, which is on integers wherever the platform has that rank.
func front(shape string) string {
	dims := strings.Split(strings.Trim(shape, "[]"), ",")
	switch {
	case len(dims) == 1:
		return "input x: f32" + shape + "\n"
	case len(dims) == 2:
		return fmt.Sprintf("input in: f32%s\nconst w0: f32[%s,%s] = normal(seed=9, std=0.4)\nx = MatMul(in, w0)\n", shape, dims[1], dims[1])
	}
	return fmt.Sprintf("input in: f32%s\nconst w0: f32[%s,%s%s] = normal(seed=9, std=0.4)\nx = Conv(in, w0)\n", shape, dims[1], dims[1],
		strings.Repeat(",1", len(dims)-2))
}

// transposed is the line that makes t of a, whose last two axes change places.
func transposed(rank int) string {
	perm := make([]string, rank)
	for i := range perm {
		perm[i] = fmt.Sprint(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return "t = Transpose(a) {perm=[" + strings.Join(perm, ", ") + "]}\n"
}

// What calibrate accepts for a platform, verify takes and export writes, reads back and verifies; all else calibrate refuses, with what the
// platform's exporter says, and writes no plan. A plan that quantizes nothing is said to.
func TestWhatIsAcceptedIsExported(t *testing.T) {
	const part = 29 // of the networks is tried on each platform, another on each
	all := longtest.Wanted(t)
	for k, platform := range []string{"trt_int8", "onnxruntime", "openvino_int8", "pow2_int8", "tflite_int8", "tflite_16x8", "ncnn_int8",
		"mnn_int8", "espdl_int8",
		"espdl_int16", "xint8", "nxp_int8", "pow2_int8_lut", "nxp_int8_lut"} {
		t.Run(platform, func(t *testing.T) {
			for i, s := range smalls() {
				if all || (i+k)%part == 0 {
					accepted(t, platform, s)
				}
			}
		})
	}
}

func accepted(t *testing.T, platform string, s small) {
	t.Helper()
	ctx := context.Background()
	p := placeOf(t, s.text)
	zero := 0.0
	_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, BorderCost: &zero, Observer: tqc.ObserverMinMax,
		Data: DataOptions{Paths: []string{"synthetic:2"}}})
	if err != nil {
		if !strings.Contains(err.Error(), "a plan for "+platform+" could not be exported") {
			t.Errorf("%s: %s: calibrate: %v", platform, s.name, err)
		}
		_, _, missing := p.job().ReadPlan(p.Plan)
		require.ErrorIs(t, missing, fs.ErrNotExist, "%s: %s", platform, s.name)
		return
	}
	nothing := slices.ContainsFunc(warnings, func(w tqc.Warning) bool {
		return strings.Contains(w.Text, "nothing of this model is quantized")
	})
	_, _, err = p.Export(ctx, ExportOptions{Out: "f"})
	switch {
	case nothing:
		require.ErrorContains(t, err, "changes nothing of the float model", "%s: %s", platform, s.name)
	case err != nil:
		t.Errorf("%s: %s: export: %v", platform, s.name, err)
	}
}

// What has no form in a platform's file is said before any data are read, all of it at once.
func TestRefusedBeforeTheWork(t *testing.T) {
	p := placeOf(t, "opset 17\ninput x: f32[1,16]\nconst w: f32[16,8] = normal(seed=1, std=0.3)\nm = MatMul(x, w)\n"+
		"e = Erf(m) \"first\"\nf = Erf(e) \"second\"\ny = Tan(f) \"third\"\noutput y\n")
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "tflite_int8", Data: DataOptions{Paths: []string{"not/there"}}})
	require.EqualError(t, err, "calibrate: a plan for tflite_int8 could not be exported: export tflite: 3 things have no form in the file: "+
		`Erf: in float: the operator has no form in the file ("first", "second"); `+
		`Tan: in float: the operator has no form in the file ("third")`)
}

// Half and double inputs and outputs of .tflite are behind CAST, the only operator that has them; vectors are multiplied as matrices, and a
// Gemm adds afterwards what is no bias per channel.
func TestWidthsVectorsAndSumsInTFLite(t *testing.T) {
	p := placeOf(t, `opset 17
input x: f16[2,16]
const w: f32[16,8] = normal(seed=1, std=0.3)
const c: f32[2,8] = normal(seed=2, std=0.3)
const v: f32[8] = normal(seed=3, std=0.3)
a: f32[2,16] = Cast(x) {to=1}
g: f32[2,8] = Gemm(a, w, c)
y: f32[2] = MatMul(g, v)
z: f64[2] = Cast(y) {to=11}
output z
`)
	zero := 0.0
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "tflite_int8", BorderCost: &zero,
		Data: DataOptions{Paths: []string{"synthetic:2"}}})
	require.NoError(t, err)
	_, _, err = p.Export(context.Background(), ExportOptions{Out: "m.tflite"})
	require.NoError(t, err)
	m, err := tflite.Read(get(t, p, "m.tflite"))
	require.NoError(t, err)
	g := m.Subgraphs[0]
	require.Equal(t, tflite.Float16, g.Tensors[g.Inputs[0]].Type)
	require.Equal(t, tflite.Float64, g.Tensors[g.Outputs[0]].Type)
}

// Where integers would not pay for their borders, calibrate names the largest of these operators first, and what quantizes them.
func TestNothingPays(t *testing.T) {
	p := placeOf(t, `
input x: f32[1,3,8,8]
const w: f32[8,8] = normal(seed=1)
e = Exp(x) "before"
y = MatMul(e, w) "product"
output y
`)
	_, warnings, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"m"}},
		Threads: 1})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(warnings, func(w tqc.Warning) bool {
		return strings.Contains(w.Text, "nothing of this model is quantized for trt_int8 (MatMul: cost: 1536 multiply-accumulates do not pay") &&
			strings.HasSuffix(w.Text, "--border-cost 0 quantizes what does not pay, too")
	}), "%v", warnings)
}
