package analysis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

func TestTopologyOfAConfiguredGraph(t *testing.T) {
	g, q := configured(t, residualNet, &target.ONNXRuntime, samplesOf(2, 1, 8, 10, 10), 1)
	top, err := NewTopology(g, q.Set(), nil)
	require.NoError(t, err)
	require.Len(t, top.Nodes, len(g.Nodes())+3)
	at := map[string]int{}
	for i, n := range top.Nodes {
		at[n.Name] = i
	}
	conv := top.Nodes[at["c1"]]
	require.Equal(t, "INT8", conv.Domain)
	require.Equal(t, "int8-sym-channel", conv.Weights)
	require.Equal(t, "uint8-asym-tensor", conv.Activations)
	require.Positive(t, conv.MACs)
	marks := map[string]int{}
	for _, e := range top.Edges {
		require.Less(t, e.From, e.To, "edges follow the order")
		marks[e.Mark]++
		if top.Nodes[e.From].Op == "Input" {
			require.Equal(t, MarkQuantize, e.Mark)
			require.Equal(t, "f32", e.Type)
			require.EqualValues(t, 4*8*10*10, e.Bytes)
		}
		if e.Mark == MarkBoth {
			require.Equal(t, "uint8", e.Type)
		}
	}
	require.Positive(t, marks[MarkBoth])
	bare, err := NewTopology(g, nil, nil)
	require.NoError(t, err)
	require.Len(t, bare.Edges, len(top.Edges))
	require.Equal(t, top.Blocks, bare.Blocks)
}

// chainOf writes n residual blocks after each other. Their operators are called by name.
func chainOf(n int, name func(block int, op string) string) string {
	var b strings.Builder
	b.WriteString("input x: f32[1,8,10,10]\nconst w: f32[8,8,1,1] = fill(0.1)\nstem = Conv(x, w)\n")
	from := "stem"
	for i := range n {
		line := func(out, call, op string) { fmt.Fprintf(&b, "%s%d = %s %q\n", out, i, call, name(i, op)) }
		line("a", fmt.Sprintf("Conv(%s, w)", from), "conv1")
		line("r", fmt.Sprintf("Relu(a%d)", i), "relu1")
		line("c", fmt.Sprintf("Conv(r%d, w)", i), "conv2")
		line("s", fmt.Sprintf("Add(%s, c%d)", from, i), "add")
		line("t", fmt.Sprintf("Relu(s%d)", i), "relu2")
		from = fmt.Sprintf("t%d", i)
	}
	fmt.Fprintf(&b, "y = Conv(%s, w)\nz = Relu(y)\noutput z\n", from)
	return b.String()
}

func blocksOf(t *testing.T, text string) ([]Block, *Topology) {
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	top, err := NewTopology(g, nil, nil)
	require.NoError(t, err)
	requireFolded(t, top)
	return top.Blocks, top
}

// requireFolded holds what makes blocks drawable: parents come first, names are unique, and in no level do closed blocks form a cycle.
func requireFolded(t *testing.T, top *Topology) {
	names := map[string]bool{}
	for i, b := range top.Blocks {
		require.Less(t, b.Parent, i)
		require.False(t, names[b.Name], b.Name)
		names[b.Name] = true
	}
	item := func(node, level int) int { // what of the level holds the node, -1 if nothing does; blocks after nodes
		b := top.Nodes[node].Block
		if b == level {
			return node
		}
		for ; b >= 0; b = top.Blocks[b].Parent {
			if top.Blocks[b].Parent == level {
				return len(top.Nodes) + b
			}
		}
		return -1
	}
	for level := -1; level < len(top.Blocks); level++ {
		missing, to := map[int]int{}, map[int][]int{}
		for _, e := range top.Edges {
			if a, b := item(e.From, level), item(e.To, level); a >= 0 && b >= 0 && a != b {
				to[a] = append(to[a], b)
				missing[b]++
				missing[a] += 0
			}
		}
		var ready []int
		for i, n := range missing {
			if n == 0 {
				ready = append(ready, i)
			}
		}
		done := 0
		for ; len(ready) > 0; done++ {
			last := ready[len(ready)-1]
			ready = ready[:len(ready)-1]
			for _, i := range to[last] {
				if missing[i]--; missing[i] == 0 {
					ready = append(ready, i)
				}
			}
		}
		require.Equal(t, len(missing), done, "level %d has a cycle", level)
	}
}

func TestResidualBlocksThatAreAlikeAreFolded(t *testing.T) {
	blocks, top := blocksOf(t, chainOf(4, func(i int, op string) string { return fmt.Sprintf("%s_%d", op, i) }))
	require.Equal(t, Block{"add_0 … add_3", "repeat", -1, 4}, blocks[0])
	for i, b := range blocks[1:] {
		require.Equal(t, Block{fmt.Sprintf("add_%d", i), "residual", 0, 1}, b)
	}
	require.Equal(t, -1, top.Nodes[0].Block)
	require.Equal(t, 1, top.Nodes[2].Block)
	require.Equal(t, 1, top.Nodes[6].Block, "the activation behind the sum")
}

// TestAUnitBeginsWithWhatComputes and ends with its activation, and is no longer than what is repeated.
func TestAUnitBeginsWithWhatComputes(t *testing.T) {
	text := "input x: f32[1,3,8,8]\nconst v: f32[8,3,1,1] = fill(0.1)\nconst w: f32[8,8,1,1] = fill(0.1)\nc0 = Conv(x, v)\nr0 = Relu(c0)\n"
	for i := range 6 {
		text += fmt.Sprintf("c%d = Conv(r%d, w)\nr%d = Relu(c%d)\n", i+1, i, i+1, i+1)
	}
	blocks, top := blocksOf(t, text+"output r6\n")
	require.Equal(t, Block{"c1 … c6", "repeat", -1, 6}, blocks[0])
	require.Len(t, blocks, 7)
	for i, n := range top.Nodes {
		switch {
		case i < 3 || n.Op == "Output":
			require.Equal(t, -1, n.Block)
		default:
			require.Equal(t, 1+(i-3)/2, n.Block)
		}
	}
}

func TestBlocksAreCalledByTheirScope(t *testing.T) {
	blocks, _ := blocksOf(t, chainOf(4, func(i int, op string) string { return fmt.Sprintf("/net/stage%d/block%d/%s", i/2, i%2, op) }))
	require.Equal(t, []Block{{"net/stage0", "scope", -1, 1}, {"net/stage0/block0", "residual", 0, 1}, {"net/stage0/block1", "residual", 0, 1},
		{"net/stage1", "scope", -1, 1}, {"net/stage1/block0", "residual", 3, 1}, {"net/stage1/block1", "residual", 3, 1}}, blocks)
}

func TestAttentionIsABlockWithWhatLeadsToIt(t *testing.T) {
	text := "input x: f32[1,4,8]\ninput mask: f32[1,4,4]\nconst w: f32[8,8] = normal(seed=1)\nconst half: f32[] = 0.5\nm = Neg(mask)\n" +
		"h0 = MatMul(x, w)\n"
	for i := range 2 {
		text += fmt.Sprintf("q%[1]d = MatMul(h%[1]d, w)\nk%[1]d = MatMul(h%[1]d, w)\nkt%[1]d = Transpose(k%[1]d) {perm=[0,2,1]}\n"+
			"v%[1]d = MatMul(h%[1]d, w)\n"+
			"s%[1]d = MatMul(q%[1]d, kt%[1]d)\nd%[1]d = Mul(s%[1]d, half)\nb%[1]d = Add(d%[1]d, m)\np%[1]d = Softmax(b%[1]d)\n"+
			"y%[1]d = MatMul(p%[1]d, v%[1]d)\nh%[2]d = MatMul(y%[1]d, w)\n", i, i+1)
	}
	blocks, top := blocksOf(t, text+"output h2\n")
	require.Len(t, blocks, 2)
	for _, b := range blocks {
		require.Equal(t, "attention", b.Kind)
	}
	for _, n := range top.Nodes {
		inside := len(n.Name) == 2 && strings.ContainsAny(n.Name[:1], "qkvsdbpy") || strings.HasPrefix(n.Name, "kt")
		require.Equal(t, inside, n.Block >= 0, "%s: the mask is read by both and stands in neither", n.Name)
	}
}

// TestBlocksOfRandomGraphs: whatever names and edges are, closed blocks never form a cycle.
func TestBlocksOfRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	folded := 0
	for range 200 {
		var b strings.Builder
		b.WriteString("input v0: f32[4]\ninput v1: f32[4]\nconst w: f32[4,4] = normal(seed=1)\n")
		n := 5 + r.IntN(40)
		for i := 2; i < n; i++ {
			near := func() int { return max(0, i-1-r.IntN(1+r.IntN(i))) }
			name := fmt.Sprintf("/s%d/t%d/n%d", r.IntN(3)*i/n, r.IntN(2), i)
			switch r.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "v%d = MatMul(v%d, w) %q\n", i, near(), name)
			case 1:
				fmt.Fprintf(&b, "v%d = Relu(v%d) %q\n", i, near(), name)
			default:
				fmt.Fprintf(&b, "v%d = Add(v%d, v%d) %q\n", i, near(), near(), name)
			}
		}
		fmt.Fprintf(&b, "output v%d, v%d\n", n-1, n-2)
		blocks, _ := blocksOf(t, b.String())
		folded += len(blocks)
	}
	require.Greater(t, folded, 50)
}
