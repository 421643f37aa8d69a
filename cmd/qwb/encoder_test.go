package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// encoder is a BERT of one layer as PyTorch exports it: three inputs of int64 with open batch and length, shapes computed from
// them, a mask added to the scores, GELU by Erf, a pooler on the first token.
const encoder = `
graph encoder
opset 17
input input_ids: i64[batch,length]
input attention_mask: i64[batch,length]
input token_type_ids: i64[batch,length]
const words: f32[100,64] = normal(seed=1, std=0.5)
const places: f32[64,64] = normal(seed=2, std=0.3)
const types: f32[2,64] = normal(seed=3, std=0.3)
const gain: f32[64] = uniform(seed=4, low=0.7, high=1.3)
const shift: f32[64] = normal(seed=5, std=0.1)
const wq: f32[64,64] = normal(seed=6, std=0.15)
const wk: f32[64,64] = normal(seed=7, std=0.15)
const wv: f32[64,64] = normal(seed=8, std=0.15)
const wo: f32[64,64] = normal(seed=9, std=0.15)
const bq: f32[64] = normal(seed=10, std=0.1)
const bo: f32[64] = normal(seed=11, std=0.1)
const up: f32[64,256] = normal(seed=12, std=0.15)
const bup: f32[256] = normal(seed=13, std=0.1)
const down: f32[256,64] = normal(seed=14, std=0.1)
const wp: f32[64,64] = normal(seed=15, std=0.15)
const zero: i64[] = 0
const one: i64[] = 1
const first: i64[1] = [0]
const middle: i64[2] = [1, 2]
const heads: i64[2] = [4, 16]
const width: i64[1] = [64]
const unit: f32[] = 1
const low: f32[] = -3.4028235e38
const root: f32[] = 4
const sqrt2: f32[] = 1.4142135
const half: f32[] = 0.5
shape = Shape(input_ids)
n = Gather(shape, one)
range = Range(zero, n, one)
wordsAt = Gather(words, input_ids)
typesAt = Gather(types, token_type_ids)
placesAt = Gather(places, range)
e1 = Add(wordsAt, typesAt)
e2 = Add(e1, placesAt)
x = LayerNormalization(e2, gain, shift) {axis=-1, epsilon=1e-12}
m1 = Unsqueeze(attention_mask, middle)
m2 = Cast(m1) {to=1}
m3 = Sub(unit, m2)
mask = Mul(m3, low)
q1 = MatMul(x, wq)
q2 = Add(q1, bq)
k1 = MatMul(x, wk)
v1 = MatMul(x, wv)
split = Concat(shape, heads) {axis=0}
q3 = Reshape(q2, split)
k3 = Reshape(k1, split)
v3 = Reshape(v1, split)
q4 = Transpose(q3) {perm=[0, 2, 1, 3]}
k4 = Transpose(k3) {perm=[0, 2, 3, 1]}
v4 = Transpose(v3) {perm=[0, 2, 1, 3]}
s1 = MatMul(q4, k4)
s2 = Div(s1, root)
s3 = Add(s2, mask)
s4 = Softmax(s3) {axis=-1}
c1 = MatMul(s4, v4)
c2 = Transpose(c1) {perm=[0, 2, 1, 3]}
whole = Concat(shape, width) {axis=0}
c3 = Reshape(c2, whole)
o1 = MatMul(c3, wo) "attention"
o2 = Add(o1, bo)
r1 = Add(o2, x)
y = LayerNormalization(r1, gain, shift) {axis=-1, epsilon=1e-12}
f1 = MatMul(y, up) "up"
f2 = Add(f1, bup)
g1 = Div(f2, sqrt2)
g2 = Erf(g1)
g3 = Add(g2, unit)
g4 = Mul(f2, g3)
g5 = Mul(g4, half)
f3 = MatMul(g5, down) "down"
r2 = Add(f3, y)
last = LayerNormalization(r2, gain, shift) {axis=-1, epsilon=1e-12}
p1 = Gather(last, zero) {axis=1}
p2 = Gemm(p1, wp, bo) {transB=1}
pooled = Tanh(p2)
output last: f32[batch,length,64]
output pooled: f32[batch,64]
`

// saveText writes a sample of n tokens, of which the last masked ones are padding.
func saveText(t *testing.T, path string, seed, n, masked int, ids tensor.DType) {
	t.Helper()
	a := map[string]*tensor.Tensor{}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		a[name] = tensor.New(tensor.Int64, 1, n)
	}
	for i := range n {
		a["input_ids"].I64()[i] = int64((seed*31 + i*i*7 + 13) % 100)
		a["token_type_ids"].I64()[i] = int64(2 * i / (n + 1))
		if i < n-masked {
			a["attention_mask"].I64()[i] = 1
		}
	}
	if ids == tensor.Int32 {
		narrow := tensor.New(tensor.Int32, 1, n)
		for i, v := range a["input_ids"].I64() {
			tensor.Of[int32](narrow)[i] = int32(v)
		}
		a["input_ids"] = narrow
	}
	var b bytes.Buffer
	require.NoError(t, npy.WriteArchive(&b, a))
	write(t, path, b.Bytes())
}

// Several named inputs, lengths that vary from sample to sample: through every command, and what is exported gives what the
// simulation says.
func TestTextEncoder(t *testing.T) {
	for i, platform := range []string{"trt_int8", "onnxruntime"} {
		t.Run(platform, func(t *testing.T) {
			if i > 0 {
				longtest.Need(t, "another platform")
			}
			inFolder(t)
			saveModel(t, "m.onnx", encoder)
			require.NoError(t, os.Mkdir("data", 0o755))
			for i := range 8 {
				saveText(t, fmt.Sprintf("data/%d.npz", i), i, 5+3*i, i%3, []tensor.DType{tensor.Int64, tensor.Int32}[i%2])
			}
			done(t, "calibrate", "m.onnx", "--data", "data", "--platform", platform, "-o", "m.plan.json")
			o := done(t, "analyze", "--layerwise", "--graphwise", "--statistical", "--html", "r.html", "--json").object(t)
			var layers []string
			for _, l := range parts(t, o, "layerwise[]") {
				layers = append(layers, l["node"].(string))
				require.Less(t, l["nsr"], 0.05, "%v", l["node"])
			}
			for _, name := range []string{"up", "down"} {
				require.Contains(t, layers, name, "the feed-forward part is what pays most")
			}
			v := done(t, "verify", "--json").object(t)
			require.Contains(t, []any{"equal", "ties"}, v["verdict"])
			require.NotZero(t, v["integers_compared"])
			done(t, "export", "--platform", platform, "-o", "q.onnx")

			// Other lengths than any that was calibrated on, and padding that must not matter.
			var nsr float64
			for i, n := range []int{1, 17, 40} {
				in := fmt.Sprintf("%d.npz", i)
				saveText(t, in, 50+i, n, 0, tensor.Int64)
				done(t, "run", "m.onnx", "--input", in, "--output", "float")
				done(t, "run", "q.onnx", "--input", in, "--output", "quantized")
				for _, name := range []string{"last.npy", "pooled.npy"} {
					nsr = max(nsr, noiseToSignal(t, filepath.Join("quantized", name), filepath.Join("float", name)))
				}
			}
			require.Less(t, nsr, 0.05)
			require.Greater(t, nsr, 1e-7, "the exported file is not quantized")
		})
	}
}

// noiseToSignal is sum((q-f)^2) / sum(f^2) of two arrays in files.
func noiseToSignal(t *testing.T, q, f string) float64 {
	t.Helper()
	var list [2]*tensor.Tensor
	for i, file := range []string{q, f} {
		a, err := npy.Read(bytes.NewReader(read(t, file)))
		require.NoError(t, err)
		list[i] = a
	}
	require.Equal(t, list[1].Shape, list[0].Shape)
	var noise, signal float64
	for i, v := range list[1].F32() {
		noise += math.Pow(float64(list[0].F32()[i]-v), 2)
		signal += math.Pow(float64(v), 2)
	}
	return noise / signal
}

// A mask that the executor ignored, or ids that were read as another input's, would show here.
func TestTextEncoderInputsMatter(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", encoder)
	saveText(t, "open.npz", 1, 12, 0, tensor.Int64)
	saveText(t, "masked.npz", 1, 12, 4, tensor.Int64)
	for _, name := range []string{"open", "masked"} {
		done(t, "run", "m.onnx", "--input", name+".npz", "--output", name)
	}
	require.Greater(t, noiseToSignal(t, "masked/pooled.npy", "open/pooled.npy"), 1e-4)
	require.NoError(t, os.Mkdir("data", 0o755))
	saveText(t, "data/0.npz", 1, 12, 0, tensor.Int64)
	write(t, "data/1.npz", read(t, "data/0.npz")[:300])
	fails(t, exitFailed, `data.*1\.npz`, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
}
