package onnx

import (
	"os"
	"slices"
	"testing"

	stock "github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx/onnxgo"
)

// TestAgreesWithStockDecoder decodes whole files with onnx-go, unhelped, into Backend and compares what it carries with
// what Read makes of the same file.
func TestAgreesWithStockDecoder(t *testing.T) {
	total, loaded := 0, 0
	compare := func(name string, b []byte) {
		total++
		backend := onnxgo.NewBackend()
		m := stock.NewModel(backend)
		if decode(m, b) != nil {
			return // a type, an attribute or a data field that onnx-go cannot read
		}
		loaded++
		other, err := backend.Graph(m.Input, m.Output)
		if !assert.NoError(t, err, name) {
			return
		}
		own, _, err := read(b)
		if assert.NoError(t, err, name) {
			compareStock(t, name, other, own.Graph)
		}
	}
	conformance(t, ".onnx", compare)
	for _, path := range realModels(t) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		compare(path, b)
	}
	t.Logf("onnx-go loads %d of %d models", loaded, total)
	assert.Greater(t, loaded, 1000)
}

func compareStock(t *testing.T, name string, stock, own *graph.Graph) {
	require.Equal(t, len(own.Nodes()), len(stock.Nodes()), name)
	for _, id := range own.Nodes() {
		a, b := own.Node(id), stock.Node(id)
		require.Equal(t, a.Op, b.Op, name)
		if len(a.Outputs) > 0 { // onnx-go drops the inputs of nodes without outputs
			require.Equal(t, names(own, a.Inputs), names(stock, b.Inputs), "%s: inputs of %s", name, a.Name)
		}
		require.Equal(t, names(own, a.Outputs), names(stock, b.Outputs), "%s: outputs of %s", name, a.Name)
		require.Equal(t, len(a.Attrs), len(b.Attrs), name)
		for i := range a.Attrs {
			attr := a.Attrs[i]
			attr.Doc = "" // onnx-go drops it
			other := b.Attr(attr.Name)
			require.NotNil(t, other, "%s: %s of %s", name, attr.Name, a.Name)
			require.True(t, sameAttr(attr, *other), "%s: %s of %s", name, attr.Name, a.Name)
		}
	}
	inputs := slices.DeleteFunc(slices.Clone(own.Inputs), func(v graph.ValueID) bool { return own.Const(v) != nil })
	require.Equal(t, names(own, inputs), names(stock, stock.Inputs), name)
	require.Equal(t, names(own, own.Outputs), names(stock, stock.Outputs), name)
	for _, v := range own.Values() {
		other, ok := stock.Lookup(own.Value(v).Name)
		if len(own.Uses(v)) == 0 || !ok || own.Const(v) == nil {
			continue
		}
		require.True(t, sameTensor(own.Const(v), stock.Const(other)), "%s: %s", name, own.Value(v).Name)
	}
}

func names(g *graph.Graph, list []graph.ValueID) []string {
	out := []string{}
	for _, v := range list {
		out = append(out, nameOf(g, v))
	}
	return out
}

// TestBackendReads walks over a decoded graph with gonum's methods: y = Add(x, c), z = Relu(y).
func TestBackendReads(t *testing.T) {
	g := msg{}.add(1, node("Add", "a", []string{"y"}, []string{"x", "c"})).add(1, node("Relu", "r", []string{"z"}, []string{"y"})).
		add(5, floats("c", []int64{1}, "\x00\x00\x80\x3f")).add(11, info("x", 1)).add(12, info("z", 1))
	b := onnxgo.NewBackend()
	m := stock.NewModel(b)
	require.NoError(t, m.UnmarshalBinary(model(g)))
	id := map[string]int64{}
	for it := b.Nodes(); it.Next(); {
		n := it.Node().(stock.Namer)
		id[n.GetName()] = n.ID()
	}
	require.Len(t, id, 4)
	from := func(name string) (list []string) {
		for it := b.From(id[name]); it.Next(); {
			list = append(list, it.Node().(stock.Namer).GetName())
		}
		slices.Sort(list)
		return list
	}
	assert.Equal(t, []string{"c", "x"}, from("y"))
	assert.Equal(t, []string{"y"}, from("z"))
	assert.Empty(t, from("x"))
	assert.Equal(t, 1, b.To(id["x"]).Len())
	assert.True(t, b.HasEdgeFromTo(id["y"], id["c"]))
	assert.False(t, b.HasEdgeFromTo(id["c"], id["y"]))
	assert.True(t, b.HasEdgeBetween(id["c"], id["y"]))
	assert.Nil(t, b.Edge(id["x"], id["z"]))
	require.NotNil(t, b.Edge(id["z"], id["y"]))
	assert.Equal(t, id["y"], b.Edge(id["z"], id["y"]).To().ID())
	assert.Nil(t, b.Node(99))
}
