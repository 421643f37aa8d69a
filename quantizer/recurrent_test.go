package quantizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Weights alone of a recurrent operator are W and R, with a scale for each row of the gates.
func TestWeightsOfRecurrentOperators(t *testing.T) {
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		g := graphtest.Parse(t, `
opset 14
input x: f32[5,1,3]
const w: f32[1,`+map[string]string{"LSTM": "16", "GRU": "12", "RNN": "4"}[op]+`,3] = normal(seed=1)
const r: f32[1,`+map[string]string{"LSTM": "16", "GRU": "12", "RNN": "4"}[op]+`,4] = normal(seed=2)
y: f32[5,1,1,4] = `+op+`(x, w, r) {hidden_size=4} "cells"
output y
`)
		forced := []dispatch.Forced{{Nodes: g.Nodes(), Who: dispatch.ByUser, Domain: tqc.DomainWeights}}
		a, err := dispatch.Assign(g, &target.ONNXRuntime, dispatch.Options{Forced: forced})
		require.NoError(t, err)
		set, _, err := quantizer.Configure(g, a, &target.ONNXRuntime, quantizer.Options{})
		require.NoError(t, err)
		id, _ := g.LookupNode("cells")
		require.Equal(t, tqc.DomainWeights, set.Domains[id])
		for _, i := range []int{1, 2} {
			s := set.Slot(set.Input(id, i))
			require.Equal(t, tqc.Initial, s.State())
			require.True(t, s.Weight)
			require.Equal(t, 1, s.Config.Axis)
			require.True(t, s.Config.Policy.Has(tqc.PerChannel))
		}
		require.NotEqual(t, tqc.Initial, set.Slot(set.Input(id, 0)).State())
	}
}
