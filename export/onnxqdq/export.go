package onnxqdq

import (
	"context"
	"fmt"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Format is ONNX with a Q/DQ pair exactly where the simulation quantizes, for all platforms. The file is read back and checked against
// the rules of the platform before it gets its name.
func Format() export.Format {
	return export.Format{Name: "onnx", Doc: "ONNX with QuantizeLinear and DequantizeLinear", Ext: ".onnx", From: export.Plan,
		Options: []export.Option{export.ExternalAbove, export.DocString, export.Half, export.Inputs("integers", "pixels"),
			export.Outputs}, Write: write,
		Rules: Rules(), Doctor: doctor, Look: Look, Back: Back}
}

func write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m, err := Build(in.Model, in.Set, in.Target,
		Options{Context: ctx, Producer: in.Producer, Version: in.Version, Metadata: in.Metadata, Half: in.Options.Text(export.Half.Name),
			Inputs: in.Options.Text(export.InputsName), Pixels: in.Pixels, Outputs: in.Options.Text(export.Outputs.Name)})
	if err != nil {
		return nil, err
	}
	if err := export.WriteModel(m, in, out); err != nil {
		return nil, err
	}
	return Warnings(in.Model.Graph, in.Set, in.Target), nil
}

// doctor applies the rules of the target.
func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	said := make([]tensor.DType, m.Graph.NumValues())
	for _, v := range m.Graph.Values() {
		said[v] = m.Graph.Value(v).DType
	}
	graph.InferShapes(m.Graph)
	var list []export.Finding
	if m.IRVersion > newestIR {
		list = append(list, export.Finding{Rule: opsetRule.Name, Text: fmt.Sprintf("IR version %d: ONNX has none such", m.IRVersion)})
	}
	if onRuntime(in.Target) {
		list = append(list, recorded(m.Graph, said)...)
	}
	return append(list, Check(m.Graph, in.Target, in.Integer)...), nil
}

// recorded lists the nodes whose results the file records as another type of elements than they are: ONNX Runtime refuses the file,
// OpenVINO goes by the node.
func recorded(g *graph.Graph, said []tensor.DType) (list []export.Finding) {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for _, v := range n.Outputs {
			if v == graph.NoValue || int(v) >= len(said) || said[v] == tensor.Undefined || said[v] == g.Value(v).DType {
				continue
			}
			list = append(list, export.Finding{Rule: structureRule.Name, Node: n.Name, Fix: "record the type that the operator gives",
				Text: fmt.Sprintf("%q is recorded as %s, and the operator gives %s", g.Value(v).Name, said[v], g.Value(v).DType)})
		}
	}
	return list
}

// Look says what an ONNX file is as a whole: of the form qoperator where it has operators on codes and its reader is ONNX Runtime.
func Look(_ context.Context, in *export.DoctorInput) (*export.AsWhole, error) {
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	w := &export.AsWhole{}
	for _, v := range m.Graph.Values() {
		d := m.Graph.Value(v).DType
		w.Narrow = w.Narrow || d == tensor.Float16 || d == tensor.BFloat16
	}
	for _, id := range m.Graph.Nodes() {
		n := m.Graph.Node(id)
		_, form := qdq.QOperators[n.Op]
		form = form || n.Op == "MatMulNBits"
		w.Narrow = w.Narrow || form || is(n, quantizeLinear, dequantizeLinear, dynamicQuantize, "ConvInteger", "MatMulInteger")
		if form && (onRuntime(in.Target) || in.Target.Export.Open) {
			w.Format = "qoperator"
		}
		if n.Op == "Cast" {
			to := tensor.DType(n.AttrInt("to", 0))
			w.Narrow = w.Narrow || to == tensor.Float16 || to == tensor.BFloat16
		}
	}
	return w, nil
}

// onRuntime reports whether the reader of a target's files is ONNX Runtime's CPU provider: it reads operators on codes too, and has no
// kernels for bfloat16.
func onRuntime(t *target.Target) bool { return t.Profile == "ort" }
