package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Whoever looks at a run sees it with everything that its hooks do, states inside of operators too.
func TestLookingLeavesHooksAsTheyAre(t *testing.T) {
	seen := 0
	h := &exec.Hooks{State: func(*graph.Node, []float32) error { seen++; return nil }, Cell: func(*graph.Node, []float32) { seen++ }}
	both := looking(h, func(graph.ValueID) bool { return false }, func(*graph.Node, int, *tensor.Tensor) error { return nil })
	require.NoError(t, both.State(nil, nil))
	both.Cell(nil, nil)
	require.Equal(t, 2, seen)
	both = chained(&exec.Hooks{}, h) // as what is taken away by a what-if stands in front of the simulation
	require.NoError(t, both.State(nil, nil))
	both.Cell(nil, nil)
	require.Equal(t, 4, seen)
}
