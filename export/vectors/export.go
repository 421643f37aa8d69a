package vectors

import (
	"context"

	"qwb/export"
	"qwb/graph/tensor"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// Formats are the test vectors of the first sample, of the whole program and of what repeats in it.
func Formats() []export.Format {
	return []export.Format{
		{Name: "vectors", From: export.Program, Back: back,
			Doc: "a folder with test vectors of the first sample: the numbers of every step as npy and hex, and program.json",
			Write: func(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
				run, feeds, err := first(in)
				if err != nil {
					return nil, err
				}
				out.Figure("steps", int64(len(in.Program.Steps)))
				return nil, Write(ctx, run, feeds, Files{Create: out.Create, Array: in.Array})
			}},
		{Name: "patterns", From: export.Program, Back: backPatterns,
			Doc: "a folder with the repeated parts of the program, each as a program of its own with test vectors",
			Write: func(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
				run, feeds, err := first(in)
				if err != nil {
					return nil, err
				}
				found, err := WritePatterns(ctx, run, feeds, Files{Create: out.Create, Array: in.Array})
				if err != nil {
					return nil, err
				}
				out.Figure("patterns", int64(len(found.Patterns)))
				out.Figure("steps", int64(found.Steps))
				return nil, nil
			}},
	}
}

// first prepares the reference, whose run leaves its tensors in in.State, and the first sample.
func first(in *export.Input) (*program.Executor, map[string]*tensor.Tensor, error) {
	run, err := program.New(in.Program, program.Reference, in.Threads)
	if err != nil {
		return nil, nil, err
	}
	rec := &export.Recording{Kind: recorded}
	run.Show(rec.See(in.Program))
	in.State = rec
	feeds, err := in.Sample()
	return run, feeds, err
}
