//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorPeaks lists the peaks written in assembly. Ops is accumulators times lanes times two; VPDPBUSD adds four products per
// lane, VPDPWSSD and VPMADDWD two, TDPBUSD 64 per sum of a tile.
func vectorPeaks() []Peak {
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	return []Peak{
		{Name: "fma-avx512", Kind: PeakFloat, ISA: "avx512", Ops: 16 * 16 * 2, runs: avx512, tile: fmaPeakAVX512},
		{Name: "fma-avx2", Kind: PeakFloat, ISA: "avx2", Ops: 12 * 8 * 2, runs: avx2, tile: fmaPeakAVX2},
		{Name: "tdpbusd-amx", Kind: PeakInteger, ISA: "amx", Ops: 4 * tileRowsAMX * tileColumns * tileBytes * 2,
			runs: func(f cpu.Features) bool { return f.AMX && soundAMX() }, tile: peakAMX},
		{Name: "vpdpbusd-avx512vnni", Kind: PeakInteger, ISA: "avx512vnni", Ops: 16 * 64 * 2,
			runs: func(f cpu.Features) bool { return f.AVX512VNNI }, tile: dotPeakAVX512},
		{Name: "vpdpbusd-avxvnni", Kind: PeakInteger, ISA: "avxvnni", Ops: 12 * 32 * 2,
			runs: func(f cpu.Features) bool { return f.AVXVNNI }, tile: dotPeakAVXVNNI},
		{Name: "vpmaddwd-avx512", Kind: PeakInteger, ISA: "avx512", Ops: 8 * 32 * 2, runs: avx512, tile: maddPeakAVX512},
		{Name: "vpmaddwd-avx2", Kind: PeakInteger, ISA: "avx2", Ops: 6 * 16 * 2, runs: avx2, tile: maddPeakAVX2},
		{Name: "vpdpwssd-avx512vnni", Kind: PeakPairs, ISA: "avx512vnni", Ops: 16 * 32 * 2,
			runs: func(f cpu.Features) bool { return f.AVX512VNNI }, tile: pairPeakAVX512},
		{Name: "vpmaddwd-pairs-avx512", Kind: PeakPairs, ISA: "avx512", Ops: 8 * 32 * 2, runs: avx512, tile: maddPeakAVX512},
		{Name: "vpmaddwd-pairs-avx2", Kind: PeakPairs, ISA: "avx2", Ops: 6 * 16 * 2, runs: avx2, tile: maddPeakAVX2},
		{Name: "read-avx512", Kind: PeakRead, ISA: "avx512", runs: avx512, tile: readAVX512},
		{Name: "read-avx2", Kind: PeakRead, ISA: "avx2", runs: avx2, tile: readAVX2},
	}
}
