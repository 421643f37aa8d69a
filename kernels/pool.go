package kernels

import (
	"fmt"
	"math"

	"qwb/kernels/ref"
)

// MaxPool computes ref.MaxPool: the largest value of each window, NaN where it contains one. dst must not overlap src.
func (t *Table) MaxPool(par Parallel, dst, src []float32, s ConvShape) {
	s = checkPool("max pool", dst, src, s)
	t.pool(par, window{row: t.rows[OpMaxWindow], s: s, dst: dst, src: src, start: float32(math.Inf(-1))})
}

// AveragePool computes ref.AveragePool: the sum of each window over the number of its positions. dst must not overlap src.
func (t *Table) AveragePool(par Parallel, dst, src []float32, s ConvShape, includePad bool) {
	s = checkPool("average pool", dst, src, s)
	if t.Arith() == ref.Float64 {
		ref.AveragePool(ref.Float64, dst, src, s, includePad)
		return
	}
	t.pool(par, window{row: t.rows[OpSumWindow], s: s, dst: dst, src: src, average: true, includePad: includePad})
}

// GlobalAverage computes ref.GlobalAverage: the mean over the positions of each image and channel; src is [n, positions, c],
// dst [n, c]. dst must not overlap src.
func (t *Table) GlobalAverage(par Parallel, dst, src []float32, n, positions, c int) {
	t.AveragePool(par, dst, src, ConvShape{N: n, H: 1, W: positions, C: c, KH: 1, KW: max(positions, 1), OutH: 1, OutW: 1}, false)
}

// pool computes all lines of p.
func (t *Table) pool(par Parallel, p window) {
	s := &p.s
	if s.OutLen() == 0 {
		return
	}
	p.ldd = s.C
	p.pieces = piecesOf(s.N*s.OutD*s.OutH, 1<<16/(s.OutW*s.C*s.KD*s.KH*s.KW))
	j := t.jobs.take()
	defer j.release()
	j.window = p
	par.Run(p.pieces, j.poolPiece)
}

// divide divides by a count, as ref does: by 0 gives 0.
func divide(out []float32, n int) {
	if n == 0 {
		clear(out)
		return
	}
	count := float32(n)
	for j, v := range out {
		out[j] = v / count
	}
}

// checkPool panics where pool and slices do not fit, and returns s in full.
func checkPool(name string, dst, src []float32, s ConvShape) ConvShape {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: %s: %v", name, err))
	}
	if s.M != s.C {
		panic(fmt.Sprintf("kernels: %s: %d input and %d output channels", name, s.C, s.M))
	}
	checkLen("src", len(src), s.InLen())
	checkLen("dst", len(dst), s.OutLen())
	return s
}
