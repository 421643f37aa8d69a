package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// maxRegionSamples bounds the points at which one region is read, which follows from the elements of rois.
const maxRegionSamples = 1 << 26

// roiAlign cuts a region into bins and averages (or takes the largest of) interpolated samples of each.
type roiAlign struct {
	largest bool
	scale   float64
	samples int     // per bin and axis, 0 or less: as many as the bin has elements
	shift   float64 // of the corners of a region
}

func buildRoiAlign(n *graph.Node, version int64) (evalFunc, error) {
	r := roiAlign{scale: float64(n.AttrFloat("spatial_scale", 1)), samples: int(n.AttrInt("sampling_ratio", 0))}
	switch mode := n.AttrStr("mode", "avg"); mode {
	case "avg":
	case "max":
		r.largest = true
	default:
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	if version >= 16 {
		switch mode := n.AttrStr("coordinate_transformation_mode", "half_pixel"); mode {
		case "half_pixel":
			r.shift = 0.5
		case "output_half_pixel":
		default:
			return nil, fmt.Errorf("coordinate_transformation_mode %q is not supported", mode)
		}
	}
	return func(c *call) error {
		return c.inFloat(2, func() error { return alignRegions[float32](c, r) }, func() error { return alignRegions[float64](c, r) })
	}, nil
}

func alignRegions[T float](c *call, r roiAlign) error {
	x, rois := c.in(0), c.in(1)
	batch, err := ints(c.in(2))
	if err != nil {
		return err
	}
	if rois.Shape[1] != 4 || len(batch) != rois.Shape[0] {
		return fmt.Errorf("regions %s and batch_indices %s", rois.Type(), c.in(2).Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	src, dst, corners := tensor.Of[T](x), tensor.Of[T](out), tensor.Of[T](rois)
	regions := make([]region, len(batch))
	for i, b := range batch {
		if b < 0 || b >= x.Shape[0] {
			return fmt.Errorf("region %d is in sample %d of %d", i, b, x.Shape[0])
		}
		if regions[i], err = regionOf(r, corners[i*4:][:4], x.Shape, out.Shape); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	if out.Len() > 0 && tensor.Count(x.Shape[2:]) == 0 {
		return fmt.Errorf("%s has nothing to sample", x.Type())
	}
	channels, bins, size := x.Shape[1], out.Shape[2]*out.Shape[3], x.Shape[2]*x.Shape[3]
	c.parallel(len(regions)*bins, channels*16, func(lo, hi int) {
		var t taps
		for i := lo; i < hi; i++ {
			g, bin := &regions[i/bins], i%bins
			t.reset()
			outside := g.collect(&t, bin/out.Shape[3], bin%out.Shape[3])
			for k := range channels {
				plane := src[(batch[i/bins]*channels+k)*size:][:size]
				at := (i/bins*channels+k)*bins + bin
				if r.largest {
					dst[at] = T(largest(&t, plane, outside))
				} else {
					dst[at] = T(total(&t, plane) / float64(max(1, g.rows*g.cols)))
				}
			}
		}
	})
	return nil
}

// region is where a region lies on the elements of a plane, and how many samples a bin of it has.
type region struct {
	y, x, binHeight, binWidth float64
	rows, cols                int
	height, width             int // of the plane
}

// regionOf reads the corners x1, y1, x2, y2, in their own precision: the number of samples depends on it.
func regionOf[T float](r roiAlign, v []T, in, out []int) (region, error) {
	var corner [4]T
	for i := range corner {
		corner[i] = T(v[i]*T(r.scale)) - T(r.shift)
	}
	w, h := corner[2]-corner[0], corner[3]-corner[1]
	if d := float64(w + h); math.IsNaN(d) || math.IsInf(d, 0) { // as it is where a corner is not finite
		return region{}, fmt.Errorf("corners %v", v)
	}
	if r.shift == 0 { // malformed regions are one element large
		w, h = max(w, 1), max(h, 1)
	}
	h, w = h/T(out[2]), w/T(out[3])
	g := region{y: float64(corner[1]), x: float64(corner[0]), binHeight: float64(h), binWidth: float64(w), height: in[2], width: in[3]}
	rows, cols := math.Ceil(float64(h)), math.Ceil(float64(w))
	if r.samples > 0 {
		rows, cols = float64(r.samples), float64(r.samples)
	}
	if rows > 0 && cols > 0 {
		if rows*cols*float64(out[2]*out[3]) > maxRegionSamples {
			return g, fmt.Errorf("corners %v need %g samples", v, rows*cols*float64(out[2]*out[3]))
		}
		g.rows, g.cols = int(rows), int(cols)
	}
	return g, nil
}

// collect adds the taps of every sample of a bin, four each, and reports whether some lie outside of the plane, where all is 0.
func (g *region) collect(t *taps, row, col int) (outside bool) {
	strides := []int{g.width, 1}
	var axes [2]axisTap
	for i := range g.rows {
		y := g.y + float64(row)*g.binHeight + (float64(i)+0.5)*g.binHeight/float64(g.rows)
		insideY := axes[0].edged(y, g.height)
		for k := range g.cols {
			x := g.x + float64(col)*g.binWidth + (float64(k)+0.5)*g.binWidth/float64(g.cols)
			if insideX := axes[1].edged(x, g.width); insideX && insideY {
				t.add(axes[:], strides)
			} else {
				outside = true
			}
		}
	}
	return outside
}

// edged is linear up to one element outside of the axis, where the outermost element continues; beyond it returns false.
func (t *axisTap) edged(v float64, n int) bool {
	if v < -1 || v > float64(n) {
		return false
	}
	v = max(v, 0)
	below := int(v)
	f := v - float64(below)
	if below >= n-1 {
		below, f = n-1, 0
	}
	t.n, t.at, t.weight = 2, [4]int{below, min(below+1, n-1)}, [4]float64{1 - f, f}
	return true
}

func total[T float](t *taps, src []T) float64 {
	sum := 0.0
	for i, at := range t.at {
		sum += t.weight[i] * float64(src[at])
	}
	return sum
}

// largest is the largest weighted element, 0 among them where zero is set; 0 if there is none. That the weights of each element
// of a sample count alone is how the operator is defined by its reference.
func largest[T float](t *taps, src []T, zero bool) float64 {
	if len(t.at) == 0 {
		return 0
	}
	top := math.Inf(-1)
	if zero {
		top = 0
	}
	for i, at := range t.at {
		top = max(top, t.weight[i]*float64(src[at]))
	}
	return top
}

// buildMaxRoiPool takes the largest element of each bin of regions whose corners are rounded to elements; the bins overlap
// where they do not divide, and are 0 where they are empty.
func buildMaxRoiPool(n *graph.Node, _ int64) (evalFunc, error) {
	scale := n.AttrFloat("spatial_scale", 1)
	return func(c *call) error {
		return c.inFloat(2, func() error { return poolRegions[float32](c, scale) }, func() error { return poolRegions[float64](c, scale) })
	}, nil
}

func poolRegions[T float](c *call, scale float32) error {
	x, rois := c.in(0), c.in(1)
	if rois.Shape[1] != 5 {
		return fmt.Errorf("regions %s", rois.Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	count, channels, h, w := rois.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	src, dst, corners := tensor.Of[T](x), tensor.Of[T](out), tensor.Of[T](rois)
	edges := make([][5]int, count) // sample, left, top, right, bottom
	for i := range edges {
		for k := range 5 {
			v := float64(corners[i*5+k])
			if k > 0 {
				v = math.Round(float64(corners[i*5+k] * T(scale)))
			}
			if !(math.Abs(v) <= maxElements) {
				return fmt.Errorf("region %d: corners %v", i, corners[i*5:][:5])
			}
			edges[i][k] = int(v)
		}
		if b := edges[i][0]; b < 0 || b >= x.Shape[0] {
			return fmt.Errorf("region %d is in sample %d of %d", i, b, x.Shape[0])
		}
	}
	rows, cols := out.Shape[2], out.Shape[3]
	c.parallel(count*channels, h*w, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			e := &edges[i/channels]
			plane := src[(e[0]*channels+i%channels)*h*w:][:h*w]
			for r := range rows {
				top, bottom := binOf(e[2], e[4], r, rows, h)
				for k := range cols {
					left, right := binOf(e[1], e[3], k, cols, w)
					dst[(i*rows+r)*cols+k] = T(largestIn(plane, w, top, bottom, left, right))
				}
			}
		}
	})
	return nil
}

// binOf returns where bin k of n begins and ends on an axis of size elements.
func binOf(first, last, k, n, size int) (from, to int) {
	step := float32(max(last-first+1, 1)) / float32(n)
	from = first + int(math.Floor(float64(float32(k)*step)))
	to = first + int(math.Ceil(float64(float32(k+1)*step)))
	return min(max(from, 0), size), min(max(to, 0), size)
}

func largestIn[T float](plane []T, w, top, bottom, left, right int) T {
	if top >= bottom || left >= right {
		return 0
	}
	best := T(math.Inf(-1))
	for y := top; y < bottom; y++ {
		for _, v := range plane[y*w+left : y*w+right] {
			best = max(best, v)
		}
	}
	return best
}
