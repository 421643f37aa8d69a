package kernels

import "fmt"

// ConvF32 is a convolution's weights, packed. It may be used by many goroutines at once, each with scratch of its own.
type ConvF32 struct {
	row       Row
	packed    [][]float32 // one per group; depthwise: one
	depthwise bool
	shape     ConvShape // of the weights: C, M, Group and kernel
}

// PackConvF32 packs w, which is [M, C/Group, KD, KH, KW]. Of s only C, M, Group and the kernel's size are used. A shape that
// fails ConvShape.Check panics.
func (t *Table) PackConvF32(w []float32, s ConvShape) *ConvF32 {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: convolution: %v", err))
	}
	checkLen("weights", len(w), s.WeightLen())
	taps, cg, mg := s.KD*s.KH*s.KW, s.C/s.Group, s.M/s.Group
	c := &ConvF32{row: t.rows[OpGemm], shape: s, depthwise: cg == 1 && s.Group > 1}
	if c.depthwise {
		c.row = t.rows[OpDepthwise]
		p := make([]float32, packedLen(taps, s.M, c.row.NR))
		pack(p, taps, s.M, c.row.NR, func(tap, m int) float32 { return w[m*taps+tap] })
		c.packed = [][]float32{p}
		return c
	}
	for g := range s.Group {
		wg := w[g*mg*cg*taps:]
		p := make([]float32, packedLen(taps*cg, mg, c.row.NR))
		pack(p, taps*cg, mg, c.row.NR, func(k, m int) float32 { return wg[(m*cg+k%cg)*taps+k/cg] })
		c.packed = append(c.packed, p)
	}
	return c
}

// Run computes the convolution of src, as ref.Conv says, into dst, which must not overlap it. s must agree with the shape
// that was packed; N, the extents, strides, dilations and paddings may differ from call to call. *scratch holds the padded
// input where there is one; it is grown as needed and may be reused by any later call.
func (c *ConvF32) Run(par Parallel, dst, src []float32, s ConvShape, scratch *[]float32, ep Epilogue) {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: convolution: %v", err))
	}
	if w := c.shape; s.C != w.C || s.M != w.M || s.Group != w.Group || s.KD != w.KD || s.KH != w.KH || s.KW != w.KW {
		panic(fmt.Sprintf("kernels: convolution: packed for %+v, run with %+v", w, s))
	}
	checkLen("src", len(src), s.InLen())
	checkLen("dst", len(dst), s.OutLen())
	checkBias(ep, s.M)
	if s.OutLen() == 0 {
		return
	}
	repeat := 1
	if c.depthwise {
		repeat = s.M / s.C
	}
	in := pad(par, src, s, scratch, repeat)
	p := product{row: c.row, ep: ep, a: in.data, dst: dst, lda: s.StrideW * in.c, ldd: s.M,
		lines: s.N * s.OutD * s.OutH, perLine: s.OutW}
	p.start = func(line int) (int, int) {
		y, z := line%s.OutH, line/s.OutH
		n := z / s.OutD
		z %= s.OutD
		return in.at(n, z*s.StrideD, y*s.StrideH, 0), line * s.OutW * s.M
	}
	if s.StrideW == 1 && s.OutW == in.w && s.StrideH == 1 && s.OutH == in.h && s.StrideD == 1 && s.OutD == in.d {
		// The lines lie end to end: a pointwise convolution is one matrix product.
		p.lines, p.perLine = 1, s.N*s.OutD*s.OutH*s.OutW
	}
	if c.depthwise {
		p.packed, p.k, p.n = c.packed[0], s.KD*s.KH*s.KW, s.M
		p.segs = taps(s, in, 1, false)
		depthwise(par, &p)
		return
	}
	cg, mg := s.C/s.Group, s.M/s.Group
	p.k, p.n = s.KD*s.KH*s.KW*cg, mg
	p.segs = taps(s, in, cg, s.Group == 1 && s.DilW == 1)
	for g := range s.Group {
		p.packed, p.column = c.packed[g], g*mg
		p.a = in.data[g*cg:]
		p.run(par)
	}
}

// taps lists where the elements of one sum lie relative to the first: n consecutive ones for every kernel position, or, if
// rows of the kernel are consecutive in memory, for every kernel row.
func taps(s ConvShape, in padded, n int, wholeRows bool) []segment {
	var segs []segment
	for kd := range s.KD {
		for kh := range s.KH {
			if wholeRows {
				segs = append(segs, segment{in.at(0, kd*s.DilD, kh*s.DilH, 0), s.KW * n})
				continue
			}
			for kw := range s.KW {
				segs = append(segs, segment{in.at(0, kd*s.DilD, kh*s.DilH, kw*s.DilW), n})
			}
		}
	}
	return segs
}

// depthwise runs p with one product per segment and channel.
func depthwise(par Parallel, p *product) {
	lo, hi := p.ep.Limits()
	nr := p.row.NR
	tiles := (p.perLine + p.row.MR - 1) / p.row.MR // in a line, of nearly equal size
	grain := max(1, pieceWork/4/max(1, p.perLine*p.n*p.k))
	par.slices(p.lines, grain, func(line0, line1 int) {
		t := tile{segs: p.segs, lda: p.lda, ldd: p.ldd, lo: lo, hi: hi}
		for line := line0; line < line1; line++ {
			a, d := p.start(line)
			for col := 0; col < p.n; col += nr {
				t.cols = min(nr, p.n-col)
				t.panel = p.packed[col*p.k:][:nr*p.k]
				if p.ep.Bias != nil {
					t.bias = p.ep.Bias[col:][:t.cols]
				}
				for i := range tiles {
					first := part(p.perLine, tiles, i)
					t.rows = part(p.perLine, tiles, i+1) - first
					t.a, t.dst = p.a[a+first*p.lda+col:], p.dst[d+first*p.ldd+col:]
					p.row.tile(&t)
				}
			}
		}
	})
}
