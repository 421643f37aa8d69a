package exec

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// fusedEvals are what ONNX Runtime's optimizer makes of several operators: products with what follows them, Gelu and its kin.
var fusedEvals = []evaluator{
	{op: "FusedConv", build: buildFusedConv},
	{op: "FusedGemm", build: buildFusedGemm},
	{op: "FusedMatMul", build: buildFusedMatMul},
	{op: "Gelu", build: biased((*kernels.Table).Gelu)},
	{op: "BiasGelu", build: biased((*kernels.Table).Gelu)},
	{op: "FastGelu", build: biased((*kernels.Table).GeluTanh)},
	{op: "QuickGelu", build: buildQuickGelu},
}

var infinity = float32(math.Inf(1))

// activation is the function that attribute activation of a fused operator names, applied in place.
func activation(n *graph.Node, alpha, beta string) (func(t *kernels.Table, x []float32), error) {
	var params []float32
	if a := n.Attr("activation_params"); a != nil {
		params = a.Floats
	}
	param := func(name string, i int, def float32) float32 {
		if i < len(params) {
			def = params[i]
		}
		return n.AttrFloat(name, def)
	}
	switch name := n.AttrStr("activation", ""); name {
	case "":
		return func(*kernels.Table, []float32) {}, nil
	case "Relu":
		return func(t *kernels.Table, x []float32) { t.Limits(x, x, 0, infinity) }, nil
	case "Clip":
		lo, hi := param(alpha, 0, -infinity), param(beta, 1, infinity)
		return func(t *kernels.Table, x []float32) { t.Limits(x, x, lo, hi) }, nil
	case "Sigmoid":
		return func(t *kernels.Table, x []float32) { t.Sigmoid(x, x) }, nil
	case "Tanh":
		return func(t *kernels.Table, x []float32) { t.Tanh(x, x) }, nil
	case "HardSigmoid":
		a, b := param(alpha, 0, 0.2), param(beta, 1, 0.5)
		return func(t *kernels.Table, x []float32) { t.HardSigmoid(x, x, a, b) }, nil
	case "LeakyRelu":
		a := param(alpha, 0, 0.01)
		return func(_ *kernels.Table, x []float32) {
			for i, v := range x {
				if v < 0 {
					x[i] = a * v
				}
			}
		}, nil
	default:
		return nil, fmt.Errorf("activation %s is not supported", name)
	}
}

// buildFusedConv is Conv, plus input 3, with an activation.
func buildFusedConv(n *graph.Node, _ int64) (evalFunc, error) {
	act, err := activation(n, "", "")
	return func(c *call) error {
		if err := evalConv(c); err != nil {
			return err
		}
		y := c.outs[0].t
		if c.has(3) {
			z := c.as(3, y.Layout)
			if z.DType != y.DType || !slices.Equal(z.Shape, y.Shape) {
				return fmt.Errorf("input 3, %s, for a result of %s", z.Type(), y.Type())
			}
			kernels.Add(y.F32(), y.F32(), z.F32())
		}
		act(c.run.s.table, y.F32())
		return nil
	}, err
}

// buildFusedGemm is Gemm with an activation.
func buildFusedGemm(n *graph.Node, version int64) (evalFunc, error) {
	act, err := activation(n, "activation_alpha", "activation_beta")
	if err != nil {
		return nil, err
	}
	gemm, err := buildGemm(n, version)
	return func(c *call) error {
		if err := gemm(c); err != nil {
			return err
		}
		act(c.run.s.table, c.outs[0].t.F32())
		return nil
	}, err
}

// buildFusedMatMul is alpha * A' * B', A' being A with its first axis moved behind the batch axes where transBatchA, and the last two
// axes exchanged where transA.
func buildFusedMatMul(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := n.Alpha()
	batch := []bool{n.AttrInt("transBatchA", 0) != 0, n.AttrInt("transBatchB", 0) != 0}
	trans := []bool{n.Gemm().TransA, n.Gemm().TransB}
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		for i, t := range trans {
			if axes := graph.FusedMatMulAxes(len(c.in(i).Shape), batch[i], t); axes != nil {
				if err := c.transpose(i, axes); err != nil {
					return err
				}
			}
		}
		if err := evalMatMul(c); err != nil {
			return err
		}
		if alpha != 1 {
			y := c.outs[0].t.F32()
			kernels.MulScalar(y, y, alpha)
		}
		return nil
	}, nil
}

// transpose puts the transpose of float32 input i in the input's place. That of a constant is made once.
func (c *call) transpose(i int, axes []int) error {
	h := c.refAs(i, tensor.RowMajor)
	t, ok := derived[*tensor.Tensor](c, i)
	if !ok {
		shape, src, own := make([]int, len(axes)), make([]int, len(axes)), rowStrides(h.t.Shape)
		for k, a := range axes {
			shape[k], src[k] = h.t.Shape[a], own[a]
		}
		t = &tensor.Tensor{DType: tensor.Float32, Shape: shape}
		var data []float32
		if c.fixed(i) {
			data = make([]float32, h.t.Len())
		} else {
			var err error
			if data, err = c.scratch(h.t.Len()); err != nil {
				return err
			}
		}
		move{shape: shape, dst: rowStrides(shape), src: src}.run(c.parallel, data, h.t.F32())
		t.Data = data
		derive(c, i, t)
	}
	c.ins[i] = handle{t: t, buf: noBuf, fixed: h.fixed}
	return nil
}

// biased applies a function to input 0, plus input 1 along the last axis if that is present.
func biased(f kernelMap) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x := c.in(0)
		out, err := c.out(0)
		if err != nil {
			return err
		}
		dst := out.F32()
		copy(dst, x.F32())
		if bias := c.in(1); bias != nil {
			if len(x.Shape) == 0 || bias.Len() != x.Shape[len(x.Shape)-1] {
				return fmt.Errorf("bias %s for %s", bias.Type(), x.Type())
			}
			c.run.s.table.AddRow(dst, dst, bias.F32())
		}
		c.parallel(len(dst), 8, func(lo, hi int) { f(c.run.s.table, dst[lo:hi], dst[lo:hi]) })
		return nil
	})
}

// buildQuickGelu is x * sigmoid(alpha*x).
func buildQuickGelu(n *graph.Node, version int64) (evalFunc, error) {
	alpha := n.Alpha()
	return biased(func(t *kernels.Table, dst, a []float32) { t.Swish(dst, a, alpha) })(n, version)
}
