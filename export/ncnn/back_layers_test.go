package ncnn

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
)

// layered has a layer of every kind whose parameters are read back.
const layered = `
input x: f32[1,4,12,10]
const w: f32[8,4,3,3] = normal(seed=1, std=0.3)
const d: f32[8,1,3,5] = normal(seed=2, std=0.3)
const t: f32[8,4,2,2] = normal(seed=3, std=0.3)
const half: f32[] = 0.5
const bs: f32[4] = [1, 2, 0.5, 1]
const bb: f32[4] = normal(11)
const bm: f32[4] = normal(12)
const bv: f32[4] = [1, 0.5, 2, 1]
const ls: f32[7] = normal(13)
const lb: f32[7] = normal(14)
const from: i64[1] = [2]
const to: i64[1] = [9]
const at: i64[1] = [-1]
const lo: f32[] = -0.25
const hi: f32[] = 0.75
const pads: i64[8] = [0, 0, 1, 2, 0, 0, 0, 1]
const scales: f32[4] = [1, 1, 2, 2]
c = Conv(x, w) {pads=[1,0,1,2], strides=[2,1]} "conv"
l = LeakyRelu(c) {alpha=0.1} "leaky"
e = Conv(l, d) {group=8, pads=[1,2,1,2], dilations=[1,1]} "depth"
r = Relu(e) "relu"
u = ConvTranspose(r, t) {strides=[2,2], output_padding=[0,1]} "up"
k = Clip(u, lo, hi) "clip"
p = MaxPool(k) {kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]} "max"
a = AveragePool(p) {kernel_shape=[3,3], strides=[2,2], pads=[0,1,0,1], count_include_pad=1} "mean"
s = Sub(half, a) "turned"
j = Concat(s, a) {axis=1} "join"
f, g = Split(j) {axis=1, num_outputs=2} "halves"
m = Resize(f, _, scales) {mode="linear", coordinate_transformation_mode="half_pixel"} "larger"
q = Pad(m, pads) "padded"
z = Transpose(q) {perm=[0,1,3,2]} "order"
b = Abs(z) "abs"
v = ReduceMean(b) {axes=[3], keepdims=1} "rows"
o = Softmax(v) {axis=1} "shares"
nb = BatchNormalization(g, bs, bb, bm, bv) {epsilon=1e-3} "batch"
i = Slice(nb, from, to, at) "cut"
k2 = LayerNormalization(i, ls, lb) {axis=-1, epsilon=1e-4} "layer"
h = GlobalAveragePool(k2) "global"
output o
output h
`

func TestDamagedParametersAreFound(t *testing.T) {
	f := Formats()[0]
	less := func(key int) func(l *layer) { return func(l *layer) { l.set(key, l.integer(key, 0)+1) } }
	var faults []exporttest.Damaged
	for _, c := range []struct {
		what, layer string
		change      func(l *layer)
	}{
		{"a stride", "conv", less(3)}, {"a stride of the height", "conv", less(13)}, {"a pad", "conv", less(4)},
		{"a pad behind", "conv", less(15)},
		{"a dilation", "conv", less(2)}, {"a slope", "conv", func(l *layer) { l.set(keyActivation+1, []float32{0.2}) }},
		{"an activation", "depth", func(l *layer) { l.set(keyActivation, 4) }}, {"an activation that is gone", "depth", func(l *layer) {
			l.set(keyActivation, 0)
		}},
		{"a kernel that lies", "depth", func(l *layer) { l.set(1, 3); l.set(11, 5) }},
		{"an output padding", "up", func(l *layer) { l.set(19, 1) }}, {"a stride of what grows", "up", less(3)},
		{"a kind of pool", "max", func(l *layer) { l.set(0, 1) }}, {"a pad of a pool", "max", less(14)},
		{"how a pool counts", "mean", func(l *layer) { l.set(6, 0) }}, {"how a pool ends", "mean", func(l *layer) { l.set(5, 0) }},
		{"operands that are exchanged", "turned", func(l *layer) { l.set(0, 1) }},
		{"a number beside an operand", "turned", func(l *layer) { l.set(2, float32(0.25)) }},
		{"an axis of a Concat", "join", less(0)}, {"an axis of a Split", "halves", less(1)},
		{"how sizes are met", "larger", func(l *layer) { l.set(0, 1) }}, {"a size", "larger", less(4)},
		{"a pad of zeros", "padded", less(0)}, {"an order", "order", less(0)}, {"a function", "abs", less(0)},
		{"an axis of a sum", "rows", func(l *layer) { l.set(3, []int{1}) }}, {"a reduction", "rows", func(l *layer) { l.set(0, 4) }},
		{"an axis of shares", "shares", less(0)}, {"where a cut begins", "cut", func(l *layer) { l.set(9, []int{1}) }},
		{"a mean", "batch", func(l *layer) { l.weights[1].floats[2] *= 1.0001 }},
		{"a small number", "batch", func(l *layer) { l.set(1, float32(1e-5)) }},
		{"a summand", "layer", func(l *layer) { l.weights[1].floats[0] *= 1.0001 }},
		{"a pool over all", "global", func(l *layer) { l.set(0, 0) }},
		{"operands of a Concat", "join", func(l *layer) { slices.Reverse(l.bottoms) }},
		{"what a layer reads", "order", func(l *layer) { l.bottoms[0] = "x" }},
		{"what an output is", "h_reshape", func(l *layer) { l.bottoms[0] = "b" }},
		{"halves that are exchanged", "halves", func(l *layer) { slices.Reverse(l.tops) }},
	} {
		faults = append(faults, exporttest.Damaged{What: c.what, Plant: edited(c.layer, c.change)})
	}
	exporttest.ReadBack(t, &f, layered, "ncnn_int8", faults)
	b := exporttest.Equal(t, &f, exporttest.Input(t, &f, layered, "ncnn_int8", nil))
	require.Greater(t, b.Compared, int64(500))
	table := Formats()[1]
	exporttest.ReadBack(t, &table, layered, "ncnn_int8", faults[:3])
}
