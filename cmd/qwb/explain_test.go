package main

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/internal/longtest"
)

// On ResNet-8 the rounding of biases does next to nothing, at the outputs as at every step. It throws all later rounding anew, for which
// it was once blamed with half of the loss; the parts of what does not hang together sum to nearly the whole.
func TestExplanationOfATrainedNetwork(t *testing.T) {
	longtest.Need(t, "a hundred images")
	model, images := shared(t, "models", "mlperf-tiny", "pretrainedResnet.onnx"), shared(t, "data", "cifar10", "calibration_500.bin")
	inFolder(t)
	done(t, "calibrate", model, "--data", images, "--samples", "64", "--platform", "onnxruntime", "-o", "m.plan.json")
	var r analysis.Report
	require.NoError(t, json.Unmarshal([]byte(done(t, "analyze", "m.plan.json", "--explain", "--samples", "100", "--json").stdout), &r))
	require.Equal(t, 100, r.Explained.Samples)
	require.Len(t, r.Explained.Outputs, 1)
	whole := r.Explained.Outputs[0].Loss
	require.Less(t, whole.Bias, 0.01*whole.NSR)
	require.Less(t, math.Abs(whole.Rest), 0.3*whole.NSR)
	require.Greater(t, *whole.WeightsShift, 0.3*whole.Weights, "a corrected bias repairs that much")
	for _, l := range r.Explained.Layers {
		require.Less(t, math.Abs(l.Bias), 0.01*l.NSR, l.Node)
	}
}
