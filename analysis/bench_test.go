package analysis

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

// benchmarked is a model with scales from one sample of noise, and a float forward as the unit of time.
type benchmarked struct {
	g       *graph.Graph
	q       *sim.Simulator
	samples []*exec.Sample
	session *exec.Session
}

// eachModel runs f for the trained models, and for the networks of QWB_SHAPES: a folder of ONNX files whose inputs are float32.
func eachModel(b *testing.B, f func(b *testing.B, m *benchmarked)) {
	var files []string
	if root := os.Getenv("QWB_TESTDATA"); root != "" {
		for _, name := range []string{"squeezenet1.0", "mobilenet_v1_1.0_224"} {
			files = append(files, filepath.Join(root, "models", "classifiers", name+".onnx"))
		}
	}
	if folder := os.Getenv("QWB_SHAPES"); folder != "" {
		for _, name := range []string{"resnet50", "mobilenetv2"} {
			files = append(files, filepath.Join(folder, name+".onnx"))
		}
	}
	if len(files) == 0 {
		b.Skip("neither QWB_TESTDATA nor QWB_SHAPES is set: no models")
	}
	for _, file := range files {
		name := filepath.Base(file)
		b.Run("model="+name[:len(name)-len(".onnx")], func(b *testing.B) { f(b, open(b, file)) })
	}
}

func open(b *testing.B, file string) *benchmarked {
	b.Helper()
	file, err := filepath.Abs(file)
	require.NoError(b, err)
	model, _, err := onnx.Open(file)
	require.NoError(b, err)
	b.Cleanup(func() { model.Close() })
	m := &benchmarked{g: model.Graph}
	_, err = passes.Run(context.Background(), m.g, passes.Normalize)
	require.NoError(b, err)
	graph.InferShapes(m.g)
	const n = 4
	for i := range n {
		feeds := map[string]*tensor.Tensor{}
		for _, v := range m.g.Inputs {
			if m.g.Const(v) != nil {
				continue
			}
			var shape []int
			for _, d := range m.g.Value(v).Shape {
				shape = append(shape, int(max(d.N, 1))) // a batch of one where it is open
			}
			feeds[m.g.Value(v).Name] = graphtest.Normal(uint64(i+1), shape...)
		}
		m.samples = append(m.samples, &exec.Sample{Name: fmt.Sprint(i), Feeds: feeds})
	}
	m.session, err = exec.New(m.g, exec.Options{})
	require.NoError(b, err)
	m.q, _ = quantized(b, m.g, &target.TRTInt8, extents(b, m.g, &exec.InMemory{Samples: m.samples[:1]}), 1)
	return m
}

// forward returns the least time of one run of the whole graph on the first sample, in seconds.
func (m *benchmarked) forward(b *testing.B, runner *exec.Runner, hooks *exec.Hooks) float64 {
	b.Helper()
	least := math.Inf(1)
	for range 5 {
		start := time.Now()
		_, err := runner.Run(context.Background(), m.samples[0].Feeds, hooks)
		require.NoError(b, err)
		least = min(least, time.Since(start).Seconds())
	}
	return least
}

// BenchmarkLayerwise compares the analysis with running the whole graph once per operator. forwards/sample is the share of the
// work that ran; timed-forwards/sample is the time taken in float forwards of the same run.
func BenchmarkLayerwise(b *testing.B) {
	eachModel(b, func(b *testing.B, m *benchmarked) {
		groups, err := groupsOf(m.g, m.q)
		require.NoError(b, err)
		methods := []struct {
			name string
			run  func(b *testing.B) float64
		}{
			{"restart", func(b *testing.B) float64 {
				r, err := Analyze(context.Background(), m.g, m.q, &exec.InMemory{Samples: m.samples}, Config{Layerwise: true})
				require.NoError(b, err)
				return r.Forwards
			}},
			{"naive", func(b *testing.B) float64 {
				runner := m.session.NewRunner()
				for _, s := range m.samples {
					_, err := runner.Run(context.Background(), s.Feeds, nil)
					require.NoError(b, err)
					for i := range groups {
						_, err := runner.Run(context.Background(), s.Feeds, m.q.NewHooks(sim.View{Mask: groups[i].all}))
						require.NoError(b, err)
					}
				}
				return float64(1 + len(groups))
			}},
		}
		for _, method := range methods {
			b.Run("method="+method.name, func(b *testing.B) {
				unit := m.forward(b, m.session.NewRunner(), nil)
				n := float64(len(m.samples))
				least, counted := math.Inf(1), 0.0
				for b.Loop() {
					start := time.Now()
					counted = method.run(b)
					least = min(least, time.Since(start).Seconds())
				}
				b.ReportMetric(counted, "forwards/sample")
				b.ReportMetric(least/n/unit, "timed-forwards/sample")
				b.ReportMetric(least/n, "s/sample")
			})
		}
	})
}

// BenchmarkSimulated compares the simulation of the exported model with the float graph, one after the other in one loop.
func BenchmarkSimulated(b *testing.B) {
	eachModel(b, func(b *testing.B, m *benchmarked) {
		float, simulated := m.session.NewRunner(), m.session.NewRunner()
		hooks := m.q.Hooks(nil)
		f, s := math.Inf(1), math.Inf(1)
		for b.Loop() {
			f, s = min(f, m.forward(b, float, nil)), min(s, m.forward(b, simulated, hooks))
		}
		b.ReportMetric(1e3*f, "ms/float")
		b.ReportMetric(1e3*s, "ms/sim")
		b.ReportMetric(s/f, "sim/float")
	})
}
