package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/quantizer/decision"
)

// A calibration cache becomes the scales of a plan, which writes the same cache again and Q/DQ of them: whatever the plan's own data say.
func TestRecipeOfTensorRT(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	cache := "TRT-8601-EntropyCalibration2\nx: 3d000000\nr1: 3d800000\nc2: 3f000000\n(Unnamed Layer* 0) [Convolution]_output: 3f800000\n"
	p.job().Files().(*Memory).Write("old.cache", []byte(cache))
	o := CalibrateOptions{Platform: "trt10_int8", Data: DataOptions{Paths: []string{"m"}}, Threads: 1, Recipes: []string{"trt:old.cache"}}
	_, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	var lines []string
	for _, d := range planIn(t, p).Decisions {
		if d.By == decision.ByRecipe {
			lines = append(lines, d.String())
		}
	}
	require.Equal(t, []string{"recipe: tensorrt range: conv1:in0 scale=0.03125", "recipe: tensorrt range: conv2:in0 scale=0.0625"}, lines)
	derivesAgain(t, p)
	_, _, err = p.Export(ctx, ExportOptions{Platform: "trt10_int8", Format: "trt-cache", Out: "new.onnx"})
	require.NoError(t, err)
	require.Contains(t, string(get(t, p, "new.cache")), "\nx: 3d000000\nr1: 3d800000\n")
	for text, want := range map[string]string{
		"TRT-8601-EntropyCalibration2\nnobody: 3d000000\n": "old.cache: none of its 1 tensor is read by an operator that runs on integers",
		"TRT-8601-EntropyCalibration2\nx: 00000000\n":      "old.cache: x: scale 0",
		"x: 3d000000\n": `old.cache: line 1: "x: 3d000000" is no header TRT-VERSION-ALGORITHM`,
	} {
		p.job().Files().(*Memory).Write("old.cache", []byte(text))
		_, _, err := p.Calibrate(ctx, o)
		require.ErrorContains(t, err, want)
	}
	o.Platform = "onnxruntime"
	p.job().Files().(*Memory).Write("old.cache", []byte(cache))
	_, _, err = p.Calibrate(ctx, o)
	require.ErrorContains(t, err, "old.cache: TensorRT's ranges are of symmetric int8 tensors, those of onnxruntime are uint8-asym-tensor")
}
