package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
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
	in                         []*value     // of LSTM
	states                     [2][]int     // tensors of H and C by direction
	scale                      [3][]float32 // of W and R, where they are integers
	grids                      []*lower.Encoding
}

// grid is that of the data, of H or of C, by the input of the node that holds it first (0, 5, 6); nil where they are real.
func (c *cells) grid(i int) *lower.Encoding {
	if c.grids == nil {
		return nil
	}
	return c.grids[max(0, i-4)]
}

// intermediate adds a tensor that the last operator has, and nobody reads.
func (b *builder) intermediate(t tf.Tensor) {
	o := &b.sub.Operators[len(b.sub.Operators)-1]
	o.Intermediates = append(o.Intermediates, b.tensor(t))
}

// tensorOf is a tensor of numbers of a grid.
func tensorOf(name string, e *lower.Encoding, shape []int) tf.Tensor {
	t := tf.Tensor{Name: name, Type: tf.Float32, Shape: shape, Quantization: quantization(e)}
	if e != nil {
		t.Type = types[e.DType()]
	}
	return t
}

// lstm writes an LSTM; scale are those of W and R where they are integers, grids those of data, H and C.
func (b *builder) lstm(n *graph.Node, in, out []*value, scale [3][]float32, grids ...*lower.Encoding) error {
	c, err := cellsOf(b, n, in)
	if err != nil {
		return err
	}
	c.scale, c.grids = scale, grids
	for i := range c.states {
		b.initial(c, i)
	}
	x, perm := b.read(in[0], identity(3)), identity(3)
	var rows []int
	for d := range c.dirs {
		from, reverse := x, d == 1 || n.AttrStr("direction", "forward") == "reverse"
		if reverse {
			from = b.temporary(in[0], "reversed", permuted(in[0].shape, perm), in[0].enc)
			b.op("REVERSE_V2", []int{x, b.list("axis", []int{c.time})}, []int{from})
		}
		ids := slices.Repeat([]int{-1}, 24)
		ids[0] = from
		c.weights(d, ids)
		shape := slices.Clone(in[0].shape)
		shape[2] = c.hidden
		y := b.tensor(tensorOf(c.name+"/steps", c.grid(5), shape))
		b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ids, []int{y}, "fused_activation_function", tf.Tanh, "time_major", c.major)
		if e := c.grid(5); e != nil { // gates in Q3.12, and the results before a projection
			for k := range fileGates {
				b.intermediate(tensorOf(fmt.Sprintf("%s/gate%d", c.name, k), &lower.Encoding{Scale: 1.0 / 4096, QMin: -32768, QMax: 32767}, nil))
			}
			b.intermediate(tensorOf(c.name+"/result", e, nil))
		}
		if reverse {
			turned := b.tensor(tensorOf(c.name+"/turned", c.grid(5), shape))
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
	if !graph.UsualCells(n) {
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
		if e := c.grid(5 + i); e != nil {
			v.typ, v.enc = types[e.DType()], e
			v.konst = tensor.New(e.DType(), shape...).WithIntegers(slices.Repeat([]int32{e.ZeroPoint}, tensor.Count(shape)))
		}
	}
	for range c.dirs {
		t := tensorOf(c.name+"/"+[]string{"hidden", "cell"}[i], c.grid(5+i), []int{c.batch, c.hidden})
		t.Variable = true
		c.states[i] = append(c.states[i], b.tensor(t))
	}
	b.op("UNPACK", []int{b.read(v, identity(3))}, slices.Clone(c.states[i]), "num", c.dirs, "axis", c.time)
}

// weights fills in the inputs of a direction but the data.
func (c *cells) weights(d int, ids []int) {
	part := func(i, rows, at, inner int) []byte { // of input i, a gate of the direction
		v := c.in[i]
		data, size := c.b.permuteBytes(v.konst, v.shape, identity(len(v.shape))), v.konst.DType.Bits()/8
		return data[(d*rows+at)*c.hidden*inner*size:][:c.hidden*inner*size]
	}
	add := func(what string, k int, data []byte, scale []float32, shape ...int) int {
		t := tf.Tensor{Name: fmt.Sprintf("%s/%s%d", c.name, what, k), Type: tf.Float32, Shape: shape, Data: data}
		if scale != nil {
			t.Type, t.Quantization = tf.Int8, &tf.Quantization{Scale: scale[d%len(scale):][:1], ZeroPoint: []int{0}}
		}
		return c.b.tensor(t)
	}
	features := c.in[1].shape[2]
	for k, g := range fileGates {
		ids[1+k] = add("W", k, part(1, 4, g, features), c.scale[1], c.hidden, features)
		ids[5+k] = add("R", k, part(2, 4, g, c.hidden), c.scale[2], c.hidden, c.hidden)
		bias := make([]float32, c.hidden)
		if len(c.in) > 3 && c.in[3] != nil && c.grid(0) == nil {
			own := c.in[3].konst.ToRowMajor().F32()[d*8*c.hidden:]
			for j := range bias {
				bias[j] = own[g*c.hidden+j] + own[(4+g)*c.hidden+j]
			}
		}
		data, _ := binary.Append(nil, binary.LittleEndian, bias)
		if e := c.grid(0); e != nil {
			ids[12+k] = c.b.tensor(tf.Tensor{Name: fmt.Sprintf("%s/B%d", c.name, k), Type: tf.Int32, Shape: []int{c.hidden},
				Data: part(3, 4, g, 1), Quantization: &tf.Quantization{Scale: []float32{e.Scale * c.scale[1][0]}, ZeroPoint: []int{0}}})
			continue
		}
		ids[12+k] = add("B", k, data, nil, c.hidden)
	}
	if len(c.in) > 7 && c.in[7] != nil {
		for k, g := range filePeeps {
			ids[9+k] = add("P", k, part(7, 3, g, 1), nil, c.hidden)
		}
	}
	ids[18], ids[19] = c.states[0][d], c.states[1][d]
}

// hybrid writes an LSTM of float data and of weights of 8 bits.
func (b *builder) hybrid(s *lower.Step, op *lower.RunTime) error {
	g, n := op.Graph, cellsNode(op)
	if n == nil {
		return b.hybridProduct(s, op)
	}
	if n.Op == "IntegerLSTM" {
		return b.integer(s, g, n)
	}
	in, out := make([]*value, 8), make([]*value, 3)
	var scale [3][]float32
	for i, v := range n.Inputs[:8] {
		t := g.Const(v)
		switch {
		case v == graph.NoValue:
		case t == nil:
			x, err := b.input(s.Inputs[slices.Index(g.Inputs, v)])
			if err != nil {
				return err
			}
			in[i] = x
		case i == graph.WeightInput || i == graph.RecurrenceInput: // they lie turned
			shape := []int{t.Shape[0], t.Shape[2], t.Shape[1]}
			codes := tensor.New(tensor.Int8, shape...)
			for k, x := range b.permuteBytes(t, t.Shape, []int{0, 2, 1}) {
				tensor.Of[int8](codes)[k] = int8(x)
			}
			in[i] = &value{shape: shape, konst: codes}
			scale[i] = g.Const(n.Inputs[graph.WeightScaleInput+2*(i-1)]).ToRowMajor().F32()
		default:
			in[i] = b.reals(g.Value(v).Name, t)
		}
	}
	for i := range out {
		if k := slices.Index(g.Outputs, n.Outputs[i]); n.Outputs[i] != graph.NoValue && b.isRead(s.Outputs[k]) {
			var err error
			if out[i], err = b.valueOf(s.Outputs[k]); err != nil {
				return err
			}
		}
	}
	return b.lstm(n, in, out, scale)
}

// integer writes an LSTM of integers with scales of the plan.
func (b *builder) integer(s *lower.Step, g *graph.Graph, n *graph.Node) error {
	in, out := make([]*value, 8), make([]*value, 3)
	for i, v := range n.Inputs {
		if t := g.Const(v); t != nil {
			in[i] = &value{name: g.Value(v).Name, typ: types[t.DType], shape: t.Shape, konst: t, at: map[string]int{}}
		} else if v != graph.NoValue {
			x, err := b.input(s.Inputs[slices.Index(g.Inputs, v)])
			if err != nil {
				return err
			}
			in[i] = x
		}
	}
	grids := make([]*lower.Encoding, 3)
	data := *b.p.Tensors[s.Inputs[0]].Encoding
	grids[0] = &data
	grids[1] = &lower.Encoding{Scale: n.AttrFloat("h_scale", 0), ZeroPoint: int32(n.AttrInt("h_zero_point", 0)), QMin: data.QMin,
		QMax: data.QMax}
	grids[2] = &lower.Encoding{Scale: n.AttrFloat("c_scale", 0), QMin: -32768, QMax: 32767}
	for i := 5; i <= 6; i++ {
		if in[i] != nil {
			in[i].enc = grids[i-4]
		}
	}
	for i, v := range n.Outputs {
		if k := slices.Index(g.Outputs, v); v != graph.NoValue && b.isRead(s.Outputs[k]) {
			var err error
			if out[i], err = b.valueOf(s.Outputs[k]); err != nil {
				return err
			}
		}
	}
	return b.lstm(n, in, out, [3][]float32{1: n.Attr("w_scale").Floats, 2: n.Attr("r_scale").Floats}, grids...)
}

// isRead reports whether a step, or the user, reads a tensor.
func (b *builder) isRead(id lower.TensorID) bool {
	return slices.Contains(b.p.Outputs, id) || slices.ContainsFunc(b.p.Steps, func(s lower.Step) bool { return slices.Contains(s.Inputs, id) })
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
