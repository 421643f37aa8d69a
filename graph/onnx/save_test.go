package onnx

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/file"
)

// sample exercises most of what a file can hold besides operators.
func sample() []byte {
	sub := func(name string, out string) msg {
		return msg{}.add(1, node("Neg", "neg", []string{out}, []string{"a"}).str(6, "inner")).str(2, name).add(12, info(out, 2))
	}
	branch := func(attr string, g msg) msg { return msg{}.str(1, attr).add(6, g).int(20, 5) }
	sparse := func(name string) msg {
		return msg{}.add(1, floats(name, []int64{2}, string(little(5, 6)))).
			add(2, msg{}.int(1, 2).int(2, 7).str(9, "\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")).int(3, 2).int(3, 2)
	}
	g := msg{}.
		add(1, node("Add", "add", []string{"a"}, []string{"x", "w"}).str(6, "a doc").add(9, msg{}.str(1, "k").str(2, "v"))).
		add(1, node("If", "", []string{"b"}, []string{"cond"}).
			add(5, branch("then_branch", sub("then", "t"))).add(5, branch("else_branch", sub("else", "e")))).
		add(1, node("Gather", "twice", []string{"c"}, []string{"sp", "", "b"}).str(7, "my.domain").
			add(5, msg{}.str(1, "ints").int(8, 3).int(8, -1).int(20, 7)).
			add(5, msg{}.str(1, "s").str(4, "text").int(20, 3).str(13, "attribute doc")).
			add(5, msg{}.str(1, "sparse").add(22, sparse("attribute")).int(20, 11))).
		add(1, node("Relu", "twice", []string{"d", ""}, []string{"c"})).
		str(2, "graph").
		add(5, floats("w", []int64{2}, string(little(1, 2))).str(12, "weights").add(16, msg{}.str(1, "m").str(2, "n"))).
		add(5, floats("unused", []int64{1}, string(little(7)))).
		str(10, "graph doc").
		add(11, info("x", 2)).add(11, msg{}.str(1, "cond").add(2, msg{}.add(1, msg{}.int(1, 9)))).add(11, info("w", 2)).
		add(12, info("d", 2)).
		add(13, info("a", 2).str(3, "value doc")).
		add(13, msg{}.str(1, "c").add(2, msg{}.add(1, msg{}.int(1, 1).add(2, msg{}.add(1, msg{}.str(2, "N")).add(1, msg{}))))).
		add(13, info("nobody", 1)).
		add(13, msg{}.str(1, "b").add(2, msg{}.add(4, msg{}.add(1, msg{}.add(1, msg{}.int(1, 1)))))).
		add(14, msg{}.str(1, "a").add(2, msg{}.str(1, "SCALE_TENSOR").str(2, "w"))).
		add(15, sparse("sp")).
		add(16, msg{}.str(1, "graph").str(2, "meta"))
	function := msg{}.str(1, "F").str(4, "p").str(5, "q").str(6, "alpha").
		add(7, node("Elu", "", []string{"q"}, []string{"p"}).add(5, msg{}.str(1, "alpha").str(21, "alpha").int(20, 1))).
		str(10, "my.domain").add(9, msg{}.str(1, "").int(2, 13))
	return msg{}.int(1, 8).str(2, "maker").str(3, "1.2").str(4, "org.example").int(5, 7).str(6, "model doc").add(7, g).
		add(8, msg{}.str(1, "").int(2, 13)).add(8, msg{}.str(1, "my.domain").int(2, 1)).
		add(14, msg{}.str(1, "author").str(2, "me")).add(20, msg{}.add(1, msg{}.str(2, "init"))).add(25, function)
}

// TestSampleIsCarried reads every field of the sample that the model exposes.
func TestSampleIsCarried(t *testing.T) {
	b := sample()
	m, warnings, err := read(b)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Equal(t, `node "Relu_d": 1 nodes had the name of another node and got one of their own, the first of them "twice" (Relu)`,
		warnings[0].String())
	assert.Equal(t, b, written(t, m))

	assert.Equal(t, []any{int64(8), "maker", "1.2", "org.example", int64(7), "model doc"},
		[]any{m.IRVersion, m.ProducerName, m.ProducerVersion, m.Domain, m.ModelVersion, m.Doc})
	assert.Equal(t, []KeyValue{{"author", "me"}}, m.Metadata)
	g := m.Graph
	assert.Equal(t, []graph.Opset{{Domain: "", Version: 13}, {Domain: "my.domain", Version: 1}}, g.Opsets)
	assert.Equal(t, "graph", g.Name)
	assert.Equal(t, "graph doc", g.Doc)
	assert.Equal(t, []string{"x", "cond", "w"}, names(g, g.Inputs))
	var nodes []string
	for _, id := range g.Nodes() {
		nodes = append(nodes, g.Node(id).Name)
	}
	assert.Equal(t, []string{"add", "If_b", "twice", "Relu_d"}, nodes)

	gather := g.Node(2)
	assert.Equal(t, "my.domain", gather.Domain)
	assert.Equal(t, []string{"sp", "", "b"}, names(g, gather.Inputs))
	assert.Equal(t, []int64{3, -1}, gather.AttrInts("ints"))
	assert.Equal(t, "text", gather.AttrStr("s", ""))
	assert.Equal(t, "attribute doc", gather.Attr("s").Doc)
	assert.Equal(t, graph.AttrOpaque, gather.Attr("sparse").Kind)
	assert.Equal(t, []string{"d", ""}, names(g, g.Node(3).Outputs))

	value := func(name string) *graph.Value {
		id, ok := g.Lookup(name)
		require.True(t, ok, name)
		return g.Value(id)
	}
	assert.Equal(t, []float32{0, 5, 0, 6}, value("sp").Const.F32())
	assert.Equal(t, graph.Shape{{N: -1, Symbol: "N"}, {N: -1}}, value("c").Shape)
	assert.Equal(t, "value doc", value("a").Doc)
	assert.Equal(t, tensor.Undefined, value("b").DType)
	assert.Equal(t, tensor.Bool, value("cond").DType)
	assert.Nil(t, value("cond").Shape)

	subs := g.Node(1).Subgraphs()
	require.Len(t, subs, 2)
	assert.Equal(t, []string{"a"}, subs[0].CapturedNames())
	id, _ := subs[0].Lookup("a")
	assert.True(t, subs[0].Value(id).Outer)
	assert.Equal(t, "f32[2]", subs[0].Value(id).DType.String()+subs[0].Value(id).Shape.String())
	assert.EqualValues(t, 13, subs[0].Opset(""))

	require.Len(t, m.Functions, 1)
	f := m.Functions[0]
	assert.Equal(t, []any{"my.domain", "F", []string{"alpha"}}, []any{f.Domain, f.Name, f.Attributes})
	assert.Equal(t, []string{"p"}, names(f.Graph, f.Graph.Inputs))
	assert.Equal(t, "alpha", f.Graph.Node(0).Attr("alpha").RefAttr)
}

// TestChangesLeaveTheRestAsBytes makes one change at a time. All other pieces of the file must still be there, byte for
// byte; what is listed as gone must not.
func TestChangesLeaveTheRestAsBytes(t *testing.T) {
	whole := sample()
	h, err := scanModel(whole)
	require.NoError(t, err)
	s, err := scanGraph(h.graph)
	require.NoError(t, err)
	pieces := map[string][]byte{"function": h.functions[0], "training_info": h.other[0], "metadata": h.rawMetadata[0],
		"opset": h.rawOpsets[1], "annotation": s.other[0], "graph metadata": s.other[1], "sparse": s.sparse[0].raw}
	for _, n := range s.nodes {
		pieces["node "+n.unique] = n.raw
	}
	for _, x := range s.tensors {
		pieces["tensor "+x.name] = x.raw
	}
	for _, list := range [][]infoScan{s.inputs, s.outputs, s.infos} {
		for i := range list {
			pieces["value "+list[i].name] = list[i].raw
		}
	}
	cases := []struct {
		what   string
		change func(m *Model)
		gone   []string // and "tensor unused" and the node whose name was taken, where the graph changed
		inside []string // of the changed piece: what is still there
	}{
		{"a doc of the model", func(m *Model) { m.Doc = "other" }, nil, nil},
		{"the producer", func(m *Model) { m.ProducerName = "qwb" }, nil, nil},
		{"an opset", func(m *Model) { m.Graph.Opsets[0].Version = 21 }, nil, nil},
		{"metadata added", func(m *Model) { m.Metadata = append(m.Metadata, KeyValue{"k", "v"}) }, nil, nil},
		{"an attribute", func(m *Model) { m.Graph.Node(2).SetAttr(graph.Int("axis", 1)) }, []string{"node twice"},
			[]string{"attribute doc", "text"}},
		{"a doc of a node", func(m *Model) { m.Graph.Node(0).Doc = "new" }, []string{"node add"}, []string{"\x0a\x01k\x12\x01v"}},
		{"a nested graph", func(m *Model) { m.Graph.Node(1).Subgraphs()[0].Node(0).Op = "Abs" }, []string{"node If_b"}, []string{"inner"}},
		{"a weight", func(m *Model) {
			id, _ := m.Graph.Lookup("w")
			m.Graph.SetConst(id, tensor.FromF32([]float32{1, 3}, 2))
		}, []string{"tensor w"}, []string{"weights", "\x0a\x01m\x12\x01n"}},
		{"a sparse weight", func(m *Model) {
			id, _ := m.Graph.Lookup("sp")
			m.Graph.SetConst(id, tensor.FromF32([]float32{1, 2, 3, 4}, 2, 2))
		}, []string{"sparse"}, nil},
		{"a shape", func(m *Model) {
			id, _ := m.Graph.Lookup("a")
			m.Graph.Value(id).Shape = graph.Static(1, 2)
		}, []string{"value a"}, []string{"value doc"}},
		{"a function dropped", func(m *Model) { m.Functions = nil }, []string{"function"}, nil},
		{"the name of a node", func(m *Model) { require.NoError(t, m.Graph.RenameNode(0, "sum")) }, []string{"node add"}, nil},
		{"the name of a value", func(m *Model) {
			id, _ := m.Graph.Lookup("c")
			require.NoError(t, m.Graph.Rename(id, "c2"))
		}, []string{"node twice", "node Relu_d", "value c"}, nil},
	}
	for _, c := range cases {
		m := mustRead(t, whole)
		c.change(m)
		out := written(t, m)
		require.NotEqual(t, whole, out, c.what)
		changed := !sameGraph(m.Graph, mustRead(t, whole).Graph)
		gone := map[string]bool{"tensor unused": changed, "node Relu_d": changed}
		for _, name := range c.gone {
			gone[name] = true
		}
		for name, raw := range pieces {
			assert.Equal(t, !gone[name], bytes.Contains(out, raw), "%s: %s", c.what, name)
		}
		for _, text := range c.inside {
			assert.Contains(t, string(out), text, c.what)
		}
		back := mustRead(t, out)
		assert.Equal(t, out, written(t, back), c.what)
		assert.Equal(t, out, written(t, m), "%s: the second time", c.what)
		if changed {
			dropUnused(m.Graph)
		}
		assert.True(t, sameGraph(m.Graph, back.Graph), "%s: read again", c.what)
	}
}

// dropUnused removes constants that nothing reads, as writing does.
func dropUnused(g *graph.Graph) {
	for _, v := range g.Values() {
		if g.Const(v) != nil && !g.Captured(v) {
			g.RemoveValue(v)
		}
	}
}

// TestStorageOrderDoesNotMatter shuffles nodes in memory, alone and together with a change.
func TestStorageOrderDoesNotMatter(t *testing.T) {
	shuffled := func(change bool) []byte {
		m := mustRead(t, sample())
		if change {
			m.Graph.Node(0).Doc = "new"
		}
		m.Graph.Shuffle([]int{2, 0, 3, 1})
		return written(t, m)
	}
	assert.Equal(t, sample(), shuffled(false))
	m := mustRead(t, sample())
	m.Graph.Node(0).Doc = "new"
	assert.Equal(t, written(t, m), shuffled(true))
}

// TestWithGraph writes a changed clone and leaves the model alone.
func TestWithGraph(t *testing.T) {
	m := mustRead(t, sample())
	g := m.Graph.Clone()
	assert.Equal(t, sample(), written(t, m.WithGraph(g)))
	g.RemoveNode(3)
	id, _ := g.Lookup("c")
	g.Outputs = []graph.ValueID{id}
	back := mustRead(t, written(t, m.WithGraph(g)))
	assert.Len(t, back.Graph.Nodes(), 3)
	assert.Equal(t, sample(), written(t, m))
}

// TestIRVersionFollowsTypes raises the version only as far as the graph needs.
func TestIRVersionFollowsTypes(t *testing.T) {
	for _, c := range []struct {
		have int64
		d    tensor.DType
		want int64
	}{{3, tensor.Float32, 4}, {0, tensor.Float32, 4}, {7, tensor.Float32, 7}, {3, tensor.Float8E4M3FN, 9}, {4, tensor.Int4, 10},
		{12, tensor.Int4, 12}, {9, tensor.Float4E2M1, 11}, {9, tensor.Float8E8M0, 12}, {9, tensor.Int2, 13}} {
		g := graph.New("g", 21)
		v := g.AddConst("c", tensor.New(c.d, 2))
		g.Outputs = []graph.ValueID{v}
		m := &Model{Graph: g, IRVersion: c.have}
		assert.Equal(t, c.want, mustRead(t, written(t, m)).IRVersion, "%d %s", c.have, c.d)
	}
}

// TestSaveLeavesNothingBehind fails in several ways and looks at the folder.
func TestSaveLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	m := mustRead(t, sample())
	target := filepath.Join(dir, "is-a-folder")
	require.NoError(t, os.MkdirAll(filepath.Join(target, "full"), 0o755))
	assert.Error(t, m.Save(target, SaveOptions{}))
	assert.Error(t, m.Save(filepath.Join(dir, "no", "folder", "m.onnx"), SaveOptions{}))
	m.Graph.Node(0).SetAttr(graph.Attr{Name: "bad", Kind: graph.AttrTensor})
	assert.ErrorContains(t, m.Save(filepath.Join(dir, "m.onnx"), SaveOptions{}), `node "add"`)
	assert.Equal(t, []string{"is-a-folder"}, list(t, dir))

	path := filepath.Join(dir, "kept.onnx")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	var s file.Stage
	err := s.Add(path, content(failing{}))
	require.ErrorIs(t, err, errFull)
	s.Discard()
	assertFile(t, path, []byte("before"))
	assert.Equal(t, []string{"is-a-folder", "kept.onnx"}, list(t, dir))
}

var errFull = errors.New("no space left on device")

// failing is content whose second half cannot be written.
type failing struct{}

func (failing) WriteTo(w io.Writer) (int64, error) {
	n, _ := w.Write(make([]byte, 1<<17))
	return int64(n), errFull
}

// TestSaveOverItself replaces the file that is mapped.
func TestSaveOverItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, os.WriteFile(path, sample(), 0o644))
	m, _, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, m.Save(path, SaveOptions{}))
	assertFile(t, path, sample())
	m.Doc = "other"
	require.NoError(t, m.Save(path, SaveOptions{}))
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "twice")
	assert.ErrorContains(t, m.Save(path, SaveOptions{}), "closed")
	_, err = m.Digest()
	assert.ErrorContains(t, err, "closed")
	back, _, err := Open(path)
	require.NoError(t, err)
	assert.Equal(t, "other", back.Doc)
	require.NoError(t, back.Close())
}

// TestSaveThatFailsKeepsTheOldData: the model cannot get its name, so the data that were there stay.
func TestSaveThatFailsKeepsTheOldData(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "m.onnx", "full"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.onnx.data"), []byte("old data"), 0o644))
	m := mustRead(t, sample())
	m.Graph.AddConst("large", tensor.New(tensor.Float32, 1000))
	require.Error(t, m.Save(filepath.Join(dir, "m.onnx"), SaveOptions{ExternalAbove: 1}))
	assertFile(t, filepath.Join(dir, "m.onnx.data"), []byte("old data"))
}
