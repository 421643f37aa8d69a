package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
)

func TestOfSizes(t *testing.T) {
	g, err := graph.Parse(`input x: f32[n,4]
const w: f32[4,4] = normal(1)
s = Shape(x)
z = ConstantOfShape(s)
h = MatMul(z, w)
y = MatMul(x, w)
c = Shape(y)
k = ConstantOfShape(c)
a = Add(h, k)
b = Add(h, y)
output a
output b
`)
	require.NoError(t, err)
	for name, want := range map[string]bool{"x": false, "w": false, "s": true, "z": true, "h": true, "y": false, "k": true, "a": true,
		"b": false} {
		v, ok := g.Lookup(name)
		require.True(t, ok)
		require.Equal(t, want, graph.OfSizes(g, v), name)
	}
}
