//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorInt8Rows lists the integer rows written in assembly.
func vectorInt8Rows() []Row {
	avx512vnni := func(f cpu.Features) bool { return f.AVX512VNNI }
	return []Row{
		{Name: "gemm-u8s8-avx512vnni-14x32", Op: OpGemmU8S8, ISA: "avx512vnni", MR: 14, NR: 32, layout: quads8, runs: avx512vnni,
			tile8: func(t *tile8) { gemm8AVX512VNNI[(t.cols-1)/16][t.rows-1](t) }},
	}
}
