package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Simulators that share constants hand out one tensor where slot, grid and mode agree, and different ones where any does not.
func TestConstantsAreShared(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["mobilenet"], "onnxruntime")
	conv, _ := g.LookupNode("conv1")
	weights := g.Const(g.Node(conv).Inputs[1])
	var shared sim.Constants
	read := func(set *tqc.Set, mode sim.Mode) *tensor.Tensor {
		s, err := sim.New(g, set, sim.Options{Constants: &shared})
		require.NoError(t, err)
		w, err := s.NewHooks(sim.View{Mode: mode}).Input(g.Node(conv), 1, weights)
		require.NoError(t, err)
		return w
	}
	first := read(set, sim.Quantize)
	require.NotSame(t, weights, first)
	require.Same(t, first, read(set, sim.Quantize))

	_, other, _ := lowertest.Configured(t, lowertest.Networks["mobilenet"], "onnxruntime")
	require.Same(t, first, read(other, sim.Quantize), "another set with the same scales")
	p := other.Params(other.Input(conv, 1))
	for i := range p.Scale {
		p.Scale[i] /= 2
	}
	finer := read(other, sim.Quantize)
	require.NotSame(t, first, finer)
	require.False(t, tensor.Equal(first, finer))

	clipped := read(other, sim.Clip)
	require.NotSame(t, weights, clipped, "half of the range is cut off")
	require.False(t, tensor.Equal(finer, clipped))
	for i := range p.Scale {
		p.Scale[i] *= 16
	}
	require.Same(t, weights, read(other, sim.Clip), "nothing is clipped: the graph's own")

	alone, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	w, err := alone.Hooks(nil).Input(g.Node(conv), 1, weights)
	require.NoError(t, err)
	require.NotSame(t, first, w, "nothing is shared unless asked for")
	require.True(t, tensor.Equal(first, w))
}
