package trt_test

import (
	"testing"

	"qwb/export/trt"
	"qwb/internal/exporttest"
	"qwb/quantizer/lower/lowertest"
)

// One number of each kind: of what the plan encodes, of what is moved, of constants.
func TestDamagedFilesAreFound(t *testing.T) {
	files := map[string][]exporttest.Damaged{
		"trt-cache": {
			{What: "a scale", Plant: exporttest.Replace("m.cache", "x: 3", "x: 4")},
			{What: "a scale that is moved", Plant: exporttest.Replace("m.cache", "p: 3", "p: 4")},
		},
		"trt-ranges": {
			{What: "a range", Plant: exporttest.Nudged("m.ranges.json", `"max":`)},
			{What: "a scale", Plant: exporttest.Nudged("m.ranges.json", `"scale":`)},
		},
		"ppq-trt": {
			{What: "a range", Plant: exporttest.Nudged("m.json", `"x":`)},
			{What: "a parameter", Plant: exporttest.Replace("m.wts", "b1 4 ", "b1 4 00000000 ")},
			{What: "a digit of a parameter", Plant: exporttest.Replace("m.wts", "w1 8 3", "w1 8 b")},
		},
	}
	for _, f := range trt.Formats() {
		faults := append(files[f.Name], exporttest.Damaged{What: "a weight", Plant: exporttest.Constant("w2", exporttest.Longer)})
		faults = append(append(faults, exporttest.Rewired(nil)...), exporttest.Crossed(nil))
		t.Run(f.Name, func(t *testing.T) { exporttest.ReadBack(t, &f, network, "trt10_int8", faults) })
	}
}

// A bias that two convolutions add, each in its own unit, is two parameters.
func TestASharedBiasIsTwoParameters(t *testing.T) {
	for _, f := range trt.Formats() {
		if f.Name == "ppq-trt" {
			exporttest.Equal(t, &f, exporttest.Input(t, &f, lowertest.Networks["resnet"], "pow2_int8", nil))
		}
	}
}
