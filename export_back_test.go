package qwb

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/export"
	"qwb/export/all"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// damagedWriter is a writer of ONNX that lowers every code of weights above 3 by 2, in what was written.
func damagedWriter(f export.Format) export.Format {
	write := f.Write
	f.Write = func(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
		w, err := write(ctx, in, out)
		if err != nil {
			return nil, err
		}
		m, err := export.ReadModel(in, out)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		whole := out.Bytes(out.Name())
		for _, v := range m.Graph.Values() {
			x := m.Graph.Const(v)
			if x == nil || x.DType != tensor.Int8 || len(x.Shape) < 2 {
				continue
			}
			raw := make([]byte, x.Len())
			for i, q := range tensor.Of[int8](x) {
				raw[i] = byte(q)
			}
			at := bytes.Index(whole, raw)
			for i, q := range raw {
				if int8(q) > 3 {
					whole[at+i] -= 2
				}
			}
		}
		return w, nil
	}
	return f
}

// rewired is a reader of ONNX that finds other strides in the first convolution: all numbers are the plan's, and what is computed is not.
func rewired(f export.Format) export.Format {
	back := f.Back
	f.Back = func(ctx context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
		r, err := back(ctx, in, out)
		if err != nil {
			return nil, err
		}
		for _, id := range r.Graph.Nodes() {
			if n := r.Graph.Node(id); n.Op == "Conv" {
				pads := n.AttrInts("pads")
				n.SetAttr(graph.Ints("pads", pads[0]+1, pads[1], pads[2]-1, pads[3]))
				break
			}
		}
		return r, nil
	}
	return f
}

// A file that does not hold the numbers of the plan does not get its name.
func TestDamagedFilesAreNotExported(t *testing.T) {
	ctx := context.Background()
	p := placeUnequal(t, 4)
	store := p.Store.(*Memory)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}})
	require.NoError(t, err)
	r, _, err := p.Export(ctx, ExportOptions{Format: "onnx", Out: "good.onnx"})
	require.NoError(t, err)
	require.Positive(t, r.ReadBack.Compared)
	require.Zero(t, r.ReadBack.Different)
	require.True(t, r.ReadBack.Same)
	require.Equal(t, 1, r.ReadBack.Samples)
	require.Positive(t, r.ReadBack.Integers)
	require.Equal(t, r.ReadBack.Of, r.ReadBack.Integers)
	b, err := r.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(b), `"read_back":{"compared":`)
	require.Contains(t, string(b), `"profile":"ort"`)

	p.Catalog.Formats = []export.Format{rewired(all.Formats()[0])}
	_, _, err = p.Export(ctx, ExportOptions{Format: "onnx", Out: "bad.onnx"})
	require.ErrorAs(t, err, new(CheckError))
	require.ErrorContains(t, err, "computes other integers than the plan, first in tensor")

	p.Catalog.Formats = []export.Format{damagedWriter(all.Formats()[0])}
	before := store.Names()
	r, _, err = p.Export(ctx, ExportOptions{Format: "onnx", Out: "bad.onnx"})
	require.ErrorAs(t, err, new(CheckError))
	require.ErrorContains(t, err, "in the file are not those of the plan, the first: ")
	require.Positive(t, r.ReadBack.Different)
	require.Equal(t, before, store.Names())

	_, _, err = p.Export(ctx, ExportOptions{Format: "onnx", Out: "bad.onnx", Unverified: true})
	require.NoError(t, err)
}

// The program of every file of these is formed and run, whatever the file calls its tensors and however its biases lie.
func TestFilesRunBack(t *testing.T) {
	ctx := context.Background()
	const text = `input x: f32[1,3,8,8]
const w: f32[8,3,3,3] = normal(seed=1, std=0.3)
const m: f32[512,10] = normal(seed=2, std=0.1)
const b: f32[1,10] = normal(seed=3, std=1)
c = Conv(x, w) {pads=[1,1,1,1]} "conv"
r = Relu(c) "relu"
f = Flatten(r) "flat"
p = MatMul(f, m) "product"
y = Add(p, b) "bias"
z = Softmax(y) "softmax"
output z
`
	for format, platform := range map[string]string{"onnx": "trt_int8", "qoperator": "onnxruntime", "tflite": "tflite_int8"} {
		p := placeOf(t, text)
		_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: DataOptions{Paths: []string{"synthetic:3"}}})
		require.NoError(t, err)
		for _, before := range []bool{false, true} {
			r, _, err := p.Export(ctx, ExportOptions{Format: format, Out: "f"})
			require.NoError(t, err)
			same := format != "tflite" // which joins axes in its own order
			require.Equal(t, same, r.ReadBack.Same)
			require.Equal(t, same && before, r.ReadBack.Not == "it is the plan's, which was verified before", format)
			if same && before {
				require.Zero(t, r.ReadBack.Samples)
				continue
			}
			require.Equal(t, map[bool]int{true: 1, false: 3}[same], r.ReadBack.Samples, "%s, verified before: %t", format, before)
			if same {
				require.Equal(t, r.ReadBack.Of, r.ReadBack.Integers, format)
			}
			require.Greater(t, r.ReadBack.Integers, int64(r.ReadBack.Samples*512), format)
		}
	}
}

// Operators in float between integers, as a ConvNeXt v2 has them: a norm over channels between two Transposes, which the file does without,
// and a response normalization over positions.
func TestFilesRunBackThroughFloats(t *testing.T) {
	ctx := context.Background()
	const text = `opset 20
input x: f32[1,3,8,8]
const w: f32[6,3,3,3] = normal(seed=1, std=0.3)
const g: f32[6] = normal(seed=2, std=1)
const h: f32[6] = normal(seed=3, std=0.1)
const u: f32[12,6,1,1] = normal(seed=4, std=0.4)
const v: f32[6,12,1,1] = normal(seed=5, std=0.4)
const s: f32[1,12,1,1] = normal(seed=6, std=0.1)
const d: f32[1,12,1,1] = normal(seed=7, std=0.1)
const e: f32[] = [0.000001]
const places: i64[2] = [2, 3]
const channels: i64[1] = [1]
c = Conv(x, w) {pads=[1,1,1,1]} "conv"
t = Transpose(c) {perm=[0,2,3,1]} "last"
l = LayerNormalization(t, g, h) {axis=-1} "norm"
f = Transpose(l) {perm=[0,3,1,2]} "first"
k = Conv(f, u) "wide"
a = Gelu(k) "gelu"
n = ReduceL2(a, places) {keepdims=1} "length"
m = ReduceMean(n, channels) {keepdims=1} "mean"
o = Add(m, e) "some"
q = Div(n, o) "share"
i = Mul(a, q) "response"
j = Mul(i, s) "scaled"
r = Add(j, d) "shifted"
z = Add(a, r) "kept"
y = Conv(z, v) "narrow"
output y
`
	p := placeOf(t, text)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "tflite_int8", Data: DataOptions{Paths: []string{"synthetic:4"}}})
	require.NoError(t, err)
	r, _, err := p.Export(ctx, ExportOptions{Format: "tflite", Out: "f"})
	require.NoError(t, err)
	require.Equal(t, 4, r.ReadBack.Samples)
	require.GreaterOrEqual(t, r.ReadBack.Integers, int64(4*8*8*(3+6+12+12+12+6)))
}

// A number without axes is repeated to a tensor with axes.
func TestNumbersAreExpanded(t *testing.T) {
	ctx := context.Background()
	p := placeOf(t, `input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
const n: i64[2] = [3, 2]
c = Conv(x, w) "conv"
m = ReduceMax(c) {keepdims=0} "most"
y = Expand(m, n) "many"
output y
output c
`)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "tflite_int8", Data: DataOptions{Paths: []string{"synthetic:3"}}})
	require.NoError(t, err)
	r, _, err := p.Export(ctx, ExportOptions{Format: "tflite", Out: "f"})
	require.NoError(t, err)
	require.Equal(t, 3, r.ReadBack.Samples)
	require.GreaterOrEqual(t, r.ReadBack.Integers, int64(3*4*6*6))
}
