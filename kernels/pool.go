package kernels

import (
	"fmt"
	"math"

	"qwb/kernels/ref"
)

// MaxPool computes ref.MaxPool: the largest value of each window, NaN where it contains one. dst must not overlap src.
func (t *Table) MaxPool(par Parallel, dst, src []float32, s ConvShape) {
	s = checkPool("max pool", dst, src, s)
	pool{row: t.rows[OpMaxWindow], s: s, dst: dst, src: src, start: float32(math.Inf(-1))}.run(par, nil)
}

// AveragePool computes ref.AveragePool: the sum of each window over the number of its positions. dst must not overlap src.
func (t *Table) AveragePool(par Parallel, dst, src []float32, s ConvShape, includePad bool) {
	s = checkPool("average pool", dst, src, s)
	if t.Arith() == ref.Float64 {
		ref.AveragePool(ref.Float64, dst, src, s, includePad)
		return
	}
	pool{row: t.rows[OpSumWindow], s: s, dst: dst, src: src}.run(par, func(line []float32, z, y int) {
		for x := range s.OutW {
			divide(line[x*s.C:][:s.C], s.WindowCount(z, y, x, includePad))
		}
	})
}

// GlobalAverage computes ref.GlobalAverage: the mean over the positions of each image and channel; src is [n, positions, c],
// dst [n, c]. dst must not overlap src.
func (t *Table) GlobalAverage(par Parallel, dst, src []float32, n, positions, c int) {
	t.AveragePool(par, dst, src, ConvShape{N: n, H: 1, W: positions, C: c, KH: 1, KW: max(positions, 1), OutH: 1, OutW: 1}, false)
}

// divide divides by a count, as ref does: by 0 gives 0.
func divide(out []float32, n int) {
	for j, v := range out {
		if out[j] = 0; n != 0 {
			out[j] = v / float32(n)
		}
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

// pool runs window tiles over the input as it is: positions whose windows leave the input have segments of their own, those
// between them share tiles.
type pool struct {
	row      Row
	s        ConvShape
	dst, src []float32
	start    float32
}

// run computes all lines; finish, if not nil, is called on each line of outputs.
func (p pool) run(par Parallel, finish func(line []float32, z, y int)) {
	s := p.s
	if s.OutLen() == 0 {
		return
	}
	// Outputs [x0, x1) have windows inside the input from left to right.
	x0 := min(s.OutW, max(0, (s.PadLeft+s.StrideW-1)/s.StrideW))
	x1 := max(x0, min(s.OutW, floorDiv(s.W-1-(s.KW-1)*s.DilW+s.PadLeft, s.StrideW)+1))
	grain := max(1, 1<<16/(s.OutW*s.C*s.KD*s.KH*s.KW))
	par.slices(s.N*s.OutD*s.OutH, grain, func(lo, hi int) {
		var segs []segment
		t := tile{lda: s.StrideW * s.C, ldd: s.C, lo: p.start}
		for line := lo; line < hi; line++ {
			y, z := line%s.OutH, line/s.OutH
			n := z / s.OutD
			z %= s.OutD
			for x := 0; x < s.OutW; {
				count := 1
				if x == x0 && x1 > x0 {
					count = x1 - x0
				}
				segs = p.windowSegments(segs[:0], n, z, y, x)
				p.tiles(&t, segs, x*s.StrideW*s.C, (line*s.OutW+x)*s.C, count)
				x += count
			}
			if finish != nil {
				finish(p.dst[line*s.OutW*s.C:][:s.OutW*s.C], z, y)
			}
		}
	})
}

// windowSegments appends where the window of an output lies, in the order kd, kh, kw, relative to x*StrideW*C; positions
// outside the input are left out.
func (p pool) windowSegments(segs []segment, n, z, y, x int) []segment {
	s := &p.s
	for kd := range s.KD {
		d := z*s.StrideD - s.PadFront + kd*s.DilD
		for kh := range s.KH {
			h := y*s.StrideH - s.PadTop + kh*s.DilH
			if d < 0 || d >= s.D || h < 0 || h >= s.H {
				continue
			}
			for kw := range s.KW {
				w := kw*s.DilW - s.PadLeft
				if at := x*s.StrideW + w; at >= 0 && at < s.W {
					segs = append(segs, segment{(((n*s.D+d)*s.H+h)*s.W + w) * s.C, 1})
				}
			}
		}
	}
	return segs
}

// tiles computes count outputs from dst on with t, of which lda, ldd and lo are set; the first output's segments are
// relative to src.
func (p pool) tiles(t *tile, segs []segment, src, dst, count int) {
	c := p.s.C
	if len(segs) == 0 {
		for i := range p.dst[dst:][:count*c] {
			p.dst[dst+i] = p.start
		}
		return
	}
	// Segments may point before src, never before the data: shift them so that offsets are not negative.
	first := segs[0].off
	for i := range segs {
		segs[i].off -= first
	}
	src += first
	t.segs = segs
	for col := 0; col < c; col += p.row.NR {
		t.cols = min(p.row.NR, c-col)
		for i := 0; i < count; i += p.row.MR {
			t.rows = min(p.row.MR, count-i)
			t.a, t.dst = p.src[src+i*t.lda+col:], p.dst[dst+i*c+col:]
			p.row.tile(t)
		}
	}
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int) int {
	if a < 0 {
		return -((b - 1 - a) / b)
	}
	return a / b
}
