package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/quantizer/rewrite"
)

func TestShiftKeepsTheFunction(t *testing.T) {
	for name, text := range map[string]string{
		"LayerNormalization, products with and without a sum": `input x: f32[N,5,8]
	output y; output u
	const s: f32[8] = normal(seed=1); const b: f32[8] = normal(seed=2)
	const q: f32[8,4] = normal(seed=3); const k: f32[8,4] = normal(seed=4); const p: f32[4] = normal(seed=5)
	t = LayerNormalization(x, s, b) "a"
	m = MatMul(t, q)
	y = Add(p, m)
	u = MatMul(t, k)`,
		"LayerNormalization without an offset": `input x: f32[N,8]
	output y
	const s: f32[8] = normal(seed=1); const k: f32[4,8] = normal(seed=4)
	t = LayerNormalization(x, s) "a"
	y = Gemm(t, k) {transB=1, alpha=0.5}`,
		"convolutions": `input x: f32[N,3,6,6]
	output y
	const w: f32[8,3,3,3] = normal(seed=1); const b: f32[8] = normal(seed=2); const v: f32[6,4,2,2] = normal(seed=3); const c: f32[6] = normal(seed=4)
	t = Conv(x, w, b) {pads=[1, 1, 1, 1]} "a"
	y = Conv(t, v, c) {group=2, strides=[2, 2]}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, text)
			shift := graphtest.Normal(9, 8).F32()
			after := apply(t, g, rewrite.Step{Kind: "shift", At: "a", Vectors: map[string][]float32{"shift": shift}})
			before, now := g.Const(mustNode(t, g, "a").Input(2)), after.Const(mustNode(t, after, "a").Input(2))
			for c, z := range shift {
				old := float32(0)
				if before != nil {
					old = before.F32()[c]
				}
				require.InDelta(t, old-z, now.F32()[c], 1e-6, "the offset moved")
			}
		})
	}
}

func TestShiftRefuses(t *testing.T) {
	const head = `input x: f32[N,3,6,6]
	output y
	const w: f32[8,3,3,3] = normal(seed=1); const b: f32[8] = normal(seed=2); const v: f32[6,8,3,3] = normal(seed=3)
	`
	for why, text := range map[string]string{
		"no offset of each channel": "t = Conv(x, w) \"a\"\n y = Conv(t, v)",
		"its padding":               "t = Conv(x, w, b) \"a\"\n y = Conv(t, v) {pads=[1, 1, 1, 1]}",
		"does not multiply":         "t = Conv(x, w, b) \"a\"\n r = Relu(t)\n y = Conv(r, v)",
		"seen outside":              "y = Conv(x, w, b) \"a\"",
		"7 numbers":                 "t = Conv(x, w, b) \"a\"\n y = Conv(t, v)",
	} {
		_, err := rewrite.Apply(parse(t, head+text),
			[]rewrite.Step{{Kind: "shift", At: "a", Vectors: map[string][]float32{"shift": make([]float32, 7)}}})
		require.ErrorContains(t, err, why)
	}
}
