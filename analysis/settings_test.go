package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// TestSettings: every operator is there, and of a weight the smallest and the largest of its scales.
func TestSettings(t *testing.T) {
	g, q := configured(t, residualNet, &target.ONNXRuntime, samplesOf(2, 1, 8, 10, 10), 1)
	set := q.Set()
	list, err := Settings(g, set)
	require.NoError(t, err)
	require.Len(t, list, len(g.Nodes()))
	conv, _ := g.LookupNode("c1")
	for _, s := range list {
		if s.Node != "c1" {
			continue
		}
		require.Equal(t, "INT8", s.Domain)
		require.NotEmpty(t, s.Why)
		require.Equal(t, "in0", s.Slots[0].At)
		require.Equal(t, "uint8 asymmetric per-tensor", s.Slots[0].Scheme)
		require.Equal(t, 1, s.Slots[0].Scales)
		p := set.Params(set.Input(conv, 0))
		require.Equal(t, [2]float32{p.Scale[0], p.Scale[0]}, s.Slots[0].Scale)
		require.Equal(t, [2]int32{p.ZeroPoint[0], p.ZeroPoint[0]}, s.Slots[0].ZeroPoint)
		w := s.Slots[1]
		require.Equal(t, "int8 symmetric per-channel", w.Scheme)
		require.Equal(t, 16, w.Scales)
		require.Less(t, w.Scale[0], w.Scale[1])
	}
	set = set.Clone()
	require.NoError(t, set.Advance(set.Input(conv, 1), tqc.FP32))
	changed, err := Settings(g, set)
	require.NoError(t, err)
	require.NotEqual(t, list, changed, "a tensor that stays float is left out")
}
