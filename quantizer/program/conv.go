package program

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/program/steps"
)

// convWindow returns the window of a convolution over x.
func (l *linear) convWindow(x *tensor.Tensor) (window, *graph.Geometry, error) {
	geo, err := graph.WindowGeometry(l.node, graph.Static(x.Shape...), graph.Static(l.op.Weights.Codes.Shape...))
	if err != nil {
		return window{}, nil, err
	}
	w, err := newWindow(geo)
	return w, geo, err
}

// convRows accumulates a convolution of groups of several channels: what an output position reads becomes a row, which is multiplied with
// the columns of the group's weights. Padding has the meaning 0.
func (l *linear) convRows(in []*tensor.Tensor) (sums, error) {
	w, geo, err := l.convWindow(in[0])
	if err != nil {
		return sums{}, err
	}
	x := centered(in[0], &l.x)
	n, channels := in[0].Shape[0], in[0].Shape[1]
	perGroup := l.columns[0].n
	m, size, taps := perGroup*w.group, w.outSize(), w.taps()
	a := sums{acc: make([]int64, n*m*size), channels: m, inner: size, shape: steps.SpatialShape(n, m, geo)}
	depth := channels / w.group
	blocks := (size + rowsAtOnce - 1) / rowsAtOnce
	l.par.ranges(n*blocks, func(from, to int) {
		rows, places := newLeftRows(depth*taps), make([]int32, taps*rowsAtOnce)
		for at := from; at < to; at++ {
			image, first := at/blocks, at%blocks*rowsAtOnce
			count := min(rowsAtOnce, size-first)
			w.places(places, first, count)
			for g := range w.group {
				for c := range depth {
					plane := x[(image*channels+g*depth+c)*w.inSize():][:w.inSize()]
					for t := range taps {
						at := c*taps + t
						for i, place := range places[t*rowsAtOnce:][:count] {
							v := int32(0)
							if place >= 0 {
								v = plane[place]
							}
							rows.list[i][at] = v
						}
					}
				}
				l.columns[g].times(a.acc[(image*m+g*perGroup)*size+first:], size, 1, rows, count)
			}
		}
	})
	return a, nil
}

// places finds what output positions from first on read in their plane, tap by tap, in rows of rowsAtOnce; -1 for padding.
func (w *window) places(dst []int32, first, count int) {
	for t := range w.taps() {
		kz, ky, kx := w.tap(t)
		for i := range count {
			o := first + i
			z, y, x := w.at(0, o/(w.out[1]*w.out[2]), kz), w.at(1, o/w.out[2]%w.out[1], ky), w.at(2, o%w.out[2], kx)
			place := int32(-1)
			if z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1] && x >= 0 && x < w.in[2] {
				place = int32((z*w.in[1]+y)*w.in[2] + x)
			}
			dst[t*rowsAtOnce+i] = place
		}
	}
}

// conv accumulates a convolution of one channel to a group: a weight at a time over the rows of its output plane. Padding has the meaning 0
// and adds nothing.
func (l *linear) conv(in []*tensor.Tensor) (sums, error) { return l.planes(in, (*window).accumulate) }

// convTranspose accumulates a transposed convolution: every input position is spread over the output.
func (l *linear) convTranspose(in []*tensor.Tensor) (sums, error) {
	return l.planes(in, (*window).spread)
}

// planes adds to every output plane what each weight makes of its input plane.
func (l *linear) planes(in []*tensor.Tensor, add func(w *window, acc []int64, plane []int32, weight int32, t int)) (sums, error) {
	w, geo, err := l.convWindow(in[0])
	if err != nil {
		return sums{}, err
	}
	x := centered(in[0], &l.x)
	n, channels := in[0].Shape[0], in[0].Shape[1]
	m, size := len(l.weights), w.outSize()
	a := sums{acc: make([]int64, n*m*size), channels: m, inner: size, shape: steps.SpatialShape(n, m, geo)}
	depth, perGroup := channels/w.group, m/w.group
	l.par.each(n*m, func(at int) {
		image, out := at/m, at%m
		acc := a.acc[at*size:][:size]
		for c := range depth {
			plane := x[(image*channels+out/perGroup*depth+c)*w.inSize():][:w.inSize()]
			for t := range w.taps() {
				if weight := l.weights[out][c*w.taps()+t]; weight != 0 {
					add(&w, acc, plane, weight, t)
				}
			}
		}
	})
	return a, nil
}

// accumulate adds weight times the input that tap t reads to every position of an output plane.
func (w *window) accumulate(acc []int64, plane []int32, weight int32, t int) {
	if w.pointwise() {
		addScaled(acc, plane, weight)
		return
	}
	kz, ky, kx := w.tap(t)
	for z := range w.out[0] {
		iz := w.at(0, z, kz)
		if iz < 0 || iz >= w.in[0] {
			continue
		}
		for y := range w.out[1] {
			iy := w.at(1, y, ky)
			if iy < 0 || iy >= w.in[1] {
				continue
			}
			row := plane[(iz*w.in[1]+iy)*w.in[2]:][:w.in[2]]
			dst := acc[(z*w.out[1]+y)*w.out[2]:][:w.out[2]]
			first := w.at(2, 0, kx)
			from := 0
			if first < 0 {
				from = (-first + w.stride[2] - 1) / w.stride[2]
			}
			if i := first + from; w.stride[2] == 1 {
				addScaled(dst[min(from, len(dst)):], row[min(i, len(row)):], weight)
				continue
			}
			for x, i := from, first+from*w.stride[2]; x < len(dst) && i < len(row); x, i = x+1, i+w.stride[2] {
				dst[x] += int64(weight) * int64(row[i])
			}
		}
	}
}

// addScaled adds weight*src to dst, as far as both go.
func addScaled(dst []int64, src []int32, weight int32) {
	n := min(len(dst), len(src))
	dst, src = dst[:n], src[:n]
	for i, x := range src {
		dst[i] += int64(weight) * int64(x)
	}
}

// spread adds weight times every input position to the output position that tap t sends it to.
func (w *window) spread(acc []int64, plane []int32, weight int32, t int) {
	kz, ky, kx := w.tap(t)
	from := [3]int{kz*w.dilation[0] - w.begin[0], ky*w.dilation[1] - w.begin[1], kx*w.dilation[2] - w.begin[2]}
	zs, zend := w.inside(0, from[0])
	ys, yend := w.inside(1, from[1])
	xs, xend := w.inside(2, from[2])
	if xs >= xend {
		return
	}
	step := w.stride[2]
	for z := zs; z < zend; z++ {
		for y := ys; y < yend; y++ {
			row := acc[((z*w.stride[0]+from[0])*w.out[1]+y*w.stride[1]+from[1])*w.out[2]:][:w.out[2]]
			at := xs*step + from[2]
			for _, x := range plane[(z*w.in[1]+y)*w.in[2]:][xs:xend] {
				row[at] += int64(weight) * int64(x)
				at += step
			}
		}
	}
}

// inside are the input positions along axis a that a tap, which sends the first one to from, sends into the output.
func (w *window) inside(a, from int) (first, end int) {
	if s := w.stride[a]; from < w.out[a] {
		return max(0, (s-1-from)/s), min(w.in[a], (w.out[a]-1-from)/s+1)
	}
	return 0, 0
}

// raised is what is added to a code so that it is not negative: the kernels read unsigned bytes.
func (l *linear) raised() int32 {
	if l.x.DType() == tensor.Int8 {
		return 128
	}
	return 0
}

// convSaturating is conv with neighbouring products added in int16, tap by tap and channel after channel, as channels-last kernels
// have them in memory.
func (l *linear) convSaturating(in []*tensor.Tensor) (sums, error) {
	w, geo, err := l.convWindow(in[0])
	if err != nil {
		return sums{}, err
	}
	codes := in[0].Integers()
	zero := l.x.ZeroPoint + l.raised()
	for i := range codes {
		codes[i] += l.raised()
	}
	n, channels := in[0].Shape[0], in[0].Shape[1]
	m, size := len(l.weights), w.outSize()
	a := sums{acc: make([]int64, n*m*size), channels: m, inner: size, shape: steps.SpatialShape(n, m, geo)}
	depth, perGroup, taps := channels/w.group, m/w.group, w.taps()
	l.par.each(n*m, func(at int) {
		image, out := at/m, at%m
		first := (image*channels + out/perGroup*depth) * w.inSize()
		own := make([]int32, 0, taps*depth)
		for t := range taps {
			for c := range depth {
				own = append(own, l.weights[out][c*taps+t])
			}
		}
		x := make([]int32, 0, taps*depth)
		w.positions(func(z, y, xx, pos int) {
			x = x[:0]
			w.each(z, y, xx, func(i int, _ bool) {
				for c := range depth {
					if i < 0 {
						x = append(x, zero)
					} else {
						x = append(x, codes[first+c*w.inSize()+i])
					}
				}
			})
			a.acc[at*size+pos] = saturatingDot(x, own, zero)
		})
	})
	return a, nil
}

// saturatingDot is the sum of x*w with the products 2i and 2i+1 added in int16, saturating, and without the share of the input's
// zero point.
func saturatingDot(x, w []int32, zero int32) int64 {
	acc := int64(0)
	for p := 0; p < len(x); p += 2 {
		pair := x[p] * w[p]
		if p+1 < len(x) {
			pair += x[p+1] * w[p+1]
		}
		acc += int64(min(max(pair, math.MinInt16), math.MaxInt16))
	}
	for _, q := range w {
		acc -= int64(zero) * int64(q)
	}
	return acc
}
