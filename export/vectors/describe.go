package vectors

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// named is an array of a step.
type named struct {
	name   string
	tensor *tensor.Tensor
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

// describe returns the kind of a step, its parameters and its arrays: one case for each type of operation.
func describe(p *lower.Program, s *lower.Step, in []*tensor.Tensor) (kind string, parameters any, arrays []named, err error) {
	switch op := s.Op.(type) {
	case *lower.Linear:
		l, a, err := linear(p, s, op, in)
		return "linear", l, a, err
	case *lower.Sum:
		return "sum", op.Sum, nil, nil
	case *lower.Product:
		return "product", op.Product, nil, nil
	case *lower.Select:
		return "select", op, nil, nil
	case *lower.Concat:
		return "concat", op, nil, nil
	case *lower.Requantize:
		return "requantize", op.Rescale, nil, nil
	case *lower.Clamp:
		return "clamp", op, nil, nil
	case *lower.Table:
		arrays = []named{{"table", op.Codes}}
		if op.Lines != nil {
			arrays = append(arrays, named{"lines", &tensor.Tensor{DType: tensor.Int16, Shape: []int{len(op.Lines)}, Data: op.Lines[:]}})
		}
		return "table", map[string]string{"function": op.Function}, arrays, nil
	case *lower.Quantize:
		return "quantize", op.Quantizer, nil, nil
	case *lower.Dequantize:
		return "dequantize", p.Tensors[s.Inputs[0]].Encoding, nil, nil
	case *lower.Softmax:
		m, err := op.For(p.Profile, in[0].Shape[op.Axis])
		return "softmax", map[string]any{"axis": op.Axis, "arithmetic": m}, nil, err
	case *lower.MaxPool:
		geo, err := poolWindow(p, s, in[0], op.Global)
		return "max_pool", map[string]any{"lowest": op.Lowest, "global": op.Global, "window": geo}, nil, err
	case *lower.Average:
		return average(p, s, op, in[0])
	case *lower.Move:
		n := op.Graph.Node(op.Graph.Nodes()[0])
		return "move", map[string]string{"node": graph.Format(op.Graph)}, constants(op.Graph, n), nil
	case *lower.Island:
		return "island", map[string]string{"graph": graph.Format(op.Graph)}, nil, nil
	}
	return "", nil, nil, fmt.Errorf("%T has no description", s.Op)
}

func linear(p *lower.Program, s *lower.Step, op *lower.Linear, in []*tensor.Tensor) (*Linear, []named, error) {
	n := p.Graph.Node(s.Node)
	l := &Linear{InputZeroPoint: p.Tensors[s.Inputs[0]].Encoding.ZeroPoint, Residual: op.Residual, Wide: op.Wide}
	if op.Kind == "Gemm" {
		l.TransA, l.TransB = n.AttrInt("transA", 0) != 0, n.AttrInt("transB", 0) != 0
	}
	var arrays []named
	if w := op.Weights; w != nil {
		l.ChannelAxis = w.Axis
		arrays = append(arrays, named{"weights", w.Codes}, named{"weight_zero_points", vector(tensor.Int32, w.ZeroPoint)})
		geometry := graph.ConvGeometry
		switch op.Kind {
		case "ConvTranspose":
			geometry = graph.ConvTransposeGeometry
			fallthrough
		case "Conv":
			var err error
			if l.Window, err = geometry(n, graph.Static(in[0].Shape...), graph.Static(w.Codes.Shape...)); err != nil {
				return nil, nil, err
			}
		}
	} else {
		l.WeightZeroPoint = p.Tensors[s.Inputs[1]].Encoding.ZeroPoint
	}
	if op.Bias != nil {
		arrays = append(arrays, named{"bias", vector(tensor.Int32, op.Bias)})
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
			arrays = append(arrays, named{fmt.Sprintf("scale_%d", k), vector(tensor.Float32, scale)}, named{fmt.Sprintf("bias_%d", k), vector(tensor.Float32, bias)})
		}
		arrays = append(arrays, multipliers(p.Profile, op.Scales[k].Multipliers, k)...)
		l.Outputs = append(l.Outputs, o)
	}
	return l, arrays, nil
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
	if !p.Float() {
		return []named{{fmt.Sprintf("multiplier_%d", k), vector(tensor.Int32, m)}, {fmt.Sprintf("shift_%d", k), vector(tensor.Int32, shift)}}
	}
	return []named{{fmt.Sprintf("scale_%d", k), vector(tensor.Float32, scale)}, {fmt.Sprintf("bias_%d", k), vector(tensor.Float32, bias)},
		{fmt.Sprintf("out_%d", k), vector(tensor.Float32, out)}}
}

// average describes a mean with the arithmetic for every number of positions that windows have.
func average(p *lower.Program, s *lower.Step, op *lower.Average, x *tensor.Tensor) (string, any, []named, error) {
	d := map[string]any{"axes": op.Axes, "keep": op.Keep, "empty": op.Empty(), "arithmetic": op.ByCount}
	if op.Axes != nil {
		count := 1
		for _, a := range op.Axes {
			count *= x.Shape[a]
		}
		way, err := op.For(p.Profile, count)
		d["arithmetic"] = []*qmath.Average{way}
		return "average", d, nil, err
	}
	geo, err := poolWindow(p, s, x, false)
	d["window"], d["count_include_pad"] = geo, p.Graph.Node(s.Node).AttrInt("count_include_pad", 0) != 0
	return "average", d, nil, err
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
			list = append(list, named{fmt.Sprintf("input_%d", i), c})
		}
	}
	return list
}

// vector makes a tensor of one axis.
func vector[T int32 | float32](d tensor.DType, data []T) *tensor.Tensor {
	return &tensor.Tensor{DType: d, Shape: []int{len(data)}, Data: data}
}

// finite is x unless it is infinite.
func finite(x float32) *float32 {
	if math.IsInf(float64(x), 0) {
		return nil
	}
	return &x
}
