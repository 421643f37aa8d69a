package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program/cpu"
)

// gelu is what ONNX Runtime keeps in float between two integer products, and a float part that is no function of single elements.
const gelu = `
input x: f32[2,5,32]
const w: f32[32,48] = normal(seed=1, std=0.2)
const v: f32[48,16] = normal(seed=2, std=0.2)
const root: f32[] = 1.4142135
const one: f32[] = 1
const scale: f32[16] = normal(seed=3, std=0.1)
const half: f32[1] = [0.5]
a: f32[2,5,48] = MatMul(x, w) "up"
b: f32[2,5,48] = Div(a, root) "gelu/div"
c: f32[2,5,48] = Erf(b) "gelu/erf"
d: f32[2,5,48] = Add(c, one) "gelu/add"
e: f32[2,5,48] = Mul(a, d) "gelu/mul"
f: f32[2,5,48] = Mul(e, half) "gelu/half"
g: f32[2,5,16] = MatMul(f, v) "down"
z: f32[2,5,16] = LayerNormalization(g, scale) "norm"
output z
`

func TestFunctionsOfSingleElementsAreLookedUp(t *testing.T) {
	tg := lowertest.Whole()
	g, set, feeds := lowertest.ConfiguredBy(t, gelu, tg, "")
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	e, err := cpu.Backend.New(p, 1)
	require.NoError(t, err)
	require.Equal(t, 1, cpu.Functions(e), lower.Format(p))
	require.Positive(t, programtest.Equal(t, p, feeds, backends(), 1, 2))
}
