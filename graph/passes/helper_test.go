package passes

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// rewrite runs passes over the graph of a text, checks its invariants after every pass with the nodes shuffled, compares
// outputs on random inputs before and after, and returns the graph and the log.
func rewrite(t testing.TB, text string, list ...Pass) (*graph.Graph, *Log) {
	t.Helper()
	before := graphtest.Parse(t, text)
	g := before.Clone()
	log := normalize(t, g, list...)
	equalOutputs(t, before, g, 1e-6)
	return g, log
}

func normalize(t testing.TB, g *graph.Graph, list ...Pass) *Log {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	log, err := run(context.Background(), g, list, func(pass string) error {
		g.Shuffle(rng.Perm(g.NumNodes()))
		return g.Check()
	})
	require.NoError(t, err)
	require.NoError(t, g.Check())
	return log
}

func parseGraph(t testing.TB, text string) *graph.Graph {
	t.Helper()
	return graphtest.Parse(t, text)
}

func requireOps(t testing.TB, g *graph.Graph, want string) {
	t.Helper()
	require.Equal(t, want, ops(t, g))
}

func requireReason(t testing.TB, log *Log, want string) {
	t.Helper()
	for _, e := range log.Declined {
		if strings.Contains(e.What, want) {
			return
		}
	}
	require.Failf(t, "no such reason", "%q in %v", want, log.Declined)
}

// feedsOf makes inputs for a graph; open dimensions are 2.
func feedsOf(g *graph.Graph) map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		val := g.Value(v)
		if val.Const != nil {
			continue
		}
		shape := make([]int, len(val.Shape))
		for k, d := range val.Shape {
			shape[k] = 2
			if d.Known() {
				shape[k] = int(d.N)
			}
		}
		if val.DType == tensor.Float32 {
			feeds[val.Name] = graphtest.Normal(uint64(i+7), shape...)
			continue
		}
		feeds[val.Name] = tensor.New(val.DType, shape...)
		if b := tensor.Of[bool](feeds[val.Name]); b != nil {
			b[0] = true
		}
	}
	return feeds
}

func outputs(t testing.TB, g *graph.Graph, feeds map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	session, err := exec.New(g, exec.Options{Float64: true})
	require.NoError(t, err)
	list, err := session.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	byName := map[string]*tensor.Tensor{}
	for i, v := range g.Outputs {
		byName[g.Value(v).Name] = list[i]
	}
	return byName
}

// values runs a graph and returns everything that was computed, by name.
func values(t testing.TB, g *graph.Graph, feeds map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	session, err := exec.New(g, exec.Options{Float64: true})
	require.NoError(t, err)
	all, err := session.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	byName := map[string]*tensor.Tensor{}
	for v, x := range all {
		if x != nil && g.Const(graph.ValueID(v)) == nil {
			byName[g.Value(graph.ValueID(v)).Name] = x.ToRowMajor()
		}
	}
	return byName
}

// equalOutputs requires the same output names, types and shapes, and max|a-b| / max|a| of at most limit.
func equalOutputs(t testing.TB, before, after *graph.Graph, limit float64) {
	t.Helper()
	feeds := feedsOf(before)
	want, got := outputs(t, before, feeds), outputs(t, after, feeds)
	require.Equal(t, len(want), len(got))
	for name, a := range want {
		b := got[name]
		require.NotNil(t, b, name)
		require.Equal(t, a.Type(), b.Type(), name)
		require.LessOrEqual(t, distance(a, b), limit, "output %q", name)
	}
}

// distance is max|a-b| / max|a|; integers and booleans that differ are infinitely apart.
func distance(a, b *tensor.Tensor) float64 {
	x, y := a.F32(), b.F32()
	if x == nil {
		if tensor.Equal(a, b) {
			return 0
		}
		return math.Inf(1)
	}
	worst, scale := 0.0, 0.0
	for i := range x {
		worst = max(worst, math.Abs(float64(x[i])-float64(y[i])))
		scale = max(scale, math.Abs(float64(x[i])))
		if x[i] != x[i] || y[i] != y[i] {
			return math.Inf(1)
		}
	}
	if worst == 0 {
		return 0
	}
	return worst / scale
}

// testdata returns the folder of real models and data, or skips.
func testdata(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: no real models here")
	}
	return dir
}
