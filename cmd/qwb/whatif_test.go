package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIf: the estimate without an analysis and with one, the figure that is measured, a range of one activation; the plan stays as it
// is.
func TestWhatIf(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", network)
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	before, err := os.ReadFile("m.plan.json")
	require.NoError(t, err)
	r := done(t, "whatif", "type:Conv", "domain=fp32")
	require.Contains(t, r.stdout, "not known")
	require.Contains(t, r.stdout, "to decide it: qwb set m.plan.json type:Conv domain=fp32\n")
	done(t, "analyze", "--layerwise")
	text := done(t, "whatif", "type:Conv", "domain=fp32", "--measure", "--all").stdout
	require.NotContains(t, text, "not known")
	require.Contains(t, text, "measured on 4 samples")
	o := done(t, "whatif", "m.plan.json", "*", "domain=fp32", "--measure", "--json", "--histograms").object(t)
	require.Zero(t, o["measured"].(map[string]any)["after"].(map[string]any)["nsr"])
	require.Zero(t, o["estimate"].(map[string]any)["after"].(map[string]any)["nsr"])
	first := o["tensors"].([]any)[0].(map[string]any)
	require.Nil(t, first["after"])
	require.NotEmpty(t, first["tensor"].(map[string]any)["bins"].(map[string]any)["counts"])
	slot := first["slot"].(string)
	require.Regexp(t, "to decide it: qwb set m.plan.json "+slot+" scale=[0-9.e-]+ zero_point=[0-9-]+\n",
		done(t, "whatif", slot, "lo=-0.5", "hi=0.5").stdout)
	for _, args := range [][]string{{"whatif", "conv"}, {"whatif", slot, "lo=1"}, {"whatif", slot, "lo=-1", "hi=1", "--data", "data"},
		{"whatif", slot, "lo=-1", "hi=1", "--histograms"},
		{"whatif", "nothing:in0", "lo=0", "hi=1"}, {"whatif", slot, "colour=red"}} {
		require.Equal(t, exitUsage, invoke(args...).code, args)
	}
	after, err := os.ReadFile("m.plan.json")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Regexp(t, "INT8 to FP32.*; NSR of the outputs, estimated: [0-9.e-]+ ± [0-9.e-]+ to [0-9.e-]+",
		done(t, "set", "first", "domain=fp32").stdout)
	require.NotContains(t, done(t, "set", "*", "domain=fp32").stdout, "estimated", "the analysis is of other decisions now")
}
