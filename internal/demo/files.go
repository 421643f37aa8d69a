package demo

import (
	"bytes"
	"context"
	"fmt"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// What qwb demo works on, in a folder of this name: the model, pictures to calibrate on, others to evaluate with, and what those show.
const (
	Folder            = "qwb-demo"
	ModelName         = "glyphs.onnx"
	CalibrationFolder = "data/calibration"
	EvaluationFolder  = "data/eval"
	Labels            = "data/eval.tsv"

	DefaultSeed = 1

	calibrationShots = 256
	evaluationShots  = 1000
)

// Files gives write all files of the demo, with names in its folder.
func Files(ctx context.Context, seed uint64, write func(name string, content []byte) error) error {
	camera := NewCamera()
	var labels bytes.Buffer
	fmt.Fprintln(&labels, "file\tindex")
	for _, s := range []struct {
		series Series
		folder string
		n      int
	}{{Calibration, CalibrationFolder, calibrationShots}, {Evaluation, EvaluationFolder, evaluationShots}} {
		for i := range s.n {
			if err := ctx.Err(); err != nil {
				return err
			}
			img, class := camera.Shot(s.series, seed, i)
			name := fmt.Sprintf("%05d.npy", i)
			if s.series == Evaluation {
				fmt.Fprintf(&labels, "%s\t%d\n", name, class)
			}
			var b bytes.Buffer
			if err := npy.Write(&b, tensor.FromF32(img, 1, 1, Size, Size)); err != nil {
				return err
			}
			if err := write(s.folder+"/"+name, b.Bytes()); err != nil {
				return err
			}
		}
	}
	if err := write(Labels, labels.Bytes()); err != nil {
		return err
	}
	return write(ModelName, Model)
}
