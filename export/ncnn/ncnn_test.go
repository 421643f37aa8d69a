package ncnn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// free is the target without costs of borders, which small networks never repay.
func free() *target.Target {
	t := target.NCNNInt8
	t.BorderCost = 0
	return &t
}

func input(t testing.TB, text string) *export.Input {
	t.Helper()
	g, set, _ := lowertest.ConfiguredFor(t, text, free())
	return &export.Input{Model: &onnx.Model{Graph: g}, Set: set, Target: free()}
}

// written exports and returns the files by name.
func written(t testing.TB, name string, in *export.Input) map[string][]byte {
	t.Helper()
	list := Formats()
	f := &list[slices.IndexFunc(list, func(f export.Format) bool { return f.Name == name })]
	dir := t.TempDir()
	out := f.NewOutput(filepath.Join(dir, "m"+f.Ext), nil)
	defer out.Discard()
	require.NoError(t, f.Check(in))
	_, err := f.Write(context.Background(), in, out)
	require.NoError(t, err)
	require.NoError(t, f.Conforms(context.Background(), in, out))
	_, err = f.Equal(context.Background(), in, out)
	require.NoError(t, err)
	files, err := out.Commit()
	require.NoError(t, err)
	m := map[string][]byte{}
	for _, file := range files {
		b, err := os.ReadFile(file.Path)
		require.NoError(t, err)
		m[filepath.Base(file.Path)] = b
	}
	return m
}

// Two convolutions, one of them depthwise, and a product: what the layers are told, and every byte of the weights.
func TestFiles(t *testing.T) {
	in := input(t, `
input x: f32[1,2,3,3]
const w: f32[2,2,1,1] = [1.27, -0.635, 0.5, 0.254]
const d: f32[2,1,3,3] = [0.31, -0.3, 0.2, 0.1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
const b: f32[2] = [1, -2]
const m: f32[2,3] = [1.27, 0.1, 0.2, 0.3, 0.4, 1.27]
c = Conv(x, w, b) "first"
r = Relu(c) "act"
e = Conv(r, d) {group=2} "wise"
f = Flatten(e) "flat"
y = Gemm(f, m) "fc"
output y
`)
	for i, scale := range map[string]float32{"first": 0.5, "wise": 0.25, "fc": 0.125} {
		id, _ := in.Model.Graph.LookupNode(i)
		require.NoError(t, in.Set.Render(in.Set.Root(in.Set.Input(id, 0)), tqc.Params{Scale: []float32{scale}, ZeroPoint: []int32{0}}))
	}
	for i, largest := range map[string][]float32{"first": {1.27, 0.5}, "wise": {0.31, 9}, "fc": {1.27, 0.4, 1.27}} {
		id, _ := in.Model.Graph.LookupNode(i)
		p := tqc.Params{ZeroPoint: make([]int32, len(largest))}
		for _, x := range largest {
			p.Scale = append(p.Scale, x/127)
		}
		require.NoError(t, in.Set.Render(in.Set.Input(id, 1), p))
	}
	files := written(t, "ncnn", in)
	want := `7767517
5 5
Input                  input_x                0 1 x 0=3 1=3 2=2
Convolution            first                  1 1 x r 0=2 1=1 2=1 3=1 4=0 5=1 6=4 11=1 12=1 13=1 14=0 16=0 15=0 8=102 9=1
ConvolutionDepthWise   wise                   1 1 r e 0=2 1=3 2=1 3=1 4=0 5=0 6=18 7=2 11=3 12=1 13=1 14=0 16=0 15=0 8=1
Reshape                flat                   1 1 e f 0=2
InnerProduct           fc                     1 1 f y 0=3 1=0 2=6 8=2
`
	require.Equal(t, want, string(files["m.param"]))
	var bin bytes.Buffer
	codes := func(list ...int8) {
		require.NoError(t, binary.Write(&bin, binary.LittleEndian, uint32(tagInt8)))
		require.NoError(t, binary.Write(&bin, binary.LittleEndian, list))
		bin.Write(make([]byte, (4-len(list)%4)%4))
	}
	floats := func(list ...float32) { require.NoError(t, binary.Write(&bin, binary.LittleEndian, list)) }
	of := func(largest float32) float32 { return 1 / (largest / 127) }
	codes(127, -64, 127, 65) // -63.5 goes away from zero
	floats(1, -2)
	floats(of(1.27), of(0.5))
	floats(2) // of the input
	floats(4) // of the output
	codes(127, -123, 82, 41, 0, 0, 0, 0, 0, 14, 28, 42, 56, 71, 85, 99, 113, 127)
	floats(of(0.31), of(9), 4)
	codes(127, 30, 32, 127, 20, 127) // turned around, by output
	floats(of(1.27), of(0.4), of(1.27), 8)
	require.Equal(t, bin.Bytes(), files["m.bin"])
}

// Where something else reads what a convolution computes, it leaves float; a 3x3 convolution has 6 bits, and more only with a flag.
func TestFloatBetween(t *testing.T) {
	text := `
input x: f32[1,4,5,5]
const w: f32[4,4,3,3] = normal(1)
a = Conv(x, w) {pads=[1,1,1,1]} "a"
b = Conv(a, w) {pads=[1,1,1,1]} "b"
y = Add(a, b) "y"
output y
`
	in := input(t, text)
	param := string(written(t, "ncnn", in)["m.param"])
	require.Contains(t, param, "Split                  split_a                1 2 a a_splitncnn_0 a_splitncnn_1")
	require.NotContains(t, param, "8=102")
	require.NotContains(t, param, "31=64")
	id, _ := in.Model.Graph.LookupNode("b")
	slot := in.Set.Slot(in.Set.Input(id, 1))
	require.Equal(t, []int32{-31, 31}, []int32{slot.Config.QMin, slot.Config.QMax})

	slot.Config.QMin, slot.Config.QMax = -127, 127
	slot = in.Set.Slot(slot.ID)
	params := *in.Set.Params(slot.ID)
	params.Scale = slices.Clone(params.Scale)
	for i := range params.Scale {
		params.Scale[i] *= 31.0 / 127
	}
	require.NoError(t, in.Set.Render(slot.ID, params))
	param = string(written(t, "ncnn", in)["m.param"])
	require.Equal(t, 1, strings.Count(param, "31=64"))
	n := in.State.(*net)
	require.Len(t, warnings(in, n), 1)
}

func TestTable(t *testing.T) {
	in := input(t, lowertest.Networks["mobilenet"])
	files := written(t, "ncnn-table", in)
	require.Len(t, files, 3)
	lines := strings.Split(strings.TrimSpace(string(files["m.table"])), "\n")
	require.Len(t, lines, 8)
	require.Len(t, strings.Fields(lines[0]), 1+8)
	require.True(t, strings.HasPrefix(lines[1], "depthwise_param_0 "))
	require.NotContains(t, string(files["m.param"]), " 8=")
	net := written(t, "ncnn", in)
	for _, line := range strings.Split(string(net["m.param"]), "\n")[2:] {
		if f := strings.Fields(line); len(f) > 1 {
			require.Contains(t, string(files["m.param"]), f[1], "layers have the same names")
		}
	}
}

// What ncnn has no layer for is refused with the node.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"input x: f32[2,3,4,4]\ny = GlobalMaxPool(x) \"r\"\noutput y", "for a batch of 1"},
		{"input x: f32[2,2,3,4,4]\ny = Relu(x) \"r\"\noutput y", "up to four axes"},
		{"input x: f32[1,3,?,4]\ny = Relu(x) \"r\"\noutput y", "size of \"x\" is not known"},
		{"input x: i64[1,3]\ny = Abs(x) \"r\"\noutput y", "fed with float32"},
		{"input x: f32[1,3,4,4]\ny = CumSum(x, k) \"r\"\nconst k: i64[1] = [2]\noutput y", "no layer for it"},
		{"input x: f32[1,3,4,4]\ny = Softmax(x) {axis=0} \"r\"\noutput y", "along the batch"},
		{"input x: f32[1,3,4,4]\ny = MaxPool(x) {kernel_shape=[2,2], dilations=[2,2]} \"r\"\noutput y", "without dilation"},
		{"input x: f32[1,4,4,4]\nconst w: f32[4,2,1,1] = normal(1)\ny = Conv(x, w) {group=2} \"r\"\nz = Relu(y)\noutput z", ""},
		{"input x: f32[1,3,7,7]\ny = Resize(x, e, s) {mode=\"linear\"} \"r\"\nconst e: f32[0] = []\nconst s: f32[4] = [1,1,0.5,0.5]\noutput y",
			"7 elements by 0.5"},
		{"input x: f32[1,3,4,4]\ny = Resize(x, e, s) {mode=\"cubic\"} \"r\"\nconst e: f32[0] = []\nconst s: f32[4] = [1,1,2,2]\noutput y",
			"mode cubic"},
		{"input x: f32[1,3,3,4]\ny = Resize(x, e, s) {mode=\"linear\", coordinate_transformation_mode=\"align_corners\"} \"r\"\n" +
			"const e: f32[0] = []\nconst s: f32[4] = [1,1,1.5,2]\noutput y", "3 elements by 1.5"},
		{"input x: f32[1,3,4,4]\nconst e: f32[] = 3\ny = Pow(x, e) \"r\"\noutput y", "exponent 3"},
		{"input x: f32[1,3,80,4]\nconst a: i64[1] = [79]\nconst z: i64[1] = [-99]\nconst s: i64[1] = [-1]\ny = Slice(x, a, z, t, s) \"r\"\n" +
			"const t: i64[1] = [2]\noutput y", "more than 64 pieces"},
		{"input x: f32[1,3,4]\ninput i: i64[1]\ny = Gather(x, i) {axis=1} \"r\"\noutput y", "indices are computed"},
	} {
		g := graphtest.Parse(t, c.text)
		graph.InferShapes(g)
		in := &export.Input{Model: &onnx.Model{Graph: g}, Set: tqc.NewSet(g), Target: free()}
		err := check(in)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.want, c.text)
		assert.ErrorContains(t, err, "export ncnn")
	}
}

// ncnn makes one number of two blobs of one axis.
func TestFactorsHaveTwoAxes(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[1,2]\nconst c: f32[1,1] = [2]\ny = MatMul(c, x) \"r\"\noutput y")
	graph.InferShapes(g)
	files := written(t, "ncnn", &export.Input{Model: &onnx.Model{Graph: g}, Set: tqc.NewSet(g), Target: free()})
	param := string(files["m.param"])
	for _, line := range []string{"data_c 0 1 c 0=1 1=1", "x_reshape 1 1 x x_reshape 0=2 1=1", "r 2 1 c x_reshape y_flat"} {
		require.Contains(t, strings.Join(strings.Fields(param), " "), line)
	}
}

// What has no form is said all at once.
func TestAllRefusals(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[1,3,4,4]\na = Det(x) \"first\"\nb = Relu(x)\nc = Det(b) \"second\"\noutput a\noutput c")
	graph.InferShapes(g)
	err := check(&export.Input{Model: &onnx.Model{Graph: g}, Set: tqc.NewSet(g), Target: free()})
	refused := (*export.RefusedError)(nil)
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Reasons, 2)
	require.ErrorContains(t, err, `("first", "second")`)
}

// Integers that are only turned into float32 are fed as such.
func TestIntegersFedAsFloat(t *testing.T) {
	g := graphtest.Parse(t, "input x: u8[1,3,4,4]\na = Cast(x) {to=1}\ny = Relu(a)\noutput y")
	graph.InferShapes(g)
	in := &export.Input{Model: &onnx.Model{Graph: g}, Set: tqc.NewSet(g), Target: free()}
	require.NoError(t, check(in))
	require.Contains(t, fmt.Sprint(warnings(in, in.State.(*net))), "fed with the same numbers as float32")
}

// A reduction over a batch of one is none: a Reduction without axes takes all of them.
func TestReduceBatch(t *testing.T) {
	for op, want := range map[string]string{"ReduceMean": "Noop ", "ReduceMax": "Noop ", "ReduceL2": "UnaryOp "} {
		in := input(t, "input x: f32[1,3,4,4]\nconst a: i64[1] = [0]\nr = Relu(x)\ny = "+op+
			"(r, a) {keepdims=1} \"mean\"\nz = Sigmoid(y)\noutput z")
		param := string(written(t, "ncnn", in)["m.param"])
		require.Contains(t, param, "\n"+want)
		require.NotContains(t, param, "Reduction")
	}
}

// Names are what ncnn reads: without spaces, up to 255 bytes, each once.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", 400)
	taken := map[string]bool{}
	require.Equal(t, "a_b", fresh(taken, "a b"))
	require.Equal(t, "a_b_1", fresh(taken, "a_b"))
	require.Len(t, fresh(taken, long), maxName-20)
}

func examined(t testing.TB, files map[string][]byte) []export.Finding {
	t.Helper()
	m := fstest.MapFS{}
	for name, b := range files {
		m[name] = &fstest.MapFile{Data: b}
	}
	name, of := "m.param", doctor
	if files["m.table"] != nil {
		name, of = "m.table", tableDoctor
	}
	list, err := of(context.Background(), &export.DoctorInput{FS: m, Name: name})
	require.NoError(t, err)
	return list
}

// Every rule has a fault that breaks it, and nothing is found in what is exported.
func TestDoctor(t *testing.T) {
	in := input(t, `
input x: f32[1,4,6,6]
const w: f32[4,4,3,3] = normal(seed=1, std=0.3)
const d: f32[4,1,3,3] = normal(seed=2, std=0.3)
const p: f32[4,4,1,1] = normal(seed=3, std=0.3)
a = Conv(x, w) {pads=[1,1,1,1]} "a"
r = Relu(a)
b = Conv(r, d) {group=4, pads=[1,1,1,1]} "b"
c = Conv(b, p) "c"
s = Sigmoid(c) "s"
y = Mul(s, c) "y"
output y
`)
	clean := written(t, "ncnn", in)
	require.Empty(t, examined(t, clean))
	text, bin := string(clean["m.param"]), clean["m.bin"]
	put := func(at int, x uint32) []byte {
		b := slices.Clone(bin)
		binary.LittleEndian.PutUint32(b[at:], x)
		return b
	}
	one := math.Float32bits
	scales := 4 + 144 // of the weights of a
	table := written(t, "ncnn-table", in)
	require.Empty(t, examined(t, table))
	tables := string(table["m.table"])
	faults := []struct {
		rule string
		file map[string]string
		bin  []byte
	}{
		{"magic", map[string]string{magic: "7767518"}, bin},
		{"counts", map[string]string{"\n5 ": "\n6 "}, bin},
		{"names", map[string]string{" b                      1": " a                      1"}, bin},
		{"parameters", map[string]string{" 3=1 4=1": " 3=1.00000000000000000 4=1"}, bin},
		{"known-layers", map[string]string{"Convolution            c ": "Convolution9           c "}, bin},
		{"blobs", map[string]string{"1 1 r b": "1 1 x b"}, bin},
		{"operands", map[string]string{"1 1 c y": "2 1 c r y"}, bin},
		{"numbers", map[string]string{text: magic + "\n2 2\nInput in 0 1 in 0=1\nInnerProduct a 1 1 in y 0=1 1=1 2=1\n"},
			append(make([]byte, 8), 0, 0, 0xc0, 0x7f)},
		{"tags", nil, put(0, 0x1234)},
		{"weights", nil, append(slices.Clone(bin), 0, 0, 0, 0)},
		{"values", map[string]string{" 3=1 4=1": " 3=0 4=1"}, bin},
		{"values", map[string]string{" 3=1 4=1": " 3=1 4=99999999"}, bin},
		{"values", map[string]string{" 2=1 3=1": " 2=50 3=1"}, bin},
		{"groups", map[string]string{" 7=4": " 7=3"}, bin},
		{"scales", nil, put(scales, one(float32(math.Inf(1))))},
		{"codes", nil, put(4, 0x80)},
		{"winograd", nil, put(4, 32)},
		{"handed-on", nil, put(scales+20, one(77))},
		{"activation", map[string]string{" 9=1": " 9=2"}, bin},
	}
	if !strings.Contains(text, " 9=1") {
		t.Fatal(text)
	}
	for _, f := range faults {
		changed := text
		for from, to := range f.file {
			if strings.Contains(changed, from) {
				changed = strings.Replace(changed, from, to, 1)
				break
			}
		}
		found := examined(t, map[string][]byte{"m.param": []byte(changed), "m.bin": f.bin})
		require.True(t, slices.ContainsFunc(found, func(x export.Finding) bool { return x.Rule == f.rule }), "%s: %v\n%s", f.rule, found, changed)
	}
	for rule, change := range map[string][2]string{"table-layers": {"b_param_0", "q_param_0"}, "table-pairs": {"\na ", "\n#a "},
		"table-scales": {"\na ", "\na -1 "}} {
		files := map[string][]byte{"m.table": []byte(strings.Replace(tables, change[0], change[1], 1)), "m.param": table["m.param"]}
		found := examined(t, files)
		require.True(t, slices.ContainsFunc(found, func(x export.Finding) bool { return x.Rule == rule }), "%s: %v\n%s", rule, found,
			files["m.table"])
	}
	for _, r := range append(rules(), tableRules()...) {
		known := slices.ContainsFunc(faults, func(f struct {
			rule string
			file map[string]string
			bin  []byte
		}) bool {
			return f.rule == r.Name
		})
		require.True(t, known || strings.HasPrefix(r.Name, "table-"), r.Name)
	}
	_, err := doctor(context.Background(), &export.DoctorInput{FS: fstest.MapFS{"m.param": &fstest.MapFile{Data: []byte("x\ny\n")}},
		Name: "m.param"})
	require.Error(t, err)
}

// oddities are layers that no writer makes: a circle, and a layer that hands integers to nobody.
var oddities = []string{
	"Convolution c 1 1 in a 0=1 6=1 8=101\nSplit s 1 1 a a",
	"Convolution c 1 1 in a 0=1 6=1 8=101\nSplit s 1 2 a b d\nSplit t 2 2 b d b d",
	"Convolution c 1 0 in 0=1 6=1 8=101",
}

// A .param file may be any text: the doctor ends with findings.
func TestDoctorOfOddities(t *testing.T) {
	for _, layers := range oddities {
		found := examined(t, map[string][]byte{"m.param": []byte(magic + "\n2 2\nInput in 0 1 in\n" + layers), "m.bin": make([]byte, 400)})
		require.NotEmpty(t, found)
	}
}

func TestDamagedFiles(t *testing.T) {
	for _, f := range Formats() {
		exporttest.Damage(t, &f, lowertest.Networks["mobilenet"], "ncnn_int8", nil)
	}
}

// No file makes the reader fail in another way than by an error or a finding, or take more memory than the file is long.
func FuzzRead(f *testing.F) {
	in := input(f, lowertest.Networks["mobilenet"])
	n, err := build(in, false)
	require.NoError(f, err)
	var text, bin bytes.Buffer
	require.NoError(f, n.writeParam(&text))
	require.NoError(f, n.writeBin(&bin))
	f.Add(text.String(), bin.Bytes())
	f.Add(magic+"\n1 1\nConvolution a 0 1 x 0=-5 6=2147483647 8=101 7=-1 -23310=1,2\n", []byte{1, 2, 3, 4, 5})
	f.Add(magic+"\n1 1\nInnerProduct a 0 1 x 0=0 2=0 8=2 9=-1\nMemoryData b 0 0 0=99999 1=99999 2=99999", bin.Bytes())
	for _, layers := range oddities {
		f.Add(magic+"\n2 2\n"+layers, make([]byte, 400))
	}
	f.Fuzz(func(t *testing.T, text string, bin []byte) {
		none := func(string, string, string, ...any) {}
		n, err := parse([]byte(text), none)
		if err != nil {
			return
		}
		n.load(bin, none)
		n.examine(none)
	})
}
