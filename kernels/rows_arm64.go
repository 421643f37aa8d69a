//go:build !purego

package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

//go:generate go -C _asm run . -folder ..

// vectorRows lists the rows written in assembly.
func vectorRows() []Row {
	neon := func(f cpu.Features) bool { return f.NEON }
	return []Row{
		{Name: "gemm-neon-8x8", Op: OpGemm, ISA: "neon", Arith: ref.FMA32, MR: 8, NR: 8, runs: neon, tile: one(neonGemm)},
		{Name: "depthwise-neon-8x8", Op: OpDepthwise, ISA: "neon", Arith: ref.FMA32, MR: 8, NR: 8, runs: neon, tile: columns(neonWidth, neonDepthwise)},
	}
}

const neonWidth = 8 // columns of the tiles

// neonGemm lets assembly add the products and finishes the sums as the plain Go tile does.
func neonGemm(t *tile) {
	var acc [64]float32
	if t.load != 0 {
		for i := range t.rows {
			copy(acc[i*neonWidth:][:t.cols], t.dst[i*t.ldd:])
		}
	}
	if len(t.panel) > 0 {
		gemmNEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	}
	for i := range t.rows {
		t.store(i, acc[i*neonWidth:][:t.cols])
	}
}

// neonDepthwise is neonGemm for depthwise tiles. What lies behind the last channel must not be read: a tile that has fewer
// than eight is copied, position by position of the window.
func neonDepthwise(t *tile) {
	var acc [64]float32
	if t.cols == neonWidth {
		depthwiseNEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	} else {
		var a [64]float32
		whole := segment{n: 1}
		for k, seg := range t.segs {
			for i := range t.rows {
				copy(a[i*neonWidth:][:t.cols], t.a[i*t.lda+seg.off:])
			}
			depthwiseNEON(&acc, &a[0], &t.panel[k*neonWidth], &whole, 1, neonWidth, t.rows)
		}
	}
	for i := range t.rows {
		t.store(i, acc[i*neonWidth:][:t.cols])
	}
}
