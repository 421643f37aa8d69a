package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/quantizer/program"
)

// A Gelu written out takes numbers as large as its argument from each other: near 0 its last bits are those of the argument.
func TestFormulasNearZeroHold(t *testing.T) {
	l, err := compile(t, `input x: f32[1,8,96,96]
const w: f32[16,8,1,1] = normal(seed=1, std=0.5)
const root: f32[] = 1.4142135
const one: f32[] = 1
const half: f32[] = 0.5
h = Conv(x, w) "conv"
d = Div(h, root) "div"
e = Erf(d) "erf"
a = Add(e, one) "plus"
m = Mul(a, half) "halved"
y = Mul(h, m) "gelu"
output y
`, "trt_int8", "trt")
	require.NoError(t, err)
	v := l.verify(t, program.Reference)
	require.NotEqual(t, analysis.VerdictDifferent, v.Verdict)
	require.Zero(t, v.IntegersDifferent)
}
