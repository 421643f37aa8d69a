package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func TestSpread(t *testing.T) {
	g := behind(t, `h = Clip(t, lo, hi)`, []float32{2, 0.02, 0.1, 0.05}, func(by float32) float32 { return 1 / by })
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
