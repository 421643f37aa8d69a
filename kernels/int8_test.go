package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/ref"
)

// A run takes its memory from pools.
func TestIntegerAllocations(t *testing.T) {
	for name, table := range kerneltest.IntegerTables(cpu.Detect()) {
		s := square(14, 32, 48, 3, 1, 1)
		w, src := table.PackConvU8S8(weights8(s.WeightLen(), 1), s), bytes8(s.InLen(), 2)
		out := &kernels.StoreScaled{Dst: make([]uint8, s.OutLen()), Ldd: s.M, Scale: kernels.Scale{Factor: factors8(s.M, 100)}}
		var scratch []uint8
		run := func() { w.Run(nil, src, s, 3, &scratch, kernels.Terms{}, out) }
		run()
		allocs := testing.AllocsPerRun(50, run)
		assert.True(t, racing || allocs < 1, "%s: %v allocations", name, allocs) // a collection may empty the pools
	}
}

func TestSumBytes(t *testing.T) {
	x := make([]uint8, 5003)
	want := int32(0)
	for i := range x {
		require.Equal(t, want, kernels.SumBytes(x[:i]))
		x[i] = 255 - uint8(i/4003*i)
		want += int32(x[i])
	}
}

// The saturating row is chosen by name alone, and differs from the others where pairs of products leave int16.
func TestSaturating(t *testing.T) {
	for _, r := range kernels.Rows() {
		assert.NotEqual(t, "saturating", r.ISA, r.Name)
	}
	exact := kernels.Select(cpu.Detect())
	saturating := exact.Saturating()
	a, b := []uint8{255, 255, 255, 1, 255}, []int8{127, 127, 127, -128, -128}
	for table, want := range map[*kernels.Table]int32{
		exact:      255*127*3 - 128 - 255*128,
		saturating: 32767 + (255*127 - 128) - 255*128,
	} {
		dst := []int32{0}
		table.PackGemmU8S8(b, 5, 1, 1, false).Run(nil, a, 5, 1, kernels.Terms{}, &kernels.StoreS32{Dst: dst, Ldd: 1})
		assert.Equal(t, want, dst[0])
	}
}

// Factors, multipliers and exponents outside of what the arithmetic is defined for.
func TestOutputChecks(t *testing.T) {
	inf := float32(1)
	for range 200 {
		inf *= 2
	}
	one := []float32{1}
	require.NoError(t, kernels.Scale{Factor: one, Divisor: 0.5, Lo: -1, Hi: 1}.Check())
	for want, s := range map[string]kernels.Scale{
		"factor": {Factor: []float32{inf}}, "bias": {Factor: one, Bias: []float32{inf - inf}}, "biases": {Factor: one, Bias: []float32{1, 2}},
		"residual": {Factor: one, ResidualScale: inf}, "divisor": {Factor: one, Divisor: -1}, "limits": {Factor: one, Lo: 2, Hi: 1},
		"codes": {Factor: one, QMin: 2, QMax: 1},
	} {
		assert.ErrorContains(t, s.Check(), want)
	}
	require.NoError(t, kernels.Shift{Mul: []int32{1 << 30}, Exp: []int8{-31}}.Check())
	for want, s := range map[string]kernels.Shift{
		"multiplier -1": {Mul: []int32{-1}, Exp: []int8{0}}, "exponent 31": {Mul: []int32{1}, Exp: []int8{31}},
		"exponents": {Mul: []int32{1}}, "rounding": {Rounding: ref.OnceFloor + 1}, "codes": {QMin: 2, QMax: 1},
	} {
		assert.ErrorContains(t, s.Check(), want)
	}
}
