package exec

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// resizeEvals sample a tensor at other positions.
var resizeEvals = []evaluator{
	{"Resize", buildResize},
	{"Upsample", buildUpsample},
}

// resampler is the attributes of Resize.
type resampler struct {
	mode, coords, nearest string
	cubicA, blank         float64
	antialias, outside    bool // outside: weights beyond the border are left out and the others scaled up
	shrinkUp              bool // opset 10: along an axis that shrinks the nearest element is the next one, as ONNX Runtime computes it
	policy                string
	axes                  []int
}

func buildResize(n *graph.Node, version int64) (evalFunc, error) {
	r, scalesAt, sizesAt, roiAt, err := newResampler(n, version)
	if err != nil {
		return nil, err
	}
	return func(c *call) error {
		var scales []float32
		var sizes []int
		var roi []float32
		if t := c.in(scalesAt); t != nil && t.Len() > 0 {
			scales = t.F32()
		}
		if sizesAt > 0 && c.has(sizesAt) && c.in(sizesAt).Len() > 0 {
			var err error
			if sizes, err = ints(c.in(sizesAt)); err != nil {
				return err
			}
		}
		if roiAt > 0 && c.has(roiAt) {
			roi = numbersOf[float32](c.in(roiAt))
		}
		return r.run(c, scales, sizes, roi)
	}, nil
}

// newResampler reads the attributes of Resize, and which inputs hold scales, sizes and region; -1 for none.
func newResampler(n *graph.Node, version int64) (r resampler, scalesAt, sizesAt, roiAt int, err error) {
	r = resampler{mode: n.AttrStr("mode", "nearest"), coords: n.AttrStr("coordinate_transformation_mode", "half_pixel"),
		nearest: n.AttrStr("nearest_mode", "round_prefer_floor"), cubicA: float64(n.AttrFloat("cubic_coeff_a", -0.75)),
		blank: float64(n.AttrFloat("extrapolation_value", 0)), antialias: n.AttrInt("antialias", 0) != 0,
		outside: n.AttrInt("exclude_outside", 0) != 0, policy: n.AttrStr("keep_aspect_ratio_policy", "stretch"), axes: attrInts(n, "axes")}
	scalesAt, sizesAt, roiAt = 2, 3, 1
	if version < 11 {
		r.coords, r.nearest, r.shrinkUp, scalesAt, sizesAt, roiAt = "asymmetric", "floor", true, 1, -1, -1
	}
	return r, scalesAt, sizesAt, roiAt, r.check()
}

// buildUpsample is Resize of opset 10 with its scales as two attributes (opset 1), one (opset 7) or an input (opset 9).
func buildUpsample(n *graph.Node, version int64) (evalFunc, error) {
	r, fixed, err := newUpsampler(n, version)
	if err != nil {
		return nil, err
	}
	return func(c *call) error {
		scales := fixed
		if scales == nil && c.has(1) {
			scales = c.in(1).F32()
		}
		return r.run(c, scales, nil, nil)
	}, nil
}

// newUpsampler reads the attributes of Upsample; scales are nil where they are an input.
func newUpsampler(n *graph.Node, version int64) (r resampler, scales []float32, err error) {
	r = resampler{mode: n.AttrStr("mode", "nearest"), coords: "asymmetric", nearest: "floor"}
	switch a := n.Attr("scales"); {
	case version < 7:
		scales = []float32{1, 1, n.AttrFloat("height_scale", 1), n.AttrFloat("width_scale", 1)}
		if r.mode == "bilinear" {
			r.mode = "linear"
		}
	case a != nil:
		scales = a.Floats
	}
	return r, scales, r.check()
}

func (r *resampler) check() error {
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, r.mode) {
		return fmt.Errorf("mode %q is not supported", r.mode)
	}
	if _, ok := coordinates[r.coords]; !ok {
		return fmt.Errorf("coordinate_transformation_mode %q is not supported", r.coords)
	}
	if _, ok := nearestModes[r.nearest]; !ok {
		return fmt.Errorf("nearest_mode %q is not supported", r.nearest)
	}
	return nil
}

// axisMap is how one axis is resampled: output i is the sum over k of weight[i][k] * input[index[i][k]]; an output without
// weights is outside of the region and takes the extrapolation value.
type axisMap struct {
	index  [][]int
	weight [][]float64
}

func (r *resampler) run(c *call, scales []float32, sizes []int, roi []float32) error {
	x := c.raw(0)
	outShape := c.outShape(0)
	if outShape == nil {
		return errors.New("the output size is not known")
	}
	maps, err := r.maps(x.Shape, outShape, scales, sizes, roi)
	if err != nil {
		return err
	}
	return r.apply(c, x, maps)
}

// maps returns how each axis is resampled, nil for those that stay as they are.
func (r *resampler) maps(x, outShape []int, scales []float32, sizes []int, roi []float32) ([]*axisMap, error) {
	rank := len(x)
	axes := r.axes
	if axes == nil {
		for a := range rank {
			axes = append(axes, a)
		}
	}
	if n := len(axes); scales != nil && len(scales) != n || sizes != nil && len(sizes) != n || r.coords == "tf_crop_and_resize" &&
		len(roi) != 2*n {
		return nil, fmt.Errorf("%d scales, %d sizes, %d bounds for %d axes", len(scales), len(sizes), len(roi), n)
	}
	uniform := r.uniformScale(x, axes, sizes)
	maps := make([]*axisMap, rank)
	for i, a := range axes {
		a, err := axisIn(a, rank)
		if err != nil {
			return nil, err
		}
		p := place{in: float64(x[a]), out: float64(outShape[a]), resized: float64(outShape[a]), end: 1}
		switch {
		case scales != nil:
			p.scale = float64(scales[i])
			p.resized = p.in * p.scale
		case uniform > 0:
			p.scale = uniform
		default:
			p.scale = p.out / p.in
		}
		if len(roi) == 2*len(axes) {
			p.start, p.end = float64(roi[i]), float64(roi[i+len(axes)])
		}
		if p.scale != 1 || x[a] != outShape[a] || r.coords == "tf_crop_and_resize" {
			maps[a] = r.axis(p, x[a], outShape[a])
		}
	}
	return maps, nil
}

// uniformScale is the one scale that a policy other than stretch derives from the sizes, 0 for stretch.
func (r *resampler) uniformScale(shape, axes, sizes []int) float64 {
	if sizes == nil || r.policy == "stretch" {
		return 0
	}
	best := 0.0
	for i, a := range axes {
		a, _ = graph.Axis(a, len(shape))
		s := float64(sizes[i]) / float64(shape[a])
		if i == 0 || r.policy == "not_larger" && s < best || r.policy == "not_smaller" && s > best {
			best = s
		}
	}
	return best
}

// place is one axis: its sizes, the scale and the part of the input that is looked at. resized is the output's size before
// it is rounded down, in*scale where scales are given.
type place struct{ in, out, resized, scale, start, end float64 }

// coordinates map an output position to an input position.
var coordinates = map[string]func(x float64, p place) float64{
	"half_pixel": func(x float64, p place) float64 { return (x+0.5)/p.scale - 0.5 },
	"half_pixel_symmetric": func(x float64, p place) float64 {
		adjust := p.out / (p.scale * p.in)
		return p.in/2*(1-adjust) + (x+0.5)/p.scale - 0.5
	},
	"pytorch_half_pixel": func(x float64, p place) float64 {
		if p.out <= 1 {
			return 0
		}
		return (x+0.5)/p.scale - 0.5
	},
	"align_corners": func(x float64, p place) float64 {
		if p.resized == 1 {
			return 0
		}
		return x * (p.in - 1) / (p.resized - 1)
	},
	"asymmetric":           func(x float64, p place) float64 { return x / p.scale },
	"tf_half_pixel_for_nn": func(x float64, p place) float64 { return (x + 0.5) / p.scale },
	"tf_crop_and_resize": func(x float64, p place) float64 {
		if p.resized <= 1 {
			return 0.5 * (p.start + p.end) * (p.in - 1)
		}
		return p.start*(p.in-1) + x*(p.end-p.start)*(p.in-1)/(p.resized-1)
	},
}

// nearestModes choose the input element for a position between two.
var nearestModes = map[string]func(x float64) float64{
	"round_prefer_floor": func(x float64) float64 { return math.Ceil(x - 0.5) },
	"round_prefer_ceil":  func(x float64) float64 { return math.Floor(x + 0.5) },
	"floor":              math.Floor,
	"ceil":               math.Ceil,
}

func (r *resampler) axis(p place, in, out int) *axisMap {
	m := &axisMap{index: make([][]int, out), weight: make([][]float64, out)}
	clampTo := func(i int) int { return min(max(i, 0), in-1) }
	nearest := nearestModes[r.nearest]
	if r.shrinkUp && p.scale < 1 {
		nearest = math.Ceil
	}
	for o := range out {
		x := coordinates[r.coords](float64(o), p)
		if r.coords == "tf_crop_and_resize" && (x < 0 || x > p.in-1) {
			continue
		}
		if r.mode == "nearest" {
			m.index[o], m.weight[o] = []int{clampTo(int(nearest(x)))}, []float64{1}
			continue
		}
		first, weights := r.taps(x, min(p.scale, 1))
		sum := 0.0
		for k, w := range weights {
			i := first + k
			if r.outside && (i < 0 || i >= in) {
				continue
			}
			m.index[o], m.weight[o] = append(m.index[o], clampTo(i)), append(m.weight[o], w)
			sum += w
		}
		if r.outside || r.antialias {
			for k := range m.weight[o] {
				m.weight[o][k] /= sum
			}
		}
	}
	return m
}

// taps returns the weights of consecutive input elements around position x and the number of the first. With antialiasing
// the kernel is stretched by 1/scale where the output is smaller.
func (r *resampler) taps(x, scale float64) (first int, weights []float64) {
	kernel, reach := r.linear, 1.0
	if r.mode == "cubic" {
		kernel, reach = r.cubic, 2.0
	}
	if !r.antialias {
		scale = 1
	}
	first = int(math.Floor(x)) - int(reach) + 1
	last := int(math.Floor(x)) + int(reach)
	if scale < 1 {
		first, last = int(math.Ceil(x-reach/scale)), int(math.Floor(x+reach/scale))
	}
	for i := first; i <= last; i++ {
		weights = append(weights, kernel((float64(i)-x)*scale))
	}
	return first, weights
}

func (r *resampler) linear(d float64) float64 { return max(0, 1-math.Abs(d)) }

// cubic is the convolution kernel of Keys (1981) with free parameter a.
func (r *resampler) cubic(d float64) float64 {
	d, a := math.Abs(d), r.cubicA
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

// apply resamples axis after axis, the outermost in memory first. The blank value is written once at the end.
func (r *resampler) apply(c *call, x *tensor.Tensor, maps []*axisMap) error {
	if r.mode == "nearest" {
		return r.pickNearest(c, x, maps)
	}
	if x.DType != tensor.Float32 {
		return r.applyWide(c, x, maps)
	}
	cur := x
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	left := 0
	for _, m := range maps {
		if m != nil {
			left++
		}
	}
	if left == 0 {
		copyElements(out.Data, 0, x.Data, 0, x.Len())
		return nil
	}
	for a, m := range maps {
		if m == nil {
			continue
		}
		next := out
		if left--; left > 0 {
			shape := slices.Clone(cur.Shape)
			shape[a] = len(m.index)
			next, _, err = c.run.mem.alloc(tensor.Float32, shape, x.Layout)
			if err != nil {
				return err
			}
		}
		outer, n, inner := cur.Blocks(a)
		blend(c, next.F32(), cur.F32(), outer, n, inner, m, float32(r.blank))
		cur = next
	}
	return nil
}

// blend resamples one axis: rows of inner elements are summed with their weights in float64 order of the taps.
func blend[T float](c *call, dst, src []T, outer, n, inner int, m *axisMap, blank T) {
	size := len(m.index)
	c.parallel(outer*size, inner*4, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			o, k := i/size, i%size
			d := dst[i*inner:][:inner]
			if len(m.index[k]) == 0 {
				fill(d, blank)
				continue
			}
			clear(d)
			for t, j := range m.index[k] {
				w := T(m.weight[k][t])
				for e, v := range src[(o*n+j)*inner:][:inner] {
					d[e] += T(v * w)
				}
			}
		}
	})
}

func (r *resampler) pickNearest(c *call, x *tensor.Tensor, maps []*axisMap) error {
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	axes, step := out.MemoryAxes(), strides(x)
	at := make([][]int, len(axes))
	for k, a := range axes {
		at[k] = make([]int, out.Shape[a])
		for i := range at[k] {
			switch m := maps[a]; {
			case m == nil:
				at[k][i] = i * step[a]
			case len(m.index[i]) == 0:
				at[k][i] = outside
			default:
				at[k][i] = m.index[i][0] * step[a]
			}
		}
	}
	blank, err := castTo(x.DType, tensor.FromF32([]float32{float32(r.blank)}, 1))
	if err != nil {
		return err
	}
	storageOf(out.Data).pick(x.Data, at, blank, c.parallel)
	return nil
}
