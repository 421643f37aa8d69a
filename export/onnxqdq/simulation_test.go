package onnxqdq_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// requireSimulation holds a written model to the simulation of the configs it was made from, bit for bit: both do the same
// float32 operations in the same order, an integer bias included (its codes are those of the simulation, and a
// DequantizeLinear multiplies them by the same scale).
func requireSimulation(t *testing.T, g *graph.Graph, set *tqc.Set, m *onnx.Model, seeds int) {
	t.Helper()
	simulator, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	original, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	exported, err := exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
	for seed := range uint64(seeds) {
		feeds := feedsOf(g, 50+seed)
		want, err := original.NewRunner().Run(context.Background(), feeds, simulator.Hooks(nil))
		require.NoError(t, err)
		got, err := exported.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, g.Value(g.Outputs[i]).Name, m.Graph.Value(m.Graph.Outputs[i]).Name)
			require.True(t, tensor.Equal(want[i], got[i]), "output %q, input %d", g.Value(g.Outputs[i]).Name, seed)
		}
	}
}

func TestExportComputesWhatTheSimulationDoes(t *testing.T) {
	corpus(t, func(t *testing.T, c configuredCase) {
		_, m := written(t, build(t, &onnx.Model{Graph: c.g}, c.set, findTarget(t, c.platform)))
		requireSimulation(t, c.g, c.set, m, 3)
	})
}

// Networks of the real world: no findings, and the numbers of the simulation.
func TestRealModels(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: no real models")
	}
	longtest.Need(t, "real models take a while")
	for _, file := range []string{"classifiers/squeezenet1.0.onnx", "classifiers/mobilenetv2_0.35_catdog.onnx",
		"mlperf-tiny/pretrainedResnet.onnx",
		"mlperf-tiny/vww_96_float.onnx", "mlperf-tiny/kws_dequant_fp32.onnx", "mnist/mnist-8.onnx", "mnist/cnn_mnist_pytorch.onnx"} {
		for _, tg := range targettest.Distinct() {
			if tg.Activation.Rounding != qmath.HalfEven {
				continue // of targets with files of their own: QuantizeLinear rounds otherwise
			}
			t.Run(fmt.Sprintf("%s/%s", filepath.Base(file), tg.Name), func(t *testing.T) {
				m, _, err := onnx.Open(filepath.Join(dir, "models", file))
				require.NoError(t, err)
				defer m.Close()
				graph.InferShapes(m.Graph)
				_, err = passes.Run(context.Background(), m.Graph, passes.Normalize)
				require.NoError(t, err)
				require.Empty(t, graph.InferShapes(m.Graph))
				set := configure(t, m.Graph, tg, "")
				calibrated(t, m.Graph, set)
				_, out := written(t, build(t, m, set, tg))
				require.Empty(t, onnxqdq.Check(out.Graph, tg, integers(m.Graph, set)))
				require.Empty(t, onnxqdq.Check(out.Graph, tg, nil))
				requireSimulation(t, m.Graph, set, out, 1)
			})
		}
	}
}
