package exec

import (
	"slices"
	"weak"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// gemmEvals are the matrix products.
var gemmEvals = []evaluator{
	{"Gemm", buildGemm},
	{"MatMul", simple(evalMatMul)},
}

// buildGemm is alpha * A' * B' + beta * C, C broadcast to the product. A' is A or its transpose.
func buildGemm(n *graph.Node, _ int64) (evalFunc, error) {
	g := n.Gemm()
	alpha, beta, transA, transB := g.Alpha, g.Beta, g.TransA, g.TransB
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		a, b := c.in(0), c.in(1)
		out, err := c.out(0)
		if err != nil {
			return err
		}
		cols, k := out.Shape[len(out.Shape)-1], a.Shape[len(a.Shape)-1]
		m := tensor.Count(out.Shape[:len(out.Shape)-1])
		left := a.F32()
		if transA {
			k = a.Shape[0]
			if left, err = c.scratch(a.Len()); err != nil {
				return err
			}
			move{shape: []int{m, k}, dst: []int{k, 1}, src: []int{1, m}}.run(c.parallel, left, a.F32())
		}
		g := c.packB(b, k, cols, transB)
		bias := c.in(2)
		if alpha == 1 && (bias == nil || beta == 1 && IsColumn(bias.Shape, out.Shape, tensor.RowMajor)) {
			ep := c.epilogue(out.Layout, true)
			ep.Done = c.shown(out, cols)
			if c.waits(ep) && !transA {
				g.AddTo(&c.run.batch, out.F32(), cols, left, k, m, ep)
				return nil
			}
			g.Run(c.run.s.par, out.F32(), cols, left, k, m, ep)
			return nil
		}
		g.Run(c.run.s.par, out.F32(), cols, left, k, m, kernels.Epilogue{})
		if alpha != 1 {
			kernels.MulScalar(out.F32(), out.F32(), alpha)
		}
		if bias != nil {
			addScaled(c, out, bias, beta)
		}
		if lo, hi, any := c.limits(); any {
			c.run.s.table.Limits(out.F32(), out.F32(), lo, hi)
		}
		return nil
	}, nil
}

// addScaled adds beta*bias, broadcast, to out.
func addScaled(c *call, out, bias *tensor.Tensor, beta float32) {
	zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, bias), out.F32(), out.F32(), bias.F32(), 1,
		func(x, y float32) float32 { return x + float32(beta*y) })
}

// packB packs input 1 as the right-hand side of a product: once if it is constant, else into memory that the runner keeps.
func (c *call) packB(b *tensor.Tensor, k, n int, trans bool) *kernels.GemmF32 {
	ldb := n
	if trans {
		ldb = k
	}
	if g, ok := derived[*kernels.GemmF32](c, 1); ok {
		return g
	}
	if c.fixed(1) {
		s := c.run.s
		key := productKey{weak.Make(c.raw(1)), k, n, trans}
		g := s.products.find(key)
		if g == nil {
			g = s.table.PackGemmF32(b.F32(), k, n, ldb, trans)
			s.products.keep(key, g, len(s.steps))
		}
		return derive(c, 1, g)
	}
	return c.repack(b.F32(), k, n, ldb, trans)
}

// repack packs a matrix that is not constant.
func (c *call) repack(b []float32, k, n, ldb int, trans bool) *kernels.GemmF32 {
	g := &c.run.products[c.index]
	c.run.s.table.RepackGemmF32(g, b, k, n, ldb, trans)
	return g
}

// evalMatMul multiplies the last two axes of its operands; the axes before them are broadcast. A vector on the left is a
// row, on the right a column.
func evalMatMul(c *call) error {
	if err := c.floats(); err != nil {
		return err
	}
	a, b := c.in(0), c.in(1)
	out, err := c.out(0)
	if err != nil {
		return err
	}
	as, bs, err := factorShapes(a.Shape, b.Shape)
	if err != nil {
		return err
	}
	ra, rb := len(as)-2, len(bs)-2
	m, k, n := as[ra], as[ra+1], bs[rb+1]
	par := c.run.s.par
	if tensor.Count(bs[:rb]) == 1 { // one right-hand side: all rows at once
		rows := tensor.Count(as[:ra+1])
		ep := c.epilogue(out.Layout, true)
		ep.Done = c.shown(out, n)
		g := c.packB(b, k, n, false)
		if c.waits(ep) {
			g.AddTo(&c.run.batch, out.F32(), n, a.F32(), k, rows, ep)
			return nil
		}
		g.Run(par, out.F32(), n, a.F32(), k, rows, ep)
		return nil
	}
	batch := slices.Clone(out.Shape)
	if len(a.Shape) > 1 {
		batch = batch[:len(batch)-1]
	}
	if len(b.Shape) > 1 {
		batch = batch[:len(batch)-1]
	}
	sa := alignedStrides(&tensor.Tensor{Shape: as[:ra]}, len(batch), -1)
	sb := alignedStrides(&tensor.Tensor{Shape: bs[:rb]}, len(batch), -1)
	count, ep := tensor.Count(batch), c.epilogue(out.Layout, false)
	if count >= manyProducts {
		par = nil // the products are shared instead
	}
	done := c.shown(out, n)
	some := func(lo, hi int) {
		ep := ep
		g := c.run.borrowProduct()
		it := newCounter(batch, lo)
		for i := lo; i < hi; i++ {
			if done != nil {
				ep.Done = func(from, to int) { done(i*m+from, i*m+to) }
			}
			c.run.s.table.RepackGemmF32(g, b.F32()[it.dot(sb)*k*n:][:k*n], k, n, n, false)
			g.Run(par, out.F32()[i*m*n:][:m*n], n, a.F32()[it.dot(sa)*m*k:][:m*k], k, m, ep)
			it.next()
		}
		c.run.packed.Put(g)
	}
	if par != nil {
		some(0, count)
	} else {
		c.parallel(count, m*n*k/8, some)
	}
	return nil
}

// manyProducts is how many products are worth sharing among threads whole.
const manyProducts = 4

// borrowProduct returns memory for a right-hand side, to be put back into packed.
func (r *runnerState) borrowProduct() *kernels.GemmF32 {
	if g, ok := r.packed.Get().(*kernels.GemmF32); ok {
		return g
	}
	return new(kernels.GemmF32)
}
