// Command core is the smallest program that does what qwb does: calibrate, measure, dispatch, tune, verify, evaluate, import and export
// a model, by package qwb and without a GPU, a command line or pictures of charts. It is built for js/wasm by a test, which holds its size.
package main

import (
	"context"
	"fmt"
	"os"

	"qwb"
	"qwb/export/all"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "core: model, platform and data are needed")
	} else if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "core:", err)
	}
}

// run takes a model through all steps, for a platform, on files of data.
func run(ctx context.Context, model, platform string, files []string) error {
	p := &qwb.Project{Model: model, Plan: "core" + qwb.PlanSuffix,
		Catalog: qwb.Catalog{Version: "core", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	data := qwb.DataOptions{Paths: files}
	for _, step := range []func() error{
		func() error {
			_, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: platform, Data: data})
			return err
		},
		func() error { _, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{}); return err },
		func() error { _, _, err := p.Dispatch(ctx, qwb.DispatchOptions{}); return err },
		func() error { _, _, err := p.Tune(ctx, qwb.TuneOptions{}); return err },
		func() error { _, _, err := p.Verify(ctx, qwb.VerifyOptions{}); return err },
		func() error { _, _, err := p.Eval(ctx, qwb.EvalOptions{}); return err },
		func() error {
			_, _, err := p.Export(ctx, qwb.ExportOptions{Platform: platform, Out: "core.int8.onnx"})
			return err
		},
		func() error { _, _, err := p.Import(ctx, qwb.ImportOptions{}); return err },
		func() error { _, _, err := p.Inspect(ctx); return err },
		func() error { _, _, err := p.Generate(ctx, qwb.GenerateOptions{}); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
