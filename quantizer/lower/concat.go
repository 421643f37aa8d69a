package lower

import (
	"strings"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// Concat joins tensors along Axis, each brought to the encoding of the output first.
type Concat struct {
	Axis int // counted from the front
	// Rescale has an entry for every input; nil for one that has the encoding of the output already.
	Rescale []*qmath.Rescale
	Lo, Hi  int32 // limits of a fused activation, else those of the encoding
}

// Name implements Op.
func (*Concat) Name() string { return "Concat" }

func (o *Concat) describe() string {
	var parts []string
	for _, r := range o.Rescale {
		if r == nil {
			parts = append(parts, "as is")
		} else {
			parts = append(parts, describeRescale(*r))
		}
	}
	return strings.Join(parts, ", ")
}

var concatFamily = family{name: "concat", passes: true, emit: emitConcat, ops: []string{"Concat"}}

func emitConcat(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	v := c.g.Node(u.last()).Outputs[0]
	axis, _ := graph.Axis(n.Axis(), len(c.g.Value(n.Outputs[0]).Shape))
	lo, hi, ok, err := c.limits(u.acts)
	if err != nil {
		return err
	}
	if !ok {
		return c.fail(u.acts[0], "%s cannot be computed by limits behind Concat", c.g.Node(u.acts[0]).Op)
	}
	for _, f := range c.passing(u) {
		op := &Concat{Axis: axis}
		op.Lo, op.Hi = codeLimits(f.enc, lo, hi)
		var in []TensorID
		for i, x := range n.Inputs {
			if x == graph.NoValue {
				continue
			}
			t, err := c.passed(n.ID, i, f)
			if err != nil {
				return err
			}
			in = append(in, t)
			var r *qmath.Rescale
			if e := *c.program.Tensors[t].Encoding; e != f.enc {
				q, err := c.requantize(e, f.enc, op.Lo, op.Hi)
				if err != nil {
					return c.fail(n.ID, "input %d: %w", i, err)
				}
				r = &q.Rescale
			}
			op.Rescale = append(op.Rescale, r)
		}
		c.unitStep(u, in, []TensorID{c.define(v, f)}, op)
	}
	return nil
}
