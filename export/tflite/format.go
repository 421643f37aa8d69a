package tflite

import (
	"context"
	"io"

	"qwb/export"
	tf "qwb/graph/tflite"
	"qwb/quantizer/tqc"
)

// Format is a .tflite file for TensorFlow Lite's interpreters, TFLite Micro and what compiles such files.
func Format() export.Format {
	return export.Format{Name: "tflite", Doc: "TensorFlow Lite's file: channels last, weights as integers, float operators between QUANTIZE " +
		"and DEQUANTIZE; see docs/tflite.md",
		Note: "the default interpreter computes by XNNPACK, within one step of these integers; reference kernels (BUILTIN_REF) and TFLite " +
			"Micro give exactly these",
		Ext: ".tflite", From: export.Program, Targets: []string{"tflite_int8", "tflite_16x8", "tflite"}, Options: []export.Option{
			{Name: "inputs", Kind: export.Choice, Choices: []string{"float32", "integers"}, Default: "float32",
				Doc: "type of the inputs: float32 with a QUANTIZE behind, or the integers themselves"},
			{Name: "outputs", Kind: export.Choice, Choices: []string{"float32", "integers"}, Default: "float32",
				Doc: "type of the outputs: float32 with a DEQUANTIZE before, or the integers themselves"},
			export.Batch, export.OpenSizes,
		},
		Float32: true,
		Own:     rows().Own(),
		Check: func(in *export.Input) error {
			b, err := build(in)
			if err == nil {
				in.State = b
			}
			return err
		},
		Write: write, Rules: rules(), Doctor: doctor, Look: look, Back: back}
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m := in.State.(*tf.Model)
	for _, kv := range in.Metadata { // not known before the plan is verified
		m.Metadata = append(m.Metadata, tf.Metadata{Name: kv.Key, Data: []byte(kv.Value)})
	}
	b, err := m.Write()
	if err != nil {
		return nil, err
	}
	out.Figure("operators", int64(len(m.Subgraphs[0].Operators)))
	return nil, out.Write(out.Name(), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
