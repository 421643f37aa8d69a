package exec

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
)

// codeProduct is a product of matrices of 8-bit codes, (a-za)*(b-zb) + bias, or a stack of them as MatMul knows it.
type codeProduct struct {
	a      []uint8 // row-major
	as     []int   // its shape
	za, zb []int32 // as zeros returns them: of rows of a, of columns of b
	b      int     // the input with the right-hand side, stored transposed where transB
	transB bool
	bias   []int32 // one per column, or nil
}

// matrixZeros returns the zero points of the rows, or with last of the columns, of the matrices of input i.
func (c *call) matrixZeros(i, zp int, last bool, moved int32) ([]int32, error) {
	s := c.raw(i).Shape
	n := 1
	switch {
	case last && len(s) > 1:
		n = s[len(s)-1]
	case !last && len(s) > 1:
		n = s[len(s)-2]
	}
	return c.zeros(zp, n, moved)
}

// newCodeProduct returns the product of inputs a and b, whose zero points are inputs za and zb.
func (c *call) newCodeProduct(a, za, b, zb int) (p codeProduct, err error) {
	for _, i := range []int{a, b} {
		if err := c.byteCodes(i); err != nil {
			return p, err
		}
	}
	var moved int32
	p = codeProduct{as: c.raw(a).Shape, b: b}
	p.a, moved = c.bytesOf(c.in(a))
	if p.za, err = c.matrixZeros(a, za, false, moved); err != nil {
		return p, err
	}
	p.zb, err = c.matrixZeros(b, zb, true, c.rightMove(b))
	return p, err
}

// rightMove is by how much the kernels move the codes of a right-hand side.
func (c *call) rightMove(i int) int32 {
	if c.raw(i).DType == tensor.Uint8 {
		return -128
	}
	return 0
}

// packCodes packs k rows of n codes, or with trans n rows of k.
func (c *call) packCodes(g *kernels.GemmU8S8, data any, at, k, n int, trans bool) {
	ldb := n
	if trans {
		ldb = k
	}
	switch d := data.(type) {
	case []int8:
		c.run.s.table.RepackGemmU8S8(g, d[at:][:k*n], k, n, ldb, trans)
	case []uint8:
		c.run.s.table.RepackGemmU8U8(g, d[at:][:k*n], k, n, ldb, trans)
	}
}

// multiplyCodes computes p.
func (c *call) multiplyCodes(p *codeProduct, out *codeResult) error {
	as, bs, b := p.as, c.raw(p.b).Shape, c.in(p.b).Data
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	if len(as) < 2 || len(bs) < 2 {
		return fmt.Errorf("a product of a scalar")
	}
	ra, rb := len(as)-2, len(bs)-2
	m, k, n := as[ra], bs[rb], bs[rb+1]
	if p.transB {
		k, n = n, k
	}
	if as[ra+1] != k {
		return fmt.Errorf("inner dimensions %d and %d differ", as[ra+1], k)
	}
	if len(out.scale.Factor) > 0 && len(out.scale.Factor) != n || p.bias != nil && len(p.bias) != n {
		return fmt.Errorf("scales or bias do not fit %d columns", n)
	}
	if tensor.Count(bs[:rb]) == 1 { // one right-hand side: all rows at once
		g, ok := derived[*kernels.GemmU8S8](c, p.b)
		if !ok {
			if g = &c.run.codes.right; c.fixed(p.b) {
				g = new(kernels.GemmU8S8)
			}
			c.packCodes(g, b, 0, k, n, p.transB)
			derive(c, p.b, g)
		}
		c.multiplyPacked(p, g, p.a, tensor.Count(as[:ra+1]), out.from(0))
		out.finish(c)
		return nil
	}
	lead, err := tensor.Broadcast(as[:ra], bs[:rb])
	if err != nil {
		return err
	}
	sa := alignedStrides(&tensor.Tensor{Shape: as[:ra]}, len(lead), -1)
	sb := alignedStrides(&tensor.Tensor{Shape: bs[:rb]}, len(lead), -1)
	it, g := newCounter(lead, 0), &c.run.codes.right
	for i := range tensor.Count(lead) {
		c.packCodes(g, b, it.dot(sb)*k*n, k, n, p.transB)
		c.multiplyPacked(p, g, p.a[it.dot(sa)*m*k:][:m*k], m, out.from(i*m*n))
		it.next()
	}
	out.finish(c)
	return nil
}

// multiplyPacked multiplies m rows of codes by a packed matrix.
func (c *call) multiplyPacked(p *codeProduct, g *kernels.GemmU8S8, a []uint8, m int, out kernels.Output) {
	k, n := g.Size()
	mem, sums := &c.run.codes, g.Sums()
	even := len(p.za) == 1 && len(p.zb) == 1
	terms := kernels.Terms{Column: p.bias}
	if !even || p.zb[0] != 0 {
		mem.row = resize(mem.row, m)
		c.parallel(m, k, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				mem.row[i] = kernels.SumBytes(a[i*k:][:k])
			}
		})
	}
	if !even {
		out = unevenZeros(k, p.za, p.zb, mem.row[:m], sums, out)
		g.Run(c.run.s.par, a, k, m, terms, out)
		return
	}
	za, zb := p.za[0], p.zb[0]
	mem.column = resize(mem.column, n)
	for j := range mem.column {
		mem.column[j] = int32(k)*za*zb - za*sums[j]
		if p.bias != nil {
			mem.column[j] += p.bias[j]
		}
	}
	if terms.Column = mem.column; zb != 0 {
		for i := range mem.row {
			mem.row[i] *= -zb
		}
		terms.Row = mem.row
	}
	g.Run(c.run.s.par, a, k, m, terms, out)
}
