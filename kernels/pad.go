package kernels

// padded is an input in which every window of every output position lies inside.
type padded struct {
	data       []float32
	d, h, w, c int
}

// at returns the offset of a position's first channel.
func (p padded) at(n, z, y, x int) int { return (((n*p.d+z)*p.h+y)*p.w + x) * p.c }

// reach is how many input positions so many outputs see along an axis.
func reach(out, stride, k, dil int) int { return (out-1)*stride + (k-1)*dil + 1 }

// inside reports whether no window leaves the input.
func inside(s ConvShape) bool {
	return s.PadFront == 0 && s.PadTop == 0 && s.PadLeft == 0 && reach(s.OutD, s.StrideD, s.KD, s.DilD) <= s.D &&
		reach(s.OutH, s.StrideH, s.KH, s.DilH) <= s.H && reach(s.OutW, s.StrideW, s.KW, s.DilW) <= s.W
}

// padding is a copy of an input with its padding in progress.
type padding struct {
	s      ConvShape
	src    []float32
	to     padded
	repeat int
	pieces int
}

// padded returns src itself if no window leaves it, else a copy in *scratch whose border is +0. The copy is cropped to what
// the windows reach. With repeat > 1 every channel is repeated that many times in a row.
func (j *job) padded(par Parallel, src []float32, s ConvShape, scratch *[]float32, repeat int) padded {
	if repeat == 1 && inside(s) {
		return padded{src, s.D, s.H, s.W, s.C}
	}
	p := padding{s: s, src: src, repeat: repeat,
		to: padded{d: reach(s.OutD, s.StrideD, s.KD, s.DilD), h: reach(s.OutH, s.StrideH, s.KH, s.DilH),
			w: reach(s.OutW, s.StrideW, s.KW, s.DilW), c: s.C * repeat}}
	lines := s.N * p.to.d * p.to.h
	*scratch = resize(*scratch, lines*p.to.w*p.to.c)
	p.to.data = *scratch
	p.pieces = piecesOf(lines, max(1, 1<<16/(p.to.w*p.to.c)))
	j.pad = p
	par.Run(p.pieces, j.padPiece)
	return p.to
}

// piece copies the lines of piece i.
func (p *padding) piece(i int) {
	lines, length := p.s.N*p.to.d*p.to.h, p.to.w*p.to.c
	for line := part(lines, p.pieces, i); line < part(lines, p.pieces, i+1); line++ {
		y, z := line%p.to.h, line/p.to.h
		padLine(p.to.data[line*length:][:length], p.src, &p.s, z/p.to.d, z%p.to.d-p.s.PadFront, y-p.s.PadTop, p.to.w, 0, p.repeat)
	}
}

// padLine copies input line y of plane z of image n to dst, which begins PadLeft positions before it; what lies outside the
// input is +0. dst has width positions of some of the channels, the first being first; every one is repeated repeat times in a row.
func padLine(dst, src []float32, s *ConvShape, n, z, y, width, first, repeat int) {
	c := len(dst) / width
	x0, x1 := max(0, -s.PadLeft), min(s.W, width-s.PadLeft) // input columns that are copied
	if y < 0 || y >= s.H || z < 0 || z >= s.D || x0 >= x1 {
		clear(dst)
		return
	}
	from := ((n*s.D+z)*s.H+y)*s.W*s.C + first
	clear(dst[:(x0+s.PadLeft)*c])
	clear(dst[(x1+s.PadLeft)*c:])
	if dst = dst[(x0+s.PadLeft)*c : (x1+s.PadLeft)*c]; c == s.C*repeat {
		copyRepeated(dst, src[from+x0*s.C:from+x1*s.C], repeat)
		return
	}
	for x := x0; x < x1; x++ {
		copyRepeated(dst[:c], src[from+x*s.C:][:c/repeat], repeat)
		dst = dst[c:]
	}
}

// copyRepeated writes every element of src repeat times.
func copyRepeated(dst, src []float32, repeat int) {
	if repeat == 1 {
		copy(dst, src)
		return
	}
	for i, v := range src {
		for j := range repeat {
			dst[i*repeat+j] = v
		}
	}
}
