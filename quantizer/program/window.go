package program

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// window is a sliding window over one to three spatial axes; the missing ones come first and have size 1.
type window struct {
	in, out, kernel, stride, dilation, begin, end [3]int
	group                                         int
}

func newWindow(geo *graph.Geometry) (window, error) {
	w := window{group: geo.Group}
	rank := len(geo.In)
	if rank > 3 {
		return w, fmt.Errorf("%d spatial axes; at most 3 are supported", rank)
	}
	for a := range 3 {
		w.in[a], w.out[a], w.kernel[a], w.stride[a], w.dilation[a] = 1, 1, 1, 1, 1
		if k := a - (3 - rank); k >= 0 {
			w.in[a], w.out[a], w.kernel[a], w.stride[a], w.dilation[a] = geo.In[k], geo.Out[k], geo.Kernel[k], geo.Stride[k], geo.Dilation[k]
			w.begin[a], w.end[a] = geo.PadBegin[k], geo.PadEnd[k]
		}
	}
	return w, nil
}

// taps is the number of kernel positions; tap i stands at (z, y, x).
func (w *window) taps() int { return w.kernel[0] * w.kernel[1] * w.kernel[2] }

func (w *window) tap(i int) (z, y, x int) {
	return i / (w.kernel[1] * w.kernel[2]), i / w.kernel[2] % w.kernel[1], i % w.kernel[2]
}

func (w *window) inSize() int  { return w.in[0] * w.in[1] * w.in[2] }
func (w *window) outSize() int { return w.out[0] * w.out[1] * w.out[2] }

// at is the input position of output position o and tap k along axis a.
func (w *window) at(a, o, k int) int { return o*w.stride[a] - w.begin[a] + k*w.dilation[a] }

// each calls f for every tap of the window at output position (z, y, x): the index of the input element in its plane, or -1 where
// it lies outside, and whether that position counts as padding.
func (w *window) each(z, y, x int, f func(index int, padding bool)) {
	for i := range w.taps() {
		kz, ky, kx := w.tap(i)
		p := [3]int{w.at(0, z, kz), w.at(1, y, ky), w.at(2, x, kx)}
		inside, padding := true, true
		for a := range p {
			inside = inside && p[a] >= 0 && p[a] < w.in[a]
			padding = padding && p[a] >= -w.begin[a] && p[a] < w.in[a]+w.end[a]
		}
		if inside {
			f((p[0]*w.in[1]+p[1])*w.in[2]+p[2], false)
		} else {
			f(-1, padding)
		}
	}
}

// pointwise reports whether every output position reads the input position of the same index.
func (w *window) pointwise() bool {
	return w.taps() == 1 && w.in == w.out && w.stride == [3]int{1, 1, 1} && w.begin == [3]int{}
}

// positions calls f for every output position, at being its index in the plane.
func (w *window) positions(f func(z, y, x, at int)) {
	at := 0
	for z := range w.out[0] {
		for y := range w.out[1] {
			for x := range w.out[2] {
				f(z, y, x, at)
				at++
			}
		}
	}
}

// poolWindow returns the window of a pool over t.
func poolWindow(n *graph.Node, t *tensor.Tensor) (window, *graph.Geometry, error) {
	geo, err := graph.PoolGeometry(n, graph.Static(t.Shape...))
	if err != nil {
		return window{}, nil, err
	}
	w, err := newWindow(geo)
	return w, geo, err
}
