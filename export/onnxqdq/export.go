package onnxqdq

import (
	"context"
	"fmt"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/tqc"
)

// Format is ONNX with a Q/DQ pair exactly where the simulation quantizes, for all platforms. The file is read back and checked against
// the rules of the platform before it gets its name.
func Format() export.Format {
	return export.Format{Name: "onnx", Doc: "ONNX with QuantizeLinear and DequantizeLinear", Ext: ".onnx", From: export.Plan,
		Options: []export.Option{export.ExternalAbove}, Write: write}
}

func write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m, err := Build(in.Model, in.Set, in.Target, Options{Producer: in.Producer, Version: in.Version, Metadata: in.Metadata})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := export.WriteModel(m, in, out); err != nil {
		return nil, err
	}
	back, err := export.ReadModel(out)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	return Warnings(in.Model.Graph, in.Set, in.Target), conforms(back, in)
}

// conforms applies the rules of the target.
func conforms(back *onnx.Model, in *export.Input) error {
	graph.InferShapes(back.Graph)
	findings := Check(back.Graph, in.Target, func(node string) bool {
		id, ok := in.Model.Graph.LookupNode(node)
		return ok && in.Set.Domains[id] == tqc.DomainInt
	})
	if len(findings) == 0 {
		return nil
	}
	lines := make([]string, 0, len(findings))
	for i, f := range findings {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more", len(findings)-i))
			break
		}
		lines = append(lines, f.String())
	}
	return fmt.Errorf("export: the file would break rules of %s, nothing was written: %s", in.Target.Name, strings.Join(lines, "; "))
}
