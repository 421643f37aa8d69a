package exec

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// normEvals are the normalizations at inference. Sums are accumulated in float64.
var normEvals = []evaluator{
	{"BatchNormalization", buildBatchNorm},
	{"InstanceNormalization", buildInstanceNorm},
	{"GroupNormalization", buildGroupNorm},
	{"LayerNormalization", buildLayerNorm},
	{"RMSNormalization", buildRMSNorm},
	{"LRN", buildLRN},
	{"LpNormalization", buildLpNorm},
	{"MeanVarianceNormalization", buildMVN},
}

// buildBatchNorm is x*s + (bias - mean*s) with s = scale / sqrt(var + epsilon) per channel, s and the sum rounded to float32
// before they are applied.
func buildBatchNorm(n *graph.Node, version int64) (evalFunc, error) {
	eps := n.Epsilon()
	if n.AttrInt("training_mode", 0) != 0 || version < 7 && n.Attr("is_test") != nil && n.AttrInt("is_test", 0) == 0 {
		return nil, errors.New("training mode is not supported")
	}
	if version < 9 && n.AttrInt("spatial", 1) == 0 {
		return nil, errors.New("spatial = 0 is not supported")
	}
	for i, v := range n.Outputs {
		if i > 0 && v != graph.NoValue {
			return nil, errors.New("running statistics as outputs (training mode) are not supported")
		}
	}
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x := c.raw(0)
		ch := 1
		if len(x.Shape) > 1 {
			ch = x.Shape[1]
		}
		scale, bias, mean, variance := c.in(1).F32(), c.in(2).F32(), c.in(3).F32(), c.in(4).F32()
		if len(scale) != ch || len(bias) != ch || len(mean) != ch || len(variance) != ch {
			return fmt.Errorf("statistics do not have %d channels", ch)
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		k, err := c.scratch(2 * ch)
		if err != nil {
			return err
		}
		for i := range ch {
			s := float64(scale[i]) / math.Sqrt(float64(variance[i])+eps)
			k[i], k[ch+i] = float32(s), float32(float64(bias[i])-float64(mean[i])*s)
		}
		outer, _, inner := x.Blocks(min(1, len(x.Shape)-1))
		if len(x.Shape) < 2 {
			outer, inner = x.Len(), 1
		}
		scaleChannels(c, out.F32(), x.F32(), k[:ch], k[ch:], outer, inner)
		return nil
	}, nil
}

// scaleChannels is dst = src*scale[c] + bias[c] for data that lies as outer blocks of one inner run per channel.
func scaleChannels(c *call, dst, src, scale, bias []float32, outer, inner int) {
	ch := len(scale)
	if inner == 1 {
		c.parallel(outer, ch, func(lo, hi int) {
			kernels.MulAddRow(dst[lo*ch:hi*ch], src[lo*ch:hi*ch], scale, bias)
		})
		return
	}
	c.parallel(outer*ch, inner, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s, b := scale[i%ch], bias[i%ch]
			d := dst[i*inner:][:inner]
			for k, v := range src[i*inner:][:inner] {
				d[k] = float32(v*s) + b
			}
		}
	})
}

// normalizeRows writes (x - mean) / sqrt(var + eps) of each row of n elements, times scale plus bias of the element at i of
// row r; nil functions leave them out. It reads and writes row-major.
func normalizeRows(c *call, dst, src []float32, n int, eps float64, scale func(r, i int) (s, b float64)) {
	c.parallel(len(src)/max(n, 1), n*2, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			x, y := src[r*n:][:n], dst[r*n:][:n]
			mean, variance := moments(x)
			inv := 1 / math.Sqrt(variance+eps)
			for i, v := range x {
				s, b := scale(r, i)
				y[i] = float32((float64(v)-mean)*inv*s + b)
			}
		}
	})
}

// moments returns mean and (population) variance.
func moments(x []float32) (mean, variance float64) {
	n := float64(len(x))
	mean = ref.Sum(x) / n
	return mean, ref.SumSquares(x, mean) / n
}

func buildInstanceNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x, scale, bias := c.in(0), c.in(1).F32(), c.in(2).F32()
		out, err := c.out(0)
		if err != nil {
			return err
		}
		ch := x.Shape[1]
		if len(scale) != ch || len(bias) != ch {
			return fmt.Errorf("scale and bias do not have %d channels", ch)
		}
		normalizeRows(c, out.F32(), x.F32(), tensor.Count(x.Shape[2:]), eps, func(r, _ int) (float64, float64) {
			return float64(scale[r%ch]), float64(bias[r%ch])
		})
		return nil
	}, nil
}

// buildGroupNorm normalizes groups of channels. Scale and bias are per group before opset 21, per channel since.
func buildGroupNorm(n *graph.Node, version int64) (evalFunc, error) {
	eps := n.Epsilon()
	groups := int(n.AttrInt("num_groups", 0))
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x, scale, bias := c.in(0), c.in(1).F32(), c.in(2).F32()
		out, err := c.out(0)
		if err != nil {
			return err
		}
		ch, plane := x.Shape[1], tensor.Count(x.Shape[2:])
		if groups < 1 || ch%groups != 0 {
			return fmt.Errorf("%d channels in %d groups", ch, groups)
		}
		per := 1 // channels that share an element of scale
		if len(scale) == groups && version < 21 {
			per = ch / groups
		}
		if len(scale)*per != ch || len(bias)*per != ch {
			return fmt.Errorf("scale and bias do not fit %d channels in %d groups", ch, groups)
		}
		normalizeRows(c, out.F32(), x.F32(), ch/groups*plane, eps, func(r, i int) (float64, float64) {
			k := (r%groups*(ch/groups) + i/plane) / per
			return float64(scale[k]), float64(bias[k])
		})
		return nil
	}, nil
}

// buildLayerNorm normalizes the axes from axis on. The optional outputs are the mean and 1/sqrt(var+epsilon).
func buildLayerNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	axis := n.Axis()
	return func(c *call) error {
		x, out, size, err := c.layerNorm(axis)
		if err != nil {
			return err
		}
		var mean, inv []float32
		for k, list := range []*[]float32{1: &mean, 2: &inv} {
			if list != nil && c.wants(k) {
				t, err := c.out(k)
				if err != nil {
					return err
				}
				*list = t.F32()
			}
		}
		scale, bias := c.ofRow(1, size), c.ofRow(2, size)
		if (scale == nil) == !c.has(1) && (bias == nil) == !c.has(2) {
			c.run.s.table.LayerNorm(c.run.s.par, out.F32(), x.F32(), scale, bias, size, eps, mean, inv)
			return nil
		}
		c.run.s.table.LayerNorm(c.run.s.par, out.F32(), x.F32(), nil, nil, size, eps, mean, inv)
		if err := c.applyElements(out, 1, opMul); err != nil {
			return err
		}
		return c.applyElements(out, 2, opAdd)
	}, nil
}

// ofRow returns input i if it has one element for each of the n elements of a row, else nil.
func (c *call) ofRow(i, n int) []float32 {
	if t := c.in(i); t != nil && t.Len() == n {
		return t.F32()
	}
	return nil
}

// applyElements is out = out op input i, broadcast, if that input is present.
func (c *call) applyElements(out *tensor.Tensor, i int, op arithOp) error {
	if t := c.in(i); t != nil {
		if !tensor.Stretches(t.Shape, out.Shape) {
			return fmt.Errorf("input %d, %s, does not broadcast to %v", i, t.Type(), out.Shape)
		}
		zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, t), out.F32(), out.F32(), t.F32(), 1, floatFunc[float32](op))
	}
	return nil
}

// layerNorm prepares input and output of a normalization over the axes from axis on, which have size elements.
func (c *call) layerNorm(axis int) (x, out *tensor.Tensor, size int, err error) {
	if err = c.floats(); err != nil {
		return
	}
	x = c.in(0)
	a, err := axisIn(axis, len(x.Shape))
	if err != nil {
		return
	}
	out, err = c.out(0)
	return x, out, tensor.Count(x.Shape[a:]), err
}

func buildRMSNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	axis := n.Axis()
	return func(c *call) error {
		x, out, size, err := c.layerNorm(axis)
		if err != nil {
			return err
		}
		scale := c.ofRow(1, size)
		c.run.s.table.RMSNorm(c.run.s.par, out.F32(), x.F32(), scale, size, eps)
		if scale == nil {
			return c.applyElements(out, 1, opMul)
		}
		return nil
	}, nil
}

// buildLRN is x / (bias + alpha/size * sum of squares over size neighbouring channels) ^ beta.
func buildLRN(n *graph.Node, _ int64) (evalFunc, error) {
	alpha, beta := float64(n.Alpha()), float64(n.Beta())
	bias, size := float64(n.AttrFloat("bias", 1)), int(n.AttrInt("size", 0))
	if size < 1 {
		return nil, fmt.Errorf("size %d", size)
	}
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x := c.last(0)
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		ch := x.Shape[1]
		c.parallel(x.Len()/max(ch, 1), ch*16, func(lo, hi int) {
			for p := lo; p < hi; p++ {
				row, dst := x.F32()[p*ch:][:ch], out.F32()[p*ch:][:ch]
				for k, v := range row {
					sum := 0.0
					for _, w := range row[max(0, k-(size-1)/2):min(ch, k+size/2+1)] {
						sum += float64(w) * float64(w)
					}
					dst[k] = float32(float64(v) / elementary.Pow(bias+alpha/float64(size)*sum, beta))
				}
			}
		})
		return nil
	}, nil
}

// buildLpNorm divides by the L1 or L2 norm along an axis; a norm of 0 gives 0.
func buildLpNorm(n *graph.Node, _ int64) (evalFunc, error) {
	axis, p := n.Axis(), n.AttrInt("p", 2)
	if p != 1 && p != 2 {
		return nil, fmt.Errorf("p = %d", p)
	}
	return alongAxis(axis, eachRow(func(dst, src []float32) {
		norm := 0.0
		for _, v := range src {
			if p == 1 {
				norm += math.Abs(float64(v))
			} else {
				norm += float64(v) * float64(v)
			}
		}
		if p == 2 {
			norm = math.Sqrt(norm)
		}
		for i, v := range src {
			if dst[i] = 0; norm != 0 {
				dst[i] = float32(float64(v) / norm)
			}
		}
	})), nil
}

// buildMVN subtracts the mean over axes and divides by the standard deviation.
func buildMVN(n *graph.Node, _ int64) (evalFunc, error) {
	axes := attrInts(n, "axes")
	if axes == nil {
		axes = []int{0, 2, 3}
	}
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x := c.in(0)
		out, err := c.out(0)
		if err != nil {
			return err
		}
		g, err := grouping(x, axes)
		if err != nil {
			return err
		}
		row := make([]float32, len(g.within))
		for _, base := range g.starts {
			for i, off := range g.within {
				row[i] = x.F32()[base+off]
			}
			mean, variance := moments(row)
			for i, off := range g.within {
				out.F32()[base+off] = float32((float64(row[i]) - mean) / (math.Sqrt(variance) + 1e-9))
			}
		}
		return nil
	}, nil
}
