package qwb

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// Weights that do not fit into the memory for work change nothing: integers, verification, the exported file and tuned values are the same
// as where they do.
func TestStreamedWeights(t *testing.T) {
	t.Chdir(t.TempDir())
	var text strings.Builder
	text.WriteString("opset 17\ninput x0: f32[1,256]\n")
	for i := range 8 {
		fmt.Fprintf(&text, "const w%d: f32[256,256] = normal(seed=%d, std=0.07)\nm%d = MatMul(x%d, w%d)\n", i, i+1, i, i, i)
		fmt.Fprintf(&text, "x%d = Tanh(m%d)\n", i+1, i)
	}
	m := &onnx.Model{Graph: graphtest.Parse(t, text.String()+"output x8\n")}
	require.NoError(t, m.Save("m.onnx", onnx.SaveOptions{ExternalAbove: 1}))
	require.NoError(t, os.Mkdir("data", 0o755))
	for i := range 3 {
		f, err := os.Create(filepath.Join("data", fmt.Sprint(i, ".npy")))
		require.NoError(t, err)
		require.NoError(t, npy.Write(f, graphtest.Normal(uint64(i), 1, 256)))
		require.NoError(t, f.Close())
	}
	p := &Project{Model: "m.onnx", Plan: "m.plan.json",
		Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	data := DataOptions{Paths: []string{"data"}}
	layerwise := AnalyzeOptions{Data: data}
	layerwise.Layerwise = true
	whole, small := t.Context(), exec.WithMemory(t.Context(), 8<<20)
	for _, d := range []exec.Demand{exec.Evaluating, exec.Verifying, exec.Analyzing, exec.Tuning} {
		streams := false
		exec.Stream(exec.Doing(small, d), m.Graph, func() graph.Store { streams = true; return nil })
		require.True(t, streams)
	}
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		outcome := func(ctx context.Context, name string) (list []string) {
			_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: data, Fresh: true})
			require.NoError(t, err)
			a, _, err := p.Eval(ctx, EvalOptions{Mode: ModeInt8, Data: data})
			require.NoError(t, err)
			v, _, err := p.Verify(ctx, VerifyOptions{Backend: "cpu", Data: data})
			require.NoError(t, err)
			l, _, err := p.Analyze(ctx, layerwise)
			require.NoError(t, err)
			a.Seconds, v.Seconds = 0, 0
			for _, x := range []any{a, v, l.Layerwise} {
				b, err := json.Marshal(x)
				require.NoError(t, err)
				list = append(list, string(b))
			}
			for _, format := range []string{"onnx", "qoperator"} {
				if format == "qoperator" && platform != "onnxruntime" {
					continue
				}
				_, _, err = p.Export(ctx, ExportOptions{Format: format, Out: name})
				require.NoError(t, err)
				b, err := os.ReadFile(name)
				require.NoError(t, err)
				list = append(list, string(b))
			}
			plan, err := os.ReadFile("m.plan.json")
			require.NoError(t, err)
			list = append(list, string(plan))
			r, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias", "range", "gptq"}, Data: data, Force: true, Threads: 2})
			require.NoError(t, err)
			tuned, err := os.ReadFile(r.Overlay)
			require.NoError(t, err)
			plan, err = os.ReadFile("m.plan.json")
			require.NoError(t, err)
			return append(list, string(tuned), string(plan))
		}
		want, got := outcome(whole, "a.onnx"), outcome(small, "b.onnx")
		for i := range want {
			require.True(t, want[i] == got[i], "%s: result %d", platform, i)
		}
	}
}
