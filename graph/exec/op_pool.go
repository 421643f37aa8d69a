package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
)

// poolEvals are the pools. They compute channels-last.
var poolEvals = []evaluator{
	{"MaxPool", simple(evalMaxPool)},
	{"AveragePool", buildAveragePool},
	{"LpPool", buildLpPool},
	{"GlobalAveragePool", simple(evalGlobalAveragePool)},
	{"GlobalMaxPool", simple(evalGlobalMaxPool)},
	{"GlobalLpPool", buildGlobalLpPool},
}

// pool prepares input, output and window of a pool.
func (c *call) pool() (x, out *tensor.Tensor, s kernels.ConvShape, err error) {
	if err = c.floats(); err != nil {
		return
	}
	x = c.last(0)
	s, ok := c.cachedWindow()
	if !ok {
		if s, err = poolWindow(c.node, x); err != nil {
			return
		}
		c.keepWindow(s)
	}
	out, err = c.outIn(0, tensor.ChannelsLast)
	return
}

// poolWindow returns the window of a pool over x.
func poolWindow(n *graph.Node, x *tensor.Tensor) (s kernels.ConvShape, err error) {
	geo, err := graph.PoolGeometry(n, graph.Static(x.Shape...))
	if err != nil {
		return s, err
	}
	geo.Group = 1
	if s, err = Window(geo, x.Shape[0], x.Shape[1], x.Shape[1]); err != nil {
		return s, err
	}
	return s, s.Check()
}

func evalMaxPool(c *call) error {
	x, out, s, err := c.pool()
	if err != nil {
		return err
	}
	c.run.s.table.MaxPool(c.run.s.par, out.F32(), x.F32(), s)
	if c.wants(1) {
		return maxIndices(c, x, s)
	}
	return nil
}

// maxIndices fills output 1: for every maximum, where it lies in the row-major input. storage_order 1 counts a plane by
// columns.
func maxIndices(c *call, x *tensor.Tensor, s kernels.ConvShape) error {
	out, err := c.outIn(1, tensor.ChannelsLast)
	if err != nil {
		return err
	}
	s = s.Full()
	columns := c.node.AttrInt("storage_order", 0) != 0
	src, dst := x.F32(), out.I64()
	i := 0
	for n := range s.N {
		for z := range s.OutD {
			for y := range s.OutH {
				for xx := range s.OutW {
					for ch := range s.C {
						dst[i] = maxIndex(&s, src, n, z, y, xx, ch, columns)
						i++
					}
				}
			}
		}
	}
	return nil
}

func maxIndex(s *kernels.ConvShape, src []float32, n, z, y, x, ch int, columns bool) int64 {
	best, at := float32(math.Inf(-1)), int64(-1)
	d0, d1 := reach(z*s.StrideD-s.PadFront, s.DilD, s.KD, s.D)
	h0, h1 := reach(y*s.StrideH-s.PadTop, s.DilH, s.KH, s.H)
	w0, w1 := reach(x*s.StrideW-s.PadLeft, s.DilW, s.KW, s.W)
	for d := d0; d < d1; d += s.DilD {
		for h := h0; h < h1; h += s.DilH {
			for w := w0; w < w1; w += s.DilW {
				v := src[(((n*s.D+d)*s.H+h)*s.W+w)*s.C+ch]
				if at >= 0 && v <= best {
					continue
				}
				best = v
				plane := (n*s.C+ch)*s.D + d
				if columns {
					plane = (n*s.C + ch) * s.D * s.H * s.W
					at = int64(plane + d + h*s.D + w*s.D*s.H)
					if s.D == 1 {
						at = int64(plane + h + w*s.H)
					}
				} else {
					at = int64((plane*s.H+h)*s.W + w)
				}
			}
		}
	}
	return at
}

// reach returns the first position of a window that lies within [0, size), and the end of the others. The window has count positions,
// step apart, from start on: it may be far larger than what it looks at.
func reach(start, step, count, size int) (first, end int) {
	end = min(start+(count-1)*step+1, size)
	if start < 0 {
		start += (-start + step - 1) / step * step
	}
	return start, end
}

func buildAveragePool(n *graph.Node, version int64) (evalFunc, error) {
	includePad := n.Pool().CountPadding
	return func(c *call) error {
		x, out, s, err := c.pool()
		if err != nil {
			return err
		}
		c.run.s.table.AveragePool(c.run.s.par, out.F32(), x.F32(), s, includePad)
		return nil
	}, nil
}

// normOrder is the order of an Lp norm, a float in opset 1.
func normOrder(n *graph.Node, version int64) float64 {
	if version < 2 {
		return float64(n.AttrFloat("p", 2))
	}
	return float64(n.AttrInt("p", 2))
}

// lpNorm is (sum |x|^p)^(1/p).
func lpNorm(x []float64, p float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += elementary.Pow(math.Abs(v), p)
	}
	return elementary.Pow(sum, 1/p)
}

// buildLpPool is (sum |x|^p)^(1/p) over each window.
func buildLpPool(n *graph.Node, version int64) (evalFunc, error) {
	p := normOrder(n, version)
	return func(c *call) error {
		x, out, s, err := c.pool()
		if err != nil {
			return err
		}
		powers, err := c.scratch(x.Len())
		if err != nil {
			return err
		}
		for i, v := range x.F32() {
			powers[i] = float32(elementary.Pow(math.Abs(float64(v)), p))
		}
		c.run.s.table.AveragePool(c.run.s.par, out.F32(), powers, s, true)
		s = s.Full()
		window := lpCounts(&s)
		for i, v := range out.F32() {
			out.F32()[i] = float32(elementary.Pow(float64(v)*float64(window[i/s.C%len(window)]), 1/p))
		}
		return nil
	}, nil
}

// lpCounts is by how much AveragePool divided at each output position.
func lpCounts(s *kernels.ConvShape) []int {
	var counts []int
	for z := range s.OutD {
		for y := range s.OutH {
			for x := range s.OutW {
				counts = append(counts, s.WindowCount(z, y, x, true))
			}
		}
	}
	return counts
}

func evalGlobalAveragePool(c *call) error {
	if err := c.floats(); err != nil {
		return err
	}
	x := c.last(0)
	out, err := c.outIn(0, tensor.ChannelsLast)
	if err != nil {
		return err
	}
	if out.Len() == 0 {
		return nil
	}
	if x.Len() == 0 {
		return emptyPlanes(x)
	}
	c.run.s.table.GlobalAverage(c.run.s.par, out.F32(), x.F32(), x.Shape[0], tensor.Count(x.Shape[2:]), x.Shape[1])
	return nil
}

// emptyPlanes refuses a global pool of planes without elements, of which ONNX does not say what they give; ONNX Runtime refuses it, too.
func emptyPlanes(x *tensor.Tensor) error {
	return fmt.Errorf("a global pool of planes without elements: %v", x.Shape)
}

// overPositions prepares a global pool: f gets the values of one image, position by position, and the row of its result.
func overPositions(c *call, f func(dst, src []float32)) error {
	if err := c.floats(); err != nil {
		return err
	}
	x := c.last(0)
	out, err := c.outIn(0, tensor.ChannelsLast)
	if err != nil {
		return err
	}
	n, ch := x.Shape[0], x.Shape[1]
	size := tensor.Count(x.Shape[1:])
	if size == 0 && n*ch > 0 {
		return emptyPlanes(x)
	}
	c.parallel(n, size, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(out.F32()[i*ch:(i+1)*ch], x.F32()[i*size:(i+1)*size])
		}
	})
	return nil
}

func evalGlobalMaxPool(c *call) error {
	return overPositions(c, func(dst, src []float32) {
		for k := range dst {
			dst[k] = float32(math.Inf(-1))
		}
		for len(dst) > 0 && len(src) >= len(dst) {
			for k, v := range src[:len(dst)] {
				dst[k] = max(dst[k], v)
			}
			src = src[len(dst):]
		}
	})
}

func buildGlobalLpPool(n *graph.Node, version int64) (evalFunc, error) {
	p := normOrder(n, version)
	return func(c *call) error {
		return overPositions(c, func(dst, src []float32) {
			sums := make([]float64, len(dst))
			for i, v := range src {
				sums[i%len(dst)] += elementary.Pow(math.Abs(float64(v)), p)
			}
			for k := range dst {
				dst[k] = float32(elementary.Pow(sums[k], 1/p))
			}
		})
	}, nil
}
