package calibrate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// The order in which a graph stores its nodes changes no byte.
func TestNodeOrderChangesNothing(t *testing.T) {
	for name, shape := range map[string][]int{"mobilenet": {1, 3, 9, 9}, "squeezenet": {1, 3, 8, 8}, "resnet": {2, 4, 6, 6}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, lowertest.Networks[name])}).Save("m.onnx", onnx.SaveOptions{}))
			require.NoError(t, os.Mkdir("data", 0o755))
			for i := range 4 {
				var b bytes.Buffer
				require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100+i), shape...)))
				require.NoError(t, os.WriteFile(fmt.Sprintf("data/%02d.npy", i), b.Bytes(), 0o644))
			}
			shuffledSame(t, "m.onnx", []string{"data"}, "none", 0)
		})
	}
}

func TestNodeOrderOfSqueezenetChangesNothing(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	longtest.Need(t, "a trained network")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: no trained models")
	}
	t.Chdir(t.TempDir())
	shuffledSame(t, filepath.Join(dir, "models", "classifiers", "squeezenet1.0.onnx"),
		[]string{filepath.Join(dir, "data", "pets", "calibration")}, "imagenet-caffe", 2)
}

// shuffledSame calibrates and exports a model with its nodes stored in several orders.
func shuffledSame(t *testing.T, path string, data []string, preprocess string, samples int) {
	t.Helper()
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		var want map[string]string
		for seed := range uint64(3) {
			j := &open.Job{Project: &open.Project{Model: path, Plan: "s.plan.json", Catalog: open.Catalog{Version: "0.0.0"}}}
			tg, err := target.Find(platform)
			require.NoError(t, err)
			m, err := j.OpenNormal(path)
			require.NoError(t, err)
			if seed > 0 {
				for _, g := range []*graph.Graph{m.Loaded, m.Graph} {
					g.Shuffle(rand.New(rand.NewPCG(seed, 0)).Perm(g.NumNodes()))
				}
			}
			o := Options{Platform: platform, Threads: 2,
				Data: open.DataOptions{Paths: data, Preprocess: preprocess, Samples: samples, Threads: 2}}
			require.NoError(t, os.RemoveAll("s.stats"))
			stats, err := gather(context.Background(), j, m, o, Given{}, &Result{})
			require.NoError(t, err)
			next, err := nextPlan(j, m, nil, stats, tg, o, Given{}, &recipe.Steps{})
			require.NoError(t, err)
			derived, err := (&planning.Derivation{Graph: m.Graph, Target: tg, Stats: stats, Threads: 2}).Remembered(context.Background(), next)
			require.NoError(t, err)
			p, err := planOf(derived, next, stats)
			require.NoError(t, err)
			plan, err := p.Encode()
			require.NoError(t, err)
			require.NoError(t, stats.Save("s.stats"))
			built, err := onnxqdq.Build(m.WithGraph(m.Graph), derived.Set, tg, onnxqdq.Options{Producer: "qwb", Version: "0.0.0"})
			require.NoError(t, err)
			var out strings.Builder
			require.NoError(t, built.Write(&out))
			saved, err := os.ReadFile("s.stats")
			require.NoError(t, err)
			got := map[string]string{"plan": string(plan), "stats": string(saved), "export": out.String()}
			if want == nil {
				want = got
			}
			for name := range want {
				require.Truef(t, want[name] == got[name], "%s differs: %s, order %d", name, platform, seed)
			}
			require.NoError(t, m.Close())
		}
	}
}
