package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// One row of the table that examples/evidence/repair.py makes: ResNet-8, power-of-two scales per tensor, `tune --method auto` on 64
// pictures, measured on 200 others that nothing was fitted on.
func TestTuningRepairsATrainedNetwork(t *testing.T) {
	longtest.Need(t, "calibrates and tunes a trained network")
	model, data := shared(t, "models/mlperf-tiny/pretrainedResnet.onnx"), shared(t, "data/cifar10/calibration_500.bin")
	inFolder(t)
	const most = 0.4 // of the error before; 0.24 was measured
	done(t, "calibrate", model, "--data", data, "--samples", "96", "--platform", "pow2_int8", "--per-tensor", "-o", "r.plan.json")
	unseen := func() (nsr, spread float64) {
		r := done(t, "eval", "r.plan.json", "--data", shared(t, "data/cifar10/eval_2000.bin"), "--samples", "200", "--mode", "sim",
			"--json").object(t)
		c := r["centred"].(map[string]any)
		return c["nsr"].(float64), c["nsr_error"].(float64)
	}
	before, _ := unseen()
	done(t, "tune", "r.plan.json", "--method", "auto")
	after, spread := unseen()
	require.Less(t, after+2*spread, most*before)
	require.Contains(t, []any{"equal", "ties"}, done(t, "verify", "r.plan.json", "--samples", "4", "--json").object(t)["verdict"])
	done(t, "export", "r.plan.json", "--platform", "pow2_int8", "-o", "r.onnx")
}
