package mnn

import (
	"testing"

	"qwb/graph/tensor"
	"qwb/internal/exporttest"
)

func TestDamagedFilesAreFound(t *testing.T) {
	f := Format()
	parameters := "m.onnx" + Suffix
	exporttest.ReadBack(t, &f, text, "mnn_int8", append(append(exporttest.Rewired(nil), exporttest.Crossed(nil)), []exporttest.Damaged{
		{What: "a code of a weight", Plant: exporttest.Constant("w", func(x *tensor.Tensor) *tensor.Tensor {
			x.F32()[0] *= 0.98
			return x
		})},
		{What: "a bias", Plant: exporttest.Constant("b", exporttest.Longer)},
		{What: "a scale", Plant: exporttest.Replace(parameters, `"scales": [
         0.`, `"scales": [
         1.`)},
		{What: "a zero point", Plant: exporttest.Replace(parameters, `"zeroPoint": 0`, `"zeroPoint": 1`)},
		{What: "a limit of codes", Plant: exporttest.Replace(parameters, `"clampMin": -127`, `"clampMin": -126`)},
		{What: "a layer that is missing", Plant: exporttest.Replace(parameters, `"opName": "first"`, `"opName": "wise"`)},
	}...))
}
