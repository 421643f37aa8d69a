package lower

import (
	"fmt"
	"strings"

	"qwb/graph"
)

// Format writes a program as text, one line per input, step and output, and one per warning:
//
//	program onnxruntime ort
//	input x: f32[1,3,8,8]
//	x_QuantizeLinear: u8[1,3,8,8] = Quantize(x) {}                                      # 0.0125(q-128) in 0..255
//	y_QuantizeLinear: u8[1,4,8,8] = Conv(x_QuantizeLinear) {w=i8[4,3,3,3] ...} "conv+relu"   # ...
//	output y
//
// Behind the sign # stands the encoding of each output. The text is the same for the same program.
func Format(p *Program) string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s %s\n", p.Target, p.Profile.Name)
	for _, id := range p.Inputs {
		fmt.Fprintf(&b, "input %s\n", p.typed(id))
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Const != nil {
			fmt.Fprintf(&b, "const %s%s\n", p.typed(t.ID), encodings(p, []TensorID{t.ID}))
		}
	}
	for i := range p.Steps {
		b.WriteString(FormatStep(p, StepID(i)) + "\n")
	}
	for _, id := range p.Outputs {
		fmt.Fprintf(&b, "output %s\n", p.Tensors[id].Name)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

// FormatStep writes one step as Format does.
func FormatStep(p *Program, id StepID) string {
	s := &p.Steps[id]
	var outs, ins []string
	for _, t := range s.Outputs {
		if t == NoTensor {
			outs = append(outs, "_")
		} else {
			outs = append(outs, p.typed(t))
		}
	}
	for _, t := range s.Inputs {
		ins = append(ins, p.Tensors[t].Name)
	}
	text := fmt.Sprintf("%s = %s(%s) {%s}", strings.Join(outs, ", "), s.Op.Name(), strings.Join(ins, ", "), s.Op.describe())
	if len(s.Nodes) > 0 {
		var names []string
		for _, n := range s.Nodes {
			names = append(names, p.Graph.Node(n).Name)
		}
		text += fmt.Sprintf(" %q", strings.Join(names, "+"))
	}
	return text + encodings(p, s.Outputs)
}

func (p *Program) typed(id TensorID) string {
	t := &p.Tensors[id]
	return t.Name + ": " + graph.FormatType(t.DType, t.Shape)
}

func encodings(p *Program, ids []TensorID) string {
	var list []string
	for _, id := range ids {
		if id != NoTensor && p.Tensors[id].Encoding != nil {
			list = append(list, p.Tensors[id].Encoding.String())
		}
	}
	if list == nil {
		return ""
	}
	return " # " + strings.Join(list, "; ")
}
