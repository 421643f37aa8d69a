package lower

import "fmt"

// Clamp limits integers to [Lo, Hi]: Relu and Clip where they stand alone. Input and output have one encoding.
type Clamp struct {
	Lo, Hi int32
}

// Name implements Op.
func (*Clamp) Name() string { return "Clamp" }

func (o *Clamp) describe() string { return fmt.Sprintf("%d..%d", o.Lo, o.Hi) }

var clampFamily = family{name: "clamp", passes: true, emit: emitClamp, ops: []string{"Relu", "Clip"}}

func emitClamp(c *compiler, u *unit) error {
	id := u.head()
	lo, hi, _, err := c.limits(u.nodes)
	if err != nil {
		return err
	}
	v := c.g.Node(id).Outputs[0]
	for _, f := range c.passing(u) {
		in, err := c.passed(id, 0, f)
		if err != nil {
			return err
		}
		e := *c.program.Tensors[in].Encoding
		qlo, qhi := codeLimits(f.enc, lo, hi)
		var op Op = &Clamp{Lo: qlo, Hi: qhi}
		if e != f.enc {
			if op, err = c.requantize(e, f.enc, qlo, qhi); err != nil {
				return c.fail(id, "%w", err)
			}
		}
		c.unitStep(u, []TensorID{in}, []TensorID{c.define(v, f)}, op)
	}
	return nil
}
