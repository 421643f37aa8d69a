package nbits

import (
	"context"
	"fmt"

	"qwb/export"
	"qwb/export/language/weights"
	"qwb/graph"
	"qwb/graph/language/checkpoint"
	"qwb/quantizer/tqc"
)

// Format is a checkpoint as an ONNX model for ONNX Runtime.
func Format() export.Format {
	return export.Format{Name: "onnx", Doc: "ONNX with MatMulNBits, for ONNX Runtime", Ext: ".onnx", From: export.Checkpoint,
		Options: []export.Option{weights.Group, weights.Fallback, weights.Method, weights.Judge, weights.Matrices("int8", "int4"),
			weights.Requantize,
			export.ExternalAbove},
		Groups: groups, Write: write, Back: back}
}

func options(in *export.Input) Options {
	o := Options{Bits: 8, Block: int(in.Options.Whole(weights.Group.Name)), Fallback: in.Options.Text(weights.Fallback.Name),
		Search: weights.WayOf(in.Options.Text(weights.Method.Name)).Search, Searches: in.Searches, Parallel: in.Parallel,
		Producer: in.Producer, Version: in.Version}
	if in.Options.Text("weights") == "int4" {
		o.Bits = 4
	}
	return o
}

func groups(in *export.Input) (size, bits int, err error) {
	o := options(in)
	size, err = o.block()
	return size, o.Bits, err
}

func write(_ context.Context, in *export.Input, out *export.Output) (warnings []tqc.Warning, err error) {
	stored := in.Checkpoint.Tensor(checkpoint.Output, 0)
	if !stored.Floats() && in.Options.Text(weights.Requantize.Name) != "yes" {
		return nil, fmt.Errorf("export: matrices are stored as %s, whose codes are not kept in MatMulNBits; --%s yes quantizes once more",
			stored.Storage(), weights.Requantize.Name)
	}
	source, err := checkpoint.Graph(in.Checkpoint)
	if err != nil {
		return nil, err
	}
	if !stored.Floats() {
		warnings = append(warnings, tqc.Warning{Text: "the weights were quantized before: their error adds to that of MatMulNBits"})
	}
	m, err := Build(source, options(in))
	if err != nil {
		return nil, err
	}
	in.State = source
	return warnings, export.WriteModel(m, in, out)
}

func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	m, err := export.ReadModel(in, out)
	if err != nil {
		return nil, err
	}
	n, largest, err := Compare(in.State.(*graph.Graph), m.Graph, options(in))
	if err != nil {
		m.Close()
		return nil, err
	}
	return &export.Readback{Comparison: export.Comparison{Weights: n, Codes: n, LargestError: largest}, Graph: m.Graph, Close: m.Close}, nil
}
