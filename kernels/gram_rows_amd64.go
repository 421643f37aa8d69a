//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorGramRows lists the rows of sums of products of columns written in assembly.
func vectorGramRows() []Row {
	row := func(isa string, rows int, runs func(cpu.Features) bool, f func(*gramTile)) Row {
		return Row{Name: "gram-" + isa, Op: OpGram, ISA: isa, MR: rows, NR: GramLanes, runs: runs, gram: f}
	}
	return []Row{
		row("avx512vnni", 8, func(f cpu.Features) bool { return f.AVX512VNNI }, gramAVX512VNNI),
		row("avx512", 8, func(f cpu.Features) bool { return f.AVX512 }, gramAVX512),
		row("avxvnni", 4, func(f cpu.Features) bool { return f.AVXVNNI }, gramAVXVNNI),
		row("avx2", 4, func(f cpu.Features) bool { return f.AVX2 }, gramAVX2),
	}
}
