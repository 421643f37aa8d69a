package kernels

// pad points p.a at src if no window leaves it, else at a copy in *scratch whose border is p.zero, cropped to what the windows
// reach. slack asks for a copy in any case, with three bytes behind it that may be read. In depthwise convolutions with several
// output channels for each input channel the copy repeats every channel as often.
func (p *product8) pad(par Parallel, src []uint8, scratch *[]uint8, slack, depthwise bool) {
	s := p.shape
	p.repeat = 1
	if depthwise {
		p.repeat = s.M / s.C
	}
	reach := func(out, stride, k, dil int) int { return (out-1)*stride + (k-1)*dil + 1 }
	d, h, w := reach(s.OutD, s.StrideD, s.KD, s.DilD), reach(s.OutH, s.StrideH, s.KH, s.DilH), reach(s.OutW, s.StrideW, s.KW, s.DilW)
	inside := s.PadFront == 0 && s.PadTop == 0 && s.PadLeft == 0 && d <= s.D && h <= s.H && w <= s.W
	if inside && p.repeat == 1 && !slack {
		p.in, p.a = padded{d: s.D, h: s.H, w: s.W, c: s.C}, src
		return
	}
	p.in = padded{d: d, h: h, w: w, c: s.C * p.repeat}
	size := s.N * d * h * w * p.in.c
	*scratch = resize(*scratch, size+3)
	p.src, p.a = src, *scratch
	p.border = resize(p.border, w*p.in.c)
	fill8(p.border, p.zero)
	p.padParts = max(1, min(size>>17, maxPieces))
	par.Run(p.padParts, p.padLines)
}

// runPad copies part i of the lines of the padded input.
func (p *product8) runPad(i int) {
	s, line := p.shape, p.in.w*p.in.c
	lines := s.N * p.in.d * p.in.h
	left, x1 := s.PadLeft*p.in.c, min(s.W, p.in.w-s.PadLeft)
	x0 := max(0, -s.PadLeft) // input columns from x0 to x1 are copied
	for l := part(lines, p.padParts, i); l < part(lines, p.padParts, i+1); l++ {
		y, z := l%p.in.h-s.PadTop, l/p.in.h
		n := z / p.in.d
		z = z%p.in.d - s.PadFront
		dst := p.a[l*line:][:line]
		if y < 0 || y >= s.H || z < 0 || z >= s.D || x0 >= x1 {
			copy(dst, p.border)
			continue
		}
		from := ((n*s.D+z)*s.H + y) * s.W * s.C
		first, last := x0*p.in.c+left, x1*p.in.c+left
		copy(dst[:first], p.border)
		repeat8(dst[first:last], p.src[from+x0*s.C:from+x1*s.C], p.repeat)
		copy(dst[last:], p.border)
	}
}

// fill8 sets every element of dst to v.
func fill8(dst []uint8, v uint8) {
	if len(dst) == 0 {
		return
	}
	dst[0] = v
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// repeat8 writes every element of src n times.
func repeat8(dst, src []uint8, n int) {
	if n == 1 {
		copy(dst, src)
		return
	}
	for i, v := range src {
		fill8(dst[i*n:][:n], v)
	}
}
