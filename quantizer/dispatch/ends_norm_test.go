package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// The sums of a transformer's residuals, which normalizations and other such sums read, stay float where that costs nothing, whatever the
// chain of them ends in; a sum that only the caller reads, or a product on integers, does not.
func TestResidualsOfNormalizations(t *testing.T) {
	g := graphtest.Parse(t, `input x: f32[1,16,64]
const w1: f32[64,64] = normal(seed=1); const w2: f32[64,64] = normal(seed=2); const w3: f32[64,64] = normal(seed=3)
const s: f32[64] = normal(4)
p = MatMul(x, w1) "p"
o = MatMul(x, w2) "o"
a = Add(p, o) "sum1"
n = LayerNormalization(a, s) "norm1"
q = MatMul(n, w2) "q"
b = Add(q, a) "sum2"
m = LayerNormalization(b, s) "norm2"
r = MatMul(m, w3) "r"
c = Add(r, b) "last"
e = MatMul(c, w1) "neck"
output e
`)
	require.Empty(t, graph.InferShapes(g))
	for _, name := range []string{"onnxruntime", "openvino_int8"} {
		tg, err := target.Find(name)
		require.NoError(t, err)
		a, err := Assign(g, tg, Options{BorderCost: new(float64)})
		require.NoError(t, err)
		for node, want := range map[string]tqc.Domain{"sum1": tqc.DomainFP32, "sum2": tqc.DomainFP32, "last": tqc.DomainInt, "q": tqc.DomainInt} {
			id, ok := g.LookupNode(node)
			require.True(t, ok)
			require.Equal(t, want, a.Domains[id], "%s on %s: %s", node, name, a.Why[id])
		}
	}
}
