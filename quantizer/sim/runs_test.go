package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// A simulation runs on a float reference with the constants of its own graph: at slots that quantize and at those that stay float.
func TestConstantsAreTheSimulatorsOwn(t *testing.T) {
	for _, platform := range []string{"trt_int8", "onnxruntime"} { // the bias is float in one and integer in the other
		g, set, feeds := lowertest.Configured(t, lowertest.Networks["mobilenet"], platform)
		id, _ := g.LookupNode("conv1")
		tuned := g.Clone()
		b := g.Node(id).Inputs[2]
		moved := g.Const(b).Clone()
		for i := range moved.F32() {
			moved.F32()[i] += 0.25
		}
		tuned.SetConst(b, moved)

		own, err := sim.New(tuned, set, sim.Options{})
		require.NoError(t, err)
		want := run(t, tuned, feeds, own.Hooks(nil))
		s, err := sim.New(tuned, set, sim.Options{Runs: g})
		require.NoError(t, err)
		requireSame(t, want, run(t, g, feeds, s.Hooks(nil)), "on the reference")
		plain, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		require.False(t, tensor.Equal(want[0], run(t, g, feeds, plain.Hooks(nil))[0]), "it makes a difference")

		requireSame(t, run(t, g, feeds, nil), run(t, g, feeds, s.Hooks(sim.Only(nil))), "no slot: the reference")
		weight := sim.Only([]tqc.SlotID{set.Input(id, 1), set.Input(id, 2)})
		requireSame(t, run(t, tuned, feeds, own.Hooks(weight)), run(t, g, feeds, s.Hooks(weight)), "one operator alone")
	}
}

func TestTheGraphThatRunsHasTheSameNodesAndValues(t *testing.T) {
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["mobilenet"], "onnxruntime")
	more := g.Clone()
	more.AddConst("more", feeds["x"])
	_, err := sim.New(g, set, sim.Options{Runs: more})
	require.ErrorContains(t, err, "the graph that runs has")
}
