package cpu_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/internal/programtest"
	hardware "qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
)

// On trained networks and real data the CPU backend computes the integers of the reference, under every profile of a kind of its own.
func TestCPUOnTrainedNetworks(t *testing.T) {
	best := kerneltest.IntegerTables(hardware.Detect())
	backends := []program.Backend{cpu.Backend, cpu.With(best["go"])}
	for _, c := range programtest.Trained {
		t.Run(filepath.Base(c.Model), func(t *testing.T) {
			if c.Heavy {
				longtest.Need(t, "takes seconds")
			}
			net := programtest.Load(t, c.Model, c.Data, c.Preprocess, 1)
			for platform, profiles := range map[string][]string{"onnxruntime": {"ort", "onnx", "tflite2", "rndnu"}, "trt_int8": {"trt"}} {
				set := net.Configure(t, platform)
				tg, err := target.Find(platform)
				require.NoError(t, err)
				if c.Heavy {
					profiles = profiles[:1]
				}
				for i, name := range profiles {
					pr, err := qmath.ProfileNamed(name)
					require.NoError(t, err)
					p, err := lower.Compile(net.Graph, set, tg, pr)
					if err != nil {
						t.Logf("%s: %v", name, err)
						continue
					}
					compared := programtest.Equal(t, p, net.Samples[0], backends[:1+i%2], 2, 1)
					t.Logf("%s %s: %d integers equal", platform, name, compared)
				}
			}
		})
	}
}
