package qdq_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// What is written in any format is read back as the config and the scales that it was written from, of weights and of activations.
func TestFormatsComeBack(t *testing.T) {
	for _, c := range []struct{ weight, activation string }{
		{"int16-sym-channel", "int16-sym-tensor"}, {"int8-sym-g32", "uint16-asym-tensor"}, {"int4-sym-g16", "uint8-asym-tensor"},
		{"int4-sym-channel", "int16-sym-tensor"}, {"uint4-asym-g32", "uint8-asym-tensor"}, {"int2-sym-channel", "int4-sym-tensor"},
		{"uint2-asym-g16", "uint8-asym-tensor"}, {"e4m3-sym-tensor", "e4m3-sym-tensor"}, {"e4m3-sym-channel", "e5m2-sym-tensor"},
		{"e4m3-sym-g16", "uint8-asym-tensor"}, {"e4m3-sym-mx32", "e4m3-sym-tensor"}, {"e2m1-sym-mx32", "e2m1-sym-tensor"},
		{"e2m1-sym-channel", "uint8-asym-tensor"}, {"e2m1-sym-nv16", "e4m3-sym-tensor"}, {"int8-sym-mx32", "uint8-asym-tensor"},
		{"int8-sym-channel", "uint8-asym-dynamic-tensor"}, {"int4-sym-g32", "uint8-asym-dynamic-tensor"},
	} {
		t.Run(c.weight+" "+c.activation, func(t *testing.T) {
			g := graphtest.Parse(t, "opset 17\ninput x: f32[3,70]\nconst w: f32[70,5] = normal(seed=1, std=0.3)\n"+
				"y: f32[3,5] = MatMul(x, w) \"mm\"\noutput y")
			require.Empty(t, graph.InferShapes(g))
			set := tqc.NewSet(g)
			id, _ := g.LookupNode("mm")
			set.Domains[id] = tqc.DomainInt
			for i, text := range []string{c.activation, c.weight} {
				slot := set.Input(id, i)
				set.Slot(slot).Weight = i == 1
				config, p := madeUp(t, text, g.Value(set.Slot(slot).Value).Shape)
				require.NoError(t, set.Configure(slot, config))
				require.NoError(t, set.Render(slot, p))
			}
			m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, &target.ONNX, onnxqdq.Options{})
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, m.Write(&b))
			back, _, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
			require.NoError(t, err)
			graph.InferShapes(back.Graph)
			im := imported(t, back.Graph, &target.ONNX)
			at, ok := im.Graph.LookupNode("mm")
			require.True(t, ok)
			for i := range 2 {
				want, got := set.Slot(set.Input(id, i)).Config, im.Set.Slot(im.Set.Input(at, i)).Config
				want.Observer = got.Observer
				require.Equal(t, want, got, "input %d", i)
				require.Equal(t, set.Params(set.Input(id, i)), im.Set.Params(im.Set.Input(at, i)), "input %d", i)
			}
			x := graphtest.Normal(5, 3, 70)
			feeds := map[string]*tensor.Tensor{"x": x}
			requireClose(t, run(t, back.Graph, nil, feeds)[0], run(t, im.Graph, simulate(t, im), feeds)[0], 0)
		})
	}
}

// madeUp returns the config of a scheme for a matrix, and scales that it can have.
func madeUp(t *testing.T, text string, shape graph.Shape) (tqc.Config, tqc.Params) {
	s, err := tqc.ParseScheme(text)
	require.NoError(t, err)
	c, err := s.Apply(tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.IntegerFormat(8, false)})
	require.NoError(t, err)
	if s.Channel {
		c.Axis = 1
	}
	if c.Integer() && c.Bits == 8 && c.Signed() {
		c.QMin++ // as the target's weights are, where no code says otherwise
	}
	var p tqc.Params
	if c.RunTime() {
		return c, p
	}
	n, known := tqc.NumScales(shape, &c)
	require.True(t, known)
	p.ZeroPoint = make([]int32, n)
	for k := range n {
		scale := float32(0.013) * float32(k%5+1)
		switch {
		case c.Policy.Has(tqc.PowerOf2):
			scale = float32(int(1)<<(k%3)) / 64
		case c.Blocks == tqc.NV:
			p.Global = 0.01 / 448
			scale, _ = qmath.NVScale(float32(k%7)*0.01, p.Global)
		}
		p.Scale = append(p.Scale, scale)
		if c.Policy.Has(tqc.Asymmetric) {
			p.ZeroPoint[k] = (c.QMin + c.QMax) / 2
		}
	}
	return c, p
}

// Forms that no plan has are refused with the node and the reason.
func TestFormatsThatAreRefused(t *testing.T) {
	const head = "opset 24\ninput x: f32[3,64]\nconst one: f32[] = [1]\n"
	for text, want := range map[string]string{
		"const book: f32[16] = fill(1)\nconst i: i32[64,2] = fill(3)\nb = Gather(book, i)\n" +
			"w = Mul(b, one)": "weights in a table of numbers (NF4)",
		"const f8_q: u8[64,2] = fill(1)\nconst s: f32[2] = fill(1)\nconst f8_z: u8[2] = fill(1)\n" +
			"w = DequantizeLinear(f8_q, s, f8_z) {axis=1}": "zero point of f8e4m3fn that is not 0",
		"const q: i8[64,2] = fill(1)\nconst f8_s: u8[4,2] = fill(1)\ns = DequantizeLinear(f8_s, one)\n" +
			"w = DequantizeLinear(q, s) {axis=0, block_size=16}": "scales of two levels for blocks of 16 i8: only 16 f4e2m1",
		"const fnuz_q: u8[64,2] = fill(1)\nw = DequantizeLinear(fnuz_q, one)":                    "codes of type f8e4m3fnuz",
		"const q: i8[64,2] = fill(1)\nb = ReduceMax(x) {keepdims=0}\nw = DequantizeLinear(q, b)": "the scale is computed when the model runs",
		"const q: i8[64,2] = fill(1)\nconst f8_s: u8[] = [1]\nw = DequantizeLinear(q, f8_s)":     "only float32",
	} {
		g := graphtest.Parse(t, head+text+"\ny = MatMul(x, w) \"mm\"\noutput y")
		for _, v := range g.Values() {
			name := g.Value(v).Name
			for prefix, d := range map[string]tensor.DType{"f8_": tensor.Float8E4M3FN, "fnuz_": tensor.Float8E4M3FNUZ} {
				if c := g.Const(v); c != nil && strings.HasPrefix(name, prefix) {
					g.SetConst(v, &tensor.Tensor{DType: d, Shape: c.Shape, Data: c.Data})
				}
			}
		}
		if v, ok := g.Lookup("book"); ok {
			g.SetConst(v, tensor.FromF32(qmath.Book(), 16))
		}
		graph.InferShapes(g)
		_, err := qdq.Read(context.Background(), g)
		require.ErrorContains(t, err, want, strings.ReplaceAll(text, "\n", "; "))
	}
}
