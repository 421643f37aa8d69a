package qwb_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"qwb"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// A network is calibrated on pictures, its error is measured, the operator that suffers most goes back to float, and the result is
// verified and exported; all of it in memory.
func Example() {
	ctx := context.Background()
	store := new(qwb.Memory)
	store.Write("glyphs.onnx", demo.Model)
	camera, err := demo.NewCamera()
	if err != nil {
		log.Fatal(err)
	}
	for i := range 16 {
		picture, _, err := camera.Shot(demo.Calibration, 1, i)
		if err != nil {
			log.Fatal(err)
		}
		var file bytes.Buffer
		if err := npy.Write(&file, tensor.FromF32(picture, 1, 1, demo.Size, demo.Size)); err != nil {
			log.Fatal(err)
		}
		store.Write(fmt.Sprintf("pictures/%02d.npy", i), file.Bytes())
	}

	p := &qwb.Project{Model: "glyphs.onnx", Plan: "glyphs.plan.json", Store: store,
		Catalog: qwb.Catalog{Version: "1.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	c, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "onnxruntime", Data: qwb.DataOptions{Paths: []string{"pictures"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("calibrated on", c.Samples, "pictures")

	report, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Layerwise: true}})
	if err != nil {
		log.Fatal(err)
	}
	worst := report.Layerwise[0]
	for _, l := range report.Layerwise {
		if l.NSR > worst.NSR {
			worst = l
		}
	}
	d, _, err := p.Dispatch(ctx, qwb.DispatchOptions{Selectors: []string{worst.Node}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the worst of", len(report.Layerwise), "operators is in float:", len(d.FP32) > 0)

	r, _, err := p.Export(ctx, qwb.ExportOptions{Platform: "onnxruntime", Out: "glyphs.int8.onnx"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.File, "is verified:", analysis.Holds(r.Verification.Verdict))
	for _, name := range store.Names()[:5] {
		fmt.Println(name)
	}
	// Output:
	// calibrated on 16 pictures
	// the worst of 10 operators is in float: true
	// glyphs.int8.onnx is verified: true
	// glyphs.int8.onnx
	// glyphs.onnx
	// glyphs.plan.json
	// glyphs.plan.json.bak
	// glyphs.stats
}
