package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/internal/shard"
)

// Ranges have every group once, and no range costs more than its share and one group.
func TestRangesCostAlike(t *testing.T) {
	g := graphtest.Parse(t, residualNet)
	order, err := g.Order()
	require.NoError(t, err)
	a := &analyzer{g: g, order: order, work: newWork(g)}
	for _, id := range order {
		a.groups = append(a.groups, group{node: id, nodes: []graph.NodeID{id}})
	}
	cost := func(from, to int) (sum float64) {
		for _, grp := range a.groups[from:to] {
			for at, id := range order {
				if id == grp.node {
					sum += a.work.sum(order[at:])
				}
			}
		}
		return sum
	}
	for _, ranges := range []int{1, 2, 3, 5, 40} {
		a.cut(ranges)
		a.cfg.Deal = shard.Deal{Ranges: ranges}
		at := 0
		for r := range ranges {
			from, to := a.span(r)
			require.Equal(t, at, from)
			require.LessOrEqual(t, cost(from, to), cost(0, len(a.groups))/float64(ranges)+cost(0, 1)+1e-6)
			at = to
		}
		require.Equal(t, len(a.groups), at)
	}
	a.cut(2)
	a.cfg.Deal.Ranges = 2
	from, to := a.span(0)
	require.Less(t, to-from, len(a.groups)-to, "the first groups cost most")
}
