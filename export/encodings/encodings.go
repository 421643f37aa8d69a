// Package encodings writes what Qualcomm's tools read beside a float model: the encodings of its tensors as AIMET's "Quantization Encoding
// Specification" has them, in versions 0.6.1, 1.0.0, 2.0.0 and 2.1.0 (qairt-converter and qnn-onnx-converter --quantization_overrides,
// load_encodings_to_sim of AIMET). What a version leaves open was read in the source of aimet-onnx 2.42, _encoding.py.
//
// Unstable: it may change without notice.
package encodings

import (
	"context"
	"fmt"
	"io"

	"qwb/export"
	"qwb/export/table"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

const (
	v061 = "0.6.1"
	v100 = "1.0.0"
	v200 = "2.0.0"
	v210 = "2.1.0"
)

// suffix takes the place of .onnx in the name of the file beside the model.
const suffix = ".encodings"

// Format is the float model, its weights on their grids, and the encodings of all its tensors beside it.
func Format() export.Format {
	return export.Format{Name: "encodings",
		Doc: "float ONNX, and beside it the encodings of every tensor for QNN, SNPE and AIMET (MODEL.encodings)",
		Ext: ".onnx", From: export.Plan, Targets: []string{"qnn", "aimet"},
		Options: []export.Option{{Name: "encodings", Kind: export.Choice, Choices: []string{v100, v061, v200, v210},
			Doc: "version of the file of encodings"},
			export.ExternalAbove, export.DocString},
		Check: check, Write: write, Back: back, Rules: rules, Doctor: doctor}
}

func check(in *export.Input) error {
	version := in.Options.Text("encodings")
	list, err := table.Of(in)
	if err != nil {
		return err
	}
	for i := range list {
		t := &list[i]
		if !t.Encoded() {
			continue
		}
		fail := func(format string, args ...any) error {
			return in.Model.Graph.ErrorAt("export encodings", t.Node, fmt.Errorf("%s: "+format, append([]any{t.Name}, args...)...))
		}
		switch {
		case t.Config.Type != qmath.Integers:
			return fail("%s is no integer", t.Config.FormatName())
		case t.Config.Bits < 4 && version == v061:
			return fail("%s has fewer than 4 bits, which version %s does not know", t.Config.FormatName(), version)
		case t.Config.Policy.Has(tqc.PerGroup) && version == v061:
			return fail("scales of groups, which version %s does not know: choose --encodings %s or above", version, v100)
		case t.Config.Rounding != qmath.HalfEven && !t.Kind.Constant():
			return fail("%s rounding, which no encoding says", t.Config.Rounding)
		}
	}
	return nil
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	list, err := table.Of(in)
	if err != nil {
		return nil, err
	}
	if err := table.WriteModel(in, list, out); err != nil {
		return nil, err
	}
	b, err := document(in.Model.Graph, list, in.Options.Text("encodings"), in.Producer, in.Version)
	if err != nil {
		return nil, err
	}
	encoded := 0
	for i := range list {
		if list[i].Encoded() {
			encoded++
		}
	}
	out.Figure("encodings", int64(encoded))
	return nil, out.Write(export.Beside(out.Name(), suffix), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
