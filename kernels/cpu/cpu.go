// Package cpu reads what the processor can do, once, and hands it down as a value. Kernel selection is a pure function of
// that value, so every choice can be made and tested on any machine.
//
// Unstable: it may change without notice.
package cpu

import (
	"runtime"
	"sort"
	"strings"

	"golang.org/x/sys/cpu"
)

// Features is the set of instruction set extensions that kernels may be chosen by. The zero value selects plain Go.
type Features struct {
	AVX2       bool // AVX2 and FMA3, with operating system support for ymm registers
	AVX512     bool // AVX-512 F, BW, DQ and VL, with operating system support for zmm registers
	AVXVNNI    bool // VPDPBUSD in its VEX encoding
	AVX512VNNI bool // VPDPBUSD on zmm registers
	AMX        bool // tiles of bytes (AMX-TILE, AMX-INT8), granted by the operating system, beside AVX512VNNI
	NEON       bool // Advanced SIMD with fused multiply-add: every arm64 processor that Go runs on
	NEONDot    bool // SDOT (FEAT_DotProd)
}

// Detect returns the features of the processor that the program runs on.
func Detect() Features {
	x := cpu.X86
	avx512 := x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	tiles, _ := amx()
	return Features{
		AVX2:       x.HasAVX2 && x.HasFMA,
		AVX512:     avx512 && x.HasAVX2 && x.HasFMA,
		AVXVNNI:    x.HasAVX2 && x.HasAVXVNNI,
		AVX512VNNI: avx512 && x.HasAVX512VNNI,
		AMX:        avx512 && x.HasAVX512VNNI && tiles,
		NEON:       runtime.GOARCH == "arm64",
		NEONDot:    cpu.ARM64.HasASIMDDP,
	}
}

// NoAMX says why the tiles of a processor that has them are not used; "" where they are, and where there are none.
func NoAMX() string {
	_, why := amx()
	return why
}

// String lists the features that are present, "none" if there are none.
func (f Features) String() string {
	var names []string
	for name, has := range map[string]bool{"avx2+fma": f.AVX2, "avx512": f.AVX512, "avxvnni": f.AVXVNNI, "avx512vnni": f.AVX512VNNI,
		"amx": f.AMX, "neon": f.NEON, "neondot": f.NEONDot} {
		if has {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}
