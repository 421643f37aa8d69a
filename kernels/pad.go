package kernels

// padded is an input in which every window of every output position lies inside.
type padded struct {
	data       []float32
	d, h, w, c int
}

// at returns the offset of a position's first channel.
func (p padded) at(n, z, y, x int) int { return (((n*p.d+z)*p.h+y)*p.w + x) * p.c }

// pad returns src itself if no window leaves it, else a copy in *scratch whose border is +0. The copy is cropped to what the
// windows reach. With repeat > 1 every channel is repeated that many times in a row.
func pad(par Parallel, src []float32, s ConvShape, scratch *[]float32, repeat int) padded {
	reach := func(out, stride, k, dil int) int { return (out-1)*stride + (k-1)*dil + 1 }
	rd, rh, rw := reach(s.OutD, s.StrideD, s.KD, s.DilD), reach(s.OutH, s.StrideH, s.KH, s.DilH), reach(s.OutW, s.StrideW, s.KW, s.DilW)
	if repeat == 1 && s.PadFront == 0 && s.PadTop == 0 && s.PadLeft == 0 && rd <= s.D && rh <= s.H && rw <= s.W {
		return padded{src, s.D, s.H, s.W, s.C}
	}
	p := padded{d: rd, h: rh, w: rw, c: s.C * repeat}
	*scratch = resize(*scratch, s.N*rd*rh*rw*p.c)
	p.data = *scratch
	line := rw * p.c
	par.slices(s.N*rd*rh, max(1, 1<<16/line), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y, z := i%rh-s.PadTop, i/rh
			n := z / rd
			z = z%rd - s.PadFront
			dst := p.data[i*line:][:line]
			if y < 0 || y >= s.H || z < 0 || z >= s.D {
				clear(dst)
				continue
			}
			from := ((n*s.D+z)*s.H + y) * s.W * s.C
			x0, x1 := max(0, -s.PadLeft), min(s.W, rw-s.PadLeft) // input columns that are copied
			if x0 >= x1 {
				clear(dst)
				continue
			}
			clear(dst[:(x0+s.PadLeft)*p.c])
			copyRepeated(dst[(x0+s.PadLeft)*p.c:(x1+s.PadLeft)*p.c], src[from+x0*s.C:from+x1*s.C], repeat)
			clear(dst[(x1+s.PadLeft)*p.c:])
		}
	})
	return p
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
