//go:build !purego

package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

//go:generate go -C _asm run . -folder ..

// vectorRows lists the rows written in assembly. The panels of gemm rows are two vectors wide; a tile whose columns fit into
// one vector takes the function that computes one.
func vectorRows() []Row {
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	return []Row{
		{Name: "gemm-avx512-14x32", Op: "gemm", ISA: "avx512", Arith: ref.FMA32, MR: 14, NR: 32, runs: avx512,
			tile: func(t *tile) { gemmAVX512[(t.cols-1)/16][t.rows-1](t) }},
		{Name: "gemm-avx2-6x16", Op: "gemm", ISA: "avx2", Arith: ref.FMA32, MR: 6, NR: 16, runs: avx2,
			tile: func(t *tile) { gemmAVX2[(t.cols-1)/8][t.rows-1](t) }},
		{Name: "depthwise-avx512-8x16", Op: "depthwise", ISA: "avx512", Arith: ref.FMA32, MR: 8, NR: 16, runs: avx512,
			tile: func(t *tile) { depthwiseAVX512[0][t.rows-1](t) }},
		{Name: "depthwise-avx2-8x8", Op: "depthwise", ISA: "avx2", Arith: ref.FMA32, MR: 8, NR: 8, runs: avx2,
			tile: func(t *tile) { depthwiseAVX2[0][t.rows-1](t) }},
	}
}
