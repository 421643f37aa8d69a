package cprogram

import (
	"context"
	"io"

	"qwb/export"
	"qwb/quantizer/tqc"
)

// Format is the integer program as one C99 file, for all platforms whose profile it computes as.
func Format() export.Format {
	return export.Format{Name: "c", Doc: "the integer program as one C99 file, with weights and a main function that reads and writes .npy " +
		"files; see docs/c.md",
		Ext: ".c", From: export.Program, Own: forms.Own(), Options: []export.Option{
			export.Batch, export.OpenSizes,
			export.Inputs("integers"),
			export.Outputs,
			{Name: "prefix", Kind: export.Text, Default: "qwb", Doc: "what the names begin with that other files can see"},
		},
		Check: func(in *export.Input) error {
			o, err := OptionsOf(in)
			if err == nil {
				_, _, err = written(in.Program, o)
			}
			return err
		},
		Write: write, Back: back}
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	o, err := OptionsOf(in)
	if err != nil {
		return nil, err
	}
	o.Title = in.Title
	if in.Verification != "" {
		o.Title += ", " + in.Verification
	}
	var size Size
	err = out.Write(out.Name(), func(w io.Writer) (err error) {
		size, err = Write(w, in.Program, o)
		return err
	})
	out.Figure("arena_bytes", int64(size.Arena))
	out.Figure("constant_bytes", int64(size.Constants))
	return nil, err
}

// OptionsOf are the options that a user gave.
func OptionsOf(in *export.Input) (Options, error) {
	sizes, err := export.BoundSizes(in)
	return Options{Context: in.Context, Sizes: sizes, Prefix: in.Options.Text("prefix"),
		Inputs:  in.Options.Text(export.InputsName) == "integers",
		Outputs: in.Options.Text(export.Outputs.Name) == "integers"}, err
}
