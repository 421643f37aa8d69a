package tflite

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	tf "qwb/graph/tflite"
	"qwb/internal/exporttest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// changed returns a Plant that changes the first tensor of a file whose name begins and ends so.
func changed(prefix, suffix string, change func(t *tf.Tensor)) func(t testing.TB, dir string) {
	return edited(func(t testing.TB, s *tf.Subgraph) {
		i := slices.IndexFunc(s.Tensors, func(x tf.Tensor) bool { return strings.HasPrefix(x.Name, prefix) && strings.HasSuffix(x.Name, suffix) })
		require.GreaterOrEqual(t, i, 0)
		change(&s.Tensors[i])
	})
}

// edited changes the subgraph of the file.
func edited(change func(t testing.TB, s *tf.Subgraph)) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, "m.tflite")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		m, err := tf.Read(b)
		require.NoError(t, err)
		change(t, &m.Subgraphs[0])
		b, err = m.Write()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

const damageable = `
input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = normal(2)
const lo: f32[] = 0.2
const hi: f32[] = 1
const wf: f32[64,5] = normal(6)
const bf: f32[5] = normal(7)
const k: f32[1,4,1,1] = normal(8)
c: f32[1,4,8,8] = Conv(x, w, b) {pads=[1,1,1,1]} "conv"
r: f32[1,4,8,8] = Clip(c, lo, hi) "limited"
a: f32[1,4,8,8] = Add(r, k) "add"
p: f32[1,4,4,4] = AveragePool(a) {kernel_shape=[2,2], strides=[2,2]} "pool"
f: f32[1,64] = Flatten(p) "flat"
y: f32[1,5] = Gemm(f, wf, bf) "fc"
const below: f32[5] = [-90, -90, -90, -90, -90]
const zero: f32[] = 0
s: f32[1,5] = Add(y, below) "far below"
l: f32[1,5] = Clip(s, zero, hi) "always zero"
output y
output l
`

// flattened is a one-dimensional convolution in front of a product.
const flattened = `
input x: f32[2,4,8]
const w: f32[9,4,3] = normal(seed=1, std=0.4)
const v: f32[54,5] = normal(seed=3, std=0.3)
a: f32[2,9,6] = Conv(x, w) "first"
f: f32[2,54] = Flatten(a) "flat"
y: f32[2,5] = MatMul(f, v) "head"
`

// Weights are reordered for a Transpose in front of what is flattened, which the file does not have.
func TestWeightsBehindATransposeAreReadBack(t *testing.T) {
	f := Format()
	for _, text := range []string{`
input x: f32[2,4,6]
const w: f32[6,8] = normal(seed=1, std=0.4)
const v: f32[32,5] = normal(seed=3, std=0.3)
a: f32[2,4,8] = MatMul(x, w) "first"
r: f32[2,4,8] = Relu(a) "relu"
t: f32[2,8,4] = Transpose(r) {perm=[0,2,1]} "turn"
f: f32[2,32] = Flatten(t) "flat"
y: f32[2,5] = Gemm(f, v) "head"
output y
`, `
input x: f32[1,3,6,5]
const w: f32[4,3,1,1] = normal(seed=1, std=0.4)
const v: f32[120,5] = normal(seed=3, std=0.3)
a: f32[1,4,6,5] = Conv(x, w) "first"
r: f32[1,4,6,5] = Relu(a) "relu"
t: f32[1,5,4,6] = Transpose(r) {perm=[0,3,1,2]} "turn"
u: f32[1,6,5,4] = Transpose(t) {perm=[0,3,1,2]} "again"
f: f32[1,120] = Flatten(u) "flat"
y: f32[1,5] = Gemm(f, v) "head"
output y
`, flattened + "output y", flattened + `z: f32[2,9,6] = Mul(a, a) "beside"
output y, z
`, lowertest.Networks["moves"]} {
		exporttest.Equal(t, &f, exporttest.Input(t, &f, text, "tflite_int8", nil))
	}
}

// TestDamagedHybridProducts: of a product whose data get scales when it runs, weights, bias and activation are compared.
func TestDamagedHybridProducts(t *testing.T) {
	f, tg := Format(), target.TFLiteInt8
	tg.Activation.Policy = tqc.PerToken | tqc.Dynamic | tqc.Symmetric | tqc.Linear
	tg.Activation.QMin = -127
	in, _ := inputFor(t, `
input x: f32[3,8]
const w: f32[8,5] = normal(seed=1)
const b: f32[5] = normal(seed=2)
s: f32[3,5] = Gemm(x, w, b) "product"
y: f32[3,5] = Relu(s) "end"
output y
`, &tg, nil)
	require.Equal(t, 8*5+5+5+5+1, int(exporttest.Equal(t, &f, in).Compared)) // codes, scales, zero points, bias, activation
	for _, plant := range []func(t testing.TB, dir string){
		changed("w", "w", func(x *tf.Tensor) { x.Data[3]++ }), changed("w", "w", func(x *tf.Tensor) { x.Quantization.Scale[0] *= 1.0001 }),
		changed("w", "/bias", func(x *tf.Tensor) { x.Data[2]++ }),
		edited(func(t testing.TB, s *tf.Subgraph) {
			require.Len(t, s.Operators, 1)
			require.Equal(t, tf.Relu, s.Operators[0].Options.Int("fused_activation_function"))
			s.Operators[0].Options["fused_activation_function"] = tf.NoActivation
		}),
	} {
		exporttest.Found(t, &f, in, plant)
	}
}

func TestDamagedFilesAreFound(t *testing.T) {
	f := Format()
	lower := func(x *tf.Tensor) {
		for i, q := range x.Data {
			if int8(q) > 3 {
				x.Data[i] -= 2
				return
			}
		}
	}
	longer := func(x *tf.Tensor) { x.Quantization.Scale[0] *= 1.0001 }
	exporttest.ReadBack(t, &f, damageable, "tflite_int8", []exporttest.Damaged{
		{What: "a code of a convolution", Plant: changed("w", "w", lower)},
		{What: "a code of a matrix", Plant: changed("wf", "wf", lower)},
		{What: "a code of an operand", Plant: changed("k", "", lower)},
		{What: "a bias", Plant: changed("w", "/bias", func(x *tf.Tensor) {
			binary.LittleEndian.PutUint32(x.Data, binary.LittleEndian.Uint32(x.Data)+1)
		})},
		{What: "a scale of a weight", Plant: changed("w", "w", longer)},
		{What: "a scale of a bias", Plant: changed("w", "/bias", longer)},
		{What: "a scale of a tensor", Plant: changed("r", "", longer)},
		{What: "a zero point of a tensor", Plant: changed("r", "", func(x *tf.Tensor) { x.Quantization.ZeroPoint[0]++ })},
		{What: "a limit of codes", Plant: changed("r", "/limit", func(x *tf.Tensor) { x.Data[0]++ })},
		{What: "the first of two limits", Plant: changed("l", "/limit", func(x *tf.Tensor) { x.Data[0]++ })},
		{What: "the second of two limits", Plant: changed("l", "/limit:1", func(x *tf.Tensor) { x.Data[0]++ })},
		{What: "a scale of the second of two limits", Plant: changed("l", "/limit:1", longer)},
	})
}
