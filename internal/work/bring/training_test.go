package bring

import (
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Files give channels that are all zero some tiny scale, calibration gives them 1. Neither was trained.
func TestZeroChannelsAreNotTrained(t *testing.T) {
	cfg := &tqc.Config{Policy: tqc.PerChannel | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}}
	file := &tqc.Params{Scale: []float32{1e-9, 0.01}, ZeroPoint: []int32{0, 0}}
	calibrated := &tqc.Params{Scale: []float32{1, 0.01}, ZeroPoint: []int32{0, 0}}
	for _, c := range []struct {
		first   float32
		trained bool
	}{{0, false}, {5e-9, true}} {
		e := &TrainedTensor{Scale: file.Scale, ZeroPoint: file.ZeroPoint}
		require.NoError(t, e.compare(calibrated, tensor.FromF32([]float32{0, c.first, 0, 0.5, -1, 0}, 2, 3), cfg, file))
		require.Equal(t, c.trained, *e.Trained)
	}
}
