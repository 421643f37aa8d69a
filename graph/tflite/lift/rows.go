package lift

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
)

// row says how an operator is lifted.
type row struct {
	// images: it reads its data with the channels first. follows: it computes in the order of its inputs.
	images, follows bool
	needs           int // inputs that must be there, 1 if not said
	lift            func(l *lifter) error
}

// errNoForm says that an operator has no form in ONNX as it is used here: it is carried as it is.
var errNoForm = errors.New("no form in ONNX")

// same is an operator that ONNX has too: inputs are broadcast and brought to one order, and an activation may be fused.
func same(op string) *row {
	return &row{follows: true, lift: func(l *lifter) error { return l.elementwise(op) }}
}

func image(needs int, f func(l *lifter) error) *row {
	return &row{images: true, needs: needs, lift: f}
}
func anyOrder(f func(l *lifter) error) *row { return &row{follows: true, lift: f} }
func asInFile(f func(l *lifter) error) *row { return &row{lift: f} }

func reduce(op string) *row {
	return asInFile(func(l *lifter) error { return l.reduce(op) })
}

// table is the operators by their builtin names.
func table() map[string]*row {
	return map[string]*row{
		"CONV_2D": image(2, (*lifter).conv), "DEPTHWISE_CONV_2D": image(2, (*lifter).depthwise),
		"TRANSPOSE_CONV":  image(3, (*lifter).transposeConv),
		"AVERAGE_POOL_2D": image(1, (*lifter).pool), "MAX_POOL_2D": image(1, (*lifter).pool),
		"RESIZE_BILINEAR": image(1, (*lifter).resize), "RESIZE_NEAREST_NEIGHBOR": image(1, (*lifter).resize),
		"DEPTH_TO_SPACE": image(1, (*lifter).blocks), "SPACE_TO_DEPTH": image(1, (*lifter).blocks),
		"FULLY_CONNECTED": asInFile((*lifter).fullyConnected), "BATCH_MATMUL": asInFile((*lifter).batchMatMul),

		"ADD": same("Add"), "SUB": same("Sub"), "MUL": same("Mul"), "DIV": same("Div"), "MAXIMUM": same("Max"), "MINIMUM": same("Min"),
		"POW":   same("Pow"),
		"PRELU": same("PRelu"), "ADD_N": same("Sum"), "EQUAL": same("Equal"), "GREATER": same("Greater"), "GREATER_EQUAL": same("GreaterOrEqual"),
		"LESS": same("Less"), "LESS_EQUAL": same("LessOrEqual"), "LOGICAL_AND": same("And"), "LOGICAL_OR": same("Or"), "LOGICAL_NOT": same("Not"),
		"SELECT_V2": same("Where"),
		"RELU":      same("Relu"), "LOGISTIC": same("Sigmoid"), "TANH": same("Tanh"), "HARD_SWISH": same("HardSwish"), "ELU": same("Elu"),
		"EXP": same("Exp"), "LOG": same("Log"), "SQRT": same("Sqrt"), "ABS": same("Abs"), "NEG": same("Neg"), "SIN": same("Sin"),
		"COS":   same("Cos"),
		"FLOOR": same("Floor"), "CEIL": same("Ceil"), "ROUND": same("Round"), "SIGN": same("Sign"),
		"QUANTIZE": same("Identity"), "DEQUANTIZE": anyOrder((*lifter).dequantize),
		"RELU6": anyOrder(clip(0, 6)), "RELU_N1_TO_1": anyOrder(clip(-1, 1)), "RELU_0_TO_1": anyOrder(clip(0, 1)),
		"LEAKY_RELU": anyOrder((*lifter).leaky), "GELU": anyOrder((*lifter).gelu), "RSQRT": anyOrder(composed("Sqrt", "Reciprocal")),
		"SQUARE": anyOrder((*lifter).square), "SQUARED_DIFFERENCE": anyOrder((*lifter).squaredDifference), "CAST": anyOrder((*lifter).cast),

		"SOFTMAX": anyOrder((*lifter).softmax), "LOG_SOFTMAX": anyOrder((*lifter).softmax), "L2_NORMALIZATION": anyOrder((*lifter).softmax),
		"CONCATENATION": anyOrder((*lifter).concat), "PAD": anyOrder((*lifter).pad), "PADV2": anyOrder((*lifter).pad),
		"MIRROR_PAD": anyOrder((*lifter).pad),
		"MEAN":       reduce("ReduceMean"), "SUM": reduce("ReduceSum"), "REDUCE_MAX": reduce("ReduceMax"), "REDUCE_MIN": reduce("ReduceMin"),
		"REDUCE_PROD": reduce("ReduceProd"),

		"RESHAPE": asInFile((*lifter).reshape), "SQUEEZE": asInFile((*lifter).reshape), "EXPAND_DIMS": asInFile((*lifter).reshape),
		"TRANSPOSE": asInFile((*lifter).transpose), "STRIDED_SLICE": asInFile((*lifter).stridedSlice), "SLICE": asInFile((*lifter).slice),
		"SPLIT": anyOrder((*lifter).split), "SPLIT_V": anyOrder((*lifter).split), "PACK": asInFile((*lifter).pack),
		"UNPACK":                       asInFile((*lifter).unpack),
		"UNIDIRECTIONAL_SEQUENCE_LSTM": asInFile((*lifter).lstm), "REVERSE_V2": asInFile((*lifter).reverse),
		"GATHER": asInFile((*lifter).gather), "ARG_MAX": asInFile((*lifter).argMax), "ARG_MIN": asInFile((*lifter).argMax),
		"TOPK_V2": asInFile((*lifter).topK), "CUMSUM": asInFile((*lifter).cumSum), "SHAPE": asInFile((*lifter).sizes),
		"DENSIFY":      anyOrder((*lifter).densify),
		"TILE":         asInFile(func(l *lifter) error { return l.repeated("Tile", "repeats") }),
		"BROADCAST_TO": asInFile(func(l *lifter) error { return l.repeated("Expand", "shape") }),
	}
}

// lift makes nodes of the operator. One without a form in ONNX is carried: its outputs keep the types and shapes of the file.
func (l *lifter) lift() error {
	r := l.rows[l.op.Op]
	err := errNoForm
	if len(l.op.Outputs) == 0 {
		return errors.New("no output")
	}
	if r != nil && l.op.Unread == "" {
		for i := range max(r.needs, 1) {
			if l.in(i) < 0 {
				return fmt.Errorf("input %d is missing", i)
			}
		}
		err = r.lift(l)
	}
	if errors.Is(err, errNoForm) {
		return l.carry()
	}
	return err
}

// carry adds a node that no other package knows, with its tensors as they are in the file.
func (l *lifter) carry() error {
	n := graph.Node{Op: l.name(), Domain: Domain}
	for _, id := range l.op.Inputs {
		v, err := l.read(id, plain)
		if err != nil {
			return err
		}
		n.Inputs = append(n.Inputs, v)
	}
	if fields, ok := tflite.Fields(l.op.OptionsType); ok {
		for _, field := range fields {
			f := field.Name
			switch x := l.op.Options[f].(type) {
			case int:
				n.Attrs = append(n.Attrs, graph.Int(f, int64(x)))
			case bool:
				v := int64(0)
				if x {
					v = 1
				}
				n.Attrs = append(n.Attrs, graph.Int(f, v))
			case float32:
				n.Attrs = append(n.Attrs, graph.Float(f, x))
			case string:
				n.Attrs = append(n.Attrs, graph.Str(f, x))
			}
		}
	}
	if len(l.op.CustomOptions) > 0 {
		n.Attrs = append(n.Attrs, graph.Str("custom_options", string(l.op.CustomOptions)))
	}
	values := make([]graph.ValueID, len(l.op.Outputs))
	for i, id := range l.op.Outputs {
		t := &l.s.Tensors[id]
		v, err := l.g.AddValue(graph.Value{Name: l.g.FreshName(t.Name), DType: l.dtype(t), Shape: graph.Static(t.Shape...)})
		if err != nil {
			return err
		}
		values[i] = v
	}
	n.Outputs = values
	n.Name = l.g.FreshName(l.g.Value(values[0]).Name + "/" + n.Op)
	if _, err := l.g.AddNode(n); err != nil {
		return err
	}
	if !l.unknown {
		l.warnings = append(l.warnings, graph.Warning{Node: n.Name,
			Text: l.name() + " has no form in ONNX as it is used here: it is carried as an operator of domain " + Domain})
	}
	l.unknown = true
	for i, id := range l.op.Outputs {
		if err := l.define(id, plain, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// in is the tensor number of an input, -1 where it is left out.
func (l *lifter) in(i int) int {
	if i >= len(l.op.Inputs) {
		return -1
	}
	return l.op.Inputs[i]
}

// shape is the shape of a tensor of the file.
func (l *lifter) shape(id int) []int { return l.s.Tensors[id].Shape }

// order is that of the first input of four axes that is computed with its channels first, else that of the file.
func (l *lifter) order(inputs ...int) order {
	for _, id := range inputs {
		if id >= 0 && l.s.Tensors[id].Data == nil && l.states[id].first != graph.NoValue {
			return first
		}
	}
	return plain
}

// axis is where an axis of the file stands in an order; negative ones count from the end.
func axis(a, rank int, o order) int {
	if a < 0 {
		a += rank
	}
	if o == first && rank == 4 && a >= 0 && a < 4 {
		return []int{0, 2, 3, 1}[a]
	}
	return a
}

// result adds the node that computes an output, behind it its fused activation, and the output's pair.
func (l *lifter) result(k int, o order, op string, attrs []graph.Attr, in ...graph.ValueID) error {
	id := l.op.Outputs[k]
	t := &l.s.Tensors[id]
	d, shape := l.dtype(t), shapeIn(t, o)
	act, extra, err := l.activation()
	if err != nil {
		return err
	}
	name := t.Name
	if act != "" {
		name += "_linear"
	}
	v, err := l.node(op, name, d, shape, attrs, in...)
	if err == nil && act != "" {
		v, err = l.node(act, t.Name, d, shape, nil, append([]graph.ValueID{v}, extra...)...)
	}
	if err != nil {
		return err
	}
	return l.define(id, o, v)
}

// activation is the fused one of the operator, with the inputs of its node behind the first; "" is none.
func (l *lifter) activation() (op string, extra []graph.ValueID, err error) {
	bounds := func(lo, hi float32) []graph.ValueID {
		return []graph.ValueID{l.g.AddConst("min", tensor.FromF32([]float32{lo})), l.g.AddConst("max", tensor.FromF32([]float32{hi}))}
	}
	switch l.op.Options.Int("fused_activation_function") {
	case 0:
		return "", nil, nil
	case 1:
		return "Relu", nil, nil
	case 2:
		return "Clip", bounds(-1, 1), nil
	case 3:
		return "Clip", bounds(0, 6), nil
	case 4:
		return "Tanh", nil, nil
	}
	return "", nil, errNoForm
}
