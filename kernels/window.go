package kernels

// window is an operation whose outputs depend on a window of their own channel: depthwise convolutions and pools.
type window struct {
	row      Row
	s        ConvShape
	dst, src []float32
	ldd      int // elements between output positions

	panel []float32 // depthwise: weights
	ep    Epilogue
	in    padded    // depthwise: the input, if every window lies inside; else it is padded line by line
	segs  []segment // depthwise: where in reads what a window takes, if that is not s
	out   places    // depthwise: where outputs lie, in positions

	start      float32 // pools: what a window begins with
	average    bool    // divide by the number of positions
	includePad bool    // of which padding is part

	pieces    int // of lines
	colPieces int // depthwise: each of them is cut into so many parts of its channels
}

const (
	windowLines    = 4       // lines of a piece at least: neighbouring lines share input lines
	windowWork     = 1 << 18 // multiplications of a depthwise convolution that lines share
	windowSmall    = 1 << 16 // multiplications worth a piece of their own
	windowChannels = 64      // channels of a piece at least: they are copied position by position
)

// depthwise computes a depthwise convolution.
func depthwise(par Parallel, j *job, p window, scratch *[]float32) {
	s := &p.s
	if p.out.pos == 0 {
		p.out = places{image: s.OutD * s.OutH * s.OutW, plane: s.OutH * s.OutW, line: s.OutW, pos: 1}
	}
	switch {
	case p.in.data != nil:
	case inside(*s) && s.M == s.C:
		p.in = padded{p.src, s.D, s.H, s.W, s.C}
	case s.D*s.KD*s.OutD > 1 || s.PadFront != 0:
		p.in = j.padded(par, p.src, *s, scratch, s.M/s.C)
	}
	lines := s.N * s.OutD * s.OutH
	perLine := max(1, s.OutW*s.M*s.KD*s.KH*s.KW)
	p.pieces, p.colPieces = piecesOf(lines, max(windowLines, windowWork/(s.StrideH*perLine))), 1
	if pieces := min(evenly, lines*perLine/windowSmall); p.pieces < pieces && s.M == s.C && p.ep.Done == nil {
		p.colPieces = max(1, min(s.M/windowChannels, (pieces+p.pieces-1)/p.pieces))
		if p.colPieces == 1 {
			p.pieces = max(p.pieces, min(pieces, lines/windowLines))
		}
	}
	j.window = p
	par.Run(p.pieces*p.colPieces, j.depthwisePiece)
}

// depthwise computes the lines and channels of piece i.
func (p *window) depthwise(i int, w *worker) {
	s, t := &p.s, &w.tile
	lines, i, c := s.N*s.OutD*s.OutH, i/p.colPieces, i%p.colPieces
	panels, nr := (s.M+p.row.NR-1)/p.row.NR, p.row.NR
	first := part(panels, p.colPieces, c) * nr // channel
	t.cols = min(s.M, part(panels, p.colPieces, c+1)*nr) - first
	t.ldd, t.panel = p.ldd*p.out.pos, p.panel[first*s.KD*s.KH*s.KW:]
	if p.ep.Bias != nil {
		t.bias = p.ep.Bias[first:]
	}
	t.lo, t.hi = p.ep.Limits()
	if p.ep.Done != nil {
		defer p.ep.Done(part(lines, p.pieces, i)*s.OutW, part(lines, p.pieces, i+1)*s.OutW)
	}
	if p.in.data != nil {
		t.lda = s.StrideW * p.in.c
		if t.segs = p.segs; t.segs == nil {
			w.segs = taps(w.segs[:0], *s, p.in, 1, false)
			t.segs = w.segs
		}
		for line := part(lines, p.pieces, i); line < part(lines, p.pieces, i+1); line++ {
			y, z := line%s.OutH, line/s.OutH
			p.line(t, p.in.data[p.in.at(z/s.OutD, z%s.OutD*s.StrideD, y*s.StrideH, 0)+first:], line, first)
		}
		return
	}
	// The last input lines that a window reaches stand in a ring, with their padding. Each is written once.
	repeat := s.M / s.C
	ring := padded{d: 1, h: reach(1, 1, s.KH, s.DilH), w: reach(s.OutW, s.StrideW, s.KW, s.DilW), c: t.cols}
	w.lines = resize(w.lines, ring.h*ring.w*ring.c)
	ring.data = w.lines
	t.lda = s.StrideW * ring.c
	next := 0 // the first line of the padded image that is not in the ring
	for line := part(lines, p.pieces, i); line < part(lines, p.pieces, i+1); line++ {
		n, top := line/s.OutH, line%s.OutH*s.StrideH
		if top == 0 || line == part(lines, p.pieces, i) {
			next = top
		}
		for next = max(next, top); next < top+ring.h; next++ {
			padLine(ring.data[ring.at(0, 0, next%ring.h, 0):][:ring.w*ring.c], p.src, s, n, 0, next-s.PadTop, ring.w, first/repeat, repeat)
		}
		w.segs = w.segs[:0]
		for kh := range s.KH {
			for kw := range s.KW {
				w.segs = append(w.segs, segment{ring.at(0, 0, (top+kh*s.DilH)%ring.h, kw*s.DilW), 1})
			}
		}
		t.segs = w.segs
		p.line(t, ring.data, line, first)
	}
}

// line computes one output line from a channel on; its windows are those of t.segs relative to a.
func (p *window) line(t *tile, a []float32, line, channel int) {
	s := &p.s
	tiles := (s.OutW + p.row.MR - 1) / p.row.MR
	y, z := line%s.OutH, line/s.OutH
	at := p.out.at(z/s.OutD, z%s.OutD, y, 0)
	for i := range tiles {
		first := part(s.OutW, tiles, i)
		t.rows = part(s.OutW, tiles, i+1) - first
		t.a, t.dst = a[first*t.lda:], p.dst[(at+first*p.out.pos)*p.ldd+channel:]
		p.row.tile(t)
	}
}

// pool computes the lines of piece i over the input as it is: positions whose windows leave the input have segments of their
// own, those between them share tiles.
func (p *window) pool(i int, w *worker) {
	s, t := &p.s, &w.tile
	// Outputs [x0, x1) have windows inside the input from left to right.
	x0 := min(s.OutW, max(0, (s.PadLeft+s.StrideW-1)/s.StrideW))
	x1 := max(x0, min(s.OutW, floorDiv(s.W-1-(s.KW-1)*s.DilW+s.PadLeft, s.StrideW)+1))
	lines := s.N * s.OutD * s.OutH
	t.lo = p.start
	for line := part(lines, p.pieces, i); line < part(lines, p.pieces, i+1); line++ {
		y, z := line%s.OutH, line/s.OutH
		n := z / s.OutD
		z %= s.OutD
		for x := 0; x < s.OutW; {
			count := 1
			if x == x0 && x1 > x0 {
				count = x1 - x0
			}
			w.segs = p.reached(w.segs[:0], n, z, y, x)
			p.positions(t, w.segs, x*s.StrideW*s.C, (line*s.OutW+x)*p.ldd, count)
			x += count
		}
		if p.average {
			for x := range s.OutW {
				divide(p.dst[(line*s.OutW+x)*p.ldd:][:s.C], s.WindowCount(z, y, x, p.includePad))
			}
		}
	}
}

// reached appends where the window of an output lies, in the order kd, kh, kw, relative to x*StrideW*C; positions outside the
// input are left out.
func (p *window) reached(segs []segment, n, z, y, x int) []segment {
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

// positions computes count outputs from dst on; the first one's segments are relative to src.
func (p *window) positions(t *tile, segs []segment, src, dst, count int) {
	c, nr := p.s.C, p.row.NR
	if len(segs) == 0 {
		for i := range count {
			out := p.dst[dst+i*p.ldd:][:c]
			for k := range out {
				out[k] = p.start
			}
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
	from := 0 // channels that are done
	if count == 1 && c >= 2*nr {
		// The channels of a single position are the rows of the tile, a vector each.
		t.lda, t.ldd, t.cols = nr, nr, nr
		for ; c-from >= nr; from += t.rows * nr {
			t.rows = min(p.row.MR, (c-from)/nr)
			t.a, t.dst = p.src[src+from:], p.dst[dst+from:]
			p.row.tile(t)
		}
		if from == c {
			return
		}
	}
	t.lda, t.ldd, t.cols = p.s.StrideW*c, p.ldd, c-from
	for i := 0; i < count; i += p.row.MR {
		t.rows = min(p.row.MR, count-i)
		t.a, t.dst = p.src[src+i*t.lda+from:], p.dst[dst+i*p.ldd+from:]
		p.row.tile(t)
	}
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int) int {
	if a < 0 {
		return -((b - 1 - a) / b)
	}
	return a / b
}
