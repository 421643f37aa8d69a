package quantizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/internal/targettest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
)

// TestHalfPrecisionWeightsAreNamed: a model of which nothing is quantized because its weights are float16 says so.
func TestHalfPrecisionWeightsAreNamed(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f16[2,4]
const w: f16[4,1] = [1, 2, 3, 4]
y: f16[2,1] = MatMul(x, w) "product"
output y
`)
	for _, tg := range targettest.Distinct() {
		a, err := dispatch.Assign(g, tg, dispatch.Options{})
		require.NoError(t, err)
		_, warnings, err := quantizer.Configure(g, a, tg, quantizer.Options{})
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Equal(t, "nothing is quantized: the weights of 1 operators are f16; convert the model to float32 first", warnings[0].Text, tg.Name)
	}
}
