package onnxqdq

import (
	"context"

	"qwb/export"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Format is ONNX with a Q/DQ pair exactly where the simulation quantizes, for all platforms. The file is read back and checked against
// the rules of the platform before it gets its name.
func Format() export.Format {
	return export.Format{Name: "onnx", Doc: "ONNX with QuantizeLinear and DequantizeLinear", Ext: ".onnx", From: export.Plan,
		Options: []export.Option{export.ExternalAbove, export.Half}, Write: write, Rules: Rules(), Doctor: doctor}
}

func write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m, err := Build(in.Model, in.Set, in.Target, Options{Producer: in.Producer, Version: in.Version, Metadata: in.Metadata, Half: in.Options.Text(export.Half.Name)})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
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
	graph.InferShapes(m.Graph)
	return Check(m.Graph, in.Target, in.Integer), nil
}
