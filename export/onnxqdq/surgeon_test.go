package onnxqdq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

// surgeon changes an exported graph by names.
type surgeon struct {
	testing.TB
	*graph.Graph
}

func (s surgeon) value(name string) graph.ValueID {
	v, ok := s.Lookup(name)
	require.True(s, ok, "no value %q in\n%s", name, graph.FormatShort(s.Graph, 4))
	return v
}

func (s surgeon) node(name string) *graph.Node {
	id, ok := s.LookupNode(name)
	require.True(s, ok, "no node %q", name)
	return s.Node(id)
}

// set makes input i of a node a new constant.
func (s surgeon) set(node string, i int, t *tensor.Tensor) {
	s.SetInput(s.node(node).ID, i, s.AddConst("planted", t))
}

// read makes input i of a node read another value.
func (s surgeon) read(node string, i int, value string) {
	s.SetInput(s.node(node).ID, i, s.value(value))
}

// around puts Q and DQ with new parameters, or nodes of another kind, between a value and one of its readers.
func (s surgeon) around(node string, i int, scale float32, zero *tensor.Tensor) {
	v := s.node(node).Inputs[i]
	params := []graph.ValueID{s.AddConst("planted", tensor.FromF32([]float32{scale})), s.AddConst("planted", zero)}
	q, err := s.AddValue(graph.Value{Name: s.FreshName("planted"), DType: zero.DType, Shape: s.Value(v).Shape})
	require.NoError(s, err)
	dq, err := s.AddValue(graph.Value{Name: s.FreshName("planted"), DType: tensor.Float32, Shape: s.Value(v).Shape})
	require.NoError(s, err)
	_, err = s.AddNode(graph.Node{Op: "QuantizeLinear", Inputs: []graph.ValueID{v, params[0], params[1]}, Outputs: []graph.ValueID{q}})
	require.NoError(s, err)
	_, err = s.AddNode(graph.Node{Op: "DequantizeLinear", Inputs: []graph.ValueID{q, params[0], params[1]}, Outputs: []graph.ValueID{dq}})
	require.NoError(s, err)
	s.SetInput(s.node(node).ID, i, dq)
}

// planted adds a node that nobody reads. Inputs are names of values, or of constants that are made: scales, k, half.
func (s surgeon) planted(op string, attrs []graph.Attr, inputs ...string) {
	consts := map[string]*tensor.Tensor{"scales": f32(1, 1, 2, 2), "k": tensor.FromI64([]int64{1}, 1), "half": tensor.New(tensor.Float16, 1),
		"brain": tensor.New(tensor.BFloat16, 1)}
	var in []graph.ValueID
	for _, name := range inputs {
		switch c := consts[name]; {
		case name == "":
			in = append(in, graph.NoValue)
		case c != nil:
			in = append(in, s.AddConst(name, c))
		default:
			in = append(in, s.value(name))
		}
	}
	out := graph.Value{Name: s.FreshName("planted"), DType: tensor.Float32}
	for _, a := range attrs {
		if a.Name == "to" {
			out.DType = tensor.DType(a.I)
		}
	}
	v, err := s.AddValue(out)
	require.NoError(s, err)
	_, err = s.AddNode(graph.Node{Name: "planted", Op: op, Attrs: attrs, Inputs: in, Outputs: []graph.ValueID{v}})
	require.NoError(s, err)
}

// params gives a Q, its DQ, or both, other parameters.
func (s surgeon) params(scale, zero *tensor.Tensor, nodes ...string) {
	for _, n := range nodes {
		if scale != nil {
			s.set(n, 1, scale)
		}
		if zero != nil {
			s.set(n, 2, zero)
		}
	}
}

func scalar[T any](d tensor.DType, x T, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	for i := range tensor.Of[T](t) {
		tensor.Of[T](t)[i] = x
	}
	return t
}

func f32(x ...float32) *tensor.Tensor { return tensor.FromF32(x, len(x)) }

const (
	xQ, xDQ   = "x_QuantizeLinear_node", "x_DequantizeLinear_node"
	rQ, rDQ   = "r_QuantizeLinear_node", "r_DequantizeLinear_node"
	pQ, pDQ   = "p_QuantizeLinear_node", "p_DequantizeLinear_node"
	yQ, yDQ   = "y_QuantizeLinear_node", "y_DequantizeLinear_node"
	w1Q, w1DQ = "w1_QuantizeLinear_node", "w1_DequantizeLinear_node"
	b1DQ      = "b1_DequantizeLinear_node"
)
