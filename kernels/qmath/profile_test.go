package qmath

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func named(t testing.TB, name string) Profile {
	t.Helper()
	p, err := ProfileNamed(name)
	require.NoError(t, err)
	return p
}

func TestProfileNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Profiles() {
		assert.Equal(t, p, named(t, p.Name))
		assert.False(t, seen[p.Name], "two profiles are called %s", p.Name)
		seen[p.Name] = true
	}
	_, err := ProfileNamed("tflite")
	assert.EqualError(t, err, `unknown arithmetic profile "tflite"; known: tflite2, tflite1, litert, tvm-upward, tvm-nearest, tvm-a64, ort, `+
		`onnx-ref, rndnu, ncnn, mnn, pow2, pow2-floor, pow2-half-away, pow2-half-even, avx2-saturating, onnx, trt`)
}

// Accumulators where the profiles differ: exact ties, ties but for the multiplier's rounding, and near ties on which two
// roundings go wrong. M and Shift are those of every profile with an integer factor.
func TestRequantizeTable(t *testing.T) {
	names := []string{"tflite2", "tflite1", "tvm-upward", "tvm-nearest", "tvm-a64", "ort", "onnx-ref", "rndnu"}
	for _, c := range []struct {
		acc      int32
		scale    float32
		zp       int32
		m, shift int32
		want     [8]int32
	}{
		{10, 0.25, 0, 1 << 30, -1, [8]int32{3, 3, 3, 3, 3, 2, 2, 3}},
		{-10, 0.25, 0, 1 << 30, -1, [8]int32{-3, -2, -2, -3, -2, -2, -2, -2}},
		{-6, 0.25, 0, 1 << 30, -1, [8]int32{-2, -1, -1, -2, -1, -2, -2, -1}},
		{6, 0.25, 1, 1 << 30, -1, [8]int32{3, 3, 3, 3, 3, 3, 2, 3}},
		{10, 0.25, 1, 1 << 30, -1, [8]int32{4, 4, 4, 4, 4, 3, 4, 4}},
		{-10, 0.25, -3, 1 << 30, -1, [8]int32{-6, -5, -5, -6, -5, -5, -6, -5}},
		{-3, 0.5, 0, 1 << 30, 0, [8]int32{-1, -1, -1, -2, -1, -2, -2, -1}},
		{-5, 0.1, 0, 1717986944, -3, [8]int32{-1, -1, -1, -1, 0, 0, 0, -1}},
		{-15, 0.1, 0, 1717986944, -3, [8]int32{-2, -2, -2, -2, -1, -2, -2, -2}},
		{5943, 0.0096744941547513, 0, 1329652352, -6, [8]int32{58, 57, 57, 57, 58, 57, 57, 57}},
		{-10280, 0.005009495187550783, 0, 1376999552, -7, [8]int32{-52, -51, -51, -51, -51, -51, -51, -51}},
		{-18888, 0.002303023124113679, 0, 1266100352, -8, [8]int32{-44, -43, -43, -43, -43, -43, -43, -43}},
	} {
		for i, name := range names {
			p := named(t, name)
			m, err := p.Prepare(Channel{X: c.scale, W: 1, Y: 1})
			require.NoError(t, err)
			if p.Float() {
				assert.Equal(t, Multiplier{Scale: c.scale}, m, name)
			} else {
				assert.Equal(t, Multiplier{M: c.m, Shift: c.shift}, m, name)
			}
			assert.Equal(t, c.want[i], p.Requantize(c.acc, m, c.zp, -128, 127), "%s: %d * %g + %d", name, c.acc, c.scale, c.zp)
		}
	}
}

func TestFormNames(t *testing.T) {
	assert.Equal(t, "float twice", FloatTwice.String())
	assert.Equal(t, "fused", SumFused.String())
	assert.Equal(t, "float terms", AverageTerms.String())
	assert.Equal(t, "mlas", SoftmaxMLAS.String())
	assert.Equal(t, "power of two", PowerOfTwo.String())
	assert.Equal(t, []string{"form(99)", "sum form(99)", "average form(99)", "softmax form(99)", "family(99)"},
		[]string{Form(99).String(), SumForm(99).String(), AverageForm(99).String(), SoftmaxForm(99).String(), Family(99).String()})
}
