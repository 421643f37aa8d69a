package reports

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

// twoBlocks is stem, a block of two operators in a block with a third, and a skip around both.
func twoBlocks() *analysis.Topology {
	t := &analysis.Topology{Blocks: []analysis.Block{{Name: "outer", Kind: "scope", Parent: -1, Repeat: 1},
		{Name: "inner", Kind: "residual", Parent: 0, Repeat: 1}}}
	for i, block := range []int{-1, -1, 1, 1, 0, -1, -1} {
		t.Nodes = append(t.Nodes, analysis.TopologyNode{Name: fmt.Sprint("n", i), Op: "Conv", Block: block, Fused: -1})
	}
	t.Nodes[0].Op, t.Nodes[6].Op = "Input", "Output"
	for _, e := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {1, 5}, {5, 6}, {1, 4}} {
		t.Edges = append(t.Edges, analysis.TopologyEdge{From: e[0], To: e[1], Shape: []any{1}})
	}
	return t
}

func TestPictureHasEveryEdgeInEveryLevelItPasses(t *testing.T) {
	p := NewPicture(twoBlocks())
	require.Len(t, p.Levels, 3)
	ends := func(list []LevelLink) (s []string) {
		for _, l := range list {
			s = append(s, fmt.Sprintf("%d>%d%d", l.From, l.To, l.Edges))
		}
		return s
	}
	whole, outer, inner := p.Levels[0], p.Levels[1], p.Levels[2]
	require.Equal(t, []string{"0>1[0]", "1>2[1 7]", "2>3[4]", "1>3[5]", "3>4[6]"}, ends(whole.Links))
	require.Empty(t, whole.Enter)
	require.Equal(t, []string{"0>1[3]"}, ends(outer.Links))
	require.Equal(t, []string{"-1>0[1]", "-1>1[7]"}, ends(outer.Enter))
	require.Equal(t, []string{"1>-1[4]"}, ends(outer.Leave))
	require.Equal(t, []string{"0>1[2]"}, ends(inner.Links))
	require.Equal(t, []string{"-1>0[1]"}, ends(inner.Enter))
	require.Equal(t, []string{"1>-1[3]"}, ends(inner.Leave))
	require.Equal(t, []int{-1, 0, 1}, []int{whole.Block, outer.Block, inner.Block})
	require.Equal(t, 0, whole.Items[2].Block)
	require.Equal(t, 1, outer.Items[0].Block)
	require.Equal(t, 4, outer.Items[1].Node)
	require.Len(t, whole.Links[3].Bends, 1)
	for _, l := range p.Levels {
		for _, it := range l.Items {
			require.True(t, it.X >= 0 && it.Y >= 0 && it.X+it.W <= l.W && it.Y+it.H <= l.H, "%+v in %d x %d", it, l.W, l.H)
		}
	}
	first, err := json.Marshal(p)
	require.NoError(t, err)
	again, err := json.Marshal(NewPicture(twoBlocks()))
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
	require.NotContains(t, string(first), "null")
}

func TestWhatIsFusedIsInTheBoxOfItsOperator(t *testing.T) {
	node := func(name, op string, block, fused int) analysis.TopologyNode {
		return analysis.TopologyNode{Name: name, Op: op, Block: block, Fused: fused}
	}
	p := NewPicture(&analysis.Topology{
		Nodes:  []analysis.TopologyNode{node("a", "Conv", -1, -1), node("r", "Relu", -1, 0), node("b", "Conv", 0, -1), node("s", "Relu", -1, 2)},
		Edges:  []analysis.TopologyEdge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}},
		Blocks: []analysis.Block{{Name: "block", Parent: -1}},
	})
	whole := p.Levels[0]
	require.Len(t, whole.Items, 3, "a with r, the block, and s, which is no part of the block")
	require.Equal(t, 0, whole.Items[0].Node)
	require.Equal(t, []int{1}, whole.Links[0].Edges, "from r, that is from the box of a")
	require.Equal(t, 0, whole.Links[0].From)
	require.Len(t, whole.Links, 2)
}

func TestPictureOfNothing(t *testing.T) {
	b, err := json.Marshal(NewPicture(&analysis.Topology{}))
	require.NoError(t, err)
	require.Contains(t, string(b), `"items":[]`)
}
