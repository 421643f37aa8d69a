package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// capped is a depthwise convolution that reads a ReLU6 whose channels have very different ranges, and one that has a sum before it.
func capped(t *testing.T) *graph.Graph {
	g := graphtest.Parse(t, `opset 13
	input x: f32[1,4,12,12]
	output y
	const w: f32[16,4,1,1] = normal(seed=1); const b: f32[16] = normal(seed=2); const lo: f32[] = [0]; const hi: f32[] = [6]
	const d: f32[16,1,3,3] = normal(seed=4); const e: f32[16] = normal(seed=5); const p: f32[8,16,1,1] = normal(seed=6, std=0.3)
	t = Conv(x, w, b) "a"
	k = Clip(t, lo, hi)
	c = Conv(k, d, e) {group=16, pads=[1, 1, 1, 1]} "dw"
	r = Relu(c)
	y = Conv(r, p) "pw"`)
	by := func(c int) float32 { return []float32{2, 0.02, 0.1, 0.05}[c%4] }
	stretch(g, "w", func(i int) float32 { return by(i / 4) })
	stretch(g, "b", by)
	stretch(g, "d", func(i int) float32 { return 1 / by(i/9) })
	return g
}

func TestSpread(t *testing.T) {
	g := capped(t)
	b := rewritable(t, g, &target.ONNXRuntime, 1, 4, 12, 12)
	reports, err := b.Tune(context.Background(), &Spread)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed)
	require.Less(t, r.After.NSR, 0.1*r.Before.NSR)
	require.Len(t, b.Steps, 1)
	require.Equal(t, "spread", b.Steps[0].Kind)
	sameFunction(t, g, b.Reference, b.Held)
	for _, id := range b.Reference.Nodes() {
		switch n := b.Reference.Node(id); n.Op {
		case "Conv":
			require.Equal(t, tqc.DomainInt, b.Set.Domains[id], n.Name)
		case "Min":
			t.Error("a bound for each channel")
		}
	}
	// Once more there is nothing left, and nothing of networks whose channels others read too.
	for _, g := range []*graph.Graph{b.Reference, hardSwish(t)} {
		b := rewritable(t, g, &target.ONNXRuntime, 1, 4, 12, 12)
		_, err := b.Tune(context.Background(), &Spread)
		require.NoError(t, err)
		require.Empty(t, b.Steps)
	}
}
