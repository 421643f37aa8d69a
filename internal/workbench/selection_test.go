package workbench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/decision"
)

// Names of models are anybody's: each selects its own operator and nothing else, alone and together with another one, and at a slot.
func TestNamesSelectExactlyTheirOperator(t *testing.T) {
	names := []string{"a", "a,b", "b", "first", "last", "depthwise", "*", "type:Relu", "name:a", "/a/", "/model/a/Relu", "!a", " a ", "a:in0",
		"a:weight", `a\,b`, `a\`, "a.b", "axb", "ä<img src=x>\n",
		"input:x", "pattern:attention", "$(touch x)", "-dash", "/"}
	g := graph.New("", 17)
	v, err := g.AddValue(graph.Value{Name: "x", DType: tensor.Float32})
	require.NoError(t, err)
	g.Inputs = []graph.ValueID{v}
	for _, name := range names {
		out, err := g.AddValue(graph.Value{Name: "to " + name, DType: tensor.Float32})
		require.NoError(t, err)
		_, err = g.AddNode(graph.Node{Name: name, Op: "Relu", Inputs: []graph.ValueID{v}, Outputs: []graph.ValueID{out}})
		require.NoError(t, err)
		v = out
	}
	g.Outputs = []graph.ValueID{v}
	for _, name := range names {
		s := selection{Nodes: []string{name}}
		text, err := s.selector()
		require.NoError(t, err)
		require.NotEqual(t, byte('-'), text[0], "a flag")
		nodes, err := decision.Nodes(g, text)
		require.NoError(t, err, "%q: %q", name, text)
		require.Len(t, nodes, 1, "%q: %q", name, text)
		assert.Equal(t, name, g.Node(nodes[0]).Name)
		s.Nodes = append(s.Nodes, "axb")
		if text, err = s.selector(); name != "axb" {
			require.NoError(t, err)
			nodes, err = decision.Nodes(g, text)
			require.NoError(t, err)
			assert.Len(t, nodes, 2, "%q", text)
		}
	}
}
