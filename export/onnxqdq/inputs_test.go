package onnxqdq_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// ran runs a written model on one input.
func ran(t testing.TB, m *onnx.Model, x *tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	_, back := written(t, m)
	s, err := exec.New(back.Graph, exec.Options{})
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
	require.NoError(t, err)
	return out
}

// picture is one of c channels with all values of a pixel in each, and the numbers that calibration makes of it.
func picture(p *plan.Pixels, shape ...int) (bytes, numbers *tensor.Tensor) {
	bytes, numbers = tensor.New(tensor.Uint8, shape...), tensor.New(tensor.Float32, shape...)
	inner := 1
	if p.Axis >= 0 {
		for _, d := range shape[p.Axis+1:] {
			inner *= d
		}
	}
	for i := range bytes.Len() {
		c := 0
		if p.Axis >= 0 {
			c = i / inner % shape[p.Axis]
		}
		v := uint8(i*7 + i/256)
		tensor.Of[uint8](bytes)[i], numbers.F32()[i] = v, p.Of(v, c)
	}
	return bytes, numbers
}

// A file that takes pictures, or codes, computes bit for bit what the one computes that takes floats, and no read-back takes another mean,
// deviation or scale for the plan's.
func TestInputsOfIntegers(t *testing.T) {
	f := onnxqdq.Format()
	torch := &plan.Pixels{Input: "x", Axis: 1, Scale: 1.0 / 255, Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225}}
	last := *torch
	last.Axis = 3
	for name, c := range map[string]struct {
		network string
		shape   []int
		pixels  *plan.Pixels
		nodes   []string // in front of the first quantizer
	}{
		"per channel": {"y = Conv(x, w) \"conv\"\n", []int{1, 3, 16, 16}, torch, []string{"Cast", "Mul", "Sub", "Div"}},
		"channels last": {"t = Transpose(x) {perm=[0,3,1,2]} \"turn\"\ny = Conv(t, w) \"conv\"\n", []int{1, 16, 16, 3}, &last,
			[]string{"Cast", "Mul", "Sub", "Div"}},
		"one mean": {"y = Conv(x, w) \"conv\"\n", []int{1, 3, 16, 16},
			&plan.Pixels{Input: "x", Axis: -1, Scale: 1, Mean: []float32{127.5}, Std: []float32{127.5}}, []string{"Cast", "Sub", "Div"}},
		"read by float too": {"y = Conv(x, w) \"conv\"\nz = Exp(x) \"exp\"\noutput z\n", []int{1, 3, 16, 16}, torch,
			[]string{"Cast", "Mul", "Sub", "Div"}},
		"the codes are the pixels, channels last": {"t = Transpose(x) {perm=[0,3,1,2]} \"turn\"\ny = Conv(t, w) \"conv\"\n", []int{1, 16, 16, 3},
			&plan.Pixels{Input: "x", Axis: -1, Scale: 1, Mean: []float32{128}, Std: []float32{64}}, nil},
		"the codes are the pixels": {"y = Conv(x, w) \"conv\"\n", []int{1, 3, 16, 16},
			&plan.Pixels{Input: "x", Axis: -1, Scale: 1, Mean: []float32{128}, Std: []float32{64}}, nil},
	} {
		for _, platform := range []string{"onnxruntime", "openvino_int8", "trt_int8"} {
			t.Run(name+"/"+platform, func(t *testing.T) {
				text := "input x: f32" + graph.Static(c.shape...).String() + "\nconst w: f32[4,3,3,3] = normal(seed=1, std=0.2)\n" +
					c.network + "output y\n"
				in := exporttest.Input(t, &f, text, platform, map[string]string{"inputs": "pixels"})
				asPixels(t, in.Model.Graph, in.Set, c.pixels)
				in.Pixels = c.pixels
				exporttest.Equal(t, &f, in)
				o := onnxqdq.Options{Inputs: "pixels", Pixels: c.pixels}
				m, err := onnxqdq.Build(in.Model, in.Set, in.Target, o)
				require.NoError(t, err)
				floats, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{})
				require.NoError(t, err)
				bytes, numbers := picture(c.pixels, c.shape...)
				require.Equal(t, ran(t, floats, numbers), ran(t, m, bytes))
				nodes := c.nodes
				if platform == "trt_int8" && c.nodes == nil { // whose codes have a sign
					nodes = []string{"Cast", "Sub", "Div"}
				}
				got := slices.DeleteFunc(before(m.Graph), func(op string) bool { return op == "Transpose" })
				require.ElementsMatch(t, nodes, got)
				if v, _ := m.Graph.Lookup("x"); platform == "openvino_int8" && nodes == nil { // which computes in float what reads moved codes
					require.Equal(t, "DequantizeLinear", m.Graph.Node(m.Graph.Uses(v)[0].Node).Op)
				}
				for _, k := range []string{"x_mean", "x_std", "x_scale_of_pixels"} {
					if _, ok := m.Graph.Lookup(k); ok {
						exporttest.Found(t, &f, in, exporttest.Constant(k, exporttest.Longer))
					}
				}
			})
		}
	}
}

// asPixels gives the input of pictures the scale of their numbers: where the target can, that by which the codes are the pixels.
func asPixels(t testing.TB, g *graph.Graph, set *tqc.Set, p *plan.Pixels) {
	v, ok := g.Lookup("x")
	require.True(t, ok)
	for _, u := range g.Uses(v) {
		s := set.Input(u.Node, u.Index)
		if n := g.Node(u.Node); n.Op == "Transpose" {
			s = set.Input(g.Uses(n.Outputs[0])[0].Node, 0)
		}
		if s == tqc.NoSlot || !set.Slot(s).State().Quantizes() {
			continue
		}
		s = set.Root(s)
		c := set.Slot(s).Config
		require.NoError(t, set.Advance(s, tqc.Initial))
		scale, zero := (p.Of(255, 0)-p.Of(0, 0))/255, int32(0)
		if !c.Policy.Has(tqc.Symmetric) {
			zero = c.QMin + int32(math.RoundToEven(float64(-p.Of(0, 0)/scale)))
		}
		require.NoError(t, set.Render(s, tqc.Params{Scale: []float32{scale}, ZeroPoint: []int32{zero}}))
		return
	}
}

// before lists the operators between the input and the first quantizer.
func before(g *graph.Graph) (list []string) {
	v, _ := g.Lookup("x")
	for {
		n := g.Node(g.Uses(v)[0].Node)
		for _, u := range g.Uses(v) {
			if strings.HasSuffix(g.Node(u.Node).Op, "uantizeLinear") {
				return list
			}
		}
		list, v = append(list, n.Op), n.Outputs[0]
	}
}

// Codes as inputs are what the quantizer in front gave; what a float operator reads too stays float, and if nothing else is there, that is
// an error.
func TestInputsAreCodes(t *testing.T) {
	f := onnxqdq.Format()
	const network = `
input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1, std=0.2)
y = Conv(x, w) "conv"
output y
`
	for platform, want := range map[string]tensor.DType{"onnxruntime": tensor.Uint8, "trt_int8": tensor.Int8} {
		in := exporttest.Input(t, &f, network, platform, map[string]string{"inputs": "integers"})
		exporttest.Equal(t, &f, in)
		m, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Inputs: "integers"})
		require.NoError(t, err)
		v, _ := m.Graph.Lookup("x")
		require.Equal(t, want, m.Graph.Value(v).DType)
		floats, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{})
		require.NoError(t, err)
		x := graphtest.Normal(3, 1, 3, 8, 8)
		id, _ := in.Model.Graph.LookupNode("conv")
		s := in.Set.Input(id, 0)
		p := in.Set.Params(s)
		codes := make([]int32, x.Len())
		qmath.Codec{Format: in.Set.Slot(s).Config.Format, Scale: p.Scale[0], ZeroPoint: p.ZeroPoint[0]}.QuantizeSlice(codes, x.F32())
		require.Equal(t, ran(t, floats, x), ran(t, m, tensor.New(want, x.Shape...).WithIntegers(codes)))
	}
	in := exporttest.Input(t, &f, network+"z = Exp(x) \"exp\"\noutput z\n", "onnxruntime", nil)
	_, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Inputs: "integers"})
	require.ErrorContains(t, err, "no input of the model is read by one quantizer")
	p := &plan.Pixels{Input: "x", Axis: -1, Scale: 1, Mean: []float32{0}, Std: []float32{1}}
	_, err = onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Inputs: "pixels", Pixels: p})
	require.ErrorContains(t, err, `pixels of input "x" become numbers from 0 to 255`, "a plan of normal numbers")
	_, err = onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Inputs: "pixels", Pixels: &plan.Pixels{Input: "picture"}})
	require.ErrorContains(t, err, `input "picture" is not float32`)
}
