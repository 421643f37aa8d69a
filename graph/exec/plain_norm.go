package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/elementary"
)

// plainNormEvals are the normalizations in float64, what is in other types widened.
var plainNormEvals = []evaluator{
	{"BatchNormalization", buildPlainBatchNorm},
	{"InstanceNormalization", buildPlainInstanceNorm},
	{"GroupNormalization", buildPlainGroupNorm},
	{"LayerNormalization", buildPlainLayerNorm},
	{"RMSNormalization", buildPlainRMSNorm},
	{"LRN", buildPlainLRN},
	{"LpNormalization", buildPlainLpNorm},
	{"MeanVarianceNormalization", buildPlainMVN},
}

// buildPlainBatchNorm is x*s + (bias - mean*s) with s = scale / sqrt(var + epsilon) per channel. Which forms there are is decided by
// buildBatchNorm.
func buildPlainBatchNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	return func(c *call) error {
		x, scale, bias, mean, variance := c.in(0), c.f64(1), c.f64(2), c.f64(3), c.f64(4)
		outer, ch, inner := x.Len(), 1, 1
		if len(x.Shape) > 1 {
			outer, ch, inner = blocks(x.Shape, 1)
		}
		if len(scale) != ch || len(bias) != ch || len(mean) != ch || len(variance) != ch {
			return fmt.Errorf("statistics do not have %d channels", ch)
		}
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		src := c.f64(0)
		for i := range outer * ch {
			k := i % ch
			s := scale[k] / math.Sqrt(variance[k]+eps)
			b := bias[k] - mean[k]*s
			for j := i * inner; j < (i+1)*inner; j++ {
				dst[j] = src[j]*s + b
			}
		}
		set()
		return nil
	}, nil
}

// standardize writes (x - mean) / sqrt(var + eps) of each row of n elements and returns means and inverse deviations by row.
func standardize(dst, src []float64, n int, eps float64) (means, inverses []float64) {
	for at := 0; n > 0 && at < len(src); at += n {
		x, y := src[at:at+n], dst[at:at+n]
		mean, inv := momentsF64(x, eps)
		for i, v := range x {
			y[i] = (v - mean) * inv
		}
		means, inverses = append(means, mean), append(inverses, inv)
	}
	return means, inverses
}

// momentsF64 returns the mean and 1/sqrt(variance + eps).
func momentsF64(x []float64, eps float64) (mean, inv float64) {
	n, sum, squares := float64(len(x)), 0.0, 0.0
	for _, v := range x {
		sum += v
	}
	mean = sum / n
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return mean, 1 / math.Sqrt(squares/n+eps)
}

func buildPlainInstanceNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps := n.Epsilon()
	return func(c *call) error {
		scale, bias, ch := c.f64(1), c.f64(2), c.in(0).Shape[1]
		if len(scale) != ch || len(bias) != ch {
			return fmt.Errorf("scale and bias do not have %d channels", ch)
		}
		plane := tensor.Count(c.in(0).Shape[2:])
		return c.standardized(plane, eps, func(i int) (s, b float64) { k := i / plane % ch; return scale[k], bias[k] })
	}, nil
}

// buildPlainGroupNorm is buildGroupNorm.
func buildPlainGroupNorm(n *graph.Node, version int64) (evalFunc, error) {
	eps := n.Epsilon()
	groups := int(n.AttrInt("num_groups", 0))
	return func(c *call) error {
		scale, bias := c.f64(1), c.f64(2)
		ch, plane := c.in(0).Shape[1], tensor.Count(c.in(0).Shape[2:])
		if groups < 1 || ch%groups != 0 {
			return fmt.Errorf("%d channels in %d groups", ch, groups)
		}
		per := 1
		if len(scale) == groups && version < 21 {
			per = ch / groups
		}
		if len(scale)*per != ch || len(bias)*per != ch {
			return fmt.Errorf("scale and bias do not fit %d channels in %d groups", ch, groups)
		}
		return c.standardized(ch/groups*plane, eps, func(i int) (s, b float64) { k := i / plane % ch / per; return scale[k], bias[k] })
	}, nil
}

// standardized writes output 0: rows of n elements of input 0 normalized, element i then times and plus what affine says.
func (c *call) standardized(n int, eps float64, affine func(i int) (scale, bias float64)) error {
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	standardize(dst, c.f64(0), n, eps)
	for i, v := range dst {
		s, b := affine(i)
		dst[i] = float64(v*s) + b
	}
	set()
	return nil
}

// affine is dst = dst * input 1 + input 2, those broadcast, if they are present.
func (c *call) affine(dst []float64) {
	for i, op := range []arithOp{1: opMul, 2: opAdd} {
		if i > 0 && c.has(i) {
			out := &tensor.Tensor{Shape: c.in(0).Shape}
			zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, c.in(i)), dst, dst, c.f64(i), 1, floatFunc[float64](op))
		}
	}
}

// buildPlainLayerNorm is buildLayerNorm; the statistics are rounded to the type of attribute stash_type.
func buildPlainLayerNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps, axis := n.Epsilon(), n.Axis()
	return func(c *call) error {
		a, err := axisIn(axis, len(c.in(0).Shape))
		if err != nil {
			return err
		}
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		mean, inv := standardize(dst, c.f64(0), tensor.Count(c.in(0).Shape[a:]), eps)
		c.affine(dst)
		set()
		for k, stat := range [][]float64{1: mean, 2: inv} {
			if k > 0 && c.wants(k) {
				list, set, err := c.outF64(k)
				if err != nil {
					return err
				}
				copy(list, stat)
				set()
			}
		}
		return nil
	}, nil
}

func buildPlainRMSNorm(n *graph.Node, _ int64) (evalFunc, error) {
	eps, axis := n.Epsilon(), n.Axis()
	return func(c *call) error {
		a, err := axisIn(axis, len(c.in(0).Shape))
		if err != nil {
			return err
		}
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		size := tensor.Count(c.in(0).Shape[a:])
		for at, src := 0, c.f64(0); size > 0 && at < len(src); at += size {
			squares := 0.0
			for _, v := range src[at : at+size] {
				squares += float64(v * v)
			}
			root := math.Sqrt(squares/float64(size) + eps)
			for i, v := range src[at : at+size] {
				dst[at+i] = v / root
			}
		}
		c.affine(dst)
		set()
		return nil
	}, nil
}

// buildPlainLRN is buildLRN.
func buildPlainLRN(n *graph.Node, _ int64) (evalFunc, error) {
	alpha, beta := float64(n.Alpha()), float64(n.Beta())
	bias, size := float64(n.AttrFloat("bias", 1)), int(n.AttrInt("size", 0))
	return func(c *call) error {
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		outer, ch, inner := blocks(c.in(0).Shape, 1)
		src := c.f64(0)
		for i := range outer * ch * inner {
			k, sum := i/inner%ch, 0.0
			for j := max(0, k-(size-1)/2); j < min(ch, k+size/2+1); j++ {
				v := src[i+(j-k)*inner]
				sum += float64(v * v)
			}
			dst[i] = src[i] / elementary.Pow(bias+alpha/float64(size)*sum, beta)
		}
		set()
		return nil
	}, nil
}

func buildPlainLpNorm(n *graph.Node, _ int64) (evalFunc, error) {
	p := float64(n.AttrInt("p", 2))
	return plainLines(n.Axis(), func(x []float64) {
		norm := lpNorm(x, p)
		for i := range x {
			if x[i] /= norm; norm == 0 {
				x[i] = 0
			}
		}
	}), nil
}

func buildPlainMVN(n *graph.Node, _ int64) (evalFunc, error) {
	axes := attrInts(n, "axes")
	if axes == nil {
		axes = []int{0, 2, 3}
	}
	return func(c *call) error {
		dst, set, err := c.outF64(0)
		if err != nil {
			return err
		}
		g, err := grouping(c.in(0), axes)
		if err != nil {
			return err
		}
		src, row := c.f64(0), make([]float64, len(g.within))
		for _, base := range g.starts {
			for i, off := range g.within {
				row[i] = src[base+off]
			}
			mean, inv := momentsF64(row, 0)
			for i, off := range g.within {
				dst[base+off] = (row[i] - mean) / (1/inv + 1e-9)
			}
		}
		set()
		return nil
	}, nil
}
