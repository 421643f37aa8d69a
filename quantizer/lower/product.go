package lower

import (
	"fmt"

	"qwb/kernels/qmath"
)

// Product is Mul: the product of two tensors of integers, element by element with broadcasting.
type Product struct {
	Product qmath.Product
}

// Name implements Op.
func (*Product) Name() string { return "Mul" }

func (o *Product) describe() string {
	y := o.Product.Y
	return fmt.Sprintf("in %d..%d", y.QMin, y.QMax)
}

var productFamily = family{name: "product", emit: emitProduct, ops: []string{"Mul"}}

func emitProduct(c *compiler, u *unit) error {
	encs, in, err := c.operands(u, 0, 2)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	p, err := c.profile.PrepareProduct(encs[0].Grid(), encs[1].Grid(), y.Grid())
	if err != nil {
		if encs[0].DType().Bits() == 16 {
			return c.refuse(u, "%w", err)
		}
		return c.fail(u.head(), "%w", err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, &Product{Product: p})
	return nil
}
