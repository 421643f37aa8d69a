package kernels

import "fmt"

// ConvTransposeF32 is a transposed convolution's weights, packed. It may be used by many goroutines at once, each with
// scratch of its own.
//
// The output splits into StrideD*StrideH*StrideW phases: positions that meet the same kernel positions. Each phase is an
// ordinary convolution of stride 1 with a part of the kernel.
type ConvTransposeF32 struct {
	row       Row
	window    Row // depthwise: for phases with kernel positions
	depthwise bool
	shape     ConvShape
	phases    []phase // by (phase of d * StrideH + phase of h) * StrideW + phase of w
	jobs      *jobs
}

// phase is the part of the kernel that meets one residue class of output positions.
type phase struct {
	taps   [][3]int    // how many input positions back each kernel position reaches, in the order kd, kh, kw
	packed [][]float32 // one per group; depthwise: one
}

// PackConvTransposeF32 packs w, which is [C, M/Group, KD, KH, KW]. Of s only C, M, Group, the kernel's size, strides and
// dilations are used. A shape that fails ConvShape.Check panics.
func (t *Table) PackConvTransposeF32(w []float32, s ConvShape) *ConvTransposeF32 {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: transposed convolution: %v", err))
	}
	taps, cg, mg := s.KD*s.KH*s.KW, s.C/s.Group, s.M/s.Group
	checkLen("weights", len(w), s.C*mg*taps)
	ct := &ConvTransposeF32{row: t.rows[OpGemm], shape: s, jobs: t.jobs, phases: make([]phase, s.StrideD*s.StrideH*s.StrideW)}
	ct.depthwise, ct.window = cg == 1 && s.Group > 1, t.rows[OpDepthwise]
	members := make([][]int, len(ct.phases)) // kernel positions of each phase
	for kd := range s.KD {
		for kh := range s.KH {
			for kw := range s.KW {
				d, h, v := kd*s.DilD, kh*s.DilH, kw*s.DilW
				i := (d%s.StrideD*s.StrideH+h%s.StrideH)*s.StrideW + v%s.StrideW
				ct.phases[i].taps = append(ct.phases[i].taps, [3]int{d / s.StrideD, h / s.StrideH, v / s.StrideW})
				members[i] = append(members[i], (kd*s.KH+kh)*s.KW+kw)
			}
		}
	}
	for i := range ct.phases {
		ph := &ct.phases[i]
		if ct.depthwise && len(ph.taps) > 0 {
			p := make([]float32, packedLen(len(members[i]), s.M, ct.window.NR))
			pack(p, len(members[i]), s.M, ct.window.NR, func(k, m int) float32 { return w[m*taps+members[i][k]] })
			ph.packed = [][]float32{p}
			continue
		}
		for g := range s.Group {
			k := len(members[i]) * cg
			p := make([]float32, packedLen(k, mg, ct.row.NR))
			pack(p, k, mg, ct.row.NR, func(k, m int) float32 { return w[((g*cg+k%cg)*mg+m)*taps+members[i][k/cg]] })
			ph.packed = append(ph.packed, p)
		}
	}
	return ct
}

// Adds reports whether Run takes an epilogue that adds a tensor.
func (c *ConvTransposeF32) Adds() bool { return !c.depthwise }

// Run computes the transposed convolution of src, as ref.ConvTranspose says, into dst, which must not overlap it. s must
// agree with the shape that was packed; N, extents and paddings may differ from call to call. scratch is as for ConvF32.Run.
func (c *ConvTransposeF32) Run(par Parallel, dst, src []float32, s ConvShape, scratch *[]float32, ep Epilogue) {
	s = s.Full()
	w := c.shape
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: transposed convolution: %v", err))
	}
	if s.C != w.C || s.M != w.M || s.Group != w.Group || s.KD != w.KD || s.KH != w.KH || s.KW != w.KW || s.StrideD != w.StrideD ||
		s.StrideH != w.StrideH || s.StrideW != w.StrideW || s.DilD != w.DilD || s.DilH != w.DilH || s.DilW != w.DilW {
		panic(fmt.Sprintf("kernels: transposed convolution: packed for %+v, run with %+v", w, s))
	}
	if s.PadFront < 0 || s.PadTop < 0 || s.PadLeft < 0 {
		panic("kernels: transposed convolution: negative padding")
	}
	checkLen("src", len(src), s.InLen())
	checkLen("dst", len(dst), s.OutLen())
	checkEpilogue(ep, s.N*s.OutD*s.OutH*s.OutW, s.M)
	if s.OutLen() == 0 {
		return
	}
	if c.depthwise && ep.Add != nil {
		panic("kernels: a transposed depthwise convolution adds nothing")
	}
	j := c.jobs.take()
	defer j.release()
	// back is how far before its own position an output may reach into the input, count how many positions there are.
	back := [3]int{(s.KD - 1) * s.DilD / s.StrideD, (s.KH - 1) * s.DilH / s.StrideH, (s.KW - 1) * s.DilW / s.StrideW}
	in := j.padded(par, src, ConvShape{N: s.N, D: s.D, H: s.H, W: s.W, C: s.C, KD: back[0] + 1, KH: back[1] + 1, KW: back[2] + 1,
		StrideD: 1, StrideH: 1, StrideW: 1, DilD: 1, DilH: 1, DilW: 1, PadFront: back[0], PadTop: back[1], PadLeft: back[2],
		OutD: (s.OutD-1+s.PadFront)/s.StrideD + 1, OutH: (s.OutH-1+s.PadTop)/s.StrideH + 1,
		OutW: (s.OutW-1+s.PadLeft)/s.StrideW + 1}, scratch, c.repeat())
	sums := ep
	sums.Done = nil // the rows of a phase do not lie together
	for i := range c.phases {
		ew, eh, ed := i%s.StrideW, i/s.StrideW%s.StrideH, i/s.StrideW/s.StrideH
		d, h, v := phaseOf(s.OutD, s.PadFront, s.StrideD, ed), phaseOf(s.OutH, s.PadTop, s.StrideH, eh), phaseOf(s.OutW, s.PadLeft, s.StrideW, ew)
		c.phase(par, j, &c.phases[i], dst, in, s, sums, back, d, h, v)
	}
	ep.Finish(s.N * s.OutD * s.OutH * s.OutW)
}

// repeat is how often each channel of the input stands in its padded copy.
func (c *ConvTransposeF32) repeat() int {
	if c.depthwise {
		return c.shape.M / c.shape.C
	}
	return 1
}

// span is the outputs of one phase along one axis: count of them, the first at out, whose own input position is in.
type span struct{ out, in, count int }

// phaseOf returns the outputs o < size with (o+pad) mod stride = e.
func phaseOf(size, pad, stride, e int) span {
	first := ((e-pad)%stride + stride) % stride
	return span{out: first, in: (first + pad) / stride, count: max(0, (size-first+stride-1)/stride)}
}

func (c *ConvTransposeF32) phase(par Parallel, j *job, ph *phase, dst []float32, in padded, s ConvShape, ep Epilogue, back [3]int,
	d, h, w span) {
	if d.count*h.count*w.count == 0 {
		return
	}
	cg, mg := s.C/s.Group, s.M/s.Group
	out := places{image: s.OutD * s.OutH * s.OutW, plane: s.StrideD * s.OutH * s.OutW, line: s.StrideH * s.OutW, pos: s.StrideW}
	first := (d.out*s.OutH+h.out)*s.OutW + w.out
	j.segs = j.segs[:0]
	for _, t := range ph.taps {
		j.segs = append(j.segs, segment{in.at(0, back[0]-t[0], back[1]-t[1], back[2]-t[2]), cg})
	}
	if c.depthwise && len(ph.taps) > 0 {
		in.data = in.data[in.at(0, d.in, h.in, w.in):]
		of := ConvShape{N: s.N, OutD: d.count, OutH: h.count, OutW: w.count, C: s.M, M: s.M, KD: len(ph.taps), KH: 1, KW: 1, StrideD: 1,
			StrideH: 1, StrideW: 1}
		depthwise(par, j, window{row: c.window, s: of, dst: dst[first*s.M:], ldd: s.M, panel: ph.packed[0], ep: ep, in: in, segs: j.segs,
			out: out}, nil)
		return
	}
	p := product{row: c.row, ep: ep, dst: dst, ldd: s.M, ldr: s.M, k: len(ph.taps) * cg, n: mg,
		images: s.N, planes: d.count, lines: h.count, perLine: w.count,
		in:  places{image: in.at(1, 0, 0, 0), plane: in.at(0, 1, 0, 0), line: in.at(0, 0, 1, 0), pos: in.c},
		out: out, segs: j.segs}
	p.dst = dst[first*s.M:]
	if ep.Add != nil {
		p.ep.Add = ep.Add[first*s.M:]
	}
	for g := range s.Group {
		p.packed, p.column, p.a = ph.packed[g], g*mg, in.data[in.at(0, d.in, h.in, w.in)+g*cg:]
		p.run(par, j)
	}
}
