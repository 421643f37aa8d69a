package qdq_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/qdq"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func testdata(t testing.TB, elem ...string) string {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: no quantized models")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

func open(t testing.TB, elem ...string) *graph.Graph {
	m, _, err := onnx.Open(testdata(t, elem...))
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	graph.InferShapes(m.Graph)
	return m.Graph
}

// real lists quantized models with the platform they are for.
var real = []struct {
	file, platform string
	nodes          int // operators, all of them on integers
}{
	{"mlperf-tiny/ad01_int8.qdq.onnx", "tflite", 19},
	{"mlperf-tiny/kws_ref_model.qdq.onnx", "tflite", 22},
	{"mlperf-tiny/pretrainedResnet_quant.qdq.onnx", "tflite", 23},
	{"mlperf-tiny/pretrainedResnet_large_int8.qdq.onnx", "tflite", 23},
	{"mlperf-tiny/str_ww_ref_model.qdq.onnx", "tflite", 15},
	{"mlperf-tiny/vww_96_int8.qdq.onnx", "tflite", 58},
	{"quantized/mobilenet_v2_tinynn_qdq.onnx", "tflite", 100},
	{"quantized/mobilenet_v2_ort/mobilenet_v2_qdq.onnx", "onnxruntime", 100},
}

// Simulating what was imported computes what the file computes, bit for bit, and it runs on integers.
func TestRealModels(t *testing.T) {
	for _, c := range real {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			if c.nodes > 50 {
				longtest.Need(t, "takes seconds")
			}
			g := open(t, "models", filepath.FromSlash(c.file))
			q, err := qdq.Read(context.Background(), g)
			require.NoError(t, err)
			first := q.Platforms(target.Builtin())[0]
			require.Equal(t, c.platform, first.Name)
			im, err := q.Configure(first)
			require.NoError(t, err)
			feeds := inputs(g, 3)
			want := run(t, g, nil, feeds)
			got := run(t, im.Graph, simulate(t, im), feeds)
			for i := range want {
				requireClose(t, want[i], got[i], 0)
			}
			n := 0
			for _, id := range im.Graph.Nodes() {
				if n++; im.Set.Domains[id] != tqc.DomainInt {
					t.Errorf("%s is %s: %s", im.Graph.Node(id).Name, im.Set.Domains[id], im.Set.Why[id])
				}
			}
			require.Equal(t, c.nodes, n)
			pr, err := qmath.ProfileNamed(first.Profile)
			require.NoError(t, err)
			p, err := lower.Compile(im.Graph, im.Set, first, pr)
			require.NoError(t, err)
			e, err := program.New(p, cpu.Backend, 2)
			require.NoError(t, err)
			_, err = e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
		})
	}
}

// TFLite's own quantized networks, on integers in TFLite's arithmetic. The reference accuracies on all 10,000 images are 87.02 and
// 91.24; these are 2,000 of them, of which ONNX Runtime, computing in float between the pairs, gets 1753 and 1820 right.
func TestTFLiteAccuracy(t *testing.T) {
	longtest.Need(t, "takes ten seconds")
	for file, want := range map[string]int{"pretrainedResnet_quant.qdq.onnx": 1753, "pretrainedResnet_large_int8.qdq.onnx": 1820} {
		g := open(t, "models", "mlperf-tiny", file)
		q, err := qdq.Read(context.Background(), g)
		require.NoError(t, err)
		im, err := q.Configure(&target.TFLite)
		require.NoError(t, err)
		pr, err := qmath.ProfileNamed(target.TFLite.Profile)
		require.NoError(t, err)
		p, err := lower.Compile(im.Graph, im.Set, &target.TFLite, pr)
		require.NoError(t, err)
		e, err := program.New(p, cpu.Backend, 2)
		require.NoError(t, err)
		spec := data.SpecOf(im.Graph)
		pre, err := data.Preprocessing("none", spec, nil)
		require.NoError(t, err)
		set, _, err := data.Open([]string{testdata(t, "data", "cifar10", "eval_2000.bin")}, spec, data.Options{Preprocess: &pre})
		require.NoError(t, err)
		right := 0
		for i := range set.Len() {
			s, err := set.Sample(i)
			require.NoError(t, err)
			out, err := e.Run(context.Background(), s.Feeds, nil)
			require.NoError(t, err)
			best := 0
			for k, x := range out[0].F32() {
				if x > out[0].F32()[best] {
					best = k
				}
			}
			if best == s.Label {
				right++
			}
		}
		t.Logf("%s: %d of %d", file, right, set.Len())
		require.InDelta(t, want, right, 10, "half a point")
	}
}

// inputs returns random numbers for every input of g.
func inputs(g *graph.Graph, seed uint64) map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		if g.Const(v) != nil {
			continue
		}
		var shape []int
		for _, d := range g.Value(v).Shape {
			shape = append(shape, int(max(d.N, 1)))
		}
		if g.Value(v).DType == tensor.Bool {
			yes := tensor.New(tensor.Bool, shape...)
			tensor.Of[bool](yes)[0] = true
			feeds[g.Value(v).Name] = yes
			continue
		}
		low, high := float32(-3), float32(3)
		for _, u := range g.Uses(v) {
			if n := g.Node(u.Node); n.Op == "QuantizeLinear" && g.Const(n.Input(1)) != nil && len(g.Const(n.Input(1)).F32()) == 1 {
				step := g.Const(n.Input(1)).F32()[0]
				low, high = -140*step, 140*step // some of it beyond the ends of any grid of 8 bits
				if z := g.Const(n.Input(2)); z != nil && z.DType == tensor.Int8 {
					low, high = low-float32(tensor.Of[int8](z)[0])*step, high-float32(tensor.Of[int8](z)[0])*step
				}
			}
		}
		feeds[g.Value(v).Name] = graphtest.Uniform(seed, low, high, shape...)
		seed++
	}
	return feeds
}

// run executes a graph.
func run(t testing.TB, g *graph.Graph, hooks *exec.Hooks, feeds map[string]*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	s, err := exec.New(g, exec.Options{Threads: 1})
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), feeds, hooks)
	require.NoError(t, err)
	list := make([]*tensor.Tensor, len(out))
	for i, x := range out {
		list[i] = x.ToRowMajor().Clone()
	}
	return list
}

func simulate(t testing.TB, im *qdq.Imported) *exec.Hooks {
	t.Helper()
	s, err := sim.New(im.Graph, im.Set, sim.Options{})
	require.NoError(t, err)
	return s.Hooks(nil)
}

// requireClose compares two tensors; share is how many of the elements may differ.
func requireClose(t testing.TB, want, got *tensor.Tensor, share float64) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape)
	differ := 0
	for i, x := range want.F32() {
		if x != got.F32()[i] {
			differ++
		}
	}
	require.LessOrEqual(t, float64(differ), share*float64(want.Len()), "%d of %d elements differ", differ, want.Len())
}
