//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorUnitsRows lists the rows of sums in whole units written in assembly.
func vectorUnitsRows() []Row {
	return []Row{
		{Name: "units-avx512-32", Op: OpUnits, ISA: "avx512", NR: 8, runs: func(f cpu.Features) bool { return f.AVX512 }, units: unitsAVX512},
		{Name: "units-avx2-16", Op: OpUnits, ISA: "avx2", NR: 4, runs: func(f cpu.Features) bool { return f.AVX2 }, units: unitsAVX2},
	}
}
