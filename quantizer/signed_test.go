package quantizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/tqc"
)

const attended = `
opset 17
input x: f32[1,8,16]
const w: f32[16,16] = normal(seed=1)
const left: f32[8,8] = normal(seed=2)
const turned: i64[3] = [1, 8, 16]
q = MatMul(x, w) "q"
k = MatMul(x, w) "k"
v = MatMul(x, w) "v"
u = MatMul(x, w) "u"
kr = Reshape(k, turned) "shape"
kt = Transpose(kr) {perm=[0,2,1]} "turn"
vv = Concat(v, u) {axis=2} "cat"
a = MatMul(q, kt) "scores"
p = Softmax(a) "soft"
c = MatMul(p, vv) "context"
d = MatMul(left, q) "mixed"
y = MatMul(x, w) "plain"
output c: f32[1,8,32]
output d: f32[1,8,16]
output y: f32[1,8,16]
`

// With AMX no convolution of OpenVINO reads a zero point, but of what is never negative, and of the network's input.
func TestConvolutionsReadSigned(t *testing.T) {
	const text = `
opset 17
input x: f32[1,8,9,9]
const w: f32[8,8,3,3] = normal(seed=1)
a = Conv(x, w) "first"
s = LeakyRelu(a) {alpha=0.1} "leaky"
b = Conv(s, w) "second"
r = Relu(b) "relu"
c = Conv(r, w) "third"
p = MaxPool(c) {kernel_shape=[2,2]} "pool"
y = Conv(p, w) {pads=[1,1,1,1]} "last"
output y
`
	for platform, signed := range map[string]bool{"openvino_int8_amx": true, "openvino_int8": false} {
		g := graphtest.Parse(t, text)
		require.Empty(t, graph.InferShapes(g))
		set, err := configure(t, g, platform, "")
		require.NoError(t, err)
		for name, want := range map[string]bool{"first": false, "second": signed, "third": false, "last": signed} {
			id, ok := g.LookupNode(name)
			require.True(t, ok, name)
			c := &set.Slot(set.Input(id, 0)).Config
			require.Equal(t, want, c.QMin < 0 && c.Policy.Has(tqc.Symmetric), "%s, %s", platform, name)
		}
	}
}

// What OpenVINO multiplies on integers (examples/engines/shares.py holds it to the engine): two signed factors without zero points, or
// a first one that is never negative; all that shares a scale with one is signed too, and what only constants are multiplied with is not.
func TestFactorsOfProductsAreSigned(t *testing.T) {
	for platform, signed := range map[string]bool{"openvino_int8": true, "onnxruntime": false} {
		g := graphtest.Parse(t, attended)
		require.Empty(t, graph.InferShapes(g))
		set, err := configure(t, g, platform, "")
		require.NoError(t, err)
		at := func(node string, input int) *tqc.Config {
			id, ok := g.LookupNode(node)
			require.True(t, ok, node)
			if input < 0 {
				return &set.Slot(set.Output(id, 0)).Config
			}
			return &set.Slot(set.Input(id, input)).Config
		}
		for _, c := range []*tqc.Config{at("scores", 0), at("scores", 1), at("k", -1), at("shape", -1), at("turn", -1), at("context", 1),
			at("v", -1), at("u", -1), at("mixed", 1)} {
			require.Equal(t, signed, c.QMin < 0 && c.Policy.Has(tqc.Symmetric))
		}
		for _, c := range []*tqc.Config{at("plain", 0), at("q", 0), at("context", 0)} {
			require.Zero(t, c.QMin)
			require.True(t, c.Policy.Has(tqc.Asymmetric))
		}
	}
}
