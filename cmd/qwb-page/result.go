package main

import (
	"context"
	"encoding/json"

	"qwb"
	"qwb/analysis"
	"qwb/internal/demo"
)

// resultOf is what the demo comes to, as the view that a report draws: calibrated, measured with accuracy, verified and exported. A page
// shows it at once, and computes the same in its tab.
func resultOf(ctx context.Context, version string) ([]byte, error) {
	store, at := &qwb.Memory{}, demo.Folder+"/"
	if err := demo.Files(ctx, demo.DefaultSeed, func(name string, content []byte) error {
		store.Write(at+name, content)
		return nil
	}); err != nil {
		return nil, err
	}
	p := &qwb.Project{Model: at + demo.ModelName, Plan: at + "glyphs" + qwb.PlanSuffix, Store: store, Catalog: qwb.Standard(version)}
	if _, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "trt_int8",
		Data: qwb.DataOptions{Paths: []string{at + demo.CalibrationFolder}}}); err != nil {
		return nil, err
	}
	p.Model = ""
	if _, _, err := p.Eval(ctx, qwb.EvalOptions{Mode: "int8", Data: qwb.DataOptions{Paths: []string{at + demo.EvaluationFolder},
		Labels: at + demo.Labels}}); err != nil {
		return nil, err
	}
	if _, _, err := p.Export(ctx, qwb.ExportOptions{Out: at + "glyphs.trt_int8.onnx"}); err != nil {
		return nil, err
	}
	r, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Data: qwb.DataOptions{Samples: demoSamples},
		Config: analysis.Config{Graphwise: true, Layerwise: true, Statistical: true, Split: true}})
	if err != nil {
		return nil, err
	}
	v, _, err := p.View(ctx, r, false)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// demoSamples are how many samples the page measures the demo on.
const demoSamples = 32
