package espdl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/quantizer/lower"
)

// text is a network with every kind of node: layouts that meet, a fused Relu, limits as a table, a table, float behind integers.
const text = `input x: f32[1,3,8,8]
const w: f32[20,3,3,3] = normal(1)
const b: f32[20] = normal(2)
const d: f32[20,1,3,3] = normal(3)
const lo: f32[] = [0]
const hi: f32[] = [6]
const m: f32[20,5] = normal(4)
const c: f32[5] = normal(5)
a = Conv(x, w, b) {pads=[1,1,1,1]} "conv"
r = Relu(a) "relu"
e = Conv(r, d) {group=20, pads=[1,1,1,1]} "depthwise"
k = Clip(e, lo, hi) "clip"
s = Add(r, k) "add"
t = Sigmoid(s) "sigmoid"
p = MaxPool(t) {kernel_shape=[2,2], strides=[2,2]} "pool"
g = GlobalAveragePool(p) "mean"
f = Flatten(g) "flat"
y = Gemm(f, m, c) "product"
z = Softmax(y) "softmax"
output z
`

func build(t *testing.T, text, platform string) *Model {
	f := Format()
	in := exporttest.Input(t, &f, text, platform, nil)
	dir, names := exporttest.Write(t, &f, in)
	raw, err := os.ReadFile(filepath.Join(dir, names[0]))
	require.NoError(t, err)
	m, err := Read(raw)
	require.NoError(t, err)
	require.Equal(t, string(raw), string(m.Marshal()), "what was read is written again")
	return m
}

// The nodes of a network, their attributes and where Transposes stand.
func TestNodes(t *testing.T) {
	m := build(t, text, "espdl_int8")
	var got []string
	for _, n := range m.Nodes {
		line := n.Op + "(" + strings.Join(n.Inputs, " ") + ") " + strings.Join(n.Outputs, " ")
		for _, a := range n.Attrs {
			line += fmt.Sprintf(" %s=%v", a.Name, a.Value)
		}
		got = append(got, line)
	}
	require.Equal(t, []string{
		"Conv(x w b) r activation=Relu dilations=[1 1] group=1 kernel_shape=[3 3] pads=[1 1 1 1] quant_type=S8 strides=[1 1]",
		"Conv(r d) k_unlimited activation=Linear dilations=[1 1] group=20 kernel_shape=[3 3] pads=[1 1 1 1] quant_type=S8 strides=[1 1]",
		"Clip(k_unlimited k_min k_max) k lut=lut quant_type=S8",
		"Add(r k) s quant_type=S8",
		"Sigmoid(s) t lut=lut_1 quant_type=S8",
		"MaxPool(t) p ceil_mode=0 kernel_shape=[2 2] pads=[0 0 0 0] quant_type=S8 strides=[2 2]",
		"GlobalAveragePool(p) g quant_type=S8",
		"Transpose(g) g_transposed perm=[0 3 1 2] quant_type=S8",
		"Reshape(g_transposed flat_shape) f allowzero=0 quant_type=S8",
		"Gemm(f m c) y activation=Linear quant_type=S8 transB=0",
		"Softmax(y) z axis=1 quant_type=S8",
	}, got)
	require.Equal(t, []int64{1, 8, 8, 3}, m.Inputs[0].Shape)
	require.Equal(t, int8Type, m.Inputs[0].Type)
	require.Equal(t, float32Type, m.Outputs[0].Type)
	require.Equal(t, []int64{1, 8, 8, 3}, m.TestInputs[0].Shape, "the sample lies as the input does")
	require.Len(t, m.TestOutputs[0].Raw, 32)
	for _, c := range m.Initializers {
		if c.Name == "w" {
			require.Equal(t, []int64{3, 3, 3, 20}, c.Shape)
			require.Equal(t, "layout ==> (N/16)HWC16_UNALIGNED", c.Doc)
			require.Len(t, c.Exponents, 20, "the ESP32-P4 has a scale for each channel")
		}
	}

	wide := build(t, text, "espdl_int16_s3")
	i := slices.IndexFunc(wide.Nodes, func(n Node) bool { return n.Op == "LUT" })
	require.Equal(t, []Attr{{"int16_lut_step", int64(32)}, {"lut", "lut_1"}, {"original_op_type", "Sigmoid"}, {"quant_type", "S16"}},
		wide.Nodes[i].Attrs)
	for _, c := range wide.Initializers {
		if c.Name == "lut_1" {
			require.Equal(t, []int64{2049}, c.Shape)
		}
		if c.Name == "b" {
			require.Equal(t, int64Type, c.Type)
		}
	}
}

// Every weight is where the words of pack say.
func TestPack(t *testing.T) {
	for _, c := range []struct {
		outs, ins, h, w int
		wide, plain, dw bool
		doc             string
		at              func(o, i, y, x int) int
	}{
		{32, 2, 3, 3, false, false, false, "(N/16)HWC16", func(o, i, y, x int) int { return (((o/16*3+y)*3+x)*2+i)*16 + o%16 }},
		{20, 2, 1, 2, false, false, false, "(N/16)HWC16_UNALIGNED", func(o, i, y, x int) int {
			if o < 16 {
				return (x*2+i)*16 + o
			}
			return o*4 + x*2 + i
		}},
		{16, 2, 2, 2, true, false, false, "(N/8)HWC8", func(o, i, y, x int) int { return (((o/8*2+y)*2+x)*2+i)*8 + o%8 }},
		{18, 1, 3, 3, false, false, true, "(N/16)HWC16_UNALIGNED", func(o, _, y, x int) int {
			if o < 16 {
				return (y*3+x)*16 + o
			}
			return 9*16 + (y*3+x)*2 + o - 16
		}},
		{5, 3, 2, 2, false, true, false, "NHWC", func(o, i, y, x int) int { return ((o*2+y)*2+x)*3 + i }},
		{5, 1, 2, 2, false, true, true, "HWCN", func(o, _, y, x int) int { return (y*2+x)*5 + o }},
	} {
		codes := tensor.New(tensor.Int16, c.outs, c.ins, c.h, c.w)
		for i := range codes.Data.([]int16) {
			codes.Data.([]int16)[i] = int16(i + 1)
		}
		n := &graph.Node{Op: "Conv"}
		shape := []int{c.h, c.w, c.ins, c.outs}
		if c.dw {
			n.Attrs = []graph.Attr{graph.Int("group", int64(c.outs))}
			shape = []int{c.h, c.w, c.outs, 1}
		}
		out, doc, err := pack(n, &lower.Weights{Codes: codes}, c.wide, c.plain)
		require.NoError(t, err)
		require.Equal(t, "layout ==> "+c.doc, doc)
		require.Equal(t, shape, out.Shape)
		for o := range c.outs {
			for i := range c.ins {
				for y := range c.h {
					for x := range c.w {
						require.Equal(t, int16(((o*c.ins+i)*c.h+y)*c.w+x+1), out.Data.([]int16)[c.at(o, i, y, x)], "%s: %d %d %d %d", c.doc, o, i, y, x)
					}
				}
			}
		}
	}
	// A matrix, either way round, is a convolution of one position.
	for axis, op := range []string{"Gemm", "MatMul"} {
		codes := tensor.New(tensor.Int8, []int{3, 2}[axis], []int{2, 3}[axis])
		copy(codes.Data.([]int8), []int8{1, 2, 3, 4, 5, 6})
		out, _, err := pack(&graph.Node{Op: op}, &lower.Weights{Codes: codes, Axis: axis}, false, false)
		require.NoError(t, err)
		require.Equal(t, [][]int8{{1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}}[axis], out.Data)
	}
	// Groups of several channels are one group, whose weights from other groups are 0.
	codes := tensor.New(tensor.Int8, 2, 2, 1, 1)
	copy(codes.Data.([]int8), []int8{1, 2, 3, 4})
	out, _, err := pack(&graph.Node{Op: "Conv", Attrs: []graph.Attr{graph.Int("group", 2)}}, &lower.Weights{Codes: codes}, false, false)
	require.NoError(t, err)
	require.Equal(t, []int8{1, 2, 0, 0, 0, 0, 3, 4}, out.Data)
}

// edit plants a fault by changing what was read.
func edit(change func(m *Model)) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		file := filepath.Join(dir, "m.espdl")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := Read(raw)
		require.NoError(t, err)
		change(m)
		require.NoError(t, os.WriteFile(file, m.Marshal(), 0o600))
	}
}

func constantNamed(m *Model, name string) *Tensor {
	return &m.Initializers[slices.IndexFunc(m.Initializers, func(c Tensor) bool { return c.Name == name })]
}

func TestDoctor(t *testing.T) {
	f := Format()
	exporttest.Doctor(t, &f, text, "espdl_int8_s3", []exporttest.Fault{
		{Rule: tensorRule, Plant: edit(func(m *Model) { constantNamed(m, "b").Shape[0]++; constantNamed(m, "b").Shape[0] *= 4 })},
		{Rule: inputRule, Plant: edit(func(m *Model) { m.Nodes[0].Inputs[0] = "nothing" })},
		{Rule: kindRule, Plant: edit(func(m *Model) { m.Nodes[3].Attrs = []Attr{{"quant_type", "F32"}} })},
		{Rule: exponentRule, Plant: edit(func(m *Model) { m.Values[0].Exponents = nil; m.Inputs[0].Exponents = []int64{1, 2} })},
		{Rule: shiftRule, Plant: edit(func(m *Model) { constantNamed(m, "d").Exponents[0] = 20 })},
		{Rule: biasRule, Plant: edit(func(m *Model) { constantNamed(m, "b").Raw[2] = 0x7f })}, // beyond 20 bits
		{Rule: tableRule, Plant: edit(func(m *Model) { constantNamed(m, "lut").Exponents[0]++ })},
		{Rule: fusionRule, Plant: edit(func(m *Model) { m.Nodes[0].Attrs[0].Value = "Clip" })},
		{Rule: channelRule, Plant: edit(func(m *Model) {
			c := constantNamed(m, "w")
			c.Exponents = slices.Repeat(c.Exponents, 20)
		})},
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"input x: f32[1,4,8,8]\nconst w: f32[4,4,1,1] = normal(1)\na = Conv(x, w) \"c\"\nb = LRN(a) {size=3} \"n\"\noutput b\n",
			`export espdl: node "n" (LRN, f32[1,4,8,8]): ESP-DL does not compute it`},
		{"input x: f32[1,2,3,4,5]\nconst w: f32[2,2,1,1,1] = normal(1)\na = Conv(x, w) \"c\"\noutput a\n", "a convolution over 3 axes"},
	} {
		f := Format()
		in := exporttest.Input(t, &f, c.text, "espdl_int8", nil)
		dir := t.TempDir()
		_, err := exporttest.Try(&f, in, dir)
		require.ErrorContains(t, err, c.want)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	for _, c := range []struct{ raw, want string }{
		{"", "does not begin with EDL2"},
		{"EDL2\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "encrypted"},
		{"EDL2\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00", "the header says 9 bytes, 0 follow"},
		{"EDL2\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\x7f", "leads out of the file"},
	} {
		_, err := Read([]byte(c.raw))
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzRead(f *testing.F) {
	m := Model{Name: "n", Metadata: [][2]string{{"a", "b"}},
		Nodes: []Node{{Name: "n", Op: "Conv", Inputs: []string{"x", ""}, Outputs: []string{"y"},
			Attrs: []Attr{{"f", float32(1)}, {"i", int64(2)}, {"s", "S8"}, {"l", []int64{1, 2}}}}},
		Inputs:       []Value{{Name: "x", Type: int8Type, Shape: []int64{1, 2}, Exponents: []int64{-3}}},
		Initializers: []Tensor{{Name: "w", Type: int8Type, Shape: []int64{2}, Exponents: []int64{1}, Raw: make([]byte, 16)}}}
	f.Add(m.Marshal())
	f.Add([]byte("EDL2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := Read(b); err == nil {
			d := &checker{m: m, known: map[string]*Value{}, constants: map[string]*Tensor{}, biasBits: 20}
			d.check()
		}
	})
}

// A Relu that cannot be written as a table is an error, not a value without a node that makes it.
func TestAnActivationThatCannotBeWritten(t *testing.T) {
	g := graph.New("g", 13)
	p := &lower.Program{Graph: g, Tensors: []lower.Tensor{{Name: "y", DType: tensor.Uint8}},
		Steps: []lower.Step{{Node: graph.NoNode, Outputs: []lower.TensorID{0}}}}
	b := &builder{m: &Model{}, p: p, taken: map[string]bool{}}
	err := b.activated(&p.Steps[0], "MaxPool", []string{"x"}, Value{Name: "y"}, "Relu")
	require.ErrorContains(t, err, "ESP-DL's files have no u8")
}
