package passes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
)

// TestNodesWithoutAFirstOutput has nodes that no exporter writes but a broken file may hold: every pass leaves them alone.
func TestNodesWithoutAFirstOutput(t *testing.T) {
	for _, op := range []string{"Identity", "Dropout", "Shape", "Add", "Cast", "Reshape", "BatchNormalization", "Softmax", "Relu", "Conv",
		"Constant", "Split"} {
		for _, outputs := range [][]string{nil, {""}, {"", "mask"}} {
			g := parseGraph(t, "opset 7; input x: f32[2,3]; y = Neg(x); output y")
			x, _ := g.Lookup("x")
			n := graph.Node{Name: "odd", Op: op, Inputs: []graph.ValueID{x, x, x, x, x}}
			for _, name := range outputs {
				v := graph.NoValue
				if name != "" {
					var err error
					v, err = g.AddValue(graph.Value{Name: name})
					require.NoError(t, err)
					g.Outputs = append(g.Outputs, v)
				}
				n.Outputs = append(n.Outputs, v)
			}
			_, err := g.AddNode(n)
			require.NoError(t, err)
			require.NotPanics(t, func() {
				_, _ = RaiseOpset(g.Clone(), 21)
				_, _ = Run(context.Background(), g, Normalize)
			}, "%s %q", op, outputs)
		}
	}
}
