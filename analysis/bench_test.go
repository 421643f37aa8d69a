package analysis

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/graphtest"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// BenchmarkLayerwise compares the analysis with running the whole quantized graph once per operator, on trained models.
func BenchmarkLayerwise(b *testing.B) {
	root := os.Getenv("QWB_TESTDATA")
	if root == "" {
		b.Skip("QWB_TESTDATA is not set: no models")
	}
	for _, m := range []struct{ name, file string }{
		{"squeezenet", "classifiers/squeezenet1.0.onnx"},
		{"mobilenet_v1", "classifiers/mobilenet_v1_1.0_224.onnx"},
	} {
		g, q, feeds := simulated(b, filepath.Join(root, "models", m.file))
		const n = 4
		var samples []*exec.Sample
		for range n {
			samples = append(samples, &exec.Sample{Feeds: feeds})
		}
		b.Run("model="+m.name+"/method=restart", func(b *testing.B) {
			var forwards float64
			for b.Loop() {
				r, err := Analyze(context.Background(), g, q, &replay{samples: samples}, Config{Layerwise: true})
				require.NoError(b, err)
				forwards = r.Forwards
			}
			b.ReportMetric(forwards, "forwards")
		})
		b.Run("model="+m.name+"/method=naive", func(b *testing.B) {
			var groups []group
			for b.Loop() {
				s, err := exec.New(g, exec.Options{})
				require.NoError(b, err)
				order, err := g.Order()
				require.NoError(b, err)
				groups, err = groupsOf(g, order, q)
				require.NoError(b, err)
				runner := s.NewRunner()
				for _, sample := range samples {
					_, err := runner.Run(context.Background(), sample.Feeds, nil)
					require.NoError(b, err)
					for i := range groups {
						_, err := runner.Run(context.Background(), sample.Feeds, q.NewHooks(sim.View{Mask: groups[i].all}))
						require.NoError(b, err)
					}
				}
			}
			b.ReportMetric(float64(1+len(groups)), "forwards")
		})
	}
}

// simulated loads a model and quantizes it for trt_int8 with made-up but plausible activation scales: only time matters here.
func simulated(b *testing.B, file string) (*graph.Graph, *sim.Simulator, map[string]*tensor.Tensor) {
	b.Helper()
	m, _, err := onnx.Open(file)
	require.NoError(b, err)
	b.Cleanup(func() { m.Close() })
	g := m.Graph
	_, err = passes.Run(g, passes.Normalize)
	require.NoError(b, err)
	graph.InferShapes(g)
	a, err := dispatch.Assign(g, &target.TRTInt8)
	require.NoError(b, err)
	set, _, err := quantizer.Configure(g, a, &target.TRTInt8, quantizer.Options{})
	require.NoError(b, err)
	for id := range tqc.SlotID(set.NumSlots()) {
		slot := set.Slot(id)
		if slot.State() != tqc.Initial || set.Root(id) != id {
			continue
		}
		n := 1
		if slot.Config.Policy.Has(tqc.PerChannel) {
			n = g.Const(slot.Value).Shape[slot.Config.Axis]
		}
		p := tqc.Params{Scale: make([]float32, n), ZeroPoint: make([]int32, n)}
		for i := range p.Scale {
			p.Scale[i] = 0.05
		}
		require.NoError(b, set.Render(id, p))
	}
	q, err := sim.New(g, set, sim.Options{})
	require.NoError(b, err)
	feeds := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		if shape, ok := g.Value(v).Shape.Ints(); ok && g.Const(v) == nil {
			feeds[g.Value(v).Name] = graphtest.Normal(1, shape...)
		}
	}
	return g, q, feeds
}
