package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/verify"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// Sums of many 16-bit codes have 64 bits under every profile, and hold; a program that says 32 is a fault.
func TestWideSumsHold(t *testing.T) {
	tg := lowertest.Int16(target.ONNX)
	g, set, feeds := lowertest.ConfiguredFor(t, `
input x: f32[2,6000]
const w: f32[6000,5] = normal(seed=1, std=0.3, mean=0.5)
const b: f32[5] = normal(2)
y: f32[2,5] = Gemm(x, w, b) "sum"
z: f32[2,5] = Relu(y)
output z
`, &tg)
	for i := range feeds["x"].F32() {
		feeds["x"].F32()[i] += 2
	}
	held := 0
	for _, pr := range qmath.Profiles() {
		p, err := lower.Compile(g, set, &tg, pr)
		if err != nil {
			continue
		}
		l := &lowered{g, set, p, feeds}
		s, op := step[*lower.Linear](t, l, nil)
		require.True(t, op.Wide)
		for _, b := range programtest.Available() {
			v := l.verify(t, b)
			require.True(t, v.Holds(), "%s: %+v", pr.Name, v.First)
		}
		held++
		op.Wide = false
		v, err := verify.Static(set, p)
		require.NoError(t, err)
		require.NotEmpty(t, v.Faults)
		require.Equal(t, p.Name(s.ID), v.Faults[0].Node)
		require.False(t, l.verify(t, program.Reference).Holds(), pr.Name)
	}
	require.Greater(t, held, 3)
}
