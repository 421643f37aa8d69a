package qoperator_test

import (
	"strings"
	"testing"

	"qwb/export/qoperator"
	"qwb/internal/exporttest"
)

func TestDamagedFilesAreFound(t *testing.T) {
	f := qoperator.Format()
	exporttest.ReadBack(t, &f, small, "onnxruntime", exporttest.Rewired(nil)[:1])
	exporttest.ReadBack(t, &f, small, "onnxruntime", []exporttest.Damaged{
		{What: "a code of a weight", Plant: exporttest.Constant("w_quantized", exporttest.Moved(-2))},
		{What: "a code of a bias", Plant: exporttest.Constant("b_quantized", exporttest.Moved(1))},
		{What: "a scale of a weight", Plant: exporttest.Constant("w_scale", exporttest.Longer)},
		{What: "a scale of a tensor", Plant: exporttest.Constant("x_scale", exporttest.Longer)},
		{What: "a zero point of a tensor", Plant: exporttest.Constant("x_zero_point", exporttest.Moved(1))},
	})
	exporttest.ReadBack(t, &f, strings.Replace(small, "lo: f32[] = 0", "lo: f32[] = 0.2", 1), "onnxruntime", []exporttest.Damaged{
		{What: "a limit of codes", Plant: exporttest.Constant("_low", exporttest.Moved(-1))},
	})
	exporttest.ReadBack(t, &f, products, "onnxruntime", []exporttest.Damaged{
		{What: "a code of a product", Plant: exporttest.Constant("w1_quantized", exporttest.Moved(-2))},
	})
}
