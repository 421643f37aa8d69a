package onnx

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	stock "github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx/onnxgo"
)

// TestTopologyAgreesWithONNXGo holds graphs equal to what onnx-go decodes of them: operators, what they read and compute, the order of
// values, plain attributes bit for bit, inputs and outputs; and what one of the two refuses, the other refuses. onnx-go gets to see a
// skeleton, without what it drops, refuses or (a shape) trusts too much: tensors, types, nested graphs. So every graph of a file takes
// part.
func TestTopologyAgreesWithONNXGo(t *testing.T) {
	graphs, nodes, refused := 0, 0, 0
	var compare func(name string, s *graphScan)
	compare = func(name string, s *graphScan) {
		if len(s.nodes) == 0 { // onnx-go refuses graphs without nodes
			return
		}
		got, own := s.topology()
		attrs, wrong := s.plainAttrs()
		own = cmp.Or(own, wrong)
		want, err := s.stock()
		if err != nil || own != nil {
			require.Error(t, err, "%s: %v", name, own)
			require.Error(t, own, "%s: %v", name, err)
			refused++
			return
		}
		graphs++
		nodes += len(s.nodes)
		s.requireSame(t, name, want, got, attrs)
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
		"twice": msg{}.add(1, node("Relu", "a", []string{"y"}, []string{"x"})).add(1,
			node("Relu", "b", []string{"y"}, []string{"x"})).add(11, x).add(12, y),
		"twice by one":   msg{}.add(1, node("Split", "a", []string{"y", "y"}, []string{"x"})).add(11, x).add(12, y),
		"an input twice": msg{}.add(1, node("Relu", "a", []string{"y"}, []string{"x"})).add(11, x).add(11, x).add(12, y),
		"without inputs": msg{}.add(1, node("Source", "", []string{"y"}, nil)).add(12, y),
		"without outputs": msg{}.add(1, node("Sink", "", nil, []string{"x", "", "late"})).add(1,
			node("Relu", "", []string{"y"}, []string{"x"})).add(11, x).add(12, y),
		"without both": msg{}.add(1, node("Nothing", "", nil, nil)).add(11, x),
		"no nodes":     msg{}.add(11, x).add(12, x), "very many outputs and inputs": msg{}.add(1, node("Many", "", many, many)).add(1,
			node("Relu", "", []string{"y"}, []string{"vB"})).add(11, x).add(12, y),
		"absent ones": msg{}.add(1, node("LSTM", "", []string{"", "y"}, []string{"x", "", "x"})).add(11, x).add(12, y),
		"read before they are computed": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"z"})).add(1,
			node("Neg", "", []string{"z"}, []string{"x"})).add(11, x).add(12, y),
		"attributes": msg{}.add(1, node("Relu", "", []string{"y"}, []string{"x"}).
			add(5, msg{}.str(1, "ints").str(8, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").int(8, 7).int(20, 7)).
			add(5, msg{}.str(1, "floats").str(7, "\x00\x00\xc0\x7f\x00\x00\x80\x3f").int(20, 6)).
			add(5, msg{}.str(1, "strings").str(9, "\xff").str(9, "").int(20, 8)).
			add(5, msg{}.str(1, "string").str(4, "a").str(4, "b").int(20, 3)).
			add(5, msg{}.str(1, "int").int(3, 1).int(3, -5).int(20, 2)).
			add(5, msg{}.str(1, "untyped").int(3, 4)).
			add(5, msg{}.str(1, "empty").int(20, 7)).add(5, msg{}.str(1, "zero").int(20, 1)).add(5, msg{}.str(1, "none").int(20, 8)).add(5,
			msg{}.str(1, "nothing").int(20, 3)).
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

// stock is the graph as onnx-go decodes it. A name that it invents, for the input of an operator without any, ends in NODE/input.
func (s *graphScan) stock() (*graph.Graph, error) {
	var g msg
	for i, n := range s.nodes {
		m := node(n.op, fmt.Sprintf("qwb.%d", i), n.outputs, n.inputs)
		for _, a := range n.attrs {
			if !plain(&a) {
				continue
			}
			p := msg{}.str(1, a.name).int(20, int64(a.kind))
			for _, f := range a.values {
				p = append(p, f.raw...)
			}
			m = m.add(5, p)
		}
		g = g.add(1, m)
	}
	for i := range s.inputs {
		g = g.add(11, msg{}.str(1, s.inputs[i].name))
	}
	for i := range s.outputs {
		g = g.add(12, msg{}.str(1, s.outputs[i].name))
	}
	if len(s.outputs) == 0 { // onnx-go refuses graphs without outputs
		g = g.add(12, msg{}.str(1, noOutput))
	}
	b := onnxgo.NewBackend()
	m := stock.NewModel(b)
	if err := decode(m, msg{}.add(7, g)); err != nil {
		return nil, err
	}
	return b.Graph(m.Input, m.Output)
}

// plainAttrs are the attributes of every node that onnx-go gets to see.
func (s *graphScan) plainAttrs() (list [][]graph.Attr, err error) {
	list = make([][]graph.Attr, len(s.nodes))
	for i, n := range s.nodes {
		for k := range n.attrs {
			if !plain(&n.attrs[k]) {
				continue
			}
			a, err := new(loader).attr(&n.attrs[k], nil)
			if err != nil {
				return nil, err
			}
			list[i] = append(list[i], a)
		}
	}
	return list, nil
}

// noOutput stands for the output of a graph that has none.
const noOutput = "qwb.none"

// decode runs onnx-go, which panics on some input.
func decode(m *stock.Model, model []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("onnx-go: %v", r)
		}
	}()
	return m.UnmarshalBinary(model)
}

// plain reports whether onnx-go can decode an attribute as it is.
func plain(s *attrScan) bool {
	return s.ref == "" && (s.kind >= graph.AttrFloat && s.kind <= graph.AttrString || s.kind >= graph.AttrFloats &&
		s.kind <= graph.AttrStrings)
}

func (s *graphScan) requireSame(t *testing.T, name string, want *graph.Graph, got *topology, attrs [][]graph.Attr) {
	t.Helper()
	var values, both []string
	for _, v := range want.Values() {
		if n := want.Value(v).Name; n != noOutput {
			values = append(values, n)
		}
	}
	known := map[string]bool{}
	for _, n := range values {
		known[n] = true
	}
	for _, v := range got.g.Values() {
		if n := got.g.Value(v).Name; known[n] {
			both = append(both, n)
		}
	}
	require.Equal(t, values, both, name)
	require.Equal(t, names(want, want.Inputs), names(got.g, got.inputs), name)
	require.Equal(t, slices.DeleteFunc(names(want, want.Outputs), func(n string) bool { return n == noOutput }),
		names(got.g, got.outputs), name)
	require.Len(t, got.ops, len(want.Nodes()), name)
	for i, id := range want.Nodes() {
		a, b, n := want.Node(id), &got.ops[i], s.nodes[i]
		require.Equal(t, a.Op, n.op, name)
		if len(n.outputs) > 0 { // onnx-go drops the inputs of nodes without outputs
			require.Equal(t, names(want, a.Inputs), names(got.g, b.inputs), name)
		}
		require.Equal(t, names(want, a.Outputs), names(got.g, b.outputs), name)
		for _, v := range b.outputs {
			if v != graph.NoValue {
				require.Equal(t, i, got.producer[v], name)
			}
		}
		for _, x := range attrs[i] {
			y := a.Attr(x.Name)
			require.NotNil(t, y, "%s: %s", name, x.Name)
			x.Doc = "" // onnx-go drops it
			assert.True(t, sameAttr(x, *y) && math.Float32bits(x.F) == math.Float32bits(y.F), "%s: %v and %v", name, x, *y)
		}
	}
}
