package lift_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
	"qwb/graph/tflite/lift"
)

// builder makes a model of operators one behind the other.
type builder struct{ s tflite.Subgraph }

// numbers are repeatable ones between -1 and 1.
func numbers(n, seed int) []float32 {
	x := make([]float32, n)
	state := uint32(seed)*2654435761 + 12345
	for i := range x {
		state = state*1664525 + 1013904223
		x[i] = float32(int32(state>>8)&0xffff)/0x8000 - 1
	}
	return x
}

func packed(v any) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, v)
	return b.Bytes()
}

func (b *builder) add(t tflite.Tensor) int {
	t.Name = fmt.Sprintf("t%d", len(b.s.Tensors))
	b.s.Tensors = append(b.s.Tensors, t)
	return len(b.s.Tensors) - 1
}

func (b *builder) input(shape ...int) int {
	id := b.add(tflite.Tensor{Shape: shape})
	b.s.Inputs = append(b.s.Inputs, id)
	return id
}

func (b *builder) floats(shape ...int) int {
	n := tensor.Count(shape)
	return b.add(tflite.Tensor{Shape: shape, Data: packed(numbers(n, n+len(b.s.Tensors)))})
}

func (b *builder) ints(x ...int32) int {
	return b.add(tflite.Tensor{Type: tflite.Int32, Shape: []int{len(x)}, Data: packed(x)})
}

// pairs are paddings or crops: begin and end of each axis.
func (b *builder) pairs(x ...int32) int {
	return b.add(tflite.Tensor{Type: tflite.Int32, Shape: []int{len(x) / 2, 2}, Data: packed(x)})
}

// lstm adds an LSTM whose states are variables.
func (b *builder) lstm(x, batch, features, units int, major, peepholes bool) int {
	in := slices.Repeat([]int{-1}, 24)
	in[0] = x
	for g := range 4 {
		in[1+g], in[5+g], in[12+g] = b.floats(units, features), b.floats(units, units), b.floats(units)
		if peepholes && g < 3 {
			in[9+g] = b.floats(units)
		}
	}
	for k := range 2 {
		in[18+k] = b.add(tflite.Tensor{Shape: []int{batch, units}, Variable: true})
	}
	shape := slices.Clone(b.s.Tensors[x].Shape)
	shape[2] = units
	return b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTM", options{"fused_activation_function": tflite.Tanh,
		"time_major": major}, shape, in...)
}

// op adds an operator and its output.
func (b *builder) op(name, options string, o tflite.Options, shape []int, in ...int) int {
	out := b.add(tflite.Tensor{Shape: shape})
	b.s.Operators = append(b.s.Operators, tflite.Operator{Op: name, Version: 1, Inputs: in, Outputs: []int{out},
		OptionsType: options, Options: o})
	return out
}

func (b *builder) model(outputs ...int) *tflite.Model {
	b.s.Outputs = outputs
	return &tflite.Model{Version: 3, Subgraphs: []tflite.Subgraph{b.s}}
}

type options = tflite.Options

// cases are small networks, each for one thing that file and graph say differently.
var cases = map[string]func(b *builder) *tflite.Model{
	"lstm, steps in front, peepholes": func(b *builder) *tflite.Model { return b.model(b.lstm(b.input(5, 2, 3), 2, 3, 4, true, true)) },
	"lstm, samples in front, backwards, a state is written": func(b *builder) *tflite.Model {
		x := b.op("REVERSE_V2", "ReverseV2", nil, []int{2, 5, 3}, b.input(2, 5, 3), b.ints(1))
		y := b.lstm(x, 2, 3, 4, false, false)
		last := b.s.Operators[len(b.s.Operators)-1].Inputs[19]
		write := tflite.Operator{Op: "UNPACK", Version: 1, Inputs: []int{b.floats(2, 1, 4)}, Outputs: []int{last}, OptionsType: "Unpack",
			Options: options{"num": 1, "axis": 1}}
		b.s.Operators = slices.Insert(b.s.Operators, 0, write)
		c := b.op("PACK", "Pack", options{"values_count": 1, "axis": 0}, []int{1, 2, 4}, last)
		return b.model(y, c)
	},
	"conv same, stride 2, relu6": func(b *builder) *tflite.Model {
		x := b.input(1, 5, 6, 3)
		return b.model(b.op("CONV_2D", "Conv2D", options{"padding": tflite.Same, "stride_w": 2, "stride_h": 2,
			"fused_activation_function": tflite.Relu6}, []int{1, 3, 3, 4}, x, b.floats(4, 3, 2, 3), b.floats(4)))
	},
	"conv dilated in groups": func(b *builder) *tflite.Model {
		x := b.input(1, 6, 6, 4)
		return b.model(b.op("CONV_2D", "Conv2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1, "dilation_w_factor": 2,
			"dilation_h_factor": 1}, []int{1, 5, 2, 6}, x, b.floats(6, 2, 3, 2), b.floats(6)))
	},
	"conv between space and batch, same": func(b *builder) *tflite.Model {
		x := b.input(1, 7, 8, 3)
		s := b.op("SPACE_TO_BATCH_ND", "SpaceToBatchND", nil, []int{4, 6, 6, 3}, x, b.ints(2, 2), b.pairs(2, 3, 2, 2))
		y := b.op("CONV_2D", "Conv2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1,
			"fused_activation_function": tflite.Relu}, []int{4, 4, 4, 5}, s, b.floats(5, 3, 3, 3), b.floats(5))
		return b.model(b.op("BATCH_TO_SPACE_ND", "BatchToSpaceND", nil, []int{1, 7, 8, 5}, y, b.ints(2, 2), b.pairs(0, 1, 0, 0)))
	},
	"depthwise between space and batch, valid": func(b *builder) *tflite.Model {
		x := b.input(1, 9, 7, 3)
		s := b.op("SPACE_TO_BATCH_ND", "SpaceToBatchND", nil, []int{6, 3, 4, 3}, x, b.ints(3, 2), b.pairs(0, 0, 0, 1))
		y := b.op("DEPTHWISE_CONV_2D", "DepthwiseConv2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1},
			[]int{6, 2, 2, 3}, s, b.floats(1, 2, 3, 3), b.floats(3))
		return b.model(b.op("BATCH_TO_SPACE_ND", "BatchToSpaceND", nil, []int{1, 6, 3, 3}, y, b.ints(3, 2), b.pairs(0, 0, 0, 1)))
	},
	"depthwise with a multiplier": func(b *builder) *tflite.Model {
		x := b.input(1, 5, 5, 3)
		return b.model(b.op("DEPTHWISE_CONV_2D", "DepthwiseConv2D", options{"padding": tflite.Same, "stride_w": 1, "stride_h": 2,
			"depth_multiplier": 2, "fused_activation_function": tflite.Relu}, []int{1, 3, 5, 6}, x, b.floats(1, 3, 3, 6), b.floats(6)))
	},
	"transposed conv": func(b *builder) *tflite.Model {
		x := b.input(1, 3, 4, 2)
		return b.model(b.op("TRANSPOSE_CONV", "TransposeConv", options{"padding": tflite.Same, "stride_w": 2, "stride_h": 2}, []int{1, 6, 8, 3},
			b.ints(1, 6, 8, 3), b.floats(3, 3, 3, 2), x))
	},
	"pools": func(b *builder) *tflite.Model {
		x := b.input(1, 5, 7, 2)
		y := b.op("AVERAGE_POOL_2D", "Pool2D", options{"padding": tflite.Same, "stride_w": 2, "stride_h": 2, "filter_width": 3,
			"filter_height": 3}, []int{1, 3, 4, 2}, x)
		return b.model(b.op("MAX_POOL_2D", "Pool2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1, "filter_width": 2,
			"filter_height": 3}, []int{1, 1, 3, 2}, y))
	},
	"an image to a vector and on": func(b *builder) *tflite.Model {
		x := b.input(1, 4, 4, 3)
		y := b.op("CONV_2D", "Conv2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1}, []int{1, 3, 2, 5}, x,
			b.floats(5, 2, 3, 3), b.floats(5))
		y = b.op("RESHAPE", "Reshape", nil, []int{1, 30}, y, b.ints(1, 30))
		y = b.op("FULLY_CONNECTED", "FullyConnected", options{"fused_activation_function": tflite.Relu}, []int{1, 6}, y,
			b.floats(6, 30), b.floats(6))
		return b.model(b.op("SOFTMAX", "Softmax", options{"beta": float32(1)}, []int{1, 6}, y))
	},
	"dense layers on an image": func(b *builder) *tflite.Model {
		x := b.input(1, 2, 3, 4)
		y := b.op("MAX_POOL_2D", "Pool2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1},
			[]int{1, 2, 3, 4}, x)
		return b.model(b.op("FULLY_CONNECTED", "FullyConnected", options{"keep_num_dims": true}, []int{1, 2, 3, 5}, y, b.floats(5, 4),
			b.floats(5)))
	},
	"broadcast to channels, rows and images": func(b *builder) *tflite.Model {
		x := b.input(1, 3, 2, 4)
		y := b.op("MAX_POOL_2D", "Pool2D", options{"padding": tflite.Same, "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2},
			[]int{1, 3, 2, 4}, x)
		z := b.op("ADD", "Add", options{"fused_activation_function": tflite.Relu}, []int{1, 3, 2, 4}, y, b.floats(4))
		z = b.op("MUL", "Mul", nil, []int{1, 3, 2, 4}, z, b.floats(2, 4))
		z = b.op("SUB", "Sub", nil, []int{1, 3, 2, 4}, z, b.floats(1, 3, 2, 1))
		z = b.op("PRELU", "", nil, []int{1, 3, 2, 4}, z, b.floats(1, 1, 4))
		return b.model(b.op("MAXIMUM", "MaximumMinimum", nil, []int{1, 3, 2, 4}, z, y))
	},
	"axes of images": func(b *builder) *tflite.Model {
		x := b.input(1, 3, 2, 4)
		y := b.op("AVERAGE_POOL_2D", "Pool2D", options{"padding": tflite.Same, "stride_w": 1, "stride_h": 1, "filter_width": 2,
			"filter_height": 2}, []int{1, 3, 2, 4}, x)
		y = b.op("CONCATENATION", "Concatenation", options{"axis": 3}, []int{1, 3, 2, 8}, y, x)
		y = b.op("PAD", "Pad", nil, []int{1, 4, 5, 8}, y,
			b.add(tflite.Tensor{Type: tflite.Int32, Shape: []int{4, 2}, Data: packed([]int32{0, 0, 1, 0, 0, 3, 0, 0})}))
		y = b.op("SOFTMAX", "Softmax", options{"beta": float32(1)}, []int{1, 4, 5, 8}, y)
		return b.model(b.op("MEAN", "Reducer", options{"keep_dims": false}, []int{1, 8}, y, b.ints(1, 2)),
			b.op("SUM", "Reducer", options{"keep_dims": true}, []int{1, 1, 5, 8}, y, b.ints(1)),
			b.op("REDUCE_MAX", "Reducer", options{"keep_dims": false}, []int{1, 5, 8}, y, b.ints(-3)))
	},
	"bilinear": func(b *builder) *tflite.Model {
		x := b.input(1, 3, 4, 2)
		y := b.op("RESIZE_BILINEAR", "ResizeBilinear", options{"half_pixel_centers": true}, []int{1, 5, 7, 2}, x, b.ints(5, 7))
		return b.model(b.op("RESIZE_BILINEAR", "ResizeBilinear", nil, []int{1, 3, 9, 2}, y, b.ints(3, 9)),
			b.op("RESIZE_BILINEAR", "ResizeBilinear", options{"align_corners": true}, []int{1, 8, 4, 2}, y, b.ints(8, 4)))
	},
	"nearest": func(b *builder) *tflite.Model {
		x := b.input(1, 3, 4, 2)
		return b.model(b.op("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor", options{"half_pixel_centers": true}, []int{1, 5, 7, 2}, x,
			b.ints(5, 7)), b.op("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor", nil, []int{1, 5, 7, 2}, x, b.ints(5, 7)))
	},
	"blocks": func(b *builder) *tflite.Model {
		x := b.input(1, 4, 2, 8)
		y := b.op("DEPTH_TO_SPACE", "DepthToSpace", options{"block_size": 2}, []int{1, 8, 4, 2}, x)
		return b.model(b.op("SPACE_TO_DEPTH", "SpaceToDepth", options{"block_size": 4}, []int{1, 2, 1, 32}, y))
	},
	"slices": func(b *builder) *tflite.Model {
		x := b.input(2, 4, 5)
		y := b.op("STRIDED_SLICE", "StridedSlice", options{"begin_mask": 1, "end_mask": 3, "shrink_axis_mask": 4}, []int{2, 2}, x,
			b.ints(0, 1, -2), b.ints(0, 0, 0), b.ints(1, 2, 1))
		z := b.op("SLICE", "Slice", nil, []int{1, 4, 3}, x, b.ints(1, 0, 2), b.ints(1, -1, 3))
		return b.model(y, b.op("TRANSPOSE", "Transpose", nil, []int{3, 1, 4}, z, b.ints(2, 0, 1)),
			b.op("PACK", "Pack", options{"axis": 1, "values_count": 2}, []int{2, 2, 2}, y, y),
			b.op("GATHER", "Gather", options{"axis": 2}, []int{2, 4, 2}, x, b.ints(3, 0)), b.op("TILE", "", nil, []int{2, 4}, y, b.ints(1, 2)))
	},
	"split": func(b *builder) *tflite.Model {
		x := b.input(1, 2, 2, 6)
		y := b.op("AVERAGE_POOL_2D", "Pool2D", options{"padding": tflite.Same, "stride_w": 1, "stride_h": 1, "filter_width": 1,
			"filter_height": 2}, []int{1, 2, 2, 6}, x)
		p := b.op("SPLIT", "Split", options{"num_splits": 2}, []int{1, 2, 2, 3},
			b.add(tflite.Tensor{Type: tflite.Int32, Shape: []int{}, Data: packed(int32(3))}), y)
		q := b.add(tflite.Tensor{Shape: []int{1, 2, 2, 3}})
		b.s.Operators[1].Outputs = []int{p, q}
		return b.model(b.op("SUB", "Sub", nil, []int{1, 2, 2, 3}, q, p))
	},
	"functions": func(b *builder) *tflite.Model {
		x := b.input(1, 12)
		var out []int
		for _, name := range []string{"RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "EXP", "ABS", "NEG",
			"FLOOR", "SQUARE"} {
			out = append(out, b.op(name, "", nil, []int{1, 12}, x))
		}
		out = append(out, b.op("LEAKY_RELU", "LeakyRelu", options{"alpha": float32(0.25)}, []int{1, 12}, x),
			b.op("GELU", "Gelu", options{"approximate": true}, []int{1, 12}, x),
			b.op("LOG_SOFTMAX", "", nil, []int{1, 12}, x), b.op("SQUARED_DIFFERENCE", "", nil, []int{1, 12}, x, b.floats(1, 12)),
			b.op("RSQRT", "", nil, []int{1, 12}, out[7]))
		return b.model(out...)
	},
}

// TestOperators: the lifted graph computes what LiteRT 2.3's own kernels compute of the file: testdata/litert.json has their outputs.
// With QWB_LIFT_OUT=DIR the models and their inputs are written there, for the script testdata/litert.py, which makes that file.
func TestOperators(t *testing.T) {
	b, err := os.ReadFile("testdata/litert.json")
	require.NoError(t, err)
	var golden map[string][][]float32
	require.NoError(t, json.Unmarshal(b, &golden))
	for name, build := range cases {
		m := build(&builder{})
		raw, err := m.Write()
		require.NoError(t, err, name)
		in := &m.Subgraphs[0].Tensors[m.Subgraphs[0].Inputs[0]]
		x := tensor.FromF32(numbers(tensor.Count(in.Shape), 7), in.Shape...)
		if dir := os.Getenv("QWB_LIFT_OUT"); dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".tflite"), raw, 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".raw"), packed(x.F32()), 0o644))
			continue
		}
		read, err := tflite.Read(raw)
		require.NoError(t, err)
		g, _, err := lift.Graph(read)
		require.NoError(t, err, name)
		require.Empty(t, graph.InferShapes(g), name)
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err, name)
		feed := g.Value(g.Inputs[0])
		out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{feed.Name: inOrder(t, x, feed.Shape)}, nil)
		require.NoError(t, err, name)
		require.Len(t, out, len(golden[name]), name)
		for i, y := range out {
			want := tensor.FromF32(golden[name][i], m.Subgraphs[0].Tensors[m.Subgraphs[0].Outputs[i]].Shape...)
			want = inOrder(t, want, graph.Static(y.Shape...))
			for k, v := range y.F32() {
				require.InDelta(t, want.F32()[k], v, 2e-6*max(1, math.Abs(float64(v))), "%s, output %d, element %d", name, i, k)
			}
		}
	}
}

// inOrder brings a tensor of the file to the shape that the graph has for it.
func inOrder(t *testing.T, x *tensor.Tensor, shape graph.Shape) *tensor.Tensor {
	t.Helper()
	want, ok := shape.Ints()
	require.True(t, ok)
	if assert.ObjectsAreEqual(want, x.Shape) {
		return x
	}
	require.Len(t, x.Shape, 4)
	turned := &tensor.Tensor{DType: x.DType, Layout: tensor.ChannelsLast, Shape: []int{x.Shape[0], x.Shape[3], x.Shape[1], x.Shape[2]},
		Data: x.Data}
	require.Equal(t, want, turned.Shape)
	return turned.ToRowMajor()
}

// TestCarried: an operator without a form in ONNX is a node of domain tflite with the types and shapes of the file, and a warning.
func TestCarried(t *testing.T) {
	b := &builder{}
	x := b.input(1, 2, 2, 3)
	y := b.op("MAX_POOL_2D", "Pool2D", options{"padding": tflite.Valid, "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1},
		[]int{1, 2, 2, 3}, x)
	z := b.op("ONE_HOT", "OneHot", options{"axis": 1}, []int{1, 2, 2, 3}, y, b.ints(3))
	b.s.Operators[1].Unread = ""
	m := b.model(z)
	m.Subgraphs[0].Operators = append(m.Subgraphs[0].Operators, tflite.Operator{Op: "CUSTOM", Custom: "Mine", Version: 1, Inputs: []int{z, -1},
		Outputs: []int{y}, CustomOptions: []byte{1, 2}})
	m.Subgraphs[0].Operators = m.Subgraphs[0].Operators[:2]
	g, warnings, err := lift.Graph(m)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[1].Text, "ONE_HOT has no form in ONNX")
	id, ok := g.LookupNode("t3/ONE_HOT")
	require.True(t, ok)
	n := g.Node(id)
	require.Equal(t, lift.Domain, n.Domain)
	require.EqualValues(t, 1, n.Attr("axis").I)
	require.Equal(t, "[1,2,2,3]", g.Value(n.Outputs[0]).Shape.String())
	require.Equal(t, tensor.Float32, g.Value(n.Outputs[0]).DType)

	b = &builder{}
	x = b.input(3)
	y = b.add(tflite.Tensor{Shape: []int{3}})
	b.s.Operators = []tflite.Operator{{Op: "CUSTOM", Custom: "Mine", Inputs: []int{x, -1}, Outputs: []int{y}, CustomOptions: []byte{1, 2}}}
	g, _, err = lift.Graph(b.model(y))
	require.NoError(t, err)
	n = g.Node(g.Nodes()[0])
	require.Equal(t, "Mine", n.Op)
	require.Equal(t, "\x01\x02", n.Attr("custom_options").S)
	require.Equal(t, graph.NoValue, n.Inputs[1])
}

// TestCustomOperatorsThatAreStandard: MediaPipe's transposed convolution is the graph of TRANSPOSE_CONV; with other options it is carried.
func TestCustomOperatorsThatAreStandard(t *testing.T) {
	of := func(custom []byte) (*graph.Graph, []graph.Warning) {
		b := &builder{}
		x, w, bias := b.input(1, 3, 4, 2), b.floats(3, 3, 3, 2), b.floats(3)
		y := b.op("TRANSPOSE_CONV", "TransposeConv", options{"padding": tflite.Same, "stride_w": 2, "stride_h": 1}, []int{1, 3, 8, 3},
			w, w, x, bias)
		if custom != nil {
			b.s.Operators[0] = tflite.Operator{Op: "CUSTOM", Custom: "Convolution2DTransposeBias", Inputs: []int{x, w, bias}, Outputs: []int{y},
				CustomOptions: custom}
		}
		g, warnings, err := lift.Graph(b.model(y))
		require.NoError(t, err)
		return g, warnings
	}
	want, _ := of(nil)
	got, _ := of([]byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0})
	require.Equal(t, graph.Format(want), graph.Format(got))
	for _, options := range [][]byte{{}, {1, 0, 0, 0, 2, 0, 0, 0}, {7, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0}} {
		_, warnings := of(options)
		require.Contains(t, warnings[len(warnings)-1].Text, "Convolution2DTransposeBias has no form in ONNX")
	}
}

// TestRefusals: what cannot be a graph is an error that names the operator and what is wrong with it.
func TestRefusals(t *testing.T) {
	conv := func(in ...int) *tflite.Model {
		b := &builder{}
		x := b.input(1, 4, 4, 3)
		w := b.floats(2, 3, 3, 2)
		for i := range in {
			in[i] = []int{-1, x, w}[in[i]+1]
		}
		return b.model(b.op("CONV_2D", "Conv2D", options{"stride_w": 1, "stride_h": 1}, []int{1, 4, 4, 2}, in...))
	}
	with := func(change func(b *builder, x int)) *tflite.Model {
		b := &builder{}
		x := b.input(1, 4)
		change(b, x)
		return b.model(x)
	}
	scaled := func(scale float32, zero int) *tflite.Model {
		return with(func(b *builder, x int) {
			y := &b.s.Tensors[b.op("NEG", "", nil, []int{1, 4}, x)]
			y.Type, y.Quantization = tflite.Int8, &tflite.Quantization{Scale: []float32{scale}, ZeroPoint: []int{zero}}
		})
	}
	for want, m := range map[string]*tflite.Model{
		"no subgraph":                                       {},
		"operator 0 CONV_2D: input 1 is missing":            conv(0),
		"operator 0 CONV_2D: 3 channels for a filter of 2":  conv(0, 1),
		`tensor "t1" has sparsity, which qwb does not read`: with(func(b *builder, _ int) { b.add(tflite.Tensor{Unread: "sparsity"}) }),
		`tensor "t2" is read before it is computed`: with(func(b *builder, x int) {
			b.op("NEG", "", nil, []int{1, 4}, b.add(tflite.Tensor{Shape: []int{1, 4}})+1)
		}),
		`a scale on float32`: with(func(b *builder, x int) {
			b.s.Tensors[b.op("NEG", "", nil, []int{1, 4}, x)].Quantization = &tflite.Quantization{Scale: []float32{1}}
		}),
		"axis 2 of 2":                     with(func(b *builder, x int) { b.op("MEAN", "Reducer", nil, []int{1}, x, b.ints(2)) }),
		"2 numbers of padding for 2 axes": with(func(b *builder, x int) { b.op("PAD", "", nil, []int{1, 4}, x, b.ints(1, 2)) }),
		`tensor "t1": zero point 300 is outside of int8, -128 to 127`: scaled(1, 300),
		`tensor "t1": scale 0 is not a positive number`:               scaled(0, 0),
		`tensor "t1": scale -1 is not a positive number`:              scaled(-1, 0),
		`tensor "t1": scale NaN is not a positive number`:             scaled(float32(math.NaN()), 0),
		`tensor "t1": scale +Inf is not a positive number`:            scaled(float32(math.Inf(1)), 0),
		"4 numbers for rows of 3": with(func(b *builder, x int) {
			b.op("FULLY_CONNECTED", "FullyConnected", nil, []int{1, 2}, x, b.floats(2, 3))
		}),
	} {
		_, _, err := lift.Graph(m)
		assert.ErrorContains(t, err, want)
	}
}

// odd is a pool whose tensors have one scale, and an axis of scales that is none of theirs.
func odd() *tflite.Model {
	b := &builder{}
	x := b.input(1, 4, 4, 1)
	y := b.op("MAX_POOL_2D", "Pool2D", options{"padding": tflite.Same, "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2},
		[]int{1, 4, 4, 1}, x)
	for i := range b.s.Tensors {
		b.s.Tensors[i].Type, b.s.Tensors[i].Quantization = tflite.Int8, &tflite.Quantization{Scale: []float32{0.5}, ZeroPoint: []int{3}, Axis: 9}
	}
	return b.model(y)
}

// TestAxisOfOneScale: an axis says nothing of a single scale, whatever it is.
func TestAxisOfOneScale(t *testing.T) {
	for _, at := range []int{9, -9, 3} {
		m := odd()
		m.Subgraphs[0].Tensors[1].Quantization.Axis = at
		g, _, err := lift.Graph(m)
		require.NoError(t, err)
		require.Empty(t, graph.InferShapes(g))
	}
}

// TestReducesNothing: an empty list of axes, which has no data in a file, reduces nothing.
func TestReducesNothing(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := &builder{}
		x := b.input(2, 3)
		axes := b.add(tflite.Tensor{Type: tflite.Int32, Shape: []int{0}})
		raw, err := b.model(b.op("MEAN", "Reducer", options{"keep_dims": keep}, []int{2, 3}, x, axes)).Write()
		require.NoError(t, err)
		m, err := tflite.Read(raw)
		require.NoError(t, err)
		g, warnings, err := lift.Graph(m)
		require.NoError(t, err)
		require.Empty(t, warnings)
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err)
		in := tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
		out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"t0": in}, nil)
		require.NoError(t, err)
		require.Equal(t, in.F32(), out[0].F32())
		require.Equal(t, in.Shape, out[0].Shape)
	}
}

// TestModelIsKept: lifting leaves the model as it is.
func TestModelIsKept(t *testing.T) {
	half := func(b *builder) *tflite.Model { // half-precision weights are widened where they are read
		x := b.input(1, 2, 2)
		w := b.op("DEQUANTIZE", "", nil, []int{3, 2}, b.add(tflite.Tensor{Type: tflite.Float16, Shape: []int{3, 2}, Data: make([]byte, 12)}))
		return b.model(b.op("FULLY_CONNECTED", "FullyConnected", options{"keep_num_dims": true}, []int{1, 2, 3}, x, w))
	}
	for _, build := range append(slices.Collect(maps.Values(cases)), half) {
		m, same := build(&builder{}), build(&builder{})
		_, _, err := lift.Graph(m)
		require.NoError(t, err)
		require.Equal(t, same, m)
	}
}

// TestSharedBuffer: tensors that share a buffer are not decoded without end.
func TestSharedBuffer(t *testing.T) {
	b := &builder{}
	x := b.input(1, 1<<16)
	data := make([]byte, 4<<16)
	for range 100 {
		x = b.op("ADD", "Add", nil, []int{1, 1 << 16}, x, b.add(tflite.Tensor{Shape: []int{1, 1 << 16}, Data: data}))
	}
	_, _, err := lift.Graph(b.model(x))
	require.ErrorContains(t, err, "constants that share their buffers are much larger")
}

// FuzzGraph: whatever a file holds, lifting it ends, with a graph or an error.
func FuzzGraph(f *testing.F) {
	for _, build := range cases {
		raw, err := build(&builder{}).Write()
		require.NoError(f, err)
		f.Add(raw)
	}
	raw, err := odd().Write()
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := tflite.Read(raw)
		if err != nil {
			return
		}
		g, _, err := lift.Graph(m)
		if err == nil {
			graph.InferShapes(g)
		}
	})
}
