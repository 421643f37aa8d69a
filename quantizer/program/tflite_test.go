package program_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// drawn are int8 codes from a linear congruential generator, as those who recorded TFLite's answers drew them.
func drawn(seed uint32, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		seed = (seed*1103515245 + 12345) & (1<<31 - 1)
		out[i] = int32(int8(seed >> 16))
	}
	return out
}

// imported compiles a file of Q and DQ for TFLite's arithmetic.
func imported(t *testing.T, text string) *lower.Program {
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	return importedGraph(t, g)
}

func importedGraph(t *testing.T, g *graph.Graph) *lower.Program {
	q, err := qdq.Read(context.Background(), g)
	require.NoError(t, err)
	im, err := q.Configure(&target.TFLite)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed("tflite2")
	require.NoError(t, err)
	p, err := lower.Compile(im.Graph, im.Set, &target.TFLite, pr)
	require.NoError(t, err)
	return p
}

// A global average on one grid is TFLite's AVERAGE_POOL_2D, a mean over axes its MEAN, whatever the grids: what LiteRT 2.3 answers
// (reference, optimized and XNNPACK kernels alike for the pool) for 24 channels of 4 x 4 integers.
func TestTFLiteMeans(t *testing.T) {
	pool := []int32{-10, 19, 9, 18, -9, 16, 14, -14, 17, -16, -9, -7, -36, 25, -19, -5, -20, 12, 10, 47, -15, -2, 8, -26}
	mean := []int32{-10, 19, 9, 18, -8, 16, 14, -14, 17, -16, -8, -6, -36, 26, -19, -5, -20, 12, 10, 47, -15, -2, 9, -26}
	const text = `
opset 17
input x: f32[1,24,4,4]
const s: f32[] = [0.0235]
const z: i8[] = [-77]
xq = QuantizeLinear(x, s, z)
xd = DequantizeLinear(xq, s, z)
m = OPERATOR
mq = QuantizeLinear(m, s, z)
y = DequantizeLinear(mq, s, z)
output y: f32[1,24,1,1]
`
	codes := drawn(20261122, 4*4*24)
	x := tensor.New(tensor.Float32, 1, 24, 4, 4)
	for i, q := range codes { // the codes stand channels last
		x.F32()[i%24*16+i/24] = float32(q+77) * 0.0235
	}
	for operator, want := range map[string][]int32{
		`GlobalAveragePool(xd) "mean"`:                    pool,
		`AveragePool(xd) {kernel_shape=[4, 4]} "mean"`:    pool,
		`ReduceMean(xd) {axes=[2, 3], keepdims=1} "mean"`: mean,
	} {
		p := imported(t, strings.Replace(text, "OPERATOR", operator, 1))
		for _, b := range []program.Backend{program.Reference, cpu.Backend} {
			e, err := program.New(p, b, 1)
			require.NoError(t, err)
			var got []int32
			_, err = e.Run(context.Background(), map[string]*tensor.Tensor{"x": x},
				func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
					if p.Name(s.ID) == "mean" {
						got = out[0].Integers()
					}
					return nil, nil
				})
			require.NoError(t, err)
			require.Equal(t, want, got, "%s on %s", operator, b.Name)
		}
	}
}

// The MLPerf Tiny networks answer what TFLite's files of them answered (LiteRT 2.3, reference kernels): all but the autoencoder, whose
// FULLY_CONNECTED is computed in float64 there.
func TestTFLiteNetworks(t *testing.T) {
	for _, c := range []struct {
		model        string
		high, w, chn int
		scale        float32
		zero         int32
		want         [][]int32 // by seed, from 1
	}{
		{"pretrainedResnet_quant", 32, 32, 3, 1, -128, [][]int32{
			{-128, -128, -128, -123, -128, -128, 122, -128, -127, -128},
			{-128, -128, -128, 22, -128, -128, -22, -128, -128, -128},
			{-128, -128, -119, -71, -128, -128, 62, -128, -127, -128}}},
		{"kws_ref_model", 49, 10, 1, 0.5847029089927673, 83, [][]int32{
			{-128, -128, -128, -128, -128, -128, -128, -128, -128, 119, -128, -119},
			{-128, -128, -128, -128, -128, -128, -128, -128, -128, 110, -128, -110},
			{-128, -128, -128, -128, -128, -128, -128, -128, -128, 127, -128, -128}}},
		{"str_ww_ref_model", 30, 1, 40, 0.003701042616739869, -128, [][]int32{{-128, -128, 127}, {-128, -128, 127}, {-124, -128, 124}}},
		{"vww_96_int8", 96, 96, 3, 0.003921568859368563, -128, [][]int32{{121, -121}, {122, -122}, {119, -119}}},
	} {
		t.Run(c.model, func(t *testing.T) {
			m, _, err := onnx.Open(programtest.Testdata(t, "models", "mlperf-tiny", c.model+".qdq.onnx"))
			require.NoError(t, err)
			defer m.Close()
			p := importedGraph(t, m.Graph)
			e, err := program.New(p, cpu.Backend, 2)
			require.NoError(t, err)
			for k, want := range c.want {
				x := tensor.New(tensor.Float32, 1, c.chn, c.high, c.w)
				for i, q := range drawn(uint32(k+1), x.Len()) {
					x.F32()[i%c.chn*c.high*c.w+i/c.chn] = float32(q-c.zero) * c.scale
				}
				out, err := e.Run(context.Background(), map[string]*tensor.Tensor{p.Tensors[p.Inputs[0]].Name: x}, nil)
				require.NoError(t, err)
				got := make([]int32, out[0].Len())
				for i, y := range out[0].F32() {
					got[i] = int32(y*256) - 128
				}
				require.Equal(t, want, got, "seed %d", k+1)
			}
		})
	}
}

// Functions that TFLite computes by tables of int8 are imported as integers and give its codes (LiteRT 2.3): every eleventh of them.
// No operator is left in float silently.
func TestTFLiteFunctions(t *testing.T) {
	for _, c := range []struct {
		op             string
		scale          float32
		zero           int32
		outScale       float32
		outZero        int32
		want           []int32
		withoutInteger bool
	}{
		{op: "Tanh", scale: 0.07279644161462784, zero: -96, outScale: 0.0078125, outZero: 0,
			want: []int32{-126, -117, -80, 9, 90, 119, 126, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127}},
		{op: "Exp", scale: 0.051004111766815186, zero: 32, outScale: 0.05358527973294258, outZero: -88,
			want: []int32{-88, -88, -88, -88, -88, -88, -88, -88, -88, -87, -87, -85, -84, -80, -74, -64, -46, -14, 42, 127, 127, 127, 127, 127}},
		{op: "Log", scale: 0.07304155826568604, zero: -128, outScale: 0.023393644019961357, outZero: -77,
			want: []int32{-128, -86, -57, -39, -27, -18, -10, -3, 3, 8, 12, 16, 20, 23, 26, 29, 32, 35, 37, 40, 42, 44, 46, 48}},
		{op: "Gelu", scale: 0.08131735771894455, zero: -10, outScale: 0.21097074449062347, outZero: -27,
			want: []int32{-27, -27, -27, -27, -27, -27, -27, -27, -27, -27, -28, -26, -22, -18, -13, -9, -5, 0, 4, 8, 12, 17, 21, 25}},
		{op: "Elu", scale: 0.011511001735925674, zero: -36, outScale: 0.019113125279545784, outZero: 5,
			want: []int32{-29, -27, -24, -21, -17, -13, -9, -3, 3, 9, 16, 22, 29, 36, 42, 49, 56, 62, 69, 75, 82, 89, 95, 102}},
		{op: "Sin", scale: 0.05, zero: 3, outScale: 0.0078125, outZero: 0, withoutInteger: true},
	} {
		t.Run(c.op, func(t *testing.T) {
			g := graphtest.Parse(t, fmt.Sprintf(`
opset 20
input x: f32[1,24]
const s: f32[] = [%g]
const z: i8[] = [%d]
const t: f32[] = [%g]
const u: i8[] = [%d]
xq = QuantizeLinear(x, s, z)
xd = DequantizeLinear(xq, s, z)
f = %s(xd) "function"
fq = QuantizeLinear(f, t, u)
y = DequantizeLinear(fq, t, u)
output y: f32[1,24]
`, c.scale, c.zero, c.outScale, c.outZero, c.op))
			graph.InferShapes(g)
			q, err := qdq.Read(context.Background(), g)
			require.NoError(t, err)
			im, err := q.Configure(&target.TFLite)
			require.NoError(t, err)
			if c.withoutInteger {
				require.Len(t, im.Warnings, 1)
				require.Equal(t, "function", im.Warnings[0].Node)
				require.Contains(t, im.Warnings[0].Text, "Sin stays in float between integers")
				return
			}
			require.Empty(t, im.Warnings)
			p := importedGraph(t, g)
			x := tensor.New(tensor.Float32, 1, len(c.want))
			for i := range c.want {
				x.F32()[i] = float32(int32(11*i-128)-c.zero) * c.scale
			}
			e, err := program.New(p, cpu.Backend, 1)
			require.NoError(t, err)
			out, err := e.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
			require.NoError(t, err)
			for i, y := range out[0].F32() {
				require.Equal(t, float32(c.want[i]-c.outZero)*c.outScale, y, "code %d", 11*i-128)
			}
		})
	}
}
