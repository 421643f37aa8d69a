package recipe

import (
	"fmt"
	"regexp"
	"slices"

	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
)

// readModelOpt reads arguments of modelopt.onnx.quantization.quantize (NVIDIA Model Optimizer).
func readModelOpt(j *open.Job, name string) (Source, error) {
	a, err := readArguments(j, name, "")
	if err != nil {
		return Source{}, err
	}
	var o ortArguments
	var mode, method string
	var excluded, patterns, wanted []string
	var autotune, dla bool
	gemv := true
	if err := a.takeAll(map[string]any{"autotune": &autotune, "target_dla": &dla, "enable_gemv_detection_for_trt": &gemv,
		"quantize_mode": &mode, "calibration_method": &method, "op_types_to_exclude": &excluded,
		"op_types_to_quantize": &o.OpTypesToQuantize, "nodes_to_exclude": &patterns, "nodes_to_quantize": &wanted}); err != nil {
		return Source{}, err
	}
	compiled := map[string]*regexp.Regexp{}
	for _, p := range slices.Concat(patterns, wanted) {
		if compiled[p], err = regexp.Compile(`^(?:` + p + `)`); err != nil {
			return Source{}, fmt.Errorf("%s: pattern %q: %w", name, p, err)
		}
	}
	known := map[string]string{"": "", "max": "MinMax", "entropy": "Entropy"}
	if o.CalibrateMethod = known[method]; method != "" && o.CalibrateMethod == "" {
		return Source{}, fmt.Errorf("%s: calibration_method %q: one of max, entropy", name, method)
	}
	if !slices.Contains([]string{"", "int8", "fp8"}, mode) {
		return Source{}, fmt.Errorf("%s: quantize_mode %q: one of int8, fp8 is imported", name, mode)
	}
	a.left(j)
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if mode == "fp8" {
			r, err := decision.FindPreset("fp8")
			if err != nil {
				return nil, err
			}
			fitPreset(r, t)
			f.r.Steps = append(f.r.Steps, r.Steps...)
		}
		o := o
		o.NodesToQuantize = f.matching(wanted, compiled)
		if len(wanted) > 0 && len(o.NodesToQuantize) == 0 {
			return nil, f.fail("nodes_to_quantize matches no operator of the model")
		}
		f.leave("modelopt op_types_to_exclude", func(n *graph.Node) bool { return slices.Contains(excluded, n.Op) })
		f.leave("modelopt nodes_to_exclude", func(n *graph.Node) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return compiled[p].MatchString(n.Name) })
		})
		if !autotune && !dla {
			f.leave("modelopt small", func(n *graph.Node) bool { return f.small(n, mode == "fp8", gemv) })
		}
		return f.r, f.arguments(&o, t)
	}}, nil
}

// leastDim is what TensorRT's integer kernels need of channels, depth and columns, by Model Optimizer.
const leastDim = 16

// small reports whether Model Optimizer (0.47) leaves an operator in float without being told, since TensorRT gains nothing by its
// integers.
func (f *foreign) small(n *graph.Node, fp8, gemv bool) bool {
	switch n.Op {
	case "Conv":
		return f.smallConv(n, fp8)
	case "MatMul", "Gemm":
		return gemv && f.smallProduct(n)
	}
	return false
}

// smallProduct reports whether a product has one row or column, or too little of depth or columns. Where a size is open it is 1: that tool
// looks at a run of one sample.
func (f *foreign) smallProduct(n *graph.Node) bool {
	g := f.m.Loaded
	out, b := g.Value(n.Outputs[0]).Shape, g.Value(n.Inputs[1]).Shape
	if len(out) < 2 || len(b) < 2 {
		return false
	}
	rows, columns := out[len(out)-2].AtLeast(), out[len(out)-1].AtLeast()
	weights := g.Const(n.Inputs[0]) != nil || g.Const(n.Inputs[1]) != nil
	if (!weights || len(out) == 2) && (rows == 1 || columns == 1) {
		return true
	}
	depth := b[len(b)-2]
	if n.Op == "Gemm" && n.AttrInt("transB", 0) != 0 {
		depth = b[len(b)-1]
	}
	return columns < leastDim || depth.Known() && depth.N < leastDim
}

func (f *foreign) smallConv(n *graph.Node, fp8 bool) bool {
	w := f.m.Loaded.Const(n.Inputs[graph.WeightInput])
	if w == nil {
		return true
	}
	out, in, kernel := w.Shape[0], w.Shape[1], w.Shape[2:]
	least, most := slices.Min(kernel), slices.Max(kernel)
	switch grouped := n.Conv().Group > 1; {
	case fp8:
		area := 1
		for _, k := range kernel {
			area *= k
		}
		return min(out, in) <= leastDim || area > 32
	case min(out, in) >= leastDim:
		return false
	case grouped:
		return out%8 != 0 || least < 3
	default:
		first := f.m.Loaded.IsInput(n.Inputs[0])
		return out%8 != 0 && in%8 != 0 || !first && max(out, in) < leastDim || least != most
	}
}
