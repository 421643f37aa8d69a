package kernels

import "fmt"

// ConvU8S8 is an integer convolution's weights, packed. It may be used by many goroutines at once, each with scratch of its
// own.
type ConvU8S8 struct {
	table  *Table
	row    Row
	packed [][]int8 // one per group; depthwise: one
	slide  []int8   // the same for the row's slide, nil where that is not possible
	sums   []int32
	shape  ConvShape // of the weights: C, M, Group and kernel
}

// PackConvU8S8 packs w, which is [M, C/Group, KD, KH, KW]. Of s only C, M, Group, the kernel's size and DilW are used. A shape that
// fails ConvShape.Check panics.
func (t *Table) PackConvU8S8(w []int8, s ConvShape) *ConvU8S8 {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: convolution: %v", err))
	}
	checkLen("weights", len(w), s.WeightLen())
	taps, cg, mg := s.KD*s.KH*s.KW, s.C/s.Group, s.M/s.Group
	c := &ConvU8S8{table: t, row: t.rows[OpGemmU8S8], shape: s, sums: make([]int32, s.M)}
	for m := range s.M {
		for _, v := range w[m*cg*taps:][:cg*taps] {
			c.sums[m] += int32(v)
		}
	}
	if s.Depthwise() {
		c.row = t.rows[OpDepthwiseU8S8]
		c.packed = [][]int8{c.pack(taps, 1, s.M, func(tap, m int) int8 { return w[m*taps+tap] })}
		if c.row.slide[0] != nil && s.KD == 1 && s.KH == 3 && s.KW == 3 {
			c.slide = packSlide(w, s.M, c.row.NR)
		}
		return c
	}
	segments, n := convSegments(s)
	for g := range s.Group {
		wg := w[g*mg*cg*taps:]
		c.packed = append(c.packed, c.pack(segments, n, mg, func(k, m int) int8 { return wg[(m*cg+k%cg)*taps+k/cg] }))
	}
	return c
}

func (c *ConvU8S8) pack(segments, n, cols int, at func(p, j int) int8) []int8 {
	nr := c.row.NR
	dst := aligned8[int8]((cols + nr - 1) / nr * c.row.layout.panelLen(segments, n, nr))
	pack8(dst, c.row.layout, segments, n, cols, nr, at)
	return dst
}

// packSlide packs the weights of a depthwise convolution with kernels of 3x3 in the layout slide8.
func packSlide(w []int8, channels, nr int) []int8 {
	panels := (channels + nr - 1) / nr
	dst := aligned8[int8](panels * 3 * nr * 4)
	for m := range channels {
		panel := dst[m/nr*3*nr*4:]
		for tap, v := range w[m*9:][:9] {
			y, x := tap/3, tap%3
			panel[(x*nr+m%nr)*4+y] = v
		}
	}
	return dst
}

// convSegments returns how the sum of a convolution is cut: into segments of n products each, which are rounded up to groups.
// A row of the kernel is one segment where its elements lie together, so that less is lost by rounding.
func convSegments(s ConvShape) (segments, n int) {
	cg := s.C / s.Group
	if s.Group == 1 && s.DilW == 1 {
		return s.KD * s.KH, s.KW * cg
	}
	return s.KD * s.KH * s.KW, cg
}

// Sums returns, for every output channel, the sum of its weights. The caller must not change it.
func (c *ConvU8S8) Sums() []int32 { return c.sums }

// Run sends to out, for every output position and channel, the integer sum that ref.ConvU8S8 says, plus terms: positions are
// the rows of the output, channels its columns. zero is the input's zero point, which stands outside of src. s must agree with
// the shape that was packed; N, the extents, strides, paddings and other dilations may differ from call to call. *scratch
// holds the padded input where there is one; it is grown as needed and may be reused by any later call. The output must not
// overlap src.
func (c *ConvU8S8) Run(par Parallel, src []uint8, s ConvShape, zero uint8, scratch *[]uint8, terms Terms, out Output) {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: convolution: %v", err))
	}
	if w := c.shape; s.C != w.C || s.M != w.M || s.Group != w.Group || s.KD != w.KD || s.KH != w.KH || s.KW != w.KW || s.DilW != w.DilW {
		panic(fmt.Sprintf("kernels: convolution: packed for %+v, run with %+v", w, s))
	}
	positions := s.N * s.OutD * s.OutH * s.OutW
	checkLen("src", len(src), s.InLen())
	checkTerms(terms, positions, s.M)
	out.check(positions, s.M)
	if positions == 0 {
		return
	}
	p := c.table.pools8.product()
	p.table, p.row, p.tile, p.terms, p.out = c.table, c.row, c.row.tile8, terms, out
	segments, n := convSegments(s)
	depthwise, group := s.Depthwise(), c.row.layout.group()
	if depthwise {
		segments, n = s.KD*s.KH*s.KW, 1
	}
	p.shape, p.zero = s, zero
	p.pad(par, src, scratch, n%group != 0, depthwise)
	p.lda, p.lines, p.perLine = s.StrideW*p.in.c, s.N*s.OutD*s.OutH, s.OutW
	p.outD, p.outH, p.strideD, p.strideH = s.OutD, s.OutH, s.StrideD, s.StrideH
	if s.StrideW == 1 && s.OutW == p.in.w && s.StrideH == 1 && s.OutH == p.in.h && s.StrideD == 1 && s.OutD == p.in.d {
		// The lines lie end to end: a pointwise convolution is one matrix product.
		p.lines, p.perLine = 1, positions
	}
	p.taps((n+group-1)/group, segments == s.KD*s.KH)
	p.k, p.n = segments*n, s.M
	if !depthwise {
		p.n = s.M / s.Group
	}
	data := p.a
	for g, packed := range c.packed {
		p.packed, p.column, p.a = packed, g*p.n, data
		if c.slide != nil && s.DilW == 1 && s.StrideW <= len(c.row.slide) {
			p.packed, p.tile = c.slide, c.row.slide[s.StrideW-1]
		}
		if !depthwise {
			p.a = data[g*s.C/s.Group:]
		}
		p.run(par)
	}
	p.release()
}

// taps lists where the elements of one sum lie relative to the first: groups for every kernel position or, with wholeRows, for
// every kernel row.
func (p *product8) taps(groups int, wholeRows bool) {
	s := p.shape
	p.segs = p.segs[:0]
	for kd := range s.KD {
		for kh := range s.KH {
			if wholeRows {
				p.segs = append(p.segs, segment{p.in.at(0, kd*s.DilD, kh*s.DilH, 0), groups})
				continue
			}
			for kw := range s.KW {
				p.segs = append(p.segs, segment{p.in.at(0, kd*s.DilD, kh*s.DilH, kw*s.DilW), groups})
			}
		}
	}
}
