package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

var scaleRule = rule{Name: "scale", meaning: true, Doc: "every scale is positive, finite, not subnormal, and 127 steps of it are " +
	"finite: a zero scale of a dead channel ends TensorRT's build", Fix: "give a dead channel the scale of its neighbours",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			for i, s := range c.scales(n) {
				if !qmath.Workable(s) {
					c.report(n, "scale %d is %g", i, s)
					return
				}
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var poolScaleRule = rule{Name: "pool-scale", Doc: "the scales of a GlobalAveragePool on integers are at most 2^8 or 2^32 apart, by the " +
	"number of its elements: the kernel ends with an error beyond", applies: onRuntime,
	Fix: "give input and result scales that are nearer to each other",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			dq := c.dequantizer(n, 0)
			x, ok := c.g.Value(n.Input(0)).Shape.Ints()
			if dq == nil || !ok || len(x) < 3 {
				return
			}
			for _, q := range c.readers(n, 0) {
				in, out := c.scales(dq), c.scales(q)
				if size := tensor.Count(x[2:]); is(q, quantizeLinear) && len(in) == 1 && len(out) == 1 && !qmath.PoolFactor(in[0], out[0], size) {
					c.report(n, "scale %g in front of it, %g behind it, and %d elements", in[0], out[0], size)
				}
			}
		}, "GlobalAveragePool")
	}}

var zeroPointRule = rule{Name: "zero-point", meaning: true, Doc: "the zero point is written out, in the shape of the scale and the type " +
	"of the integers: readers differ in what a missing one means",
	Fix: "write the zero point, 0 where there is none, in the shape of the scale",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			zp, scale := c.g.Const(n.Input(2)), c.g.Const(n.Input(1))
			switch {
			case c.runTime(n): // of symmetric tokens there is none
			case zp == nil && onRuntime(c.t): // takes 0, and uint8 where nothing else says the type
			case zp == nil:
				c.report(n, "no zero point")
			case scale != nil && !slices.Equal(zp.Shape, scale.Shape):
				c.report(n, "zero point %s for scale %s", zp.Type(), scale.Type())
			case is(n, dequantizeLinear) && c.g.Value(n.Input(0)).DType != zp.DType:
				c.report(n, "zero point of type %s for integers of type %s", zp.DType, c.g.Value(n.Input(0)).DType)
			case zp.DType == tensor.Int32 && anyNonZero(zp.Integers()):
				c.report(n, "an int32 tensor has zero point 0")
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var pairRule = rule{Name: "pair", meaning: true, Doc: "a DequantizeLinear has the scale, zero point and axis of the " +
	"QuantizeLinear before it", Fix: "give both nodes the same scale, zero point and axis",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if q := c.quantizer(n); q != nil && !is(q, dynamicQuantize) && (!c.sameParams(q, n) || q.Axis() != n.Axis() && len(c.scales(n)) != 1) {
				c.report(n, "other parameters than %q", q.Name)
			}
		}, dequantizeLinear)
	}}

var numbersRule = rule{Name: "numbers", meaning: true, Doc: "no constant has NaN, which every result behind it would be",
	Fix: "take the weights from a file that is whole",
	check: func(c *checker) {
		seen := map[graph.ValueID]bool{}
		c.each(func(n *graph.Node) {
			for i, v := range n.Inputs {
				if v == graph.NoValue || seen[v] || c.g.Const(v) == nil || i == 1 && is(n, quantizeLinear, dequantizeLinear) {
					continue // scales have a rule of their own
				}
				seen[v] = true
				if at := c.g.Const(v).NaN(); at >= 0 {
					c.report(n, "element %d of constant %q is NaN", at, c.g.Value(v).Name)
				}
			}
		})
	}}

var zeroPointZeroRule = rule{Name: "zero-point-zero", Doc: "symmetric quantization only", Fix: "calibrate symmetrically for this platform",
	applies: func(t *target.Target) bool { return t.Export.ZeroPointZero },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if zp, _ := c.zeroPoints(n); anyNonZero(zp) {
				c.report(n, "zero point is not 0")
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var signedRule = rule{Name: "signed", Doc: "no unsigned integers", Fix: "calibrate with int8 for this platform",
	applies: func(t *target.Target) bool { return t.Export.SignedOnly },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if _, t := c.zeroPoints(n); t != nil && storageOf(t.DType) != nil && lowest(t.DType) == 0 {
				c.report(n, "%s", t.DType)
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var rankZeroRule = rule{Name: "rank-zero", Doc: "per-tensor scales are scalars: the optimizer recognizes only those",
	Fix: "write scale and zero point of one tensor as scalars", applies: func(t *target.Target) bool { return t.Export.RankZero },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if s := c.g.Const(n.Input(1)); s != nil && len(s.Shape) == 1 && s.Shape[0] == 1 && !c.perChannel(n) {
				c.report(n, "scale %s", s.Type())
			}
		}, quantizeLinear, dequantizeLinear)
	}}

// perChannel reports whether a Q or DQ of a constant states an axis: a constant of one channel has one scale too.
func (c *checker) perChannel(n *graph.Node) bool {
	v := n.Input(0)
	if q := c.producer(n, 0); is(n, dequantizeLinear) && is(q, quantizeLinear) {
		v = q.Input(0)
	}
	return c.g.Const(v) != nil && n.Attr("axis") != nil
}

var perTensorRule = rule{Name: "per-tensor", Doc: "activations have one scale", Fix: "give the tensor one scale",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if s := c.scales(n); c.g.Const(n.Input(0)) == nil && len(s) > 1 {
				c.report(n, "%d scales for an activation", len(s))
			}
		}, quantizeLinear)
	}}

var axisRule = rule{Name: "axis", Doc: "per-channel scales state their axis (readers differ in the default) and lie along the output " +
	"channels, one for each", Fix: "state the axis of the output channels",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			scale := c.g.Const(n.Input(1))
			v := c.g.Value(n.Input(0))
			if scale == nil || len(scale.Shape) != 1 || scale.Shape[0] == 1 && !c.perChannel(n) || n.Quantize().Block > 0 {
				return
			}
			dims, known := v.Shape.Ints()
			axis, _ := graph.Axis(n.Axis(), len(dims))
			if len(dims) == 1 && axis == 1 {
				axis = 0 // of a vector the only one there is
			}
			switch {
			case n.Attr("axis") == nil && len(dims) != 1:
				c.report(n, "no axis for %d scales", scale.Shape[0])
			case !known:
			case axis < 0 || axis >= len(dims):
				c.report(n, "axis %d of %s", axis, v.Shape)
			case dims[axis] != scale.Shape[0]:
				c.report(n, "%d scales along axis %d of %s", scale.Shape[0], axis, v.Shape)
			case is(n, dequantizeLinear):
				c.outputAxis(n, axis)
			}
		}, quantizeLinear, dequantizeLinear)
	}}

// outputAxis checks the axis of a weight against the operators that read it.
func (c *checker) outputAxis(dq *graph.Node, axis int) {
	for _, u := range c.g.Uses(dq.Outputs[0]) {
		reader := c.g.Node(u.Node)
		op := c.role(reader)
		if op == nil || op.Role != target.Weighted || u.Index != 1 {
			continue
		}
		if want, ok := target.OutputAxis(c.g, reader, u.Index); ok && want != axis {
			c.report(dq, "scales along axis %d, the output channels of %q are axis %d", axis, reader.Name, want)
		}
	}
}

var fixedScaleRule = rule{Name: "fixed-scale", Doc: "outputs whose scale the target prescribes have it, and its zero point",
	Fix: "give the output the prescribed scale and zero point",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || op.FixedScale == 0 {
				return
			}
			for _, q := range c.readers(n, 0) {
				if !is(q, quantizeLinear) {
					continue
				}
				s := c.scales(q)
				zp, t := c.zeroPoints(q)
				finer := len(s) == 1 && op.Finer != 0 && s[0] < op.FixedScale
				if len(s) != 1 || s[0] != op.FixedScale && !finer || len(zp) != 1 || zp[0] != op.FixedZeroPoint(lowest(t.DType)) {
					c.report(n, "the output has scale %v and zero point %v, not %g and %d", s, zp, op.FixedScale, op.FixedZeroPoint(lowest(t.DType)))
				}
			}
		})
	}}

func lowest(d tensor.DType) int32 {
	if s := storageOf(d); s != nil {
		return s.low
	}
	return 0
}

func anyNonZero(zp []int32) bool {
	for _, z := range zp {
		if z != 0 {
			return true
		}
	}
	return false
}
