package passes

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Slice-10 takes starts, ends and axes as inputs.
func sliceInputs(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	if n.Attr("starts") == nil || n.Attr("ends") == nil {
		return errors.New("starts or ends is missing")
	}
	r.setInts(id, 1, "starts")
	r.setInts(id, 2, "ends")
	r.setInts(id, 3, "axes")
	return nil
}

// TopK-10 takes k as an input.
func topKInput(r *raiser, id graph.NodeID) error {
	if r.g.Node(id).Attr("k") == nil {
		return errors.New("k is missing")
	}
	r.setInts(id, 1, "k")
	return nil
}

// Clip-11 takes its bounds as inputs; an absent attribute was the end of the float range and is an absent input.
func clipInputs(r *raiser, id graph.NodeID) error {
	for i, name := range []string{"min", "max"} {
		n := r.g.Node(id)
		if a := n.Attr(name); a != nil {
			bound := a.F
			n.DropAttr(name)
			if err := r.setFloat(id, i+1, name, bound); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pad-11 takes padding and value as inputs. The mode stays.
func padInputs(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	if n.Attr("pads") == nil {
		return errors.New("pads is missing")
	}
	value := n.AttrFloat("value", 0)
	n.DropAttr("value")
	r.setInts(id, 1, "pads")
	if value != 0 {
		return r.setFloat(id, 2, "value", value)
	}
	return nil
}

// Dropout-12 takes the ratio as an input. Without the input training_mode it is inactive, as it was before.
func dropoutRatio(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	if a := n.Attr("ratio"); a != nil {
		ratio := a.F
		n.DropAttr("ratio")
		r.setConst(id, 1, "ratio", tensor.FromF32([]float32{ratio}))
	}
	return nil
}

// Squeeze-13, Unsqueeze-13, ReduceSum-13 and the other reductions of 18 take axes as an input.
func axesInput(r *raiser, id graph.NodeID) error {
	r.setInts(id, 1, "axes")
	return nil
}

// Split-13 takes the sizes as an input.
func splitInput(r *raiser, id graph.NodeID) error {
	r.setInts(id, 1, "split")
	return nil
}

// Split-18 wants the number of outputs stated where sizes are not.
func splitOutputs(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	if n.Input(1) == graph.NoValue && n.Attr("num_outputs") == nil {
		n.SetAttr(graph.Int("num_outputs", int64(len(n.Outputs))))
	}
	return nil
}

// BatchNormalization-9 has statistics per channel only.
func batchNormSpatial(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	if n.AttrInt("spatial", 1) == 0 {
		return errors.New("statistics per element (spatial is 0) have no form after opset 8")
	}
	n.DropAttr("spatial")
	return nil
}

// BatchNormalization-14 has a training mode of its own; before, giving the running statistics out switched it on.
func batchNormOutputs(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	for i := 1; i < len(n.Outputs); i++ {
		if v := n.Outputs[i]; v != graph.NoValue && (len(r.g.Uses(v)) > 0 || r.g.IsOutput(v) || r.g.Captured(v)) {
			return fmt.Errorf("output %q is in use: training mode", r.g.Value(v).Name)
		}
	}
	if len(n.Outputs) == 1 {
		return nil
	}
	copied := *n
	copied.Outputs = n.Outputs[:1:1]
	return r.rebuild(id, copied)
}

// rebuild replaces a node by one with the same name and inputs that computes fewer outputs.
func (r *raiser) rebuild(id graph.NodeID, n graph.Node) error {
	kept := n.Outputs[0]
	stand, err := r.g.AddValue(graph.Value{Name: r.fresh(n.Name + "/unused")})
	if err != nil {
		return err
	}
	if err := r.g.SetOutput(id, 0, stand); err != nil {
		return err
	}
	n.Inputs = append([]graph.ValueID(nil), n.Inputs...)
	n.Outputs = []graph.ValueID{kept}
	r.g.RemoveNode(id)
	_, err = r.g.AddNode(n)
	return err
}

// RoiAlign-16 samples half a pixel further by default.
func roiAlignMode(r *raiser, id graph.NodeID) error {
	r.g.Node(id).SetAttr(graph.Str("coordinate_transformation_mode", "output_half_pixel"))
	return nil
}

// GridSample-20 has other names for its modes.
func gridSampleMode(r *raiser, id graph.NodeID) error {
	n := r.g.Node(id)
	switch mode := n.AttrStr("mode", "bilinear"); mode {
	case "bilinear":
		n.SetAttr(graph.Str("mode", "linear"))
	case "bicubic":
		n.SetAttr(graph.Str("mode", "cubic"))
	}
	return nil
}

// Scatter is called ScatterElements since 11.
func scatterElements(r *raiser, id graph.NodeID) error {
	r.g.Node(id).Op = "ScatterElements"
	return nil
}
