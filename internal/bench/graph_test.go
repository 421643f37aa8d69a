package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/bench"
	"qwb/internal/graphtest"
)

// branches is a -> b -> d and a -> c -> d, then an e that hangs on a alone.
const branches = `
graph g
opset 17
input x: f32[4]
a = Relu(x) "a"
b = Sigmoid(a) "b"
c = Tanh(a) "c"
d = Add(b, c) "d"
e = Exp(a) "e"
output d: f32[4]
output e: f32[4]
`

func node(t *testing.T, g *graph.Graph, name string) graph.NodeID {
	id, ok := g.LookupNode(name)
	require.True(t, ok, name)
	return id
}

// What stands behind a node in the order of execution is more than what depends on it.
func TestLayerwiseBound(t *testing.T) {
	g := graphtest.Parse(t, branches)
	cost := map[string]float64{"a": 1, "b": 2, "c": 4, "d": 8, "e": 16}
	weight := func(id graph.NodeID) float64 { return cost[g.Node(id).Name] }
	order, err := g.Order()
	require.NoError(t, err)
	var operators []graph.NodeID
	for _, name := range []string{"a", "b", "c"} {
		operators = append(operators, node(t, g, name))
	}
	want := bench.Bound{Suffix: 1, Descendants: 1 + (31.+(2+8)+(4+8))/31}
	for _, op := range operators {
		reached := false
		for _, id := range order {
			if reached = reached || id == op; reached {
				want.Suffix += weight(id) / 31
			}
		}
	}
	got, err := bench.LayerwiseBound(g, operators, weight)
	require.NoError(t, err)
	assert.InDelta(t, want.Suffix, got.Suffix, 1e-12)
	assert.InDelta(t, want.Descendants, got.Descendants, 1e-12)
	assert.Greater(t, got.Suffix, got.Descendants)
	none, err := bench.LayerwiseBound(g, operators, func(graph.NodeID) float64 { return 0 })
	require.NoError(t, err)
	assert.Equal(t, bench.Bound{Suffix: 4, Descendants: 4}, none)
}

// A step moves what it reads from outside and what others read, each once.
func TestStepBytes(t *testing.T) {
	g := graphtest.Parse(t, `
graph g
opset 17
input x: f32[4]
const w: f32[4] = normal(seed=1)
a = Mul(x, w) "a"
b = Mul(a, w) "b"
c = Add(b, a) "c"
d = Relu(c) "d"
output d: f32[4]
output a: f32[4]
`)
	size := func(v graph.ValueID) int64 {
		return map[string]int64{"x": 1, "w": 10, "a": 100, "b": 1000, "c": 10000, "d": 100000}[g.Value(v).Name]
	}
	bytes := func(n string, fused ...string) int64 {
		s := bench.Step{Node: node(t, g, n)}
		for _, f := range fused {
			s.Fused = append(s.Fused, node(t, g, f))
		}
		return s.Bytes(g, size)
	}
	assert.EqualValues(t, 111, bytes("a"), "x, w and a")
	assert.EqualValues(t, 1111, bytes("a", "b"), "a is a graph output, b is read by c")
	assert.EqualValues(t, 100111, bytes("a", "b", "c", "d"), "nobody else sees b and c")
	assert.EqualValues(t, 10110, bytes("b", "c"), "reads a and w, writes c; b stays inside")
}

func TestRoof(t *testing.T) {
	r := bench.Roof{GOPS: 100, Read: []bench.Bandwidth{{Bytes: 1 << 10, GBps: 50}, {Bytes: 1 << 20, GBps: 10}}}
	assert.Equal(t, 50.0, r.At(1024))
	assert.Equal(t, 10.0, r.At(1025))
	assert.Equal(t, 10.0, r.At(1<<30))
	assert.Zero(t, bench.Roof{}.At(1))
	s, memory := r.Bound(1e9, 1000)
	assert.InDelta(t, 0.01, s, 1e-12)
	assert.False(t, memory)
	s, memory = r.Bound(1e6, 1<<20)
	assert.InDelta(t, float64(1<<20)/10e9, s, 1e-12)
	assert.True(t, memory)
	n := bench.Node{Seconds: 0.02, MACs: 5e8, Bytes: 1000}
	n.Rate(r)
	assert.Equal(t, "compute", n.Bound)
	assert.InDelta(t, 0.5, n.ShareOfRoofline, 1e-12)
	assert.InDelta(t, 50, n.GOPS, 1e-9)
	nodes := []bench.Node{{Name: "a", Seconds: 1}, {Name: "b", Seconds: 3}}
	bench.SortNodes(nodes)
	assert.Equal(t, "b", nodes[0].Name)
	assert.Equal(t, 0.75, nodes[0].Share)
}
