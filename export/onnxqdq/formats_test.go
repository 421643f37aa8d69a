package onnxqdq_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// formatCase is a scheme of a weight, and what a file says about it.
type formatCase struct {
	scheme     string
	codes      tensor.DType
	scales     tensor.DType
	opset, ir  int64
	activation bool // also of a computed tensor
}

var formatCases = []formatCase{
	{"int8-sym-tensor", tensor.Int8, tensor.Float32, 13, 4, true},
	{"int8-sym-channel", tensor.Int8, tensor.Float32, 13, 4, false},
	{"int8-sym-g32", tensor.Int8, tensor.Float32, 21, 4, false},
	{"uint8-asym-tensor", tensor.Uint8, tensor.Float32, 13, 4, true},
	{"int6-sym-channel", tensor.Int8, tensor.Float32, 13, 4, false},
	{"int12-sym-channel", tensor.Int16, tensor.Float32, 21, 4, false},
	{"int16-sym-tensor", tensor.Int16, tensor.Float32, 21, 4, true},
	{"uint16-asym-tensor", tensor.Uint16, tensor.Float32, 21, 4, true},
	{"int4-sym-channel", tensor.Int4, tensor.Float32, 21, 10, false},
	{"int4-sym-tensor", tensor.Int4, tensor.Float32, 21, 10, true},
	{"int3-sym-g16", tensor.Int4, tensor.Float32, 21, 10, false},
	{"uint4-asym-g32", tensor.Uint4, tensor.Float32, 21, 10, false},
	{"int2-sym-channel", tensor.Int2, tensor.Float32, 25, 13, false},
	{"uint2-asym-g16", tensor.Uint2, tensor.Float32, 25, 13, false},
	{"e4m3-sym-tensor", tensor.Float8E4M3FN, tensor.Float32, 19, 9, true},
	{"e5m2-sym-channel", tensor.Float8E5M2, tensor.Float32, 19, 9, false},
	{"e5m2-sym-tensor", tensor.Float8E5M2, tensor.Float32, 19, 9, true},
	{"e4m3-sym-g32", tensor.Float8E4M3FN, tensor.Float32, 21, 9, false},
	{"e2m1-sym-tensor", tensor.Float4E2M1, tensor.Float32, 23, 11, true},
	{"e2m1-sym-g16", tensor.Float4E2M1, tensor.Float32, 23, 11, false},
	{"e4m3-sym-mx32", tensor.Float8E4M3FN, tensor.Float8E8M0, 24, 12, false},
	{"e2m1-sym-mx32ceil", tensor.Float4E2M1, tensor.Float8E8M0, 24, 12, false},
	{"int8-sym-mx32", tensor.Int8, tensor.Float8E8M0, 24, 12, false},
	{"e2m1-sym-nv16", tensor.Float4E2M1, tensor.Float8E4M3FN, 23, 11, false},
}

// runTimeCases are schemes of a computed tensor whose scales are found at run time.
var runTimeCases = []struct {
	scheme string
	nodes  int // for Q and DQ
	opset  int64
}{
	{"uint8-asym-dynamic-tensor", 2, 13},
	{"int8-sym-dynamic-tensor", 6, 13},
	{"int8-asym-dynamic-tensor", 14, 13},
	{"int8-sym-dynamic-token", 6, 21},
	{"uint8-asym-dynamic-token", 14, 21},
	{"uint16-asym-dynamic-token", 14, 21},
	{"e4m3-sym-dynamic-tensor", 6, 19},
	{"e4m3-sym-dynamic-token", 6, 21},
	{"e2m1-sym-dynamic-token", 6, 23},
}

// formatGraph multiplies by a weight of which neither the rows nor the columns fill their last block and byte.
const formatGraph = "opset 13\ninput x: f32[3,70]\nconst w: f32[70,5] = normal(seed=1, std=0.3)\ny: f32[3,5] = MatMul(x, w) \"mm\"\n" +
	"output y"

// formatSet gives the weight of formatGraph a scheme with scales that are made up, and the input another one.
func formatSet(t *testing.T, g *graph.Graph, weight, activation string) *tqc.Set {
	set := tqc.NewSet(g)
	id, _ := g.LookupNode("mm")
	set.Domains[id] = tqc.DomainInt
	for i, text := range []string{activation, weight} {
		if text == "" {
			continue
		}
		s, err := tqc.ParseScheme(text)
		require.NoError(t, err)
		c, err := s.Apply(tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.IntegerFormat(8, false)})
		require.NoError(t, err)
		switch {
		case s.Channel:
			c.Axis = 1
		case s.Group > 0:
			c.Axis = 0
		}
		slot := set.Input(id, i)
		set.Slot(slot).Weight = i == 1
		require.NoError(t, set.Configure(slot, c))
		n, known := tqc.NumScales(g.Value(set.Slot(slot).Value).Shape, &c)
		require.True(t, known)
		if c.RunTime() {
			require.NoError(t, set.Render(slot, tqc.Params{}))
			continue
		}
		p := tqc.Params{Scale: make([]float32, n), ZeroPoint: make([]int32, n)}
		for k := range p.Scale {
			p.Scale[k] = float32(int(1)<<(k%3)) / float32(c.QMax)
			switch {
			case c.Policy.Has(tqc.PowerOf2):
				p.Scale[k] = float32(int(1)<<(k%3)) / 64
			case c.Blocks == tqc.NV:
				p.Global = 0.01 / 448
				p.Scale[k], _ = qmath.NVScale(float32(k%7)*0.01, p.Global)
			}
			if c.Policy.Has(tqc.Asymmetric) {
				p.ZeroPoint[k] = (c.QMin + c.QMax) / 2
			}
		}
		require.NoError(t, set.Render(slot, p))
	}
	return set
}

// Every format is written in its own type at the lowest opset and IR version that have it, keeps the rules, and computes in the executor
// what its codec says.
func TestFormatsAreWritten(t *testing.T) {
	onnxTarget := &target.ONNX
	for _, c := range formatCases {
		t.Run(c.scheme, func(t *testing.T) {
			g := graphtest.Parse(t, formatGraph)
			require.Empty(t, graph.InferShapes(g))
			activation := ""
			if c.activation {
				activation = c.scheme
			}
			set := formatSet(t, g, c.scheme, activation)
			_, m := written(t, build(t, &onnx.Model{Graph: g}, set, onnxTarget))
			require.Empty(t, graph.InferShapes(m.Graph))
			require.Empty(t, onnxqdq.Check(m.Graph, onnxTarget, integers(g, set)))
			require.Equal(t, []int64{c.opset, c.ir}, []int64{m.Graph.Opset(""), m.IRVersion})
			require.Contains(t, graph.Format(m.Graph), c.codes.String()+"[70,5]")
			dq, ok := m.Graph.LookupNode("w_DequantizeLinear_node")
			require.True(t, ok)
			n := m.Graph.Node(dq)
			require.Equal(t, c.codes, m.Graph.Const(n.Inputs[0]).DType)
			require.Equal(t, c.codes, m.Graph.Const(n.Inputs[2]).DType)
			scale := n.Inputs[1]
			if p := m.Graph.Producer(scale); p != graph.NoNode {
				scale = m.Graph.Node(p).Inputs[0]
			}
			require.Equal(t, c.scales, m.Graph.Const(scale).DType)
			requireSimulation(t, g, set, m, 2)

			want := g.Clone()
			x := graphtest.Normal(7, 3, 70)
			id, _ := g.LookupNode("mm")
			w := g.Const(g.Node(id).Inputs[1]).Clone()
			fake(w, set, set.Input(id, 1))
			want.SetConst(g.Node(id).Inputs[1], w)
			got := runModel(t, m.Graph, x)
			if c.activation {
				x = x.Clone()
				fake(x, set, set.Input(id, 0))
			}
			require.Equal(t, runModel(t, want, x).F32(), got.F32())
		})
	}
}

// Scales of run time are computed by operators, as the simulation computes them.
func TestScalesOfRunTimeAreWritten(t *testing.T) {
	for _, c := range runTimeCases {
		t.Run(c.scheme, func(t *testing.T) {
			g := graphtest.Parse(t, formatGraph)
			require.Empty(t, graph.InferShapes(g))
			set := formatSet(t, g, "int8-sym-channel", c.scheme)
			_, m := written(t, build(t, &onnx.Model{Graph: g}, set, &target.ONNX))
			require.Empty(t, onnxqdq.Check(m.Graph, &target.ONNX, integers(g, set)))
			require.Equal(t, c.opset, m.Graph.Opset(""))
			require.Equal(t, c.nodes+2, m.Graph.NumNodes(), "and the product and the weight\n%s", graph.FormatShort(m.Graph, 4))
			requireSimulation(t, g, set, m, 3)
		})
	}
	for scheme, want := range map[string]string{
		"int8-sym-dynamic-tensor-pow2": `policy "symmetric per-tensor linear power-of-2 dynamic" has no Q/DQ form`,
		"int7-sym-dynamic-tensor":      "range -64 to 63: QuantizeLinear rounds half to even and clips i8 to -128 and 127",
		"nf4-sym-dynamic-token":        "nf4 has no Q/DQ form",
		"uint8-sym-dynamic-tensor":     "symmetric uint8 with scales of run time has no Q/DQ form: int8 has, and asymmetric uint8",
		"uint16-sym-dynamic-token":     "symmetric uint16 with scales of run time has no Q/DQ form: int16 has, and asymmetric uint16",
	} {
		g := graphtest.Parse(t, formatGraph)
		require.Empty(t, graph.InferShapes(g))
		_, err := onnxqdq.Build(&onnx.Model{Graph: g}, formatSet(t, g, "", scheme), &target.ONNX, options)
		require.ErrorContains(t, err, want)
	}
}

// Numbers of a table are gathered from it, and the target's older readers get a byte for each index.
func TestNumbersOfATableAreWritten(t *testing.T) {
	for _, c := range []struct {
		scheme, platform string
		codes            tensor.DType
		opset            int64
	}{
		{"nf4-sym-tensor", "onnx", tensor.Uint4, 21}, {"nf4-sym-channel", "onnx", tensor.Uint4, 21}, {"nf4-sym-g14", "onnx", tensor.Uint4, 21},
		{"nf4-sym-g14", "old", tensor.Uint8, 13},
	} {
		tg := target.ONNX
		if c.platform == "old" {
			tg.Export.MaxOpset = 20
		}
		g := graphtest.Parse(t, formatGraph)
		require.Empty(t, graph.InferShapes(g))
		set := formatSet(t, g, c.scheme, "uint8-asym-tensor")
		_, m := written(t, build(t, &onnx.Model{Graph: g}, set, &tg))
		require.Empty(t, onnxqdq.Check(m.Graph, &tg, integers(g, set)))
		require.Equal(t, c.opset, m.Graph.Opset(""))
		v, ok := m.Graph.Lookup("w_quantized")
		require.True(t, ok)
		require.Equal(t, c.codes, m.Graph.Const(v).DType)
		requireSimulation(t, g, set, m, 2)
	}
	g := graphtest.Parse(t, formatGraph)
	require.Empty(t, graph.InferShapes(g))
	_, err := onnxqdq.Build(&onnx.Model{Graph: g}, formatSet(t, g, "nf4-sym-g64", ""), &target.ONNX, options)
	require.ErrorContains(t, err, "input 1: groups of 64 do not divide axis 0 of [70 5]: nf4 is written with whole groups")
}

// fake replaces the elements of a matrix by what their codec makes of them.
func fake(x *tensor.Tensor, set *tqc.Set, slot tqc.SlotID) {
	c, p := &set.Slot(slot).Config, set.Params(slot)
	cols := x.Shape[1]
	for i, v := range x.F32() {
		k := 0
		switch {
		case c.Policy.Has(tqc.PerChannel):
			k = i % cols
		case c.Policy.Has(tqc.PerGroup):
			k = i/cols/c.GroupSize*cols + i%cols
		}
		codec := p.Codec(c, k)
		x.F32()[i] = codec.Fake(v)
	}
}

func runModel(t *testing.T, g *graph.Graph, x *tensor.Tensor) *tensor.Tensor {
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
	require.NoError(t, err)
	return out[0]
}

// What the readers of a target do not know is stored in a wider type or refused.
func TestFormatsOfOlderReaders(t *testing.T) {
	for _, c := range []struct {
		platform, scheme string
		codes            tensor.DType
		opset            int64
		err              string
	}{
		{"onnxruntime", "int2-sym-channel", tensor.Int4, 21, ""},
		{"trt_int8", "int4-sym-channel", tensor.Int8, 13, ""},
		{"onnxruntime", "e4m3-sym-mx32", tensor.Float8E4M3FN, 21, ""},
		{"onnxruntime", "e2m1-sym-mx32", 0, 0, "input 1: onnxruntime reads opsets up to 21, and e2m1 needs 23"},
		{"trt_int8", "int8-sym-g32", 0, 0, "trt_int8 reads opsets up to 20, and this plan needs 21"},
	} {
		g := graphtest.Parse(t, formatGraph)
		require.Empty(t, graph.InferShapes(g))
		tg := findTarget(t, c.platform)
		if c.platform == "trt_int8" {
			tg = older(tg)
		}
		m, err := onnxqdq.Build(&onnx.Model{Graph: g}, formatSet(t, g, c.scheme, ""), tg, options)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.opset, m.Graph.Opset(""))
		require.True(t, strings.Contains(graph.Format(m.Graph), fmt.Sprintf("%s[70,5]", c.codes)) || tg.Export.FloatWeights, c.scheme)
		dq, _ := m.Graph.LookupNode("w_DequantizeLinear_node")
		require.Equal(t, tensor.Float32, m.Graph.Const(m.Graph.Node(dq).Inputs[1]).DType, "scales")
	}
}

// A Relu in front of fp8 is a Max, and a Clip a Max and a Min, as ONNX Runtime wants it; in front of integers they stay.
func TestReluAndClipBeforeFloat8(t *testing.T) {
	for _, c := range []struct {
		node, format, want string // want: the nodes from x to Q
	}{
		{"Relu(x)", "e4m3-sym-tensor", "Max"},
		{"Relu(x)", "e5m2-sym-tensor", "Max"},
		{"Relu(x)", "int8-sym-tensor", "Relu"},
		{"Clip(x, lo, hi)", "e4m3-sym-tensor", "Max Min"},
		{"Clip(x, lo)", "e4m3-sym-tensor", "Max"},
		{"Clip(x, _, hi)", "e5m2-sym-tensor", "Min"},
		{"Clip(x, lo, hi)", "int8-sym-tensor", "Clip"},
	} {
		g := graphtest.Parse(t, "opset 13\ninput x: f32[1,2,2,2]\nconst w: f32[2,2,1,1] = normal(1)\nconst lo: f32[] = [-0.5]\n"+
			"const hi: f32[] = [0.25]\nr: f32[1,2,2,2] = "+c.node+" \"act\"\ny: f32[1,2,2,2] = Conv(r, w) \"conv\"\noutput y")
		tg := *findTarget(t, "trt_int8")
		tg.Export.MaxOpset = 21
		set := configure(t, g, &tg, "")
		conv, _ := g.LookupNode("conv")
		sl := set.Slot(set.Input(conv, 0))
		s, err := tqc.ParseScheme(c.format)
		require.NoError(t, err)
		cfg, err := s.Apply(sl.Config)
		require.NoError(t, err)
		require.NoError(t, set.Configure(sl.ID, cfg))
		byHand(t, g, set)
		m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, &tg, options)
		require.NoError(t, err)
		requireSimulation(t, g, set, m, 2)
		x, _ := m.Graph.Lookup("x")
		var ops []string
		for n := m.Graph.Node(m.Graph.Uses(x)[0].Node); n.Op != "QuantizeLinear"; n = m.Graph.Node(m.Graph.Uses(n.Outputs[0])[0].Node) {
			ops = append(ops, n.Op)
		}
		require.Equal(t, c.want, strings.Join(ops, " "), "%s %s", c.node, c.format)
	}
}
