package program_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// On trained networks and real data the CPU backend computes the integers of the reference, under every profile of a kind of its own.
func TestCPUOnTrainedNetworks(t *testing.T) {
	best := kerneltest.IntegerTables(cpu.Detect())
	backends := []program.Backend{program.CPU, program.CPUWith(best["go"])}
	for _, c := range trained {
		t.Run(filepath.Base(c.model), func(t *testing.T) {
			if c.heavy && testing.Short() {
				t.Skip("takes seconds")
			}
			net := load(t, c.model, c.data, c.preprocess, 1)
			for platform, profiles := range map[string][]string{"onnxruntime": {"ort", "onnx", "tflite2", "rndnu"}, "trt_int8": {"trt"}} {
				set := net.configure(t, platform)
				tg, err := target.Find(platform)
				require.NoError(t, err)
				if c.heavy {
					profiles = profiles[:1]
				}
				for i, name := range profiles {
					pr, err := qmath.ProfileNamed(name)
					require.NoError(t, err)
					p, err := lower.Compile(net.g, set, tg, pr)
					if err != nil {
						t.Logf("%s: %v", name, err)
						continue
					}
					compared := requireEqual(t, p, net.samples[0], backends[:1+i%2], 2, 1)
					t.Logf("%s %s: %d integers equal", platform, name, compared)
				}
			}
		})
	}
}
