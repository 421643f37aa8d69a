//go:build !js

package onnx

import (
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
)

// TestWiredAgreesWithONNXGo holds what js decodes itself equal to what onnx-go decodes, of every graph in a file: values and their order,
// operations, attributes bit for bit, inputs and outputs; and what one of them refuses, the other refuses.
func TestWiredAgreesWithONNXGo(t *testing.T) {
	graphs, nodes, refused := 0, 0, 0
	var compare func(name string, s *graphScan)
	compare = func(name string, s *graphScan) {
		want, err := s.topology()
		got, own := s.wired()
		if err != nil || own != nil {
			require.Error(t, err, "%s: %v", name, own)
			require.Error(t, own, "%s: %v", name, err)
			refused++
			return
		}
		graphs++
		nodes += len(s.nodes)
		requireSameTopology(t, name, want, got)
		for _, n := range s.nodes {
			for _, a := range n.attrs {
				if a.kind != graph.AttrGraph && a.kind != graph.AttrGraphs || a.ref != "" {
					continue
				}
				for _, f := range a.values {
					if inner, err := scanGraph(f.data); err == nil {
						compare(name, inner)
					}
				}
			}
		}
	}
	file := func(name string, b []byte) {
		c := cursor{rest: b}
		for c.next() {
			switch {
			case c.f.num == modelGraph:
				if s, err := scanGraph(c.f.data); err == nil {
					compare(name, s)
				}
			case c.f.num == modelFunctions:
				if _, s, _, err := scanFunction(c.f.data); err == nil {
					compare(name, s)
				}
			}
		}
	}
	x, y := info("x", 1), info("y", 1)
	many := make([]string, 70)
	for i := range many {
		many[i] = "v" + string(rune('A'+i))
	}
	for name, g := range map[string]msg{
		"twice":                         msg{}.add(1, node("Relu", "a", []string{"y"}, []string{"x"})).add(1, node("Relu", "b", []string{"y"}, []string{"x"})).add(11, x).add(12, y),
		"twice by one":                  msg{}.add(1, node("Split", "a", []string{"y", "y"}, []string{"x"})).add(11, x).add(12, y),
		"an input twice":                msg{}.add(1, node("Relu", "a", []string{"y"}, []string{"x"})).add(11, x).add(11, x).add(12, y),
		"without inputs":                msg{}.add(1, node("Source", "", []string{"y"}, nil)).add(12, y),
		"without outputs":               msg{}.add(1, node("Sink", "", nil, []string{"x", "", "late"})).add(1, node("Relu", "", []string{"y"}, []string{"x"})).add(11, x).add(12, y),
		"without both":                  msg{}.add(1, node("Nothing", "", nil, nil)).add(11, x),
		"no nodes":                      msg{}.add(11, x).add(12, x),
		"very many outputs and inputs":  msg{}.add(1, node("Many", "", many, many)).add(1, node("Relu", "", []string{"y"}, []string{"vB"})).add(11, x).add(12, y),
		"absent ones":                   msg{}.add(1, node("LSTM", "", []string{"", "y"}, []string{"x", "", "x"})).add(11, x).add(12, y),
		"read before they are computed": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"z"})).add(1, node("Neg", "", []string{"z"}, []string{"x"})).add(11, x).add(12, y),
		"attributes": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"x"}).
			add(5, msg{}.str(1, "ints").str(8, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").int(8, 7).int(20, 7)).
			add(5, msg{}.str(1, "floats").str(7, "\x00\x00\xc0\x7f\x00\x00\x80\x3f").int(20, 6)).
			add(5, msg{}.str(1, "strings").str(9, "\xff").str(9, "").int(20, 8)).
			add(5, msg{}.str(1, "string").str(4, "a").str(4, "b").int(20, 3)).
			add(5, msg{}.str(1, "int").int(3, 1).int(3, -5).int(20, 2)).
			add(5, msg{}.str(1, "untyped").int(3, 4)).
			add(5, msg{}.str(1, "empty").int(20, 7)).add(5, msg{}.str(1, "zero").int(20, 1)).add(5, msg{}.str(1, "none").int(20, 8)).add(5, msg{}.str(1, "nothing").int(20, 3)).
			add(5, msg{}.str(1, "cut off").str(8, "\xff").int(20, 7))).add(11, x).add(12, y),
	} {
		file(name, model(g))
	}
	b := sample()
	for n := range b {
		file("a piece", b[:n])
		for _, bit := range []byte{1, 16, 128} {
			other := append([]byte(nil), b...)
			other[n] ^= bit
			file("a changed one", other)
		}
	}
	file("the sample", b)
	require.Greater(t, refused, 3)
	require.Greater(t, graphs, 100)
	if os.Getenv("QWB_TESTDATA") == "" {
		return
	}
	conformance(t, ".onnx", file)
	for _, path := range realModels(t) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		file(path, b)
	}
	t.Logf("%d graphs with %d nodes are equal, %d are refused by both", graphs, nodes, refused)
	require.Greater(t, graphs, 2000)
}

func requireSameTopology(t *testing.T, name string, want, got *topology) {
	t.Helper()
	list := func(p *topology) (names []string) {
		for _, v := range p.g.Values() {
			names = append(names, p.g.Value(v).Name)
		}
		return names
	}
	require.Equal(t, list(want), list(got), name)
	require.True(t, same(want.inputs, got.inputs) && same(want.outputs, got.outputs), name)
	require.Equal(t, want.producer, got.producer, name)
	require.Len(t, got.ops, len(want.ops), name)
	for i := range want.ops {
		a, b := &want.ops[i], &got.ops[i]
		delete(a.attrs, joinAttr)
		require.True(t, a.name == b.name && same(a.inputs, b.inputs) && same(a.outputs, b.outputs), "%s: %v and %v", name, a, b)
		require.Len(t, b.attrs, len(a.attrs), name)
		for key, v := range a.attrs {
			x, err := attrFrom(key, v)
			require.NoError(t, err)
			y, err := attrFrom(key, b.attrs[key])
			require.NoError(t, err)
			assert.True(t, sameAttr(x, y) && math.Float32bits(x.F) == math.Float32bits(y.F), "%s: %s: %v and %v", name, key, v, b.attrs[key])
		}
	}
}

// same compares lists, of which an empty one may be nil.
func same(a, b []graph.ValueID) bool { return len(a)+len(b) == 0 || reflect.DeepEqual(a, b) }
