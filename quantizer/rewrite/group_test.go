package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/quantizer/rewrite"
)

// separable is a convolution, a HardSwish in pieces and a depthwise convolution with two outputs per input, followed by what the test puts
// behind it: from d, of 12 channels, to y.
func separable(behind string) string {
	return `input x: f32[N,3,8,8]
	output y
	const w: f32[6,3,3,3] = normal(seed=1); const b: f32[6] = normal(seed=2); const three: f32[1] = [3]; const six: f32[1] = [6]
	const gain: f32[6,1,1] = normal(seed=3); const dw: f32[12,1,3,3] = normal(seed=4); const db: f32[12] = normal(seed=5)
	const p: f32[5,12,1,1] = normal(seed=6); const q: f32[12,5,1,1] = normal(seed=7); const slope: f32[12,1,1] = normal(seed=8)
	t = Conv(x, w, b) {pads=[1, 1, 1, 1]} "a"
	t3 = Add(t, three) "plus"
	tc = Clip(t3) {min=0, max=6} "clip"
	tm = Mul(t, tc) "mul"
	h = Div(tm, six) "div"
	hg = Mul(h, gain) "gain"
	d = Conv(hg, dw, db) {group=6, strides=[2, 2]} "dw"
	` + behind
}

var groups = [][]int{{1, 4}, {5}, {0, 2, 3}}

// chain are the names of a chain's nodes.
func chain(g *graph.Graph, c rewrite.Chain) (names []string) {
	for _, id := range c.Nodes {
		names = append(names, g.Node(id).Name)
	}
	return names
}

// steps are one step for each chain of node a.
func steps(t *testing.T, g *graph.Graph) (list []rewrite.Step) {
	id, ok := g.LookupNode("a")
	require.True(t, ok)
	for _, c := range rewrite.Chains(g, id) {
		list = append(list, rewrite.Step{Kind: "group", At: "a", Nodes: chain(g, c), Groups: groups})
	}
	return list
}

func count(g *graph.Graph, op string) (n int) {
	for _, id := range g.Nodes() {
		if g.Node(id).Op == op {
			n++
		}
	}
	return n
}

// Groups keep the float function, whatever reads them, and need a Gather only where a reader cannot take another order.
func TestGroupsKeepTheFunction(t *testing.T) {
	for _, c := range []struct {
		name, behind string
		ends         string // last nodes of the chains
		gathers      int    // of all chains together
	}{
		{"a convolution", `y = Conv(d, p)`, "mul div gain dw", 0},
		{"activation and pooling", `r = PRelu(d, slope) "prelu"
			m = MaxPool(r) {kernel_shape=[2, 2]} "max"
			y = Conv(m, p)`, "mul div gain dw prelu max", 0},
		{"squeeze and excite", `s = GlobalAveragePool(d)
			e1 = Conv(s, p)
			e2 = Relu(e1)
			e3 = Conv(e2, q, db)
			e4 = HardSigmoid(e3)
			m1 = Mul(d, e4)
			y = Conv(m1, p)`, "mul div gain dw", 0},
		{"residual", `const v: f32[12,3,5,5] = normal(seed=9); const dv: f32[12,2,1,1] = normal(seed=10)
			o = Conv(x, v) {strides=[2, 2], pads=[1, 1, 1, 1]}
			r = Conv(o, slope4) {group=12}
			z = Add(d, r)
			y = Conv(z, p)
			const slope4: f32[12,1,1,1] = normal(seed=11)`, "mul div gain dw", 0},
		{"an output of the graph", `y = Relu(d) "relu"`, "mul div gain dw relu", 5},
		{"softmax over the channels", `y = Softmax(d) {axis=1}`, "mul div gain dw", 4},
		{"a second reader in front", `r = Conv(h, side) {strides=[2, 2]}
			z = Add(d, r)
			y = Conv(z, p)
			const side: f32[12,6,3,3] = normal(seed=9)`, "mul div", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := separable(c.behind)
			g := parse(t, text)
			list := steps(t, g)
			var ends []string
			gathers := 0
			for _, s := range list {
				ends = append(ends, s.Nodes[len(s.Nodes)-1])
				after := apply(t, g, s)
				_, left := after.LookupNode("a")
				require.False(t, left)
				require.Equal(t, count(g, "Concat")+1, count(after, "Concat"))
				gathers += count(after, "Gather")
			}
			require.Equal(t, c.ends, strings.Join(ends, " "))
			require.Equal(t, c.gathers, gathers)
		})
	}
}

// Each group has a convolution of its own channels in front, and a depthwise one of them.
func TestGroupsHaveTheirChannels(t *testing.T) {
	g := parse(t, separable(`y = Conv(d, p) "c"`))
	after := apply(t, g, steps(t, g)[3])
	w := g.Const(mustNode(t, g, "a").Inputs[1])
	for i, channels := range groups {
		a, dw := mustNode(t, after, fmt.Sprintf("a/g%d", i)), mustNode(t, after, fmt.Sprintf("dw/g%d", i))
		part := after.Const(a.Inputs[1])
		require.Equal(t, len(channels), part.Shape[0])
		run := w.Len() / w.Shape[0]
		for j, c := range channels {
			require.Equal(t, w.F32()[c*run:][:run], part.F32()[j*run:][:run])
		}
		require.EqualValues(t, len(channels), dw.AttrInt("group", 1))
		require.Equal(t, 2*len(channels), after.Const(dw.Inputs[1]).Shape[0])
	}
	require.Len(t, mustNode(t, after, "dw/join").Inputs, len(groups))
}

func mustNode(t *testing.T, g *graph.Graph, name string) *graph.Node {
	t.Helper()
	id, ok := g.LookupNode(name)
	require.True(t, ok, name)
	return g.Node(id)
}

// What lies outside a chain keeps it from being one.
func TestChainsEndWhereChannelsMeet(t *testing.T) {
	odd := parse(t, `opset 13
	input x: f32[N,4,8,8]
	output y
	const w: f32[4,4,3,3] = normal(seed=1); const e: i64[4,1,1] = [1, 2, 1, 2]
	t = Conv(x, w) "a"
	y = Pow(t, e)`)
	require.Empty(t, steps(t, odd), "exponents that are integers")
	two := parse(t, `input x: f32[N,4,8,8]
	output y
	const w: f32[4,2,3,3] = normal(seed=1); const v: f32[4,4,1,1] = normal(seed=1)
	s = Conv(x, v) "b"
	t = Conv(s, w) {group=2} "a"
	y = Relu(t)`)
	id, _ := two.LookupNode("a")
	require.Empty(t, rewrite.Chains(two, id), "a convolution in groups does not read all channels")
	id, _ = two.LookupNode("b")
	require.Empty(t, rewrite.Chains(two, id), "a convolution in groups mixes channels")
}

func TestGroupsThatDoNotFit(t *testing.T) {
	g := parse(t, separable(`y = Conv(d, p) "c"`))
	good := steps(t, g)[3]
	for why, change := range map[string]func(s *rewrite.Step){
		"there is no such node":      func(s *rewrite.Step) { s.At = "nobody" },
		"no chain of channels":       func(s *rewrite.Step) { s.Nodes = s.Nodes[1:] },
		"two at least":               func(s *rewrite.Step) { s.Groups = [][]int{{0, 1, 2, 3, 4, 5}} },
		"channel 1 of group 1":       func(s *rewrite.Step) { s.Groups = [][]int{{0, 1, 2}, {1, 3, 4, 5}} },
		"channel 6 of group 1":       func(s *rewrite.Step) { s.Groups = [][]int{{0, 1, 2}, {6, 3, 4, 5}} },
		"group 1 of channels is emp": func(s *rewrite.Step) { s.Groups = [][]int{{0, 1, 2, 3, 4, 5}, {}} },
		"5 of 6 channels":            func(s *rewrite.Step) { s.Groups = [][]int{{0, 1, 2}, {3, 4}} },
	} {
		s := good
		change(&s)
		_, err := rewrite.Apply(g, []rewrite.Step{s})
		var broken *rewrite.Broken
		require.ErrorAs(t, err, &broken)
		require.ErrorContains(t, err, why)
	}
}
