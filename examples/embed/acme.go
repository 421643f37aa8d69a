package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"qwb"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// npu is the platform of this program.
const npu = "acme_npu"

// acme is all that qwb has, and what this program brings along.
func acme() (qwb.Catalog, error) {
	c := qwb.Standard("embed 1.0")
	t := target.ONNXRuntime
	t.Name, t.Doc = npu, "the NPU of Acme"
	t.Activation.Observer = middle.Name
	t.BorderCost = 0
	platforms, err := target.Builtin().With(&t)
	if err != nil {
		return c, err
	}
	c.Platforms, c.Formats = platforms, append(c.Formats, scales)
	c.Observers, c.Operators = []*observers.Method{middle}, []*graph.Operator{swoosh}
	return c, nil
}

// middle is an observer: the range in which all but a thousandth of the values lie, half of it at each end.
var middle = &observers.Method{
	Name: "acme/middle", Doc: "all but a thousandth of the values",
	Range: func(st *observers.State, _ tqc.Config, _ float64) (observers.Range, []tqc.Warning, error) {
		if st.Count() == 0 {
			return observers.Range{}, nil, observers.ErrEmpty
		}
		beyond := float64(st.Count()) / 2000
		r := observers.Range{Lo: math.Inf(1), Hi: math.Inf(-1)}
		seen := 0.0
		for b := range st.Bins() {
			if before := seen; before <= beyond {
				r.Lo = b.Lo
			}
			if seen += float64(b.Count); seen >= float64(st.Count())-beyond && math.IsInf(r.Hi, -1) {
				r.Hi = b.Hi
			}
		}
		return r, nil, nil
	},
}

// swoosh is an operator that ONNX does not have: x * sigmoid(slope * x).
var swoosh = &graph.Operator{
	OpSpec: graph.OpSpec{Domain: "acme", Name: "Swoosh", Doc: "x * sigmoid(slope * x)", Since: 1, MinIn: 1, Kind: graph.KindActivation,
		Infer: func(c *graph.InferCtx) error { c.SetOut(0, c.DType(0), c.Shape(0)); return nil }},
	Eval: func(n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0].F32()
		if in[0].DType != tensor.Float32 {
			return nil, fmt.Errorf("Swoosh of %s", in[0].Type())
		}
		slope := float64(n.AttrFloat("slope", 1))
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = float32(float64(v) / (1 + math.Exp(-slope*float64(v))))
		}
		return []*tensor.Tensor{tensor.FromF32(y, in[0].Shape...)}, nil
	},
}

// scales is a format: a line with name, scale and zero point of each activation that has a scale of its own.
var scales = export.Format{
	Name: "scales", Doc: "a table of scales", Ext: ".scales", From: export.Plan, Targets: []string{npu},
	Write: func(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
		return nil, out.Write(out.Name(), func(w io.Writer) error {
			for i := range in.Set.NumSlots() {
				s := in.Set.Slot(tqc.SlotID(i))
				if s.Weight || s.State() != tqc.Activated {
					continue
				}
				p := in.Set.Params(s.ID)
				if _, err := fmt.Fprintf(w, "%s\t%g\t%d\n", in.Model.Graph.Value(s.Value).Name, p.Scale[0], p.ZeroPoint[0]); err != nil {
					return err
				}
			}
			return nil
		})
	},
}
