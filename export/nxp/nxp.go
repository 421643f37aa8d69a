// Package nxp writes the format of PPQ's platform NXP_INT8: a float ONNX model that has the range of each quantized tensor NAME as two
// inputs with a value, NAME_min and NAME_max. The form is that of PPQ's exporter (ppq/parser/nxp_exporter.py): float32 scalars -128*s and
// 127*s of the scale s, of tensors that are computed or are inputs; on demand of constants too, there with one number per channel.
// No operator reads them.
//
// Unstable: it may change without notice.
package nxp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// suffixes of the names of the two ends.
var suffixes = [2]string{"_min", "_max"}

// Format is the format.
func Format() export.Format {
	return export.Format{Name: "nxp", Doc: "float ONNX with the range of each tensor as inputs NAME_min and NAME_max, as PPQ writes for NXP",
		Ext:  ".onnx",
		From: export.Plan, Targets: []string{"nxp_int8", "nxp_int8_lut"},
		Experimental: "no tool of NXP has read these files; PPQ's exporter writes the same ranges",
		Options: []export.Option{{Name: "ranges", Kind: export.Choice, Choices: []string{"activations", "all"},
			Doc: "tensors that get a range: those that are computed, or constants too"}, export.ExternalAbove, export.DocString},
		Check: check, Write: write, Back: back, Rules: rules, Doctor: doctor}
}

// ranged lists the tensors that get a range: not what stands between an operator and the activation that is computed with it.
func ranged(in *export.Input) (all, with []table.Tensor, err error) {
	all, err = table.Of(in)
	for _, t := range all {
		inner := false
		if t.Kind == table.Activation {
			i := slices.Index(in.Model.Graph.Node(t.Node).Outputs, t.Value)
			slot := in.Set.Output(t.Node, i)
			inner = slot != tqc.NoSlot && in.Set.Slot(slot).State() == tqc.Overlapped
		}
		if t.Encoded() && !inner && (!t.Kind.Constant() || in.Options.Text("ranges") == "all") {
			with = append(with, t)
		}
	}
	return all, with, err
}

func check(in *export.Input) error {
	g := in.Model.Graph
	_, list, err := ranged(in)
	for i := range list {
		t := &list[i]
		c := t.Config
		fail := func(format string, args ...any) error {
			return g.ErrorAt("export nxp", t.Node, fmt.Errorf("%s: %s", t.Name, fmt.Sprintf(format, args...)))
		}
		if c.Type != qmath.Integers || t.Kind != table.Bias && c.Bits != 8 || !c.Policy.Has(tqc.Symmetric|tqc.PowerOf2) ||
			c.Policy.Has(tqc.PerGroup) {
			return fail("%s: a range stands for symmetric int8 with power-of-two scales", c.FormatName())
		}
		for _, suffix := range suffixes {
			if _, taken := g.Lookup(t.Name + suffix); taken {
				return fail("the model has a tensor %q already, which is the name of its range", t.Name+suffix)
			}
		}
	}
	return err
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	all, list, err := ranged(in)
	if err != nil {
		return nil, err
	}
	g, err := table.Baked(in, all)
	if err != nil {
		return nil, err
	}
	g.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v graph.ValueID) bool { return g.Const(v) != nil })
	for i := range list {
		t := &list[i]
		var ends [2]*tensor.Tensor
		for k := range ends {
			ends[k] = tensor.New(tensor.Float32)
			if t.Config.Policy.Has(tqc.PerChannel) {
				ends[k] = tensor.New(tensor.Float32, len(t.Params.Scale))
			}
		}
		for c := range t.Params.Scale {
			lo, hi := t.Range(c)
			ends[0].F32()[c], ends[1].F32()[c] = float32(lo), float32(hi)
		}
		for k, suffix := range suffixes {
			g.Inputs = append(g.Inputs, g.AddConst(t.Name+suffix, ends[k]))
		}
	}
	return nil, table.WriteGraph(in, g, out)
}

var rules = []export.Rule{
	{Name: "pair", Doc: "both ends of a range are there, each an input of the model and a float32 constant, of one shape",
		Fix: "write NAME_min and NAME_max"},
	{Name: "known", Doc: "a range is of a tensor that the model has", Fix: "write it under the name that the tensor has in this model"},
	{Name: "step", Doc: "a range is -128 and 127 times a power of two", Fix: "compute both ends from the scale"},
	{Name: "complete", Doc: "every Conv and Gemm reads a tensor with a range, and its result, behind its Relu or Clip, has one",
		Fix: "write the range that is missing"},
	{Name: "grid", Doc: "weights are int8 times a power of two, one for each output channel, so that every rounding gives the same integers",
		Fix: "write the weight's integers times their scale into the model"},
	{Name: "resize", Doc: "a Resize of a tensor with a range takes the nearest, by half_pixel",
		Fix: "leave the Resize in float, without a range"},
}

// examination holds a file to the rules.
type examination struct {
	in     *export.DoctorInput
	g      *graph.Graph
	ranges map[string]bool // by names of tensors
	found  []export.Finding
}

func (x *examination) report(rule, node, format string, args ...any) {
	x.found = append(x.found, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
}

func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	graph.InferShapes(m.Graph)
	order, err := m.Graph.Order()
	if err != nil {
		return nil, err
	}
	x := &examination{in: in, g: m.Graph, ranges: map[string]bool{}}
	for _, v := range m.Graph.Values() {
		name := m.Graph.Value(v).Name
		for k, suffix := range suffixes {
			if of, ok := strings.CutSuffix(name, suffix); ok && of != "" && m.Graph.Producer(v) == graph.NoNode && len(m.Graph.Uses(v)) == 0 {
				x.end(v, of, k)
			}
		}
	}
	for _, id := range order {
		x.operator(m.Graph.Node(id))
	}
	return x.found, nil
}

// end looks at one end of a range, and with the lower end at the whole.
func (x *examination) end(v graph.ValueID, of string, k int) {
	name := x.g.Value(v).Name
	other, ok := x.g.Lookup(of + suffixes[1-k])
	if _, known := x.g.Lookup(of); !known {
		x.report("known", name, "the model has no tensor %q", of)
	}
	lo, hi := x.g.Const(v), (*tensor.Tensor)(nil)
	if ok {
		hi = x.g.Const(other)
	}
	switch {
	case hi == nil:
		x.report("pair", name, "there is no %s with a value", of+suffixes[1-k])
		return
	case lo == nil || lo.DType != tensor.Float32 || !slices.Contains(x.g.Inputs, v):
		x.report("pair", name, "it is no float32 constant that is an input of the model too")
		return
	case hi.DType != tensor.Float32 || !slices.Equal(lo.Shape, hi.Shape):
		x.report("pair", name, "it is %s, and %s is %s", lo.Type(), of+suffixes[1-k], hi.Type())
		return
	case k == 1:
		return
	}
	x.ranges[of] = true
	for c, low := range lo.ToRowMajor().F32() {
		high := hi.ToRowMajor().F32()[c]
		if frac, _ := math.Frexp(float64(-low)); !(low < 0) || frac != 0.5 || math.IsInf(float64(low), 0) || high != -low/128*127 &&
			high != -low {
			// of 30 bits float32 holds both ends as one number
			x.report("step", of, "[%g, %g]", low, high)
			return
		}
	}
}

// operator looks at what an operator reads and computes.
func (x *examination) operator(n *graph.Node) {
	has := func(v graph.ValueID) bool { return v != graph.NoValue && x.ranges[x.g.Value(v).Name] }
	switch n.Op {
	case "Resize":
		if mode := n.AttrStr("coordinate_transformation_mode", "half_pixel"); has(n.Input(0)) && has(n.Outputs[0]) &&
			(n.AttrStr("mode", "nearest") != "nearest" || mode != "half_pixel") {
			x.report("resize", n.Name, "mode %s, %s", n.AttrStr("mode", "nearest"), mode)
		}
	case "Conv", "Gemm":
		w := x.g.Const(n.Input(graph.WeightInput))
		if w == nil || x.in.Integer != nil && !x.in.Integer(n.Name) {
			return
		}
		out := n.Outputs[0]
		if uses := x.g.Uses(out); len(uses) == 1 && !has(out) {
			if next := x.g.Node(uses[0].Node); next.Op == "Relu" || next.Op == "Clip" {
				out = next.Outputs[0]
			}
		}
		off := offGrid(n, w)
		switch in, result := has(n.Input(0)), has(out); {
		case in != result && off == "": // a float one may have one range, for who reads the other side
			x.report("complete", n.Name, "%s has a range: %t, %s: %t", x.g.Value(n.Input(0)).Name, in, x.g.Value(out).Name, result)
		case in && result && off != "":
			x.report("grid", n.Name, "%s: %s", x.g.Value(n.Input(graph.WeightInput)).Name, off)
		}
	}
}

// offGrid says which weight is no int8 times the power of two that its output channel needs at least; "": none.
func offGrid(n *graph.Node, w *tensor.Tensor) string {
	axis, ok := graph.OutAxis(n, len(w.Shape))
	if !ok || w.DType != tensor.Float32 {
		return ""
	}
	inner := 1
	for _, d := range w.Shape[axis+1:] {
		inner *= d
	}
	channels := w.Shape[axis]
	low, most, least := make([]int, channels), make([]float64, channels), make([]float64, channels)
	values := w.ToRowMajor().F32()
	for i, v := range values {
		c := i / inner % channels
		most[c], least[c] = max(most[c], float64(v)), min(least[c], float64(v))
	}
	for c := range low { // the exponent of the finest grid that holds the channel
		low[c] = -1 << 10
		if top := max(most[c]/127, -least[c]/128); top > 0 {
			frac, exp := math.Frexp(top)
			if frac == 0.5 {
				exp--
			}
			low[c] = exp
		}
	}
	for i, v := range values {
		if code := math.Ldexp(float64(v), -low[i/inner%channels]); code != math.Trunc(code) {
			return fmt.Sprintf("element %d is %g, which is code %g", i, v, code)
		}
	}
	return ""
}
