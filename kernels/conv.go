package kernels

import "fmt"

// ConvF32 is a convolution's weights, packed. It may be used by many goroutines at once, each with scratch of its own.
type ConvF32 struct {
	row       Row
	packed    [][]float32 // one per group; depthwise: one
	depthwise bool
	shape     ConvShape // of the weights: C, M, Group and kernel
	jobs      *jobs
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
	c := &ConvF32{row: t.rows[OpGemm], shape: s, depthwise: cg == 1 && s.Group > 1, jobs: t.jobs}
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

// Adds reports whether Run takes an epilogue that adds a tensor.
func (c *ConvF32) Adds() bool { return !c.depthwise }

// Run computes the convolution of src, as ref.Conv says, into dst, which must not overlap it. s must agree with the shape
// that was packed; N, the extents, strides, dilations and paddings may differ from call to call. *scratch holds the padded
// input where there is one; it is grown as needed and may be reused by any later call.
func (c *ConvF32) Run(par Parallel, dst, src []float32, s ConvShape, scratch *[]float32, ep Epilogue) {
	c.RunInto(par, dst, s.M, src, s, scratch, ep)
}

// RunInto is Run into a part of a wider tensor: the channels of neighbouring positions begin ldd elements apart in dst.
func (c *ConvF32) RunInto(par Parallel, dst []float32, ldd int, src []float32, s ConvShape, scratch *[]float32, ep Epilogue) {
	s, positions := c.check(dst, ldd, src, s, ep)
	if positions*s.M == 0 {
		return
	}
	j := c.jobs.take()
	defer j.release()
	if c.depthwise {
		if ep.Add != nil {
			panic("kernels: a depthwise convolution adds nothing")
		}
		depthwise(par, j, window{row: c.row, s: s, dst: dst, src: src, ldd: ldd, panel: c.packed[0], ep: ep}, scratch)
		return
	}
	in := j.padded(par, src, s, scratch, 1)
	p := c.product(j, in, dst, ldd, s, positions, ep)
	cg, mg := s.C/s.Group, s.M/s.Group
	if s.Group > 1 {
		p.ep.Done = nil // no group finishes a row
	}
	for g := range s.Group {
		p.packed, p.column = c.packed[g], g*mg
		p.a = in.data[g*cg:]
		p.run(par, j)
	}
	if s.Group > 1 {
		ep.Finish(positions)
	}
}

// Batches reports whether AddTo takes a convolution of shape s: dense, and of an input that needs no padding.
func (c *ConvF32) Batches(s ConvShape) bool {
	s = s.Full()
	return !c.depthwise && s.Group == 1 && inside(s)
}

// AddTo puts into b what RunInto would compute. Batches must hold.
func (c *ConvF32) AddTo(b *Batch, dst []float32, ldd int, src []float32, s ConvShape, ep Epilogue) {
	s, positions := c.check(dst, ldd, src, s, ep)
	if !c.Batches(s) {
		panic("kernels: a grouped or padded convolution in a batch")
	}
	if positions*s.M == 0 {
		return
	}
	j := c.jobs.take()
	p := c.product(j, j.padded(nil, src, s, nil, 1), dst, ldd, s, positions, ep)
	p.packed = c.packed[0]
	b.add(j, &p)
}

// check panics unless the operands are those of s, which it returns in full with the number of output positions.
func (c *ConvF32) check(dst []float32, ldd int, src []float32, s ConvShape, ep Epilogue) (full ConvShape, positions int) {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: convolution: %v", err))
	}
	if w := c.shape; s.C != w.C || s.M != w.M || s.Group != w.Group || s.KD != w.KD || s.KH != w.KH || s.KW != w.KW {
		panic(fmt.Sprintf("kernels: convolution: packed for %+v, run with %+v", w, s))
	}
	checkLen("src", len(src), s.InLen())
	positions = s.N * s.OutD * s.OutH * s.OutW
	checkMatrix("dst", len(dst), positions, s.M, ldd)
	checkEpilogue(ep, positions, s.M)
	return s, positions
}

// product is the product of the first group over in.
func (c *ConvF32) product(j *job, in padded, dst []float32, ldd int, s ConvShape, positions int, ep Epilogue) product {
	p := product{row: c.row, ep: ep, a: in.data, dst: dst, ldd: ldd, ldr: s.M, images: s.N, planes: s.OutD, lines: s.OutH, perLine: s.OutW,
		in:  places{image: in.at(1, 0, 0, 0), plane: in.at(0, s.StrideD, 0, 0), line: in.at(0, 0, s.StrideH, 0), pos: s.StrideW * in.c},
		out: places{image: s.OutD * s.OutH * s.OutW, plane: s.OutH * s.OutW, line: s.OutW, pos: 1}}
	if s.StrideW == 1 && s.OutW == in.w && s.StrideH == 1 && s.OutH == in.h && s.StrideD == 1 && s.OutD == in.d {
		// The lines lie end to end: a pointwise convolution is one matrix product.
		p.images, p.planes, p.lines, p.perLine = 1, 1, 1, positions
	}
	cg := s.C / s.Group
	p.k, p.n = s.KD*s.KH*s.KW*cg, s.M/s.Group
	j.segs = taps(j.segs[:0], s, in, cg, s.Group == 1 && s.DilW == 1)
	p.segs = j.segs
	return p
}

// taps appends where the elements of one sum lie relative to the first: n consecutive ones for every kernel position, or, if
// rows of the kernel are consecutive in memory, for every kernel row.
func taps(segs []segment, s ConvShape, in padded, n int, wholeRows bool) []segment {
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
