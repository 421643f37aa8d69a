package qwb_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"qwb"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

// A network is calibrated on pictures, its error is measured, and it is verified and exported, all of it in memory.
func Example() {
	ctx := context.Background()
	p := &qwb.Project{Model: "glyphs.onnx", Plan: "glyphs.plan.json", Store: glyphs(), Catalog: qwb.Standard("1.0")}
	c, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "onnxruntime", Data: qwb.DataOptions{Paths: []string{"pictures"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("calibrated on", c.Samples, "pictures")

	report, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Outputs: true, Layerwise: true}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the errors of", len(report.Layerwise), "operators were measured, each alone")

	r, _, err := p.Export(ctx, qwb.ExportOptions{Platform: "onnxruntime", Out: "glyphs.int8.onnx"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.File, "is verified:", analysis.Holds(r.Verification.Verdict))
	// Output:
	// calibrated on 16 pictures
	// the errors of 12 operators were measured, each alone
	// glyphs.int8.onnx is verified: true
}

// The operator that suffers most goes back to float, and what was decided is seen and taken back.
func ExampleProject_Set() {
	ctx := context.Background()
	p := &qwb.Project{Model: "glyphs.onnx", Plan: "glyphs.plan.json", Store: glyphs(), Catalog: qwb.Standard("1.0")}
	if _, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "onnxruntime",
		Data: qwb.DataOptions{Paths: []string{"pictures"}}}); err != nil {
		log.Fatal(err)
	}
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
	d, _, err := p.Set(ctx, worst.Node, []string{"domain=fp32"}, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("float:", len(d.FP32))
	if _, _, err := p.Undo(ctx, 1); err != nil {
		log.Fatal(err)
	}
	e, _, err := p.Explain(ctx, worst.Node)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after undo:", e.Domain)
	// Output:
	// float: 1
	// after undo: INT8
}

// What went wrong is told as data.
func ExampleDescribe() {
	p := &qwb.Project{Model: "none.onnx", Store: new(qwb.Memory), Catalog: qwb.Standard("1.0")}
	_, _, err := p.Inspect(context.Background())
	f := qwb.Describe(err)
	fmt.Println(f.Kind, f.File)
	// Output: input none.onnx
}

// glyphs is a store with a network and 16 pictures for it.
func glyphs() *qwb.Memory {
	store := new(qwb.Memory)
	store.Write("glyphs.onnx", demo.Model)
	camera := demo.NewCamera()
	for i := range 16 {
		picture, _ := camera.Shot(demo.Calibration, 1, i)
		var file bytes.Buffer
		if err := npy.Write(&file, tensor.FromF32(picture, 1, 1, demo.Size, demo.Size)); err != nil {
			log.Fatal(err)
		}
		store.Write(fmt.Sprintf("pictures/%02d.npy", i), file.Bytes())
	}
	return store
}
