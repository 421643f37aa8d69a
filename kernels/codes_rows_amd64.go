//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorCodesRows lists the rows on bytes written in assembly.
func vectorCodesRows() []Row {
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	return []Row{
		{Name: "add-codes-avx512", Op: OpAddCodes, ISA: "avx512", runs: avx512, codes: addCodesAVX512},
		{Name: "add-codes-avx2", Op: OpAddCodes, ISA: "avx2", runs: avx2, codes: evenCodes(8, addCodesAVX2, goAddCodes)},
		{Name: "add-fused-avx512", Op: OpAddFused, ISA: "avx512", runs: avx512, codes: addFusedAVX512},
		{Name: "add-fused-avx2", Op: OpAddFused, ISA: "avx2", runs: avx2, codes: evenCodes(8, addFusedAVX2, goAddFused)},
		{Name: "to-codes-avx512", Op: OpToCodes, ISA: "avx512", runs: avx512, codes: toCodesAVX512},
		{Name: "to-codes-avx2", Op: OpToCodes, ISA: "avx2", runs: avx2, codes: evenCodes(8, toCodesAVX2, goToCodes)},
		{Name: "to-codes-away-avx512", Op: OpToCodesAway, ISA: "avx512", runs: avx512, codes: toCodesAwayAVX512},
		{Name: "to-codes-away-avx2", Op: OpToCodesAway, ISA: "avx2", runs: avx2, codes: evenCodes(8, toCodesAwayAVX2, goToCodesAway)},
		{Name: "from-codes-avx512", Op: OpFromCodes, ISA: "avx512", runs: avx512, codes: fromCodesAVX512},
		{Name: "from-codes-avx2", Op: OpFromCodes, ISA: "avx2", runs: avx2, codes: evenCodes(8, fromCodesAVX2, goFromCodes)},
		{Name: "max-codes-avx512", Op: OpMaxCodes, ISA: "avx512", runs: avx512, codes: maxCodesAVX512},
		{Name: "max-codes-avx2", Op: OpMaxCodes, ISA: "avx2", runs: avx2, codes: evenCodes(32, maxCodesAVX2, goMaxCodes)},
	}
}

// evenCodes returns a function that leaves the elements beyond a multiple of size to rest.
func evenCodes(size int, f, rest func(*codes8)) func(*codes8) {
	return func(c *codes8) {
		n, whole := c.n, c.n&^(size-1)
		if whole > 0 {
			c.n = whole
			f(c)
		}
		if c.n = n - whole; c.n > 0 {
			d := *c
			d.dst, d.a, d.b, d.real = beyond(c.dst, whole), beyond(c.a, whole), beyond(c.b, whole), beyond(c.real, whole)
			rest(&d)
		}
		c.n = n
	}
}
