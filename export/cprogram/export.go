package cprogram

import (
	"context"
	"io"

	"qwb/export"
	"qwb/quantizer/tqc"
)

// Format is the integer program as one C99 file, for all platforms whose profile it computes as.
func Format() export.Format {
	return export.Format{Name: "c", Doc: "the integer program as one C99 file, with weights and a main function that reads and writes .npy files; see docs/c.md",
		Ext: ".c", From: export.Program, Options: []export.Option{
			{Name: "batch", Kind: export.Whole, Min: 1, Default: "1", Doc: "samples per run, if the batch size of the model is dynamic"},
			{Name: "size", Kind: export.Sizes, Min: 1, Doc: "sizes of other dynamic dimensions, for example H=96,W=96"},
			{Name: "inputs", Kind: export.Choice, Choices: []string{"float32", "integers"}, Default: "float32", Doc: "type of the inputs: float32 with a QUANTIZE behind, or the integers themselves"},
			{Name: "outputs", Kind: export.Choice, Choices: []string{"float32", "integers"}, Default: "float32", Doc: "type of the outputs: float32 with a DEQUANTIZE before, or the integers themselves"},
			{Name: "prefix", Kind: export.Text, Default: "qwb", Doc: "what the names begin with that other files can see"},
		},
		Check: func(in *export.Input) error {
			_, _, err := written(in.Program, OptionsOf(in))
			return err
		},
		Write: write}
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	title := in.Title
	if in.Verification != "" {
		title += ", " + in.Verification
	}
	var size Size
	err := out.Write(out.Name(), func(w io.Writer) (err error) {
		o := OptionsOf(in)
		o.Title = title
		size, err = Write(w, in.Program, o)
		return err
	})
	out.Figure("arena_bytes", int64(size.Arena))
	out.Figure("constant_bytes", int64(size.Constants))
	return nil, err
}

// OptionsOf are the options that a user gave.
func OptionsOf(in *export.Input) Options {
	return Options{Sizes: openSizes(in), Prefix: in.Options.Text("prefix"), Inputs: in.Options.Text("inputs") == "integers", Outputs: in.Options.Text("outputs") == "integers"}
}

// openSizes are the sizes of dimensions that the model leaves open.
func openSizes(in *export.Input) map[string]int64 {
	sizes := map[string]int64{}
	for name, n := range in.Options.Sizes("size") {
		sizes[name] = n
	}
	g := in.Program.Graph
	for _, v := range g.Inputs {
		if s := g.Value(v).Shape; len(s) > 0 && !s[0].Known() {
			sizes[s[0].Symbol] = in.Options.Whole("batch")
		}
	}
	return sizes
}
