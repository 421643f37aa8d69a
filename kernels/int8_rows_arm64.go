//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorInt8Rows lists the integer rows written in assembly.
func vectorInt8Rows() []Row {
	return []Row{
		{Name: "gemm-u8s8-neondot-7x8", Op: OpGemmU8S8, ISA: "neondot", MR: 7, NR: 8, layout: quads8,
			runs: func(f cpu.Features) bool { return f.NEONDot }, tile8: neonGemm8},
	}
}

// neonGemm8 lets assembly add the products. SDOT wants signed bytes: it sees those of a less 128, and an eighth row, of zeros,
// tells what that makes.
func neonGemm8(t *tile8) {
	var acc [64]int32
	const offset = 7 * neonWidth
	for i := range t.rows {
		copy(acc[i*neonWidth:][:neonWidth], t.init[i*t.ldi:])
	}
	if len(t.panel) > 0 {
		gemm8NEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	}
	for i := range t.rows {
		dst := t.dst[i*t.ldd:][:neonWidth]
		for j, v := range acc[i*neonWidth:][:neonWidth] {
			dst[j] = v - acc[offset+j]
		}
	}
}
