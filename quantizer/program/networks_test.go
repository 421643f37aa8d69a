package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/programtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
)

func TestStepsEqualTheSimulation(t *testing.T) {
	for name, text := range lowertest.Networks {
		for platform, profiles := range map[string][]string{"onnxruntime": {"onnx", "ort", "trt"}, "trt_int8": {"trt", "onnx"}} {
			for _, profile := range profiles {
				t.Run(name+"/"+platform+"/"+profile, func(t *testing.T) {
					g, set, feeds := lowertest.Configured(t, text, platform)
					e := programtest.Compiled(t, g, set, platform, profile)
					hook, b := stepwise(t, e.Program(), set, 1e-3)
					_, err := e.Run(context.Background(), feeds, hook)
					require.NoError(t, err, lower.Format(e.Program()))
					t.Logf("%d integers, %d ties, at most %g from a boundary", b.compared, b.ties, b.largest)
					require.Positive(t, b.compared)
				})
			}
		}
	}
}
