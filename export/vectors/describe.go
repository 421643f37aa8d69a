package vectors

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// named is an array of a step.
type named struct {
	name   string
	tensor *tensor.Tensor
	bits   int // of weights with fewer than 8, else 0
}

// Linear is the parameters of a sum of products.
type Linear struct {
	// InputZeroPoint and WeightZeroPoint are subtracted from the codes before they are multiplied; the array weight_zero_points,
	// where it is there, has one per channel.
	InputZeroPoint  int32 `json:"input_zero_point"`
	WeightZeroPoint int32 `json:"weight_zero_point"`
	// ChannelAxis is the axis of the weights that counts output channels, or those of one group of a ConvTranspose.
	ChannelAxis int             `json:"channel_axis"`
	Window      *graph.Geometry `json:"window,omitempty"` // of convolutions
	TransA      bool            `json:"trans_a,omitempty"`
	TransB      bool            `json:"trans_b,omitempty"`
	Wide        bool            `json:"wide"`     // accumulators have 64 bits
	Residual    bool            `json:"residual"` // the last input is added before rounding
	Function    string          `json:"function,omitempty"`
	Outputs     []LinearOutput  `json:"outputs"`
}

// LinearOutput is how one output of a sum of products is made of accumulators.
type LinearOutput struct {
	ZeroPoint int32 `json:"zero_point"`
	Lo        int32 `json:"lo"` // limits, those of the activation included
	Hi        int32 `json:"hi"`
	// Skip is what one step of the residual is in the unit of the scaled accumulator.
	Skip *qmath.Skip `json:"skip,omitempty"`
	// RealLo and RealHi limit an output of real numbers; null for none.
	RealLo *float32 `json:"real_lo,omitempty"`
	RealHi *float32 `json:"real_hi,omitempty"`
}

// described is what program.json says of a step besides its tensors.
type described struct {
	kind       string
	parameters any
	arrays     []named
}

// describe returns the description of a step with inputs of known shapes: that of its row in own, else its plain data.
func describe(p *lower.Program, s *lower.Step, in []*tensor.Tensor) (described, error) {
	for _, row := range own {
		if d, ok, err := row(p, s, in); ok {
			return d, err
		}
	}
	return plain(s.Op), nil
}

// own are the types of operations whose data alone do not say enough: those that take shapes or attributes from their node, and those
// with arrays. Each returns false for steps of other types.
var own = []func(p *lower.Program, s *lower.Step, in []*tensor.Tensor) (described, bool, error){
	of(linear), of(table), of(dequantize), of(softmax), of(maxPool), of(average), of(move), of(island), of(runTime), of(simulated),
}

// of makes a row of a function for one type of operation.
func of[T lower.Op](f func(p *lower.Program, s *lower.Step, op T, in []*tensor.Tensor) (described, error)) func(*lower.Program, *lower.Step,
	[]*tensor.Tensor) (described, bool, error) {
	return func(p *lower.Program, s *lower.Step, in []*tensor.Tensor) (described, bool, error) {
		op, ok := s.Op.(T)
		if !ok {
			return described{}, false, nil
		}
		d, err := f(p, s, op, in)
		return d, true, err
	}
}

// plain describes an operation by its type's name and its exported fields. Tensors among them are arrays; of a type with one field
// that is no array, the parameters are that field's.
func plain(op lower.Op) described {
	v := reflect.ValueOf(op).Elem()
	d := described{kind: snake(v.Type().Name()), parameters: op}
	fields, last := map[string]any{}, ""
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if t, ok := v.Field(i).Interface().(*tensor.Tensor); ok {
			d.arrays = append(d.arrays, named{name: snake(f.Name), tensor: t})
			continue
		}
		fields[f.Name], last = v.Field(i).Interface(), f.Name
	}
	switch {
	case len(fields) == 1:
		d.parameters = fields[last]
	case d.arrays != nil:
		d.parameters = fields
	}
	return d
}

// snake is MaxPool as max_pool.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func table(_ *lower.Program, _ *lower.Step, op *lower.Table, _ []*tensor.Tensor) (described, error) {
	arrays := []named{{name: "table", tensor: op.Codes}}
	if op.Lines != nil {
		arrays = append(arrays, named{name: "lines", tensor: &tensor.Tensor{DType: tensor.Int16, Shape: []int{len(op.Lines)}, Data: op.Lines[:]}})
	}
	return described{"table", map[string]string{"function": op.Function}, arrays}, nil
}

func dequantize(p *lower.Program, s *lower.Step, _ *lower.Dequantize, _ []*tensor.Tensor) (described, error) {
	return described{kind: "dequantize", parameters: p.Tensors[s.Inputs[0]].Encoding}, nil
}

func softmax(p *lower.Program, _ *lower.Step, op *lower.Softmax, in []*tensor.Tensor) (described, error) {
	m, err := op.For(p.Profile, in[0].Shape[op.Axis])
	return described{kind: "softmax", parameters: map[string]any{"axis": op.Axis, "arithmetic": m}}, err
}

func maxPool(p *lower.Program, s *lower.Step, op *lower.MaxPool, in []*tensor.Tensor) (described, error) {
	geo, err := poolWindow(p, s, in[0], op.Global)
	return described{kind: "max_pool", parameters: map[string]any{"lowest": op.Lowest, "global": op.Global, "window": geo}}, err
}

func move(_ *lower.Program, _ *lower.Step, op *lower.Move, _ []*tensor.Tensor) (described, error) {
	n := op.Graph.Node(op.Graph.Nodes()[0])
	return described{"move", map[string]string{"node": graph.Format(op.Graph)}, constants(op.Graph, n)}, nil
}

func island(_ *lower.Program, _ *lower.Step, op *lower.Island, _ []*tensor.Tensor) (described, error) {
	return described{kind: "island", parameters: map[string]string{"graph": graph.Format(op.Graph)}}, nil
}

func runTime(_ *lower.Program, _ *lower.Step, op *lower.RunTime, _ []*tensor.Tensor) (described, error) {
	return described{kind: "run_time", parameters: map[string]any{"rows": op.Rows, "graph": graph.Format(op.Graph)}}, nil
}

func simulated(_ *lower.Program, _ *lower.Step, op *lower.Simulated, _ []*tensor.Tensor) (described, error) {
	return described{}, fmt.Errorf("it has no integer form: %s", op.Why)
}

func linear(p *lower.Program, s *lower.Step, op *lower.Linear, in []*tensor.Tensor) (described, error) {
	n := p.Graph.Node(s.Node)
	l := &Linear{InputZeroPoint: p.Tensors[s.Inputs[0]].Encoding.ZeroPoint, Residual: op.Residual, Wide: op.Wide}
	l.TransA, l.TransB = n.Gemm().TransA, n.Gemm().TransB
	var arrays []named
	if w := op.Weights; w != nil {
		l.ChannelAxis = w.Axis
		arrays = append(arrays, weightArray(w), named{name: "weight_zero_points", tensor: vector(tensor.Int32, w.ZeroPoint)})
		if graph.Slides(op.Kind) {
			var err error
			if l.Window, err = graph.WindowGeometry(n, graph.Static(in[0].Shape...), graph.Static(w.Codes.Shape...)); err != nil {
				return described{}, err
			}
		}
	} else {
		l.WeightZeroPoint = p.Tensors[s.Inputs[1]].Encoding.ZeroPoint
	}
	if op.Bias != nil {
		arrays = append(arrays, named{name: "bias", tensor: biases(op)})
	}
	if op.Func != nil {
		l.Function = graph.Format(op.Func)
	}
	for k, id := range s.Outputs {
		o := LinearOutput{ZeroPoint: op.Scales[k].ZeroPoint, Lo: op.Scales[k].Lo, Hi: op.Scales[k].Hi}
		if op.Residual {
			o.Skip = &op.Scales[k].Skip
		}
		if !p.Tensors[id].Quantized() || op.Func != nil {
			o.RealLo, o.RealHi = finite(op.Lo), finite(op.Hi)
			scale, bias := make([]float32, len(op.Real)), make([]float32, len(op.Real))
			for c, r := range op.Real {
				scale[c], bias[c] = r.X*r.W, r.Bias
			}
			arrays = append(arrays, named{name: fmt.Sprintf("scale_%d", k), tensor: vector(tensor.Float32, scale)},
				named{name: fmt.Sprintf("bias_%d", k), tensor: vector(tensor.Float32, bias)})
		}
		arrays = append(arrays, multipliers(p.Profile, op.Scales[k].Multipliers, k)...)
		l.Outputs = append(l.Outputs, o)
	}
	return described{"linear", l, arrays}, nil
}

// weightArray is the weights, with their bits where they are few.
func weightArray(w *lower.Weights) named {
	a := named{name: "weights", tensor: w.Codes}
	if w.Bits < 8 {
		a.bits = w.Bits
	}
	return a
}

// biases are int32, for accumulators of 64 bits int64.
func biases(op *lower.Linear) *tensor.Tensor {
	if op.Wide {
		return &tensor.Tensor{DType: tensor.Int64, Shape: []int{len(op.Bias)}, Data: op.Bias}
	}
	narrow := make([]int32, len(op.Bias))
	for c, b := range op.Bias {
		narrow[c] = int32(b)
	}
	return vector(tensor.Int32, narrow)
}

// multipliers are the factors by channel of output k.
func multipliers(p qmath.Profile, list []qmath.Multiplier, k int) []named {
	if list == nil {
		return nil
	}
	m, shift := make([]int32, len(list)), make([]int32, len(list))
	scale, bias, out := make([]float32, len(list)), make([]float32, len(list)), make([]float32, len(list))
	for c, f := range list {
		m[c], shift[c], scale[c], bias[c], out[c] = f.M, f.Shift, f.Scale, f.Bias, f.Out
	}
	if list[0].Double != 0 {
		double := make([]float64, len(list))
		for c, f := range list {
			double[c] = f.Double
		}
		return []named{{name: fmt.Sprintf("float64_factor_%d", k), tensor: vector(tensor.Float64, double)}}
	}
	if !p.Float() {
		return []named{{name: fmt.Sprintf("multiplier_%d", k), tensor: vector(tensor.Int32, m)},
			{name: fmt.Sprintf("shift_%d", k), tensor: vector(tensor.Int32, shift)}}
	}
	return []named{{name: fmt.Sprintf("scale_%d", k), tensor: vector(tensor.Float32, scale)},
		{name: fmt.Sprintf("bias_%d", k), tensor: vector(tensor.Float32, bias)},
		{name: fmt.Sprintf("out_%d", k), tensor: vector(tensor.Float32, out)}}
}

// average describes a mean with the arithmetic for every number of positions that windows have.
func average(p *lower.Program, s *lower.Step, op *lower.Average, in []*tensor.Tensor) (described, error) {
	x := in[0]
	d := map[string]any{"axes": op.Axes, "keep": op.Keep, "empty": op.Empty(), "arithmetic": op.ByCount}
	if op.Axes != nil {
		count := 1
		for _, a := range op.Axes {
			count *= x.Shape[a]
		}
		way, err := op.For(p.Profile, count)
		d["arithmetic"] = []*qmath.Average{way}
		return described{kind: "average", parameters: d}, err
	}
	geo, err := poolWindow(p, s, x, false)
	d["window"], d["count_include_pad"] = geo, p.Graph.Node(s.Node).Pool().CountPadding
	return described{kind: "average", parameters: d}, err
}

func poolWindow(p *lower.Program, s *lower.Step, x *tensor.Tensor, global bool) (*graph.Geometry, error) {
	if global {
		return nil, nil
	}
	return graph.PoolGeometry(p.Graph.Node(s.Node), graph.Static(x.Shape...))
}

// constants are the constant inputs of a node that moves elements.
func constants(g *graph.Graph, n *graph.Node) []named {
	var list []named
	for i, v := range n.Inputs {
		if c := g.Const(v); c != nil {
			list = append(list, named{name: fmt.Sprintf("input_%d", i), tensor: c})
		}
	}
	return list
}

// vector makes a tensor of one axis.
func vector[T int32 | float32 | float64](d tensor.DType, data []T) *tensor.Tensor {
	return &tensor.Tensor{DType: d, Shape: []int{len(data)}, Data: data}
}

// finite is x unless it is infinite.
func finite(x float32) *float32 {
	if math.IsInf(float64(x), 0) {
		return nil
	}
	return &x
}
