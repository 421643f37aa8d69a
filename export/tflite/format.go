package tflite

import (
	"context"
	"fmt"
	"io"

	"qwb/export"
	"qwb/graph"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// Format is a .tflite file for TensorFlow Lite's interpreters, TFLite Micro and what compiles such files.
func Format() export.Format {
	return export.Format{Name: "tflite", Doc: "TensorFlow Lite's file: channels last, weights as integers, float operators between QUANTIZE " +
		"and DEQUANTIZE; see docs/tflite.md",
		Note: "the default interpreter computes by XNNPACK, within one step of these integers; reference kernels (BUILTIN_REF) and TFLite " +
			"Micro give exactly these",
		Ext: ".tflite", From: export.Program, Targets: []string{"tflite_int8", "tflite_16x8", "tflite"}, Options: []export.Option{
			export.Inputs("integers"),
			export.Outputs,
			export.Batch, export.OpenSizes,
		},
		Own: rows().Own(),
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
	return turnedAxes(in, m), out.Write(out.Name(), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// turnedAxes says which inputs and outputs of the file have their axes in another order than in the model, as the import of one does.
func turnedAxes(in *export.Input, m *tf.Model) []tqc.Warning {
	var list []tqc.Warning
	g, sub := in.Program.Graph, &m.Subgraphs[0]
	for _, side := range []struct {
		what  string
		ids   []lower.TensorID
		there []int
	}{{"input", in.Program.Inputs, sub.Inputs}, {"output", in.Program.Outputs, sub.Outputs}} {
		for i, id := range side.ids {
			own, is := g.Value(in.Program.Tensors[id].Value), sub.Tensors[side.there[i]].Shape
			if s := own.Shape; len(s) == 4 && len(is) == 4 && turned4(s, is) {
				list = append(list, tqc.Warning{Text: fmt.Sprintf("%s %q has its channels last in the file, %v: the model has %s",
					side.what, own.Name, is, s)})
			}
		}
	}
	return list
}

// turned4 reports whether a shape is another one with its second axis last, and looks otherwise.
func turned4(model graph.Shape, file []int) bool {
	other := false
	for i, a := range last(4) {
		if d := model[a]; d.Known() && d.N != int64(file[i]) {
			return false
		}
		other = other || model[i].Known() && model[i].N != int64(file[i])
	}
	return other
}
