package qoperator

import (
	"context"
	"errors"
	"fmt"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Format is ONNX in QOperator form.
func Format() export.Format {
	return export.Format{Name: "qoperator", Doc: "ONNX with QLinearConv, QLinearMatMul, QGemm, ...", Ext: ".onnx", From: export.Plan,
		Note: "the operators of com.microsoft are ONNX Runtime's",
		Options: []export.Option{export.ExternalAbove, export.DocString, export.Half, export.Inputs("integers", "pixels"),
			export.Outputs}, Write: write,
		Rules: Rules(), Doctor: doctor, Look: onnxqdq.Look,
		Back: onnxqdq.Back}
}

func write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Context: ctx, Producer: in.Producer, Version: in.Version,
		Metadata: in.Metadata, Half: in.Options.Text(export.Half.Name),
		Inputs: in.Options.Text(export.InputsName), Pixels: in.Pixels, Outputs: in.Options.Text(export.Outputs.Name)})
	if err != nil {
		return nil, err
	}
	left, err := Fold(m.Graph)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !integers(m.Graph) {
		text := "export: nothing of this plan has a QOperator form"
		if len(left) > 0 {
			text += fmt.Sprintf(": node %q: %v", left[0].Node, left[0].Why)
		}
		return nil, errors.New(text)
	}
	graph.InferShapes(m.Graph)
	if err := export.WriteModel(m, in, out); err != nil {
		return nil, err
	}
	return warnings(left), nil
}

// doctor applies the rules to a file.
func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return Check(m.Graph, in.Target), nil
}
