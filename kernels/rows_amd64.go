//go:build !purego

package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

//go:generate go -C _asm run . -folder ..

// vectorRows lists the rows written in assembly. The panels of gemm rows are two vectors wide; a tile whose columns fit into
// one vector takes the function that computes one. Elementwise operations wait for memory: ymm registers are wide enough.
func vectorRows() []Row {
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	return []Row{
		{Name: "gemm-avx512-14x32", Op: OpGemm, ISA: "avx512", Arith: ref.FMA32, MR: 14, NR: 32, runs: avx512,
			tile: func(t *tile) { gemmAVX512[(t.cols-1)/16][t.rows-1](t) }},
		{Name: "gemm-avx2-6x16", Op: OpGemm, ISA: "avx2", Arith: ref.FMA32, MR: 6, NR: 16, runs: avx2,
			tile: func(t *tile) { gemmAVX2[(t.cols-1)/8][t.rows-1](t) }},
		{Name: "depthwise-avx512-8x16", Op: OpDepthwise, ISA: "avx512", Arith: ref.FMA32, MR: 8, NR: 16, runs: avx512,
			tile: func(t *tile) { depthwiseAVX512[0][t.rows-1](t) }},
		{Name: "depthwise-avx2-8x8", Op: OpDepthwise, ISA: "avx2", Arith: ref.FMA32, MR: 8, NR: 8, runs: avx2,
			tile: func(t *tile) { depthwiseAVX2[0][t.rows-1](t) }},
		{Name: "max-window-avx512-8x16", Op: OpMaxWindow, ISA: "avx512", Arith: ref.Float32, MR: 8, NR: 16, runs: avx512,
			tile: func(t *tile) { maxWindowAVX512[0][t.rows-1](t) }},
		{Name: "max-window-avx2-8x8", Op: OpMaxWindow, ISA: "avx2", Arith: ref.Float32, MR: 8, NR: 8, runs: avx2,
			tile: func(t *tile) { maxWindowAVX2[0][t.rows-1](t) }},
		{Name: "sum-window-avx512-8x16", Op: OpSumWindow, ISA: "avx512", Arith: ref.Float32, MR: 8, NR: 16, runs: avx512,
			tile: func(t *tile) { sumWindowAVX512[0][t.rows-1](t) }},
		{Name: "sum-window-avx2-8x8", Op: OpSumWindow, ISA: "avx2", Arith: ref.Float32, MR: 8, NR: 8, runs: avx2,
			tile: func(t *tile) { sumWindowAVX2[0][t.rows-1](t) }},
		{Name: "add-avx2", Op: OpAdd, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: addAVX2},
		{Name: "sub-avx2", Op: OpSub, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: subAVX2},
		{Name: "mul-avx2", Op: OpMul, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: mulAVX2},
		{Name: "div-avx2", Op: OpDiv, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: divAVX2},
		{Name: "limit-avx2", Op: OpLimit, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: limitAVX2},
		{Name: "fake-avx2", Op: OpFake, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: fakeAVX2},
		{Name: "min-max-avx512-4x16", Op: OpMinMax, ISA: "avx512", Arith: ref.Float32, NR: 16, runs: avx512, tile: minMaxAVX512},
		{Name: "min-max-avx2-4x8", Op: OpMinMax, ISA: "avx2", Arith: ref.Float32, NR: 8, runs: avx2, tile: minMaxAVX2},
		{Name: "channel-min-max-avx512-64", Op: OpChannelMinMax, ISA: "avx512", Arith: ref.Float32, NR: 16, runs: avx512,
			tile: channelMinMaxAVX512},
		{Name: "channel-min-max-avx2-32", Op: OpChannelMinMax, ISA: "avx2", Arith: ref.Float32, NR: 8, runs: avx2, tile: channelMinMaxAVX2},
		{Name: "bins-avx512", Op: OpBins, ISA: "avx512", Arith: ref.Float32, runs: avx512, tile: binsAVX512},
		{Name: "bins-avx2", Op: OpBins, ISA: "avx2", Arith: ref.Float32, runs: avx2, tile: binsAVX2},
	}
}
