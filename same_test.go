package qwb

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
	"qwb/internal/work/calibrate"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/quantizer/target"
)

// network has what platforms treat differently: a residual Add, a Concat, pooling, a classifier.
const network = `
graph small
opset 17
input x: f32[1,3,8,8]
const w1: f32[16,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[16] = normal(seed=2)
const w2: f32[16,16,3,3] = normal(seed=3, std=0.1)
const b2: f32[16] = normal(seed=4, std=0.1)
const w3: f32[10,2048] = normal(seed=5, std=0.05)
const b3: f32[10] = normal(seed=6)
c1 = Conv(x, w1, b1) {pads=[1, 1, 1, 1]} "conv1"
r1 = Relu(c1) "relu1"
c2 = Conv(r1, w2, b2) {pads=[1, 1, 1, 1]} "conv2"
a = Add(r1, c2) "add"
r2 = Relu(a) "relu2"
p = MaxPool(r2) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]} "max"
cat = Concat(p, r1) {axis=1} "concat"
f = Flatten(cat) "flatten"
y = Gemm(f, w3, b3) {transB=1} "gemm"
output y: f32[1,10]
`

func saveNetwork(t *testing.T, path string) {
	t.Helper()
	m := &onnx.Model{Graph: graphtest.Parse(t, network)}
	require.NoError(t, m.Save(path, onnx.SaveOptions{}))
}

// saveInputs writes n inputs of the network as folder/NN.npy.
func saveInputs(t *testing.T, folder string, n int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for i := range n {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100+i), 1, 3, 8, 8)))
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.npy", i)), b.Bytes(), 0o644))
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// The order in which a graph stores its nodes changes no byte.
func TestNodeOrderChangesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	saveNetwork(t, "m.onnx")
	saveInputs(t, "data", 4)
	shuffledSame(t, "m.onnx", []string{"data"}, "none", 0)
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
			j := (&Project{Model: path, Plan: "s.plan.json", Catalog: Catalog{Version: "0.0.0"}}).job()
			tg, err := target.Find(platform)
			require.NoError(t, err)
			m, err := j.OpenNormal(path)
			require.NoError(t, err)
			if seed > 0 {
				for _, g := range []*graph.Graph{m.Loaded, m.Graph} {
					g.Shuffle(rand.New(rand.NewPCG(seed, 0)).Perm(g.NumNodes()))
				}
			}
			o := CalibrateOptions{Platform: platform, Threads: 2,
				Data: DataOptions{Paths: data, Preprocess: preprocess, Samples: samples, Threads: 2}}
			require.NoError(t, os.RemoveAll("s.stats"))
			stats, err := calibrate.Gather(context.Background(), j, m, o, calibrate.Given{}, &CalibrateResult{})
			require.NoError(t, err)
			next, err := calibrate.NextPlan(j, m, nil, stats, tg, o, calibrate.Given{}, &recipe.Steps{})
			require.NoError(t, err)
			derived, err := (&planning.Derivation{Graph: m.Graph, Target: tg, Stats: stats, Threads: 2}).Remembered(context.Background(), next)
			require.NoError(t, err)
			p, err := calibrate.PlanOf(derived, next, stats)
			require.NoError(t, err)
			plan, err := p.Encode()
			require.NoError(t, err)
			require.NoError(t, stats.Save("s.stats"))
			built, err := onnxqdq.Build(m.WithGraph(m.Graph), derived.Set, tg, onnxqdq.Options{Producer: "qwb", Version: "0.0.0"})
			require.NoError(t, err)
			var out strings.Builder
			require.NoError(t, built.Write(&out))
			got := map[string]string{"plan": string(plan), "stats": string(read(t, "s.stats")), "export": out.String()}
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
