//go:build !purego

package kernels

import "qwb/kernels/cpu"

// vectorInt8Rows lists the integer rows written in assembly.
func vectorInt8Rows() []Row {
	avx512vnni := func(f cpu.Features) bool { return f.AVX512VNNI }
	avxvnni := func(f cpu.Features) bool { return f.AVXVNNI }
	avx512 := func(f cpu.Features) bool { return f.AVX512 }
	avx2 := func(f cpu.Features) bool { return f.AVX2 }
	tiles := gemmAMX
	tiles.sound = soundAMX
	return []Row{
		tiles,
		{Name: "gemm-u8s8-avx512vnni-14x32", Op: OpGemmU8S8, ISA: "avx512vnni", MR: 14, NR: 32, layout: quads8, runs: avx512vnni,
			tile8: func(t *tile8) { gemm8AVX512VNNI[(t.cols-1)/16][t.rows-1](t) }},
		{Name: "gemm-u8s8-avx512-6x64", Op: OpGemmU8S8, ISA: "avx512", MR: 6, NR: 64, layout: pairs16, runs: avx512,
			tile8: func(t *tile8) { gemm8AVX512[(t.cols-1)/16][t.rows-1](t) }},
		{Name: "gemm-u8s8-avxvnni-6x16", Op: OpGemmU8S8, ISA: "avxvnni", MR: 6, NR: 16, layout: quads8, runs: avxvnni,
			tile8: func(t *tile8) { gemm8AVXVNNI[(t.cols-1)/8][t.rows-1](t) }},
		{Name: "gemm-u8s8-avx2-3x32", Op: OpGemmU8S8, ISA: "avx2", MR: 3, NR: 32, layout: pairs16, runs: avx2,
			tile8: func(t *tile8) { gemm8AVX2[(t.cols-1)/8][t.rows-1](t) }},
		{Name: "depthwise-u8s8-avx512vnni-16x64", Op: OpDepthwiseU8S8, ISA: "avx512vnni", MR: 16, NR: 64, layout: wide32, runs: avx512vnni,
			tile8: func(t *tile8) { sixes(t, &depthwise8AVX512VNNI[(t.cols-1)/16]) },
			slide: [2]func(*tile8){
				func(t *tile8) { sixes(t, &slide8Stride1[0]) },
				func(t *tile8) { sixes(t, &slide8Stride2[0]) },
			}},
		{Name: "depthwise-u8s8-avx512-16x64", Op: OpDepthwiseU8S8, ISA: "avx512", MR: 16, NR: 64, layout: wide32, runs: avx512,
			tile8: func(t *tile8) { sixes(t, &depthwise8AVX512[(t.cols-1)/16]) }},
		{Name: "depthwise-u8s8-avx2-16x16", Op: OpDepthwiseU8S8, ISA: "avx2", MR: 16, NR: 16, layout: wide32, runs: avx2,
			tile8: depthwiseEights},
		{Name: "scale-u8-avx512", Op: OpScaleU8, ISA: "avx512", runs: avx512, store: scaleU8AVX512},
		{Name: "scale-u8-avx2", Op: OpScaleU8, ISA: "avx2", runs: avx2, store: eights(scaleU8AVX2, goScaleU8)},
		{Name: "shift-u8-avx512", Op: OpShiftU8, ISA: "avx512", runs: avx512, store: shiftU8AVX512},
		{Name: "scale-f32-avx512", Op: OpScaleF32, ISA: "avx512", runs: avx512, store: scaleF32AVX512},
		{Name: "scale-f32-avx2", Op: OpScaleF32, ISA: "avx2", runs: avx2, store: eights(scaleF32AVX2, goScaleF32)},
	}
}

// eights returns a function that leaves the columns beyond a multiple of eight to rest.
func eights(f, rest func(*outTile)) func(*outTile) {
	return func(t *outTile) {
		cols, whole := t.cols, t.cols&^7
		if whole > 0 {
			t.cols = whole
			f(t)
			t.cols = cols
		}
		if whole < cols {
			last := t.from(whole)
			rest(&last)
		}
	}
}

// from returns the part of t from column j on.
func (t *outTile) from(j int) outTile {
	u := *t
	u.acc, u.cols = t.acc[j:], t.cols-j
	u.dst, u.f32, u.residual = beyond(t.dst, j), beyond(t.f32, j), beyond(t.residual, j)
	u.scale.Factor, u.scale.Bias = beyond(t.scale.Factor, j), beyond(t.scale.Bias, j)
	u.shift.Mul, u.shift.Exp = beyond(t.shift.Mul, j), beyond(t.shift.Exp, j)
	return u
}

// beyond returns s from element j on, nil for nil.
func beyond[T any](s []T, j int) []T {
	if s == nil {
		return nil
	}
	return s[j:]
}

// depthwiseEights leaves the columns beyond a multiple of eight to plain Go.
func depthwiseEights(t *tile8) {
	if whole := t.cols &^ 7; whole > 0 {
		sixes(t, &depthwise8AVX2[whole/8-1])
	}
	const nr = 16
	for j := t.cols &^ 7; j < t.cols; j++ {
		for i := range t.rows {
			sum := t.init[i*t.ldi+j]
			for k, seg := range t.segs {
				sum += int32(t.a[i*t.lda+seg.off+j]) * int32(t.panel[(k*nr+j)*4])
			}
			t.dst[i*t.ldd+j] = sum
		}
	}
}

// sixes computes a tile by functions of up to six rows: outputs cost less for tiles of more.
func sixes(t *tile8, f *[6]func(*tile8)) {
	a, dst, init, rows := t.a, t.dst, t.init, t.rows
	parts := (rows + 5) / 6
	for i, first := 0, 0; i < parts; i++ {
		next := part(rows, parts, i+1)
		t.a, t.dst, t.init, t.rows = a[first*t.lda:], dst[first*t.ldd:], init[first*t.ldi:], next-first
		f[t.rows-1](t)
		first = next
	}
	t.a, t.dst, t.init, t.rows = a, dst, init, rows
}
