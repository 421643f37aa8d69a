package programtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Schemes are other integers than those of the targets: widths, zero points of weights, scales.
var Schemes = map[string]func(tg *target.Target){
	"int16": func(tg *target.Target) { *tg = lowertest.Int16(*tg) },
	"uint16": func(tg *target.Target) {
		tg.Activation = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 16, QMin: 0, QMax: 1<<16 - 1},
			Observer: tqc.ObserverMinMax}
	},
	"int4 weights":       func(tg *target.Target) { tg.Weight.Bits, tg.Weight.QMin, tg.Weight.QMax = 4, -8, 7 },
	"weights per tensor": func(tg *target.Target) { tg.Weight.Policy = tqc.Symmetric | tqc.PerTensor | tqc.Linear },
	"weights with zero points": func(tg *target.Target) {
		tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerChannel|tqc.Linear, 0, 255
	},
	"signed weights with zero points": func(tg *target.Target) {
		tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerTensor|tqc.Linear, -128, 127
	},
	"powers of two": func(tg *target.Target) {
		tg.Activation.Policy |= tqc.PowerOf2
		tg.Weight.Policy |= tqc.PowerOf2
	},
	"reduced range": func(tg *target.Target) { tg.Weight.QMin, tg.Weight.QMax = -64, 64 },
}

// SumsOf16 is a product of 16-bit codes with many or few terms.
func SumsOf16(t *testing.T, text, profile string) (*lower.Program, *lower.Linear, map[string]*tensor.Tensor) {
	t.Helper()
	tg := lowertest.Int16(target.ONNX)
	g, set, feeds := lowertest.ConfiguredFor(t, text, &tg)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, &tg, pr)
	require.NoError(t, err)
	for i := range p.Steps {
		if op, ok := p.Steps[i].Op.(*lower.Linear); ok {
			return p, op, feeds
		}
	}
	require.Fail(t, "no sum", lower.Format(p))
	return nil, nil, nil
}

// ManyTerms is a sum of 4000 products.
const ManyTerms = `
input x: f32[2,4000]
const w: f32[4000,5] = normal(seed=1, std=0.3, mean=0.5)
const b: f32[5] = normal(2)
y: f32[2,5] = Gemm(x, w, b) "sum"
z: f32[2,5] = Relu(y)
output z
`
