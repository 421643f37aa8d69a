package lower_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

const consistent = `name: mynpu
doc: "an NPU"
placement: everywhere
activation: {scheme: int8-sym-tensor, range: [-128, 127], observer: robust, others: [int16-sym-tensor]}
weight: {scheme: int8-sym-tensor, observer: minmax}
bias: {scheme: int32-sym-tensor}
profile: mynpu16
arithmetic: {operators: tvm, multiplier: 16, shift: 40, rounding: [half-even], accumulator: 32, bias: 24, table_step: 256}
export: {min_opset: 13, max_opset: 21}
fusions:
  - {family: LayerNorm, island: true}
operators:
  - {type: Conv, role: weighted, needs: [constant-weight]}
  - {type: Add, role: arithmetic}
  - {type: Sigmoid, role: arithmetic}
  - {type: Relu, role: activation, alone: true}
  - {type: Clip, role: activation}
`

// Every contradiction is found where it is planted, and none where there is none.
func TestContradictions(t *testing.T) {
	find := func(text string) []string {
		tg, err := target.Parse([]byte(text))
		require.NoError(t, err, "%s", text)
		list, notes, err := lower.Contradictions(tg)
		require.NoError(t, err)
		return append(list, notes...)
	}
	half := consistent
	require.Empty(t, find(half))
	pow2 := strings.Replace(strings.Replace(consistent, "operators: tvm, multiplier: 16, shift: 40,", "operators: power-of-two,", 1),
		"-tensor", "-tensor-pow2", 3)
	require.Empty(t, find(pow2))
	for _, c := range []struct{ in, from, to, want string }{
		{half, "rounding: [half-even]", "rounding: [half-even], quantize: half-up", ""}, // inputs in the plan are rounded so
		{half, "profile: mynpu16\narithmetic: {operators: tvm, multiplier: 16, shift: 40, rounding: [half-even], accumulator: 32, bias: 24, " +
			"table_step: 256}",
			"profile: tflite2", "activations are rounded half-even, and profile tflite2 rounds what it quantizes half-away-from-zero"},
		{pow2, "others: [int16-sym-tensor-pow2]", "others: [int16-sym-tensor]",
			"activations may be int16-sym-tensor, and profile mynpu16 only shifts"},
		{pow2, "scheme: int8-sym-tensor-pow2, observer", "scheme: int8-sym-tensor, observer",
			"weights may be int8-sym-tensor, and profile mynpu16 only shifts"},
		{pow2, "type: Sigmoid, role: arithmetic", "type: Sigmoid, role: arithmetic, fixed_scale: 0.3", "operator Sigmoid has the scale 0.3"},
		{half, "max_opset: 21", "max_opset: 19", "activations may be int16-sym-tensor, which Q/DQ files have from opset 21 on"},
		{half, "bias: {scheme: int32-sym-tensor}\n", "", "biases stay float, and profile mynpu16 adds them to the integer accumulator"},
		{half, "accumulator: 32, bias: 24", "accumulator: 15, bias: 15", "accumulators of 15 bits do not hold one product of 8 by 8 bits"},
		{half, "bias: {scheme: int32-", "bias: {scheme: int8-", "biases have 8 bits by their scheme, and 24 by the arithmetic"},
		{half, "multiplier: 16", "multiplier: 8", ""},
		{half, "multiplier: 16", "multiplier: 4", "multipliers of 4 bits scale results to codes of 8"},
		{half, "shift: 40", "shift: 1", "right shifts of up to 1 leave 1 bits of a factor just below 1, and codes have 8"},
		{half, "shift: 40", "shift: 12", "right shifts of up to 12 leave 4 bits of the factor 2^-8"},
		{half, ", others: [int16-sym-tensor]", "", "tables have entries 256 codes apart, and no activation has 16 bits"},
		{half, "float", "float", ""},
		{half, "profile:", "float: absent\nprofile:", "fusion LayerNorm is an island in float, and there is no float unit"},
		{half, "LayerNorm, island: true", "Swish", "fusion Swish is an activation behind a sum, and profile mynpu16 has no float epilogue"},
		{half, "type: Sigmoid, role: arithmetic", "type: Sigmoid, role: activation", "operator Sigmoid is an activation behind a sum"},
		{half, "type: Sigmoid, role: arithmetic", "type: Einsum, role: arithmetic",
			"operator Einsum runs on integers, and no integer program computes it"},
		{half, "placement: everywhere", "placement: weighted-inputs", "operator Add is the end of a residual branch " +
			"where quantizers stand weighted-inputs"},
		{half, "profile: mynpu16\narithmetic: {operators: tvm, multiplier: 16, shift: 40, rounding: [half-even], accumulator: 32, bias: 24, " +
			"table_step: 256}",
			"profile: ncnn", "activations go down to -128, and codes of profile ncnn to -127"},
	} {
		list := find(strings.Replace(c.in, c.from, c.to, 1))
		if c.want == "" {
			require.Empty(t, list)
			continue
		}
		require.True(t, slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, c.want) }), "%s -> %s: %q",
			c.from, c.to, list)
	}
}

// The targets that models are quantized for contradict themselves nowhere.
func TestBuiltinTargetsAreConsistent(t *testing.T) {
	for _, tg := range target.All {
		list, _, err := lower.Contradictions(tg)
		require.NoError(t, err)
		require.Empty(t, list, tg.Name)
	}
}

// Inputs of the integers are rounded by quantize, in the plan as in the program; what operators compute, tables too, as activations are.
func TestBordersAreRoundedByTheArithmetic(t *testing.T) {
	text := strings.Replace(consistent, "rounding: [half-even]", "rounding: [half-up], quantize: half-down", 1)
	tg, err := target.Parse([]byte(strings.Replace(text, "observer: robust", "rounding: half-up, observer: robust", 1)))
	require.NoError(t, err)
	g, set, _ := lowertest.ConfiguredFor(t, `
input x: f32[1,1,1,4]
const w: f32[1,1,1,1] = [1]
a = Conv(x, w) "conv"
s = Sigmoid(a) "sigmoid"
e = Exp(s) "exp"
b = Conv(e, w) "behind"
output b
`, tg)
	rounding := func(name string) qmath.Rounding {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		return set.Slot(set.Input(id, 0)).Config.Rounding
	}
	require.Equal(t, []qmath.Rounding{qmath.HalfDown, qmath.HalfUp, qmath.HalfDown}, []qmath.Rounding{rounding("conv"), rounding("sigmoid"),
		rounding("behind")})
	profile, err := tg.ProfileNamed("")
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, profile)
	require.NoError(t, err)
	borders := 0
	for _, s := range p.Steps {
		if q, ok := s.Op.(*lower.Quantize); ok {
			borders++
			require.Equal(t, qmath.HalfDown, q.Quantizer.Rounding)
		}
	}
	require.Equal(t, 2, borders)
	grid := qmath.Grid{Scale: 1, QMin: -128, QMax: 127, Rounding: qmath.HalfUp}
	require.Equal(t, []int32{1, 0}, []int32{profile.TableQuantizer(grid).At(0.5), profile.Quantizer(grid).At(0.5)})
}
