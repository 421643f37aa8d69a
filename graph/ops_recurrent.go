package graph

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph/tensor"
)

var errUnknownRank = errors.New("a rank is not known")

var recurrentSockets = []Socket{SocketData, SocketData, SocketData, SocketData, SocketIndex, SocketFloat}

var recurrentOps = []OpSpec{
	recurrent("LSTM", "long short-term memory", 4),
	recurrent("GRU", "gated recurrent unit", 3),
	recurrent("RNN", "simple recurrent network", 1),
	microsoft(OpSpec{Name: "DynamicQuantizeLSTM", Doc: "LSTM of x, quantized by its range, and integers", Since: 1,
		Kind: KindComputing, MinIn: 3, In: recurrentSockets, Infer: inferDynamicLSTM, MACs: dynamicLSTMMACs}),
	{Name: "HybridLSTM", Domain: OwnDomain, Doc: "LSTM of rows of x, quantized by their ranges, and integers", Since: 1,
		Kind: KindComputing, MinIn: 3, In: recurrentSockets, Infer: inferHybridLSTM, MACs: dynamicLSTMMACs},
	{Name: "IntegerLSTM", Domain: OwnDomain, Doc: "LSTM of integers: int8 data and state, int16 cells", Since: 1,
		Kind: KindComputing, MinIn: 4, In: recurrentSockets, Infer: inferIntegerLSTM,
		MACs: func(c *InferCtx) Shape { return recurrentMACs(c, 4) }},
}

// RowCodes is the attribute of Conv, Gemm, MatMul and LSTM of a .tflite file whose data are real numbers and whose weights are integers:
// codes of 8 bits are made of the data, with a scale for each row. It is RowsSymmetric, RowsAsymmetric where rows have zero points too, or,
// of Conv, ImageAsymmetric: one scale and zero point for all of an image.
const (
	RowCodes                                       = "qwb_row_codes"
	RowsSymmetric, RowsAsymmetric, ImageAsymmetric = 1, 2, 3
)

// OwnDomain is that of operators of integer programs that no domain of ONNX has. HybridLSTM has the inputs of DynamicQuantizeLSTM, and
// a fourth output: the codes of the data. IntegerLSTM has inputs and outputs of LSTM as codes, biases of both halves in one, int32
// [directions, 4*units], and grids as attributes: see exec.
const OwnDomain = "qwb"

// CellScale is the step of the state of the cells of an LSTM of integers: Q5.10, of the formats from Q0.15 to Q6.9 that TensorFlow Lite's
// kernel takes. Cells may count: those of silero_vad reach 29. It is an eighth of a step of the results, and Tanh is 1 to its last bit
// from 6 on.
const CellScale = 1.0 / 1024

// Inputs of DynamicQuantizeLSTM that LSTM does not have: the scales of W and of R, each with the zero points behind it.
const (
	WeightScaleInput     = 8
	RecurrenceScaleInput = 10
	DynamicLSTMInputs    = 12
)

// IsRecurrent reports whether a node is LSTM, GRU or RNN of ai.onnx.
func IsRecurrent(n *Node) bool { return n.Spec() != nil && n.Spec().Kind == KindRecurrent }

// BiasOf is the input of a node that holds a bias, where the operator has one: 3 of LSTM, GRU and RNN, else BiasInput.
func BiasOf(n *Node) int {
	if IsRecurrent(n) {
		return 3
	}
	return BiasInput
}

func recurrent(name, doc string, gates int64) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: 1, Kind: KindRecurrent, MinIn: 3, In: recurrentSockets,
		Infer: func(c *InferCtx) error { return inferRecurrent(c, gates) },
		MACs:  func(c *InferCtx) Shape { return recurrentMACs(c, gates) }}
}

// recurrentDims are the sizes of a recurrent operator: steps, batch, features, directions and units.
type recurrentDims struct{ seq, batch, in, dirs, hidden Dim }

// recurrentSizes reads X [seq,batch,in], or [batch,seq,in] with layout 1, W [dirs,gates*hidden,in] and R
// [dirs,gates*hidden,hidden].
func recurrentSizes(c *InferCtx, gates int64) (d recurrentDims, err error) {
	x, w, r := c.Shape(0), c.Shape(1), c.Shape(2)
	for i, s := range []Shape{x, w, r} {
		if s != nil && len(s) != 3 {
			return d, fmt.Errorf("input %d has shape %s, not rank 3", i, s)
		}
	}
	d = recurrentDims{unknownDim, unknownDim, unknownDim, Dim{N: 1}, unknownDim}
	if c.Node.AttrStr("direction", "forward") == "bidirectional" {
		d.dirs.N = 2
	}
	if x != nil {
		d.seq, d.batch, d.in = x[0], x[1], x[2]
		if c.Node.AttrInt("layout", 0) != 0 {
			d.seq, d.batch = d.batch, d.seq
		}
	}
	if h := c.Node.AttrInt("hidden_size", -1); h >= 0 {
		d.hidden = Dim{N: h}
	} else if r != nil {
		d.hidden = r[2]
	}
	for i, s := range []Shape{w, r} {
		if s == nil {
			continue
		}
		inner := []Dim{d.in, d.hidden}[i]
		_, ok0 := mergeDim(s[0], d.dirs)
		_, ok1 := mergeDim(s[1], mulElems(d.hidden.elem(), known(gates)).dim())
		_, ok2 := mergeDim(s[2], inner)
		if !ok0 || !ok1 || !ok2 {
			return d, fmt.Errorf("input %d has shape %s for input %s, %d directions and %s units", i+1, s, x, d.dirs.N, Shape{d.hidden})
		}
	}
	return d, nil
}

func inferRecurrent(c *InferCtx, gates int64) error {
	d, err := recurrentSizes(c, gates)
	if err != nil {
		return err
	}
	y, last := Shape{d.seq, d.dirs, d.batch, d.hidden}, Shape{d.dirs, d.batch, d.hidden}
	if c.Node.AttrInt("layout", 0) != 0 {
		y, last = Shape{d.batch, d.seq, d.dirs, d.hidden}, Shape{d.batch, d.dirs, d.hidden}
	}
	c.SetOut(0, c.DType(0), y)
	c.SetOut(1, c.DType(0), last)
	c.SetOut(2, c.DType(0), last)
	return nil
}

func recurrentMACs(c *InferCtx, gates int64) Shape {
	d, err := recurrentSizes(c, gates)
	if err != nil {
		return nil
	}
	return d.macs(gates)
}

// macs are the multiply-accumulates of all gates: of data and state.
func (d *recurrentDims) macs(gates int64) Shape {
	return Shape{d.seq, d.batch, d.dirs, {N: gates}, d.hidden, addElems(d.in.elem(), d.hidden.elem()).dim()}
}

// dynamicLSTMSizes are those of an LSTM whose weights lie the other way: W [dirs,in,4*hidden] and R [dirs,hidden,4*hidden].
func dynamicLSTMSizes(c *InferCtx) (d recurrentDims, err error) {
	x, w, r := c.Shape(0), c.Shape(1), c.Shape(2)
	for i, s := range []Shape{x, w, r} {
		if s == nil {
			return d, errUnknownRank
		}
		if len(s) != 3 {
			return d, fmt.Errorf("input %d has shape %s, not rank 3", i, s)
		}
	}
	d = recurrentDims{x[0], x[1], x[2], r[0], r[1]}
	for i, s := range []Shape{w, r} {
		inner := []Dim{d.in, d.hidden}[i]
		_, ok0 := mergeDim(s[0], d.dirs)
		_, ok1 := mergeDim(s[1], inner)
		_, ok2 := mergeDim(s[2], mulElems(d.hidden.elem(), known(4)).dim())
		if !ok0 || !ok1 || !ok2 {
			return d, fmt.Errorf("input %d has shape %s for input %s, %s directions and %s units", i+1, s, x, Shape{d.dirs}, Shape{d.hidden})
		}
	}
	return d, nil
}

func inferDynamicLSTM(c *InferCtx) error {
	for i := WeightScaleInput; i < DynamicLSTMInputs; i++ { // scales and zero points, behind what may be absent
		if !c.Has(i) {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	d, err := dynamicLSTMSizes(c)
	if err != nil && err != errUnknownRank {
		return err
	}
	y, last := Shape{d.seq, d.dirs, d.batch, d.hidden}, Shape{d.dirs, d.batch, d.hidden}
	if err != nil {
		y, last = nil, nil
	}
	c.SetOut(0, c.DType(0), y)
	c.SetOut(1, c.DType(0), last)
	c.SetOut(2, c.DType(0), last)
	return nil
}

func inferHybridLSTM(c *InferCtx) error {
	c.SetOut(3, tensor.Int8, c.Shape(0))
	return inferDynamicLSTM(c)
}

func inferIntegerLSTM(c *InferCtx) error {
	if err := inferRecurrent(c, 4); err != nil {
		return err
	}
	for i, d := range []tensor.DType{tensor.Int8, tensor.Int8, tensor.Int16} {
		c.SetOut(i, d, c.Out(i))
	}
	return nil
}

func dynamicLSTMMACs(c *InferCtx) Shape {
	d, err := dynamicLSTMSizes(c)
	if err != nil {
		return nil
	}
	return d.macs(4)
}

// UsualCells reports whether an LSTM has the functions that it has unless told otherwise (Sigmoid, Tanh and Tanh), no clip, and no coupled
// gates.
func UsualCells(n *Node) bool {
	names := n.Attr("activations")
	return n.AttrFloat("clip", 0) == 0 && n.AttrInt("input_forget", 0) == 0 && (names == nil ||
		slices.Equal(names.Strings, slices.Repeat([]string{"Sigmoid", "Tanh", "Tanh"}, len(names.Strings)/3)))
}
