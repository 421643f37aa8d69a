//go:build !purego

package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

// vectorMathRows lists the functions of one number and the row operations, which give the same bits on AVX-512 and AVX2.
func vectorMathRows() []Row {
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	var list []Row
	for _, f := range []struct {
		op         Op
		arith      Arith
		wide, slim func(*tile)
	}{
		{OpExp, ref.FMA32, expAVX512, expAVX2},
		{OpSigmoid, ref.FMA32, sigmoidAVX512, sigmoidAVX2},
		{OpTanh, ref.FMA32, tanhAVX512, tanhAVX2},
		{OpErf, ref.FMA32, erfAVX512, erfAVX2},
		{OpSwish, ref.FMA32, swishAVX512, swishAVX2},
		{OpGelu, ref.FMA32, geluAVX512, geluAVX2},
		{OpGeluTanh, ref.FMA32, geluTanhAVX512, geluTanhAVX2},
		{OpHardSigmoid, ref.Float32, hardSigmoidAVX512, hardSigmoidAVX2},
		{OpHardSwish, ref.Float32, hardSwishAVX512, hardSwishAVX2},
		{OpSqrt, ref.Float32, sqrtAVX512, sqrtAVX2},
		{OpRound, ref.Float32, roundAVX512, roundAVX2},
		{OpAddScalar, ref.Float32, addScalarAVX512, addScalarAVX2},
		{OpMulScalar, ref.Float32, mulScalarAVX512, mulScalarAVX2},
		{OpDivScalar, ref.Float32, divScalarAVX512, divScalarAVX2},
		{OpScalarSub, ref.Float32, scalarSubAVX512, scalarSubAVX2},
		{OpScalarDiv, ref.Float32, scalarDivAVX512, scalarDivAVX2},
		{OpRowMax, ref.Float32, rowMaxAVX512, rowMaxAVX2},
		{OpRowSum, ref.Float64, rowSumAVX512, rowSumAVX2},
		{OpRowSquares, ref.Float64, rowSquaresAVX512, rowSquaresAVX2},
		{OpRowExp, ref.FMA32, rowExpAVX512, rowExpAVX2},
		{OpNormalize, ref.Float64, withBias(normalizeAVX512, normalizeBiasAVX512), withBias(normalizeAVX2, normalizeBiasAVX2)},
	} {
		list = append(list,
			Row{Name: f.op.String() + "-avx512", Op: f.op, ISA: "avx512", Arith: f.arith, runs: avx512, tile: f.wide},
			Row{Name: f.op.String() + "-avx2", Op: f.op, ISA: "avx2", Arith: f.arith, runs: avx2, tile: f.slim})
	}
	return list
}

func withBias(without, with func(*tile)) func(*tile) {
	return func(t *tile) {
		if t.bias == nil {
			without(t)
			return
		}
		with(t)
	}
}
