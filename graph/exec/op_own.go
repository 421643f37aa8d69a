package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// ownEvaluator runs an operator that a program brought along. What it returns is copied, so that it may return what it was given.
func ownEvaluator(op *graph.Operator) evalFunc {
	return func(c *call) error {
		in := make([]*tensor.Tensor, len(c.ins))
		for i := range in {
			in[i] = c.in(i)
		}
		out, err := op.Eval(c.node, in)
		if err != nil {
			return err
		}
		for i, v := range c.node.Outputs {
			if v == graph.NoValue {
				continue
			}
			if i >= len(out) || out[i] == nil {
				return fmt.Errorf("its function returned no output %d", i)
			}
			if err := c.takeOwn(i, out[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// takeOwn makes t output i if it is what shape inference said.
func (c *call) takeOwn(i int, t *tensor.Tensor) error {
	if !fits(t, t.Len()) {
		return fmt.Errorf("output %d: its function returned %s whose data are of another length or type", i, t.Type())
	}
	t = t.ToRowMajor()
	if typ := c.typ[i]; typ.dtype != tensor.Undefined && (typ.dtype != t.DType || !slices.Equal(typ.shape, t.Shape)) {
		return fmt.Errorf("output %d: its function returned %s, its inference said %s", i, t.Type(), tensor.TypeString(typ.dtype, typ.shape))
	}
	return c.copyOut(i, t, t.Shape)
}
