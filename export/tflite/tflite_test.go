package tflite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// exported configures a graph for a platform and writes it.
func exported(t testing.TB, text, platform string, options map[string]string) (*tf.Model, []byte, error) {
	t.Helper()
	tg, err := target.Known(platform)
	require.NoError(t, err)
	m, b, _, err := exportedFor(t, text, tg, options)
	return m, b, err
}

// exportedFor is exported for any target, with the program and numbers for its inputs.
// inputFor is the program of a text for a target, and numbers to run it on.
func inputFor(t testing.TB, text string, tg *target.Target, options map[string]string) (*export.Input, map[string]*tensor.Tensor) {
	t.Helper()
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	set, feeds := lowertest.Configure(t, g, tg)
	profile, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, profile)
	require.NoError(t, err)
	f := Format()
	in := &export.Input{Title: "test", Producer: "qwb", Version: "test", Model: &onnx.Model{Graph: g}, Set: set, Target: tg, Program: p}
	in.Options, err = f.Resolve(options)
	require.NoError(t, err)
	return in, feeds
}

func exportedFor(t testing.TB, text string, tg *target.Target, options map[string]string) (*tf.Model, []byte, func() []*tensor.Tensor,
	error) {
	t.Helper()
	f := Format()
	in, feeds := inputFor(t, text, tg, options)
	p := in.Program
	if err := f.Check(in); err != nil {
		return nil, nil, nil, err
	}
	path := filepath.Join(t.TempDir(), "m.tflite")
	out := f.NewOutput(path, nil)
	defer out.Discard()
	_, err := f.Write(context.Background(), in, out)
	require.NoError(t, err)
	require.NoError(t, f.Conforms(context.Background(), in, out), "what is written has no findings")
	same, err := f.Equal(context.Background(), in, out)
	require.NoError(t, err, "what is written is what was meant")
	require.Positive(t, same.Compared)
	_, err = out.Commit()
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err := tf.Read(b)
	require.NoError(t, err)
	return m, b, func() []*tensor.Tensor {
		got, err := programtest.Reference(t, p, 1).Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		return append(got, feeds["x"], feeds["h"])
	}, nil
}

// listing is the main subgraph as text: a line per operator with its version, tensors and options that are not their defaults.
func listing(m *tf.Model) string {
	g := &m.Subgraphs[0]
	tensor := func(i int) string {
		if i < 0 {
			return "-"
		}
		t := &g.Tensors[i]
		s := fmt.Sprintf("%s %s%v", t.Name, t.Type, t.Shape)
		if t.Quantization.Quantized() {
			s += fmt.Sprintf(" zp %d", t.Quantization.ZeroPoint[0])
			if n := len(t.Quantization.Scale); n > 1 {
				s += fmt.Sprintf(" %d scales of axis %d", n, t.Quantization.Axis)
			}
		}
		if t.Data != nil && len(t.Data) <= 16 {
			s += fmt.Sprintf(" = %v", t.Data)
		}
		return s
	}
	list := func(ids []int) string {
		var s []string
		for _, i := range ids {
			s = append(s, tensor(i))
		}
		return strings.Join(s, "; ")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "in %s\nout %s\n", list(g.Inputs), list(g.Outputs))
	for _, o := range g.Operators {
		fmt.Fprintf(&out, "%s v%d", o.Op, o.Version)
		fields, _ := tf.Fields(o.OptionsType)
		for _, f := range fields {
			if v := fmt.Sprint(o.Options[f.Name]); v != fmt.Sprint(f.Default) && v != "false" && v != "[]" && !(v == "0" && f.Kind == "f") &&
				!(v == "true" && f.Default == 1) {
				fmt.Fprintf(&out, " %s=%s", f.Name, v)
			}
		}
		fmt.Fprintf(&out, "\n  %s\n  -> %s\n", list(o.Inputs), list(o.Outputs))
	}
	return out.String()
}

// TestListings runs testdata/*.txt: cases of a claim, a platform with options, a graph, "----", and the file as text or the error.
func TestListings(t *testing.T) {
	graphtest.Golden(t, "testdata/*.txt", func(t *testing.T, c graphtest.Case) string {
		platform, rest := c.Platform()
		options := map[string]string{}
		for _, w := range strings.Fields(rest) {
			name, value, _ := strings.Cut(w, "=")
			options[name] = value
		}
		m, b, err := exported(t, c.Text, platform, options)
		if err != nil {
			return err.Error()
		}
		_, again, err := exported(t, c.Text, platform, options)
		require.NoError(t, err)
		require.Equal(t, b, again)
		return listing(m)
	})
}

const network = `input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(1)
const b: f32[4] = normal(2)
const v: f32[4,10] = normal(3)
const starts: i64[1] = [0]
const ends: i64[1] = [4]
const axes: i64[1] = [1]
a = Conv(x, w, b) {pads=[1,1,1,1]} "conv"
r = Relu(a) "relu"
c = Concat(r, r) {axis=1} "concat"
g = Slice(c, starts, ends, axes) "slice"
m = MaxPool(g) {kernel_shape=[2,2], strides=[2,2]} "pool"
p = GlobalAveragePool(m) "mean"
f = Flatten(p) "flat"
y = MatMul(f, v) "fc"
s = Softmax(y) "softmax"
output s`

func TestMetadata(t *testing.T) {
	m, _, err := exported(t, network, "tflite_int8", nil)
	require.NoError(t, err)
	require.Equal(t, "min_runtime_version", m.Metadata[0].Name)
	require.Len(t, m.Metadata[0].Data, 16)
	require.Equal(t, []tf.Named{{Name: "x", Tensor: m.Subgraphs[0].Inputs[0]}}, m.Signatures[0].Inputs)
	require.Equal(t, []tf.Named{{Name: "s", Tensor: m.Subgraphs[0].Outputs[0]}}, m.Signatures[0].Outputs)
	require.Contains(t, string(m.Metadata[1].Data), "x\t[0 2 3 1]\n", "the layouts of tensors")
}

// TestDoctor plants a fault for every rule.
func TestDoctor(t *testing.T) {
	op := func(m *tf.Model, name string) *tf.Operator {
		for i := range m.Subgraphs[0].Operators {
			if o := &m.Subgraphs[0].Operators[i]; o.Op == name {
				return o
			}
		}
		t.Fatalf("no %s", name)
		return nil
	}
	faults := map[string]func(m *tf.Model, g *tf.Subgraph){
		"order":             func(m *tf.Model, g *tf.Subgraph) { g.Operators[0], g.Operators[1] = g.Operators[1], g.Operators[0] },
		"scale":             func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "CONV_2D").Outputs[0]].Quantization.Scale[0] = 0 },
		"weight-zero-point": func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "CONV_2D").Inputs[1]].Quantization.ZeroPoint[2] = 1 },
		"axis": func(m *tf.Model, g *tf.Subgraph) {
			w := &g.Tensors[op(m, "CONV_2D").Inputs[1]]
			w.Quantization.Axis, w.Shape = 3, []int{3, 3, 3, 4}
		},
		"bias": func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "CONV_2D").Inputs[2]].Quantization.Scale[1] *= 1.01 },
		"fixed-scale": func(m *tf.Model, g *tf.Subgraph) {
			g.Tensors[op(m, "SOFTMAX").Outputs[0]].Quantization.Scale[0] = 1.0 / 255
		},
		"one-grid": func(m *tf.Model, g *tf.Subgraph) {
			g.Tensors[op(m, "MAX_POOL_2D").Outputs[0]].Quantization.ZeroPoint[0]++
		},
		"int16-zero-point": func(m *tf.Model, g *tf.Subgraph) {
			x := &g.Tensors[op(m, "CONV_2D").Inputs[0]]
			x.Type, x.Quantization.ZeroPoint[0] = tf.Int16, 3
		},
		"types":    func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "FULLY_CONNECTED").Outputs[0]].Type = tf.Float32 },
		"version":  func(m *tf.Model, g *tf.Subgraph) { op(m, "CONV_2D").Version = 99 },
		"tensors":  func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "CONV_2D").Inputs[0]].Quantization.Axis = 9 },
		"operands": func(m *tf.Model, g *tf.Subgraph) { op(m, "CONV_2D").Inputs[0] = -1 },
		"options":  func(m *tf.Model, g *tf.Subgraph) { op(m, "CONV_2D").Options["stride_w"] = 0 },
		"layout":   func(m *tf.Model, g *tf.Subgraph) {}, // below: a text does not end
		"sizes":    func(m *tf.Model, g *tf.Subgraph) { g.Tensors[g.Inputs[0]].Shape = []int{1, 8, 8, 5} },
		"factor": func(m *tf.Model, g *tf.Subgraph) {
			o := op(m, "FULLY_CONNECTED")
			o.Op, o.Inputs, o.OptionsType, o.Options = "ADD", []int{o.Inputs[0], o.Inputs[0]}, "Add", tf.Options{}
			g.Tensors[o.Inputs[0]].Quantization.Scale[0] = 1e30
		},
		"one-type": func(m *tf.Model, g *tf.Subgraph) { g.Tensors[op(m, "CONCATENATION").Outputs[0]].Type = tf.Int16 },
	}
	require.Len(t, faults, len(rules()))
	for _, r := range rules() {
		m, b, err := exported(t, network, "tflite_int8", nil)
		require.NoError(t, err)
		clean, err := Check(b)
		require.NoError(t, err)
		require.Empty(t, clean)
		faults[r.Name](m, &m.Subgraphs[0])
		b, err = m.Write()
		require.NoError(t, err, r.Name)
		if name := m.Subgraphs[0].Tensors[0].Name; r.Name == "layout" {
			b[bytes.Index(b, append([]byte(name), 0))+len(name)] = 'x'
		}
		found, err := Check(b)
		require.NoError(t, err)
		names := map[string]bool{}
		for _, f := range found {
			names[f.Rule] = true
		}
		require.True(t, names[r.Name], "%s: %v", r.Name, found)
	}
	m, _, err := exported(t, network, "tflite_int8", nil)
	require.NoError(t, err)
	conv := op(m, "CONV_2D")
	of := func(id int) []float32 { return m.Subgraphs[0].Tensors[id].Quantization.Scale }
	for times, want := range map[float32]bool{255: false, 256: true} {
		of(conv.Inputs[0])[0] = times * of(conv.Outputs[0])[0] / slices.Max(of(conv.Inputs[1])) * 1.0001
		b, err := m.Write()
		require.NoError(t, err)
		found, err := Check(b)
		require.NoError(t, err)
		require.Equal(t, want, slices.ContainsFunc(found, func(f export.Finding) bool { return f.Rule == "factor" }), "%v", found)
	}
	_, err = Check([]byte("no file of this kind"))
	require.ErrorContains(t, err, "read tflite")
}

// TestNearest holds the elements that a Resize takes to those that TensorFlow Lite's kernel takes.
func TestNearest(t *testing.T) {
	require.True(t, nearestPlaces([]int{1, 1, 2, 1}, []int{1, 1, 4, 1}, false, false, []int32{0, 0, 1, 1}))
	require.False(t, nearestPlaces([]int{1, 1, 2, 1}, []int{1, 1, 4, 1}, true, false, []int32{0, 0, 0, 1}))
	require.True(t, nearestPlaces([]int{1, 1, 2, 1}, []int{1, 1, 4, 1}, true, false, []int32{0, 0, 1, 1}))
}

func TestSameBytes(t *testing.T) {
	require.True(t, sameBytes([]int{1, 1, 5, 3}, []int{1, 0, 2, 3}))
	require.True(t, sameBytes([]int{1, 4, 1, 1}, []int{0, 2, 3, 1}))
	require.False(t, sameBytes([]int{1, 4, 2, 1}, []int{0, 2, 3, 1}))
}

// TestPads compares with the definition of SAME and VALID.
func TestPads(t *testing.T) {
	for _, c := range []struct {
		in, out, kernel, stride, begin int
		padding                        int
		ok                             bool
	}{{8, 8, 3, 1, 1, tf.Same, true}, {8, 4, 3, 2, 0, tf.Same, true}, {8, 4, 3, 2, 1, tf.Valid, false}, {8, 6, 3, 1, 0, tf.Valid, true}, {8, 4,
		1, 2, 0, tf.Valid, true}, {7, 4, 3, 2, 1, tf.Same, true}} {
		padding, ok, _ := pads([]int{c.in}, []int{c.out}, []int{c.kernel}, []int{c.stride}, []int{1}, []int{c.begin}, tf.Valid)
		require.Equal(t, []any{c.padding, c.ok}, []any{padding, ok}, "%+v", c)
	}
}

// bare is a file whose operators have no outputs, no inputs, or only ones that are left out: Read holds them.
func bare(t testing.TB) []byte {
	grid := func() *tf.Quantization { return &tf.Quantization{Scale: []float32{1}, ZeroPoint: []int{0}} }
	g := tf.Subgraph{Inputs: []int{0}, Outputs: []int{0},
		Tensors: []tf.Tensor{{Name: "x", Type: tf.Int8, Shape: []int{1}, Quantization: grid()},
			{Name: "y", Type: tf.Int8, Shape: []int{1}, Quantization: grid()}}}
	for _, o := range []string{"SOFTMAX", "LOGISTIC", "TANH", "ADD", "CONCATENATION", "SPLIT", "MAX_POOL_2D", "CONV_2D",
		"FULLY_CONNECTED", "RELU"} {
		for _, in := range [][]int{{}, {-1}, {0}, {-1, -1, -1}, {0, -1, -1}, {-1, 0, 0}, {0, 0, -1}} {
			g.Operators = append(g.Operators, tf.Operator{Op: o, Version: 1, Inputs: in, Outputs: []int{}},
				tf.Operator{Op: o, Version: 1, Inputs: in, Outputs: []int{1}})
		}
	}
	b, err := (&tf.Model{Version: 3, Subgraphs: []tf.Subgraph{g}}).Write()
	require.NoError(t, err)
	return b
}

func TestCheckOfBareOperators(t *testing.T) {
	found, err := Check(bare(t))
	require.NoError(t, err)
	require.NotEmpty(t, found)
}

func TestDamagedFiles(t *testing.T) {
	f := Format()
	exporttest.Damage(t, &f, network, "tflite_int8", nil)
}

// TestBytesOfConstants: a constant without a form in bytes is an error of the whole file.
func TestBytesOfConstants(t *testing.T) {
	b := &builder{}
	b.permuteBytes(tensor.New(tensor.String, 2), []int{2}, []int{0})
	require.ErrorContains(t, b.refused.Err(stage), "export tflite: a constant of")
}

// An error names the operator that is its cause, not the first of those that are computed in float beside it.
func TestErrorsNameTheOperator(t *testing.T) {
	_, _, err := exported(t, `input x: f32[1,16]
const w: f32[16,8] = normal(seed=1, std=0.3)
const one: f32[] = 1
g = MatMul(x, w) "product"
m: f32[1,1] = ReduceMax(g) {axes=[1], keepdims=1} "largest"
e: f32[1,1] = Erf(m) "erf"
d: f32[1,1] = Max(e, one) "safe"
y: f32[1,8] = Div(g, d) "quotient"
output y
`, "tflite_int8", nil)
	require.ErrorContains(t, err, `export tflite: node "erf" (Erf, f32[1,1]): in float: the operator has no form in the file`)
	require.NotContains(t, err.Error(), "largest")
}

// FuzzCheck: whatever a file holds, its rules end with findings or an error.
func FuzzCheck(f *testing.F) {
	f.Add(bare(f))
	_, b, err := exported(f, network, "tflite_int8", nil)
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := Check(b)
		require.True(t, err == nil || found == nil)
	})
}

// The sizes of a file are those that are given: --size also for the first axis.
func TestSizes(t *testing.T) {
	const text = "input x: f32[N,3,6,6]\nconst w: f32[4,3,3,3] = normal(1)\ny: f32[N,4,4,4] = Conv(x, w)\noutput y"
	for _, c := range []struct {
		options map[string]string
		first   int
	}{{nil, 1}, {map[string]string{"batch": "3"}, 3}, {map[string]string{"size": "N=8"}, 8}} {
		m, _, err := exported(t, text, "tflite_int8", c.options)
		require.NoError(t, err)
		g := &m.Subgraphs[0]
		require.Equal(t, c.first, int(g.Tensors[g.Inputs[0]].Shape[0]))
	}
	_, _, err := exported(t, text, "tflite_int8", map[string]string{"size": "N=8", "batch": "8"})
	require.ErrorContains(t, err, "--size N=8 and --batch 8")
}
