package networktest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
)

// Every operator comes up; networks can be written, and the same number gives the same network.
func TestNetworks(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		g := Random(seed)
		require.NoError(t, g.Check(), seed)
		require.NotEmpty(t, g.Outputs, seed)
		require.Equal(t, graph.Format(g), graph.Format(Random(seed)))
		require.NoError(t, (&onnx.Model{Graph: g}).Write(new(bytes.Buffer)), seed)
		for _, id := range g.Nodes() {
			seen[g.Node(id).Op]++
		}
	}
	made := 0
	for i := 0; i < NumListed(); i += 997 {
		if g, ok := Listed(i); ok {
			made++
			require.NoError(t, g.Check(), i)
		}
	}
	t.Logf("%d operators, %d of %d networks of the list: %v", len(seen), made, NumListed()/997, seen)
	require.Greater(t, len(seen), 75)
	require.Greater(t, made, NumListed()/997/3)
}
