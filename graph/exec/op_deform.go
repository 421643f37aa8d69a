package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// deformBlock is how many output positions are gathered before they are multiplied by the weights.
const deformBlock = 64

// buildDeformConv is Conv that reads every element of its window at an offset of its own, interpolated linearly, 0 outside,
// times a mask. Channels-last: [positions, channels*window] times the weights.
func buildDeformConv(n *graph.Node, _ int64) (evalFunc, error) {
	groups := int(n.AttrInt("offset_group", 1))
	if groups < 1 {
		return nil, fmt.Errorf("offset_group %d", groups)
	}
	return func(c *call) error {
		return c.inFloat(5, func() error { return deformConv[float32](c, groups) }, func() error { return deformConv[float64](c, groups) })
	}, nil
}

// deform is one run of DeformConv.
type deform[T float] struct {
	geo          *graph.Geometry
	groups       int // of channels that share offsets
	window       int // elements of the kernel
	positions    int // of the output
	c            int // channels of the input
	x            []T // channels-last
	offset, mask []T // mask may be nil
}

func deformConv[T float](c *call, groups int) error {
	x, w, offset := c.last(0), c.in(1), c.in(2)
	geo, err := graph.ConvGeometry(c.node, graph.Static(x.Shape...), graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	d := deform[T]{geo: geo, groups: groups, window: tensor.Count(geo.Kernel), positions: tensor.Count(geo.Out), c: x.Shape[1],
		x: tensor.Of[T](x), offset: tensor.Of[T](offset)}
	if err := d.check(c); err != nil {
		return err
	}
	m, batch := w.Shape[0], x.Shape[0]
	var bias []T
	if t := c.in(3); t != nil {
		bias = tensor.Of[T](t)
	}
	out, err := c.outIn(0, tensor.ChannelsLast)
	if err != nil {
		return err
	}
	weights, dst, depth := tensor.Of[T](w), tensor.Of[T](out), d.c/geo.Group*d.window
	factors := make([]*factor[T], geo.Group)
	for g := range factors {
		factors[g] = newFactor(c, weights[g*(m/geo.Group)*depth:], depth, m/geo.Group, depth, true)
		defer factors[g].drop(c)
	}
	blocks := (d.positions + deformBlock - 1) / deformBlock
	c.parallel(batch*blocks, deformBlock*d.c*d.window*8, func(lo, hi int) {
		columns := make([]T, min(deformBlock, d.positions)*d.c*d.window)
		var t taps
		for i := lo; i < hi; i++ {
			n, from := i/blocks, i%blocks*deformBlock
			rows := min(deformBlock, d.positions-from)
			d.gather(&t, columns, n, from, rows)
			y := dst[(n*d.positions+from)*m:][:rows*m]
			for g, f := range factors {
				f.times(nil, y[g*(m/geo.Group):], m, columns[g*depth:], d.c*d.window, rows)
			}
			for k := range y {
				if bias != nil {
					y[k] += bias[k%m]
				}
			}
		}
	})
	return nil
}

func (d *deform[T]) check(c *call) error {
	x, w, offset := c.raw(0), c.raw(1), c.raw(2)
	want := append([]int{x.Shape[0], d.groups * d.window * len(d.geo.Kernel)}, d.geo.Out...)
	if d.c%d.groups != 0 || !slices.Equal(offset.Shape, want) {
		return fmt.Errorf("offset %s for %d groups, should have shape %v", offset.Type(), d.groups, want)
	}
	if t := c.in(4); t != nil {
		want[1] = d.groups * d.window
		if !slices.Equal(t.Shape, want) {
			return fmt.Errorf("mask %s, should have shape %v", t.Type(), want)
		}
		d.mask = tensor.Of[T](t)
	}
	if t := c.raw(3); t != nil && t.Len() != w.Shape[0] {
		return fmt.Errorf("bias %s for %d channels", t.Type(), w.Shape[0])
	}
	return nil
}

// gather fills one row of channels*window elements for each of some positions of sample n.
func (d *deform[T]) gather(t *taps, columns []T, n, from, rows int) {
	r := len(d.geo.In)
	strides := rowStrides(d.geo.In)
	axes := make([]axisTap, r)
	at, in := newCounter(d.geo.Out, from), newCounter(d.geo.Kernel, 0)
	perGroup := d.c / d.groups
	plane := d.x[n*tensor.Count(d.geo.In)*d.c:]
	for p := range rows {
		row := columns[p*d.c*d.window:][:d.c*d.window]
		for g := range d.groups {
			for k := range d.window {
				first := (n*d.groups+g)*d.window + k
				for a := range r {
					moved := float64(d.offset[(first*r+a)*d.positions+from+p])
					base := at.index[a]*d.geo.Stride[a] - d.geo.PadBegin[a] + in.index[a]*d.geo.Dilation[a]
					axes[a].linear(float64(base)+moved, d.geo.In[a])
				}
				t.reset()
				t.add(axes, strides)
				scale := 1.0
				if d.mask != nil {
					scale = float64(d.mask[first*d.positions+from+p])
				}
				for ch := g * perGroup; ch < (g+1)*perGroup; ch++ {
					sum := 0.0
					for i, off := range t.at {
						sum += t.weight[i] * float64(plane[off*d.c+ch])
					}
					row[ch*d.window+k] = T(sum * scale)
				}
				in.next()
			}
		}
		at.next()
	}
}
