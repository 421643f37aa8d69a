package passes

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Softmax-13, LogSoftmax-13 and Hardmax-13 work along one axis. Before, the input was seen as a matrix whose columns are all
// axes from `axis` (default 1) on; that is the same where only one of those axes is longer than 1.
func softmaxAxis(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	first, _ := graph.SoftmaxAxis(n, 1)
	axis := int64(first)
	x := n.Input(0)
	if only, ok := soleAxis(r.g.Value(x).Shape, axis); ok {
		n.SetAttr(graph.Int("axis", only))
		return nil
	}
	op, y := n.Op, n.Outputs[0]
	dtype, shape := r.g.Value(y).DType, r.g.Value(y).Shape
	size, err := r.insert(id, "Shape", []graph.ValueID{x}, nil)
	if err != nil {
		return err
	}
	if err := r.before(id, 0, "Flatten", graph.Int("axis", axis)); err != nil {
		return err
	}
	matrix, err := r.g.AddValue(graph.Value{Name: r.fresh(r.g.Node(id).Name + "/" + op), DType: dtype})
	if err != nil {
		return err
	}
	if err := r.g.SetOutput(id, 0, matrix); err != nil {
		return err
	}
	r.g.Node(id).SetAttr(graph.Int("axis", -1))
	name := r.g.FreshName(r.g.Node(id).Name + "/Reshape")
	if _, err := r.g.AddNode(graph.Node{Name: name, Op: "Reshape", Inputs: []graph.ValueID{matrix, size},
		Outputs: []graph.ValueID{y}}); err != nil {
		return err
	}
	r.g.Value(y).DType, r.g.Value(y).Shape = dtype, shape
	return nil
}

// soleAxis returns the axis that is left when, of those from axis on, all others are known to be 1; -1 where it is the last.
func soleAxis(s graph.Shape, axis int64) (int64, bool) {
	if axis == -1 {
		return -1, true
	}
	first, ok := graph.Axis(int(axis), len(s))
	if !ok {
		return 0, false
	}
	only := int64(-1)
	for i, d := range s[first:] {
		at := int64(first + i)
		switch {
		case d.N == 1:
		case only >= 0:
			return 0, false
		default:
			only = at
		}
	}
	if only == int64(len(s))-1 {
		only = -1
	}
	return only, true
}

// Upsample-9 takes the scales as an input.
func upsampleScales(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	a := n.Attr("scales")
	if a == nil {
		return errors.New("scales is missing")
	}
	scales := append([]float32(nil), a.Floats...)
	n.DropAttr("scales")
	r.setConst(id, 1, "scales", tensor.FromF32(scales, len(scales)))
	return nil
}

// Upsample is Resize since 10.
func upsampleToResize(r *raiser, id graph.NodeID) error {
	r.g.Node(id).Op = "Resize"
	return nil
}

// Resize-11 states how coordinates are taken over. Resize-10 divided them by the scale, and its nearest neighbour was the one
// at or below; runtimes agree on that where the sizes grow or shrink by whole factors, and nothing else is converted.
func resizeRoi(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	scales := r.g.Const(n.Input(1))
	if mode := n.AttrStr("mode", "nearest"); mode == "nearest" {
		values := tensor.Of[float32](orEmpty(scales))
		if values == nil {
			return errors.New("the scales are computed: the nearest neighbour of opset 10 is ambiguous when shrinking")
		}
		for _, s := range values {
			if inverse := 1 / float64(s); s < 1 && math.Abs(inverse-math.Floor(inverse+0.5)) > 1e-6 {
				return fmt.Errorf("scale %g: the nearest neighbour of opset 10 is ambiguous when shrinking", s)
			}
		}
		n.SetAttr(graph.Str("nearest_mode", "floor"))
	}
	n.SetAttr(graph.Str("coordinate_transformation_mode", "asymmetric"))
	r.g.SetInput(id, 2, n.Input(1))
	r.setConst(id, 1, "roi", tensor.FromF32(nil, 0))
	return nil
}

func orEmpty(t *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return &tensor.Tensor{}
	}
	return t
}
