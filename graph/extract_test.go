package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, text string) *Graph {
	t.Helper()
	g, err := Parse(text)
	require.NoError(t, err, text)
	require.NoError(t, g.Check(), text)
	return g
}

func ids(t *testing.T, g *Graph, names ...string) []ValueID {
	t.Helper()
	var out []ValueID
	for _, name := range names {
		v, ok := g.Lookup(name)
		require.True(t, ok, name)
		out = append(out, v)
	}
	return out
}

const twoBranches = `graph net
opset 13
input x: f32[1,4]
const w: f32[4] = [1, 2, 3, 4]
const far: f32[] = 5
a = Mul(x, w)
b = Relu(a)
c, d = Split(b) {axis=1}
e = Add(c, d)
f = If(x) {then_branch=graph t {
  t1 = Add(a, far)
  output t1
}, else_branch=graph s {
  output a
}}
output e
output f
`

func TestExtract(t *testing.T) {
	g := parsed(t, twoBranches)
	for _, c := range []struct {
		name     string
		in, out  []string
		want     string
		wantFail string
	}{
		{"an inner piece", []string{"a"}, []string{"e"}, `graph net
opset 13
input a
b = Relu(a)
c, d = Split(b) {axis=1}
e = Add(c, d)
output e
`, ""},
		{"a given value cuts the node that computes it", []string{"b", "c"}, []string{"e", "c"}, `graph net
opset 13
input b
input c
_, d = Split(b) {axis=1} "c"
e = Add(c, d)
output e
output c
`, ""},
		{"a constant becomes an input", []string{"x", "w"}, []string{"a"}, `graph net
opset 13
input x: f32[1,4]
input w: f32[4]
a = Mul(x, w)
output a
`, ""},
		{"what subgraphs capture comes along", []string{"x"}, []string{"f"}, `graph net
opset 13
input x: f32[1,4]
const w: f32[4] = [1, 2, 3, 4]
const far: f32[] = 5
a = Mul(x, w)
f = If(x) {then_branch=graph t {
  t1 = Add(a, far)
  output t1
}, else_branch=graph s {
  output a
}}
output f
`, ""},
		{"an output that is an input", []string{"x"}, []string{"x"}, "graph net\nopset 13\ninput x: f32[1,4]\noutput x\n", ""},
		{"nothing to start from", []string{"c"}, []string{"e"}, "", `value "x" is needed`},
		{"twice the same input", []string{"x", "x"}, []string{"e"}, "", `input "x" is given twice`},
	} {
		sub, err := Extract(g, ids(t, g, c.in...), ids(t, g, c.out...))
		if c.wantFail != "" {
			require.ErrorContains(t, err, c.wantFail, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.NoError(t, sub.Check(), c.name)
		require.Equal(t, c.want, Format(sub), c.name)
	}
	require.Equal(t, twoBranches, Format(g), "the graph itself stays as it is")
}

func TestCapturedAndSoleUse(t *testing.T) {
	g := parsed(t, twoBranches)
	for name, want := range map[string]bool{"a": true, "far": true, "b": false, "x": false} {
		require.Equal(t, want, g.Captured(ids(t, g, name)[0]), name)
	}
	_, sole := g.SoleUse(ids(t, g, "a")[0])
	require.False(t, sole, "a subgraph reads a as well")
	_, sole = g.SoleUse(ids(t, g, "c")[0])
	require.True(t, sole)
	id, _ := g.LookupNode("f")
	g.RemoveNode(id)
	require.False(t, g.Captured(ids(t, g, "a")[0]), "its reader is gone")
}

func TestNodeNames(t *testing.T) {
	g := New("n", 13)
	x, err := g.AddValue(Value{Name: "x"})
	require.NoError(t, err)
	g.Inputs = []ValueID{x}
	var names []string
	for _, name := range []string{"", "", "same", "same", "x"} {
		id, err := g.AddNode(Node{Op: "Neg", Name: name, Inputs: []ValueID{x}})
		require.NoError(t, err)
		names = append(names, g.Node(id).Name)
	}
	require.Equal(t, []string{"Neg", "Neg_1", "same", "same_1", "x"}, names)
	id, _ := g.LookupNode("same")
	require.Error(t, g.RenameNode(id, "Neg"))
	require.NoError(t, g.RenameNode(id, "other"))
	_, old := g.LookupNode("same")
	require.False(t, old)
	require.NoError(t, g.Check())
	c := g.Clone()
	g.RemoveNode(id)
	_, still := g.LookupNode("other")
	require.False(t, still)
	_, still = c.LookupNode("other")
	require.True(t, still, "a clone has an index of its own")
	require.NoError(t, c.Check())
	c.Node(id).Name = "behind its back"
	require.ErrorContains(t, c.Check(), "RenameNode")
}

func BenchmarkFreshName(b *testing.B) {
	for b.Loop() {
		g := New("n", 13)
		for range 20000 {
			_, _ = g.AddValue(Value{Name: g.FreshName("scale")})
		}
	}
}
