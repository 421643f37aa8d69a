package program_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
)

// On trained networks and data, every step's integers are those of the simulation but for ties, and the program's outputs are close
// to those of the simulation of the whole network.
func TestTrainedNetworks(t *testing.T) {
	for _, c := range programtest.Trained {
		t.Run(filepath.Base(c.Model), func(t *testing.T) {
			if c.Heavy {
				longtest.Need(t, "takes seconds")
			}
			net := programtest.Load(t, c.Model, c.Data, c.Preprocess, c.Samples)
			for platform, profiles := range map[string][]string{"onnxruntime": {"onnx", "ort", "tflite2"}, "trt_int8": {"trt"}} {
				set := net.Configure(t, platform)
				s, err := sim.New(net.Graph, set, sim.Options{})
				require.NoError(t, err)
				session, err := exec.New(net.Graph, exec.Options{Threads: 2})
				require.NoError(t, err)
				for i, profile := range profiles {
					e := programtest.Compiled(t, net.Graph, set, platform, profile)
					hook, b := stepwise(t, e.Program(), set, 2e-3)
					if i > 1 {
						hook = nil // another arithmetic: compared as a whole
					}
					same, worst := 0, 0.0
					for k, feeds := range net.Samples {
						want, err := session.NewRunner().Run(context.Background(), feeds, s.Hooks(nil))
						require.NoError(t, err)
						h := hook
						if k > 0 {
							h = nil
						}
						got, err := e.Run(context.Background(), feeds, h)
						require.NoError(t, err)
						worst = max(worst, nsr(want[0], got[0]))
						if top(want[0]) == top(got[0]) {
							same++
						}
					}
					t.Logf("%s %s: %d steps, %d integers, %d ties up to %.2g from a boundary; top-1 equal in %d of %d, NSR %.2g", platform, profile,
						len(e.Program().Steps), b.compared, b.ties, b.largest, same, len(net.Samples), worst)
					require.Less(t, worst, 0.05, lower.Format(e.Program()))
					if i < 2 {
						require.Equal(t, len(net.Samples), same)
					}
				}
			}
		})
	}
}

func nsr(want, got *tensor.Tensor) float64 {
	num, den := 0.0, 1e-7
	for i, w := range want.F32() {
		d := float64(got.F32()[i]) - float64(w)
		num, den = num+d*d, den+float64(w)*float64(w)
	}
	return num / den
}

func top(t *tensor.Tensor) int {
	best := 0
	for i, v := range t.F32() {
		if v > t.F32()[best] {
			best = i
		}
	}
	return best
}
