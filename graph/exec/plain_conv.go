package exec

import (
	"fmt"

	"qwb/graph"
)

var plainConvEvals = []evaluator{
	{"Conv", simple(plainConv)},
	{"ConvTranspose", simple(plainConvTranspose)},
}

func plainConv(c *call) error {
	x, w := c.in(0), c.in(1)
	geo, err := graph.ConvGeometry(c.node, graph.Static(x.Shape...), graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	bias := c.f64(2)
	if bias != nil && len(bias) != w.Shape[0] {
		return fmt.Errorf("bias of %d elements for %d channels", len(bias), w.Shape[0])
	}
	convolve(c, geo, dst, c.f64(0), c.f64(1), bias, x.Shape[1], w.Shape[0])
	set()
	return nil
}

// plainConvTranspose adds every input element times the kernel to where the kernel lies in the output.
func plainConvTranspose(c *call) error {
	x, w := c.in(0), c.in(1)
	geo, err := graph.ConvTransposeGeometry(c.node, graph.Static(x.Shape...), graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	src, kernel, bias := c.f64(0), c.f64(1), c.f64(2)
	channels, mg := x.Shape[1], w.Shape[1]
	m, cg := mg*geo.Group, channels/geo.Group
	if bias != nil && len(bias) != m {
		return fmt.Errorf("bias of %d elements for %d channels", len(bias), m)
	}
	// The transpose swaps input and output: a window slides over the output, one position for each input element.
	back := *geo
	back.In, back.Out = geo.Out, geo.In
	s := newSweep(&back)
	c.parallel(x.Shape[0]*m, cg*s.out*s.size, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			img, k := p/m, p%m
			plane := dst[p*s.in:][:s.in]
			clear(plane)
			if bias != nil {
				fill(plane, bias[k])
			}
			for ch := range cg {
				ci := k/mg*cg + ch
				taps := kernel[(ci*mg+k%mg)*s.size:]
				it := newCounter(geo.In, 0)
				for _, v := range src[(img*channels+ci)*s.out:][:s.out] {
					s.inside(it.index, func(tap, at int) { plane[at] += float64(v * taps[tap]) })
					it.next()
				}
			}
		}
	})
	set()
	return nil
}
