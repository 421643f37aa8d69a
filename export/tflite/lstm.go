package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
)

// Gates and peepholes as the file has them (input, forget, cell, output), as places in ONNX: input, output, forget, cell.
var (
	fileGates = []int{0, 2, 3, 1}
	filePeeps = []int{0, 2, 1}
)

// cells is an LSTM: an operator for each direction. Its states are variables, which a run leaves to the next. So they are written in front
// of it, by UNPACK of the initial states or of zeros, and read behind it, by PACK, operators that delegates leave alone and that compute
// nothing in place.
type cells struct {
	b                          *builder
	name                       string
	time, steps, batch, hidden int // time is the axis of the steps
	dirs                       int
	major                      bool
	in                         []*value
	states                     [2][]int // tensors of H and C by direction
}

// lstm writes an LSTM in float.
func (b *builder) lstm(n *graph.Node, in, out []*value) error {
	c, err := cellsOf(b, n, in)
	if err != nil {
		return err
	}
	for i := range c.states {
		b.initial(c, i)
	}
	x, perm := b.read(in[0], identity(3)), identity(3)
	var rows []int
	for d := range c.dirs {
		from, reverse := x, d == 1 || n.AttrStr("direction", "forward") == "reverse"
		if reverse {
			from = b.temporary(in[0], "reversed", permuted(in[0].shape, perm), nil)
			b.op("REVERSE_V2", []int{x, b.list("axis", []int{c.time})}, []int{from})
		}
		ids := slices.Repeat([]int{-1}, 24)
		ids[0] = from
		c.weights(d, ids)
		shape := slices.Clone(in[0].shape)
		shape[2] = c.hidden
		y := b.tensor(tf.Tensor{Name: c.name + "/steps", Type: tf.Float32, Shape: shape})
		b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ids, []int{y}, "fused_activation_function", tf.Tanh, "time_major", c.major)
		if reverse {
			turned := b.tensor(tf.Tensor{Name: c.name + "/turned", Type: tf.Float32, Shape: shape})
			b.op("REVERSE_V2", []int{y, b.list("axis", []int{c.time})}, []int{turned})
			y = turned
		}
		rows = append(rows, y)
	}
	axis := 1 + c.time // of the directions in Y: behind the steps, or behind samples and steps
	for i, y := range out {
		if i > 0 {
			rows, axis = c.states[i-1], c.time
		}
		if y != nil {
			b.op("PACK", rows, []int{b.make(y, identity(len(y.shape)))}, "values_count", c.dirs, "axis", axis)
		}
	}
	return nil
}

// cellsOf refuses what the operator of the file cannot do.
func cellsOf(b *builder, n *graph.Node, in []*value) (*cells, error) {
	at := func(i int) *value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	for _, i := range []int{1, 2, 3, 7} {
		if v := at(i); v != nil && v.konst == nil {
			return nil, errors.New("its weights are computed")
		}
	}
	if names := n.Attr("activations"); n.AttrFloat("clip", 0) != 0 || n.AttrInt("input_forget", 0) != 0 || names != nil &&
		!slices.Equal(names.Strings, slices.Repeat([]string{"Sigmoid", "Tanh", "Tanh"}, len(names.Strings)/3)) {
		return nil, errors.New("clip, coupled gates or activations: UNIDIRECTIONAL_SEQUENCE_LSTM has Sigmoid, Tanh and Tanh alone")
	}
	c := &cells{b: b, name: n.Name, time: int(n.AttrInt("layout", 0)), dirs: in[2].shape[0], hidden: in[2].shape[2], in: in}
	c.major, c.steps, c.batch = c.time == 0, in[0].shape[c.time], in[0].shape[1-c.time]
	if lens := at(4); lens != nil {
		if lens.konst == nil || slices.ContainsFunc(lens.konst.ToRowMajor().Integers(), func(l int32) bool { return int(l) != c.steps }) {
			return nil, errors.New("lengths of its sequences: UNIDIRECTIONAL_SEQUENCE_LSTM takes all steps of all samples")
		}
	}
	return c, nil
}

// initial writes state i of all directions, H or C.
func (b *builder) initial(c *cells, i int) {
	shape := []int{c.dirs, c.batch, c.hidden}
	if !c.major {
		shape = []int{c.batch, c.dirs, c.hidden}
	}
	var v *value
	if 5+i < len(c.in) {
		v = c.in[5+i]
	}
	if v == nil {
		v = b.reals(c.name+"/zeros", tensor.New(tensor.Float32, shape...))
	}
	for range c.dirs {
		c.states[i] = append(c.states[i], b.tensor(tf.Tensor{Name: c.name + "/" + []string{"hidden", "cell"}[i], Type: tf.Float32,
			Shape: []int{c.batch, c.hidden}, Variable: true}))
	}
	b.op("UNPACK", []int{b.read(v, identity(3))}, slices.Clone(c.states[i]), "num", c.dirs, "axis", c.time)
}

// weights fills in the inputs of a direction but the data.
func (c *cells) weights(d int, ids []int) {
	part := func(v *value, rows, at, inner int) []float32 {
		return v.konst.ToRowMajor().F32()[(d*rows+at*c.hidden)*inner:][:c.hidden*inner]
	}
	add := func(what string, x []float32, shape ...int) int {
		data, _ := binary.Append(nil, binary.LittleEndian, x)
		return c.b.tensor(tf.Tensor{Name: c.name + "/" + what, Type: tf.Float32, Shape: shape, Data: data})
	}
	features := c.in[1].shape[2]
	for k, g := range fileGates {
		ids[1+k] = add(fmt.Sprintf("W%d", k), part(c.in[1], 4*c.hidden, g, features), c.hidden, features)
		ids[5+k] = add(fmt.Sprintf("R%d", k), part(c.in[2], 4*c.hidden, g, c.hidden), c.hidden, c.hidden)
		bias := make([]float32, c.hidden)
		if len(c.in) > 3 && c.in[3] != nil {
			own, more := part(c.in[3], 8*c.hidden, g, 1), part(c.in[3], 8*c.hidden, 4+g, 1)
			for j := range bias {
				bias[j] = own[j] + more[j]
			}
		}
		ids[12+k] = add(fmt.Sprintf("B%d", k), bias, c.hidden)
	}
	if len(c.in) > 7 && c.in[7] != nil {
		for k, g := range filePeeps {
			ids[9+k] = add(fmt.Sprintf("P%d", k), part(c.in[7], 3*c.hidden, g, 1), c.hidden)
		}
	}
	ids[18], ids[19] = c.states[0][d], c.states[1][d]
}

// dependencies are the metadata that hold operators to the order in which they read variables: delegates see tensors that are computed
// alone. The form is that of TensorFlow Lite's metadata_util: numbers of 7 bits a byte, signed ones with the sign last.
func (b *builder) dependencies() []byte {
	var edges []byte
	count, owner := 0, map[int]int{} // the operator that leaves a variable
	for i := range b.sub.Operators {
		o := &b.sub.Operators[i]
		for _, t := range o.Inputs {
			if t < 0 || !b.sub.Tensors[t].Variable {
				continue
			}
			if o.Op == "UNIDIRECTIONAL_SEQUENCE_LSTM" {
				owner[t] = i
				continue
			}
			count++
			edges = binary.AppendVarint(binary.AppendVarint(edges, int64(owner[t])), int64(i))
		}
	}
	if count == 0 {
		return nil
	}
	return append(binary.AppendUvarint([]byte{1, 1}, uint64(count)), edges...) // version 1, one subgraph
}
