package qdq

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Codes of which arithmetic says that they come back do, at any scale; the others are tried.
func TestCodesThatComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	small := tensor.New(tensor.Int8, 256)
	wide := tensor.New(tensor.Int16, 1<<16)
	for i := range 1 << 16 {
		tensor.Of[int8](small)[i%256], tensor.Of[int16](wide)[i] = int8(i), int16(i)
	}
	said := 0
	for i := range 600 {
		codes, bits, zero := small, 8, int32(i%256-128)
		if i%20 == 0 {
			codes, bits = wide, 16
		}
		s := math.Float32frombits(r.Uint32() & math.MaxInt32)
		if s != s || s == 0 || math.IsInf(float64(s), 0) {
			continue
		}
		q := &grid{dtype: codes.DType, scale: []float32{s}, zero: []int32{zero}, axis: -1, low: -1 << (bits - 1), high: 1<<(bits-1) - 1}
		c := &tqc.Config{Policy: tqc.Linear | tqc.Asymmetric | tqc.PerTensor, Format: q.format()}
		p := &tqc.Params{Scale: q.scale, ZeroPoint: q.zero}
		own := q.code(codes)
		if own.comesBack(c, p) {
			said++
			again, err := tqc.QuantizeTo(codes.DType, own.numbers, c, p)
			require.NoError(t, err)
			require.True(t, tensor.Equal(codes, again), "scale %g", s)
		}
		require.False(t, own.comesBack(c, &tqc.Params{Scale: []float32{s * 2}, ZeroPoint: q.zero}), "at another scale")
		narrow := *c
		narrow.QMin++
		require.False(t, own.comesBack(&narrow, p), "a code is below the lowest")
		floor := *c
		floor.Rounding = qmath.Down
		require.False(t, own.comesBack(&floor, p), "half a step is not to spare")
	}
	require.Greater(t, said, 400)
}
