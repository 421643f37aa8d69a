package quantizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// A scheme that is asked for leaves prescribed scales and their zero points: 0 of Tanh, the lowest integer of Softmax.
func TestPrescribedZeroPointsStay(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[2,4]
const w: f32[4,4] = normal(seed=1)
a = MatMul(x, w) "in"
y = Tanh(a) "tanh"
z = Softmax(a) {axis=1} "softmax"
output y, z
`)
	require.Empty(t, graph.InferShapes(g))
	tg := target.TFLiteInt8
	tg.BorderCost = 0
	a, err := dispatch.Assign(g, &tg, dispatch.Options{})
	require.NoError(t, err)
	for name, want := range map[string]int32{"tanh": 0, "softmax": -128} {
		id, _ := g.LookupNode(name)
		for _, o := range []quantizer.Options{{}, {Decisions: fold(t, g, name, "activations=int8-asym-tensor")}} {
			set, _, err := quantizer.Configure(g, a, &tg, o)
			require.NoError(t, err)
			c := &set.Slot(set.Output(id, 0)).Config
			require.Equal(t, tqc.ObserverFixed, c.Observer, name)
			require.Equal(t, want, c.FixedZeroPoint, name)
		}
	}
}
