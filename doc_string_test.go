package qwb_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/graph/onnx"
)

// TestWordsInTheFile: --doc-string writes what plan explain says at nodes, with the errors of an analysis once there is one, and at
// tensors; without it the bytes are those of an export that does not know the option.
func TestWordsInTheFile(t *testing.T) {
	ctx := context.Background()
	p, store := own(t)
	export := func(words string) (*onnx.Model, []byte) {
		o := qwb.ExportOptions{Format: "onnx", Out: "net.out.onnx"}
		if words != "" {
			o.Options = map[string]string{"doc-string": words}
		}
		_, _, err := p.Export(ctx, o)
		require.NoError(t, err)
		b, _ := store.Read("net.out.onnx")
		m, _, err := onnx.Read(bytes.NewReader(b), int64(len(b)), nil)
		require.NoError(t, err)
		return m, b
	}
	at := func(m *onnx.Model, node string) string {
		id, ok := m.Graph.LookupNode(node)
		require.True(t, ok)
		return m.Graph.Node(id).Doc
	}
	s, _, err := p.Show()
	require.NoError(t, err)
	require.Positive(t, s.Domains["INT8"])
	bare, plain := export("")
	_, none := export("none")
	require.True(t, bytes.Equal(plain, none))
	var node string
	for _, id := range bare.Graph.Nodes() {
		if n := bare.Graph.Node(id); n.Op == "Conv" || n.Op == "Gemm" {
			node = n.Name
		}
		require.Empty(t, bare.Graph.Node(id).Doc)
	}
	e, _, err := p.Explain(ctx, node)
	require.NoError(t, err)
	m, _ := export("nodes")
	require.Equal(t, e.Text(), at(m, node)+"\n")
	for _, v := range m.Graph.Values() {
		require.Empty(t, m.Graph.Value(v).Doc)
	}

	r, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Outputs: true, Graphwise: true, Layerwise: true}})
	require.NoError(t, err)
	require.NotEmpty(t, r.Layerwise)
	require.NoError(t, p.KeepAnalysis(r))
	m, _ = export("both")
	require.Contains(t, at(m, node), e.Text()+"  error at its output, all quantized: NSR ")
	require.Contains(t, at(m, node), "it alone quantized: NSR ")
	v, ok := m.Graph.Lookup(e.Slots[0].Tensor)
	require.True(t, ok)
	require.Contains(t, m.Graph.Value(v).Doc, e.Slots[0].Slot+": "+e.Slots[0].Text())
	_, after := export("")
	require.True(t, bytes.Equal(plain, after))
}
