package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// sweep is a sliding window over row-major planes of any number of spatial axes.
type sweep struct {
	geo           *graph.Geometry
	step, taps    []int // strides of a plane of the input and of a kernel
	in, out, size int   // elements of a plane of input and output, and of a kernel
}

func newSweep(geo *graph.Geometry) *sweep {
	return &sweep{geo, rowStrides(geo.In), rowStrides(geo.Kernel), tensor.Count(geo.In), tensor.Count(geo.Out), tensor.Count(geo.Kernel)}
}

// inside calls f for every element of the window at an output position that lies in the plane: its number in the kernel and its
// offset in the plane.
func (s *sweep) inside(pos []int, f func(tap, at int)) { s.walk(0, pos, 0, 0, f) }

func (s *sweep) walk(a int, pos []int, tap, at int, f func(tap, at int)) {
	if a == len(pos) {
		f(tap, at)
		return
	}
	start := pos[a]*s.geo.Stride[a] - s.geo.PadBegin[a]
	lo, hi := s.span(a, start, 0, s.geo.In[a])
	for k := lo; k < hi; k++ {
		s.walk(a+1, pos, tap+k*s.taps[a], at+(start+k*s.geo.Dilation[a])*s.step[a], f)
	}
}

// span returns the kernel elements [lo,hi) of an axis that lie in [from,to) when the first is at start.
func (s *sweep) span(a, start, from, to int) (lo, hi int) {
	d := s.geo.Dilation[a]
	first := func(bound int) int { return max(0, (bound-start+d-1)/d) }
	return first(max(from, start)), min(s.geo.Kernel[a], first(max(to, start)))
}

// count is how many elements of the window at a position lie in the plane with its padding.
func (s *sweep) count(pos []int) int {
	n := 1
	for a, p := range pos {
		begin := s.geo.PadBegin[a]
		lo, hi := s.span(a, p*s.geo.Stride[a]-begin, -begin, s.geo.In[a]+s.geo.PadEnd[a])
		n *= max(0, hi-lo)
	}
	return n
}

// planes calls f for every output position of every plane of n: plane and position as numbers, and the position by axis.
func (s *sweep) planes(c *call, n, cost int, f func(plane, at int, pos []int)) {
	c.parallel(n, s.out*cost, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			it := newCounter(s.geo.Out, 0)
			for at := range s.out {
				f(p, at, it.index)
				it.next()
			}
		}
	})
}

// convolve is the convolution of row-major x, [n,c,...], by w, [m,c/group,...]; bias may be nil.
func convolve[T number](c *call, geo *graph.Geometry, dst, x, w, bias []T, channels, m int) {
	s := newSweep(geo)
	group, cg := m/geo.Group, channels/geo.Group
	s.planes(c, len(dst)/max(s.out, 1), s.size*cg, func(plane, at int, pos []int) {
		img, k := plane/m, plane%m
		var acc T
		if bias != nil {
			acc = bias[k]
		}
		src, kernel := x[(img*channels+k/group*cg)*s.in:], w[k*cg*s.size:]
		for ch := range cg {
			s.inside(pos, func(tap, off int) { acc += T(src[ch*s.in+off] * kernel[ch*s.size+tap]) })
		}
		dst[plane*s.out+at] = acc
	})
}
