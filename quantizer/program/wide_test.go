package program_test

import (
	"context"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Sums of 16-bit codes have 64 bits, whether some codes can bring them beyond 32 or not: Safety says which.
func TestSumsOf16BitCodesAreWide(t *testing.T) {
	p, op, _ := programtest.SumsOf16(t, programtest.ManyTerms, "tflite2")
	require.True(t, op.Wide)
	require.False(t, p.Safety[0].Fits)
	p, op, _ = programtest.SumsOf16(t, "input x: f32[2,40]\nconst w: f32[40,5] = normal(1)\ny: f32[2,5] = MatMul(x, w)\noutput y\n", "tflite2")
	require.True(t, op.Wide)
	require.True(t, p.Safety[0].Fits)
	p, op, _ = programtest.SumsOf16(t, "input x: f32[2,90,60]\ninput w: f32[2,60,5]\ny: f32[2,90,5] = MatMul(x, w)\noutput y\n", "tflite2")
	require.True(t, op.Wide)
	require.False(t, p.Safety[0].Fits, "of two 16-bit factors every product may have 31 bits")
}

// A factor that scales sums of 64 bits up by 2^7 and more is refused, as TFLite's kernels refuse it.
func TestWideFactors(t *testing.T) {
	tg := lowertest.Int16(target.ONNX)
	g, set, _ := lowertest.ConfiguredFor(t, programtest.ManyTerms, &tg)
	var saved []tqc.Saved
	for i := range set.NumSlots() {
		saved = append(saved, set.Save(tqc.SlotID(i)))
	}
	for _, id := range g.Nodes() {
		if g.Node(id).Op == "Relu" {
			p := &saved[set.Root(set.Output(id, 0))].Params
			p.Scale = []float32{1e-7 * p.Scale[0]}
		}
	}
	require.NoError(t, set.Restore(saved))
	profile, err := qmath.ProfileNamed("tflite2")
	require.NoError(t, err)
	_, err = lower.Compile(g, set, &tg, profile)
	require.ErrorContains(t, err, "output channel 0: sums of 64 bits are scaled by less than 2^7")
}

// On codes that leave 32 bits the sums are exact: those of numbers of any size, scaled as TFLite scales 64 bits, with 15 bits of the
// multiplier and one rounding.
func TestWideSums(t *testing.T) {
	p, op, _ := programtest.SumsOf16(t, programtest.ManyTerms, "tflite2")
	e, err := program.New(p, program.Reference, 2)
	require.NoError(t, err)
	x := graphtest.Normal(5, 2, 4000)
	for i := range x.F32()[:4000] {
		x.F32()[i] = 100 // all saturate
	}
	beyond := 0
	_, err = e.Run(context.Background(), map[string]*tensor.Tensor{"x": x},
		func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if s.Op != lower.Op(op) {
				return nil, nil
			}
			codes, weights, got := in[0].Integers(), op.Weights.Codes.Integers(), out[0].Integers()
			for i := range got {
				row, c := i/5, i%5
				acc := big.NewInt(int64(op.Bias[c]))
				for k := range 4000 {
					acc.Add(acc, big.NewInt(int64(codes[row*4000+k])*int64(weights[k*5+c])))
				}
				if !acc.IsInt64() || acc.Int64() != int64(int32(acc.Int64())) {
					beyond++
				}
				m := op.Scales[0].Multipliers[c]
				short := (int64(m.M) + 1<<15) >> 16
				shift := uint(15 - m.Shift)
				acc.Mul(acc, big.NewInt(short))
				acc.Add(acc, new(big.Int).Lsh(big.NewInt(1), shift-1))
				acc.Rsh(acc, shift) // down
				want := min(max(acc.Int64(), int64(op.Scales[0].Lo)), int64(op.Scales[0].Hi))
				require.EqualValues(t, want, got[i])
			}
			return nil, nil
		})
	require.NoError(t, err)
	require.Positive(t, beyond)
}
