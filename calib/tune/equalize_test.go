package tune

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// chain is conv, depthwise and pointwise, one channel of the first dead, and a branch.
const chain = `opset 13
input x: f32[1,4,6,6]
const w1: f32[6,4,3,3] = normal(seed=1, std=0.2)
const b1: f32[6] = normal(seed=2, std=0.5)
const w2: f32[6,1,3,3] = normal(seed=3, std=0.4)
const w3: f32[6,6,1,1] = normal(seed=5, std=0.3)
const w4: f32[6,6,3,3] = normal(seed=6, std=0.1)
const w5: f32[3,6,1,1] = normal(seed=7, std=0.1)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[1,1,1,1], group=6} "c2"
r2 = Relu(c2)
c3 = Conv(r2, w3) "c3"
c4 = Conv(c3, w4) {pads=[1,1,1,1]} "c4"
s = Add(c3, c4)
y = Conv(s, w5) "c5"
output y
`

// equalizerOf is an equalizer of a graph all of whose convolutions are on integers.
func equalizerOf(t *testing.T, g *graph.Graph, perChannel bool) *equalizer {
	t.Helper()
	set := tqc.NewSet(g)
	for _, id := range g.Nodes() {
		if g.Node(id).Op == "Conv" {
			set.Domains[id] = tqc.DomainInt
		}
	}
	b := &Bench{Reference: g, Set: set, Fit: sampleList(0, 2)}
	ways, err := b.ways()
	require.NoError(t, err)
	e := newEqualizer(b, ways)
	for _, id := range g.Nodes() {
		if r := e.of(id); r != nil {
			r.perChannel = perChannel
		}
	}
	return e
}

func chainGraph(t *testing.T) *graph.Graph {
	t.Helper()
	g := graphtest.Parse(t, chain)
	require.Empty(t, graph.InferShapes(g))
	id, _ := g.LookupNode("c1")
	w := g.Const(g.Node(id).Inputs[1]).Clone()
	clear(w.F32()[2*36 : 3*36])
	g.SetConst(g.Node(id).Inputs[1], w)
	return g
}

func TestWaysOfEqualization(t *testing.T) {
	g := chainGraph(t)
	var at []string
	for _, w := range equalizerOf(t, g, false).ways {
		at = append(at, g.Node(w.At).Name)
	}
	require.Equal(t, []string{"c1", "c2", "c3"}, at, "c4 goes with c3, c5 ends")
}

// After equalization the ranges of a channel on both sides are equal, relative to the tensors' (Nagel et al. 2019, equation 11), and no
// channel of no range has moved.
func TestEqualizedRanges(t *testing.T) {
	g := chainGraph(t)
	e := equalizerOf(t, g, false)
	s := e.structure(equalizations[0])
	require.Equal(t, []string{"c1", "c2", "c3"}, s.Nodes)
	require.Equal(t, float32(1), s.Steps[0].Vectors["scale"][2], "a dead channel")
	after, err := rewrite.Apply(g, s.Steps)
	require.NoError(t, err)
	e = equalizerOf(t, after, false)
	for k, w := range e.ways {
		up, down := make([]float64, w.Channels), make([]float64, w.Channels)
		for _, p := range w.Producers {
			gather(up, e.of(p.Node).outputs(), p.Channel)
		}
		for _, c := range w.Consumers {
			gather(down, e.of(c.Node).inputs(), c.Channel)
		}
		for c := range up {
			if up[c] > 0 {
				assert.InEpsilon(t, up[c], down[c], 0.02, "way %d, channel %d", k, c)
			}
		}
	}
	before := e.structure(equalizations[0])
	for _, step := range before.Steps {
		for _, f := range step.Vectors["scale"] {
			require.InDelta(t, 0, math.Log(float64(f)), 0.02, "nothing is left to move")
		}
	}
}

// The other forms end where their powers say: producers whose channels all fill the tensor, or readers whose do.
func TestFormsOfEqualization(t *testing.T) {
	g := chainGraph(t)
	for _, form := range []equalization{equalizations[4], equalizations[5]} {
		s := equalizerOf(t, g, false).structure(form)
		after, err := rewrite.Apply(g, s.Steps)
		require.NoError(t, err)
		e := equalizerOf(t, after, false)
		w := e.ways[0]
		side := e.of(w.Producers[0].Node).outputs()
		if form.alpha == 0 {
			side = e.of(w.Consumers[0].Node).inputs()
		}
		for c, x := range side {
			if c != 2 {
				require.InDelta(t, 1, x, 0.01, "%s, channel %d", form.name, c)
			}
		}
	}
	half, full := equalizerOf(t, g, false).structure(equalizations[3]), equalizerOf(t, g, false).structure(equalizations[0])
	for c, f := range full.Steps[0].Vectors["scale"] {
		require.InEpsilon(t, math.Sqrt(float64(f)), float64(half.Steps[0].Vectors["scale"][c]), 1e-5)
	}
}

// Where every channel has scales of its own in front, the ranges of activations count, and a depthwise convolution behind takes any factor.
func TestEqualizationPerChannel(t *testing.T) {
	g := chainGraph(t)
	e := equalizerOf(t, g, true)
	for _, x := range e.b.Fit { // 8 channels of 12 x 12 there, 4 of 6 x 6 here
		x.Feeds["x"] = graphtest.Normal(9, 1, 4, 6, 6)
	}
	require.NoError(t, e.observe(context.Background()))
	s := e.structure(equalizations[0])
	require.Equal(t, "c1", s.Steps[0].At)
	id, _ := g.LookupNode("c2")
	seen := e.seen[id]
	most := 0.0
	for c, f := range s.Steps[0].Vectors["scale"] {
		most = max(most, seen[c]*float64(f))
	}
	for c, f := range s.Steps[0].Vectors["scale"] {
		if seen[c] > 0 && f < maxFactor {
			require.InEpsilon(t, most, seen[c]*float64(f), 1e-3, "channel %d", c)
		}
	}
}
