package cpu

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/program/steps"
)

// matrices is a Gemm or MatMul. The left side is one matrix, or a stack of them that the right side has too.
type matrices struct {
	*linear
	transB bool
	fixed  *kernels.GemmU8S8 // constant right side
	shape  []int             // of the output

	// The run at hand.
	stack int // products
	rows  int // of each, with
	k, n  int // sums of k, n of them in a row
	left  operand
	right operand
	sums  []int32                                // of the rows of the left side, where they are needed and it is one matrix
	plain func(p *product, par kernels.Parallel) // toOutputs
}

// operand is a stack of matrices of bytes.
type operand struct {
	codes []uint8
	at    []int // where each begins
	ld    int   // from row to row, or where it is transposed from column to column
	trans bool
}

// newMatrices returns nil for what the reference has to do: a transposed left side, constant stacks.
func newMatrices(l *linear) kernel {
	c := &matrices{linear: l}
	c.plain = c.toOutputs
	if l.op.Kind == "Gemm" {
		if l.node.Gemm().TransA {
			return nil
		}
		c.transB = l.node.Gemm().TransB
	}
	if w := l.op.Weights; w != nil {
		if len(w.Codes.Shape) != 2 {
			return nil
		}
		k, n := w.Codes.Shape[0], w.Codes.Shape[1]
		ld := n
		if c.transB {
			k, n = n, k
		}
		c.fixed = l.table.PackGemmU8S8(l.weights, k, n, ld, c.transB)
		l.weights = nil
		c.setColumns(c.fixed.Sums(), n, k, l.wzero)
		return c
	}
	y := &l.p.Tensors[l.s.Inputs[1]]
	// Bytes are taken less 128: the zero point likewise.
	l.wzero = y.Encoding.ZeroPoint + steps.Raised(y.DType) - 128
	return c
}

func (c *matrices) run(ctx context.Context, s *step, m *memory) error {
	if err := c.begin(s, m); err != nil {
		return err
	}
	if err := c.outputs(s, m, c.shape, false, c.n); err != nil {
		return err
	}
	c.multiply(c.plain)
	return c.finish(ctx, s, m, false)
}

func (c *matrices) toOutputs(p *product, par kernels.Parallel) {
	p.run(par, 0, c.rows, c.outputAt(p.number*c.rows*c.n))
}

// begin reads the operands of a run.
func (c *matrices) begin(s *step, m *memory) error {
	x := s.in[0]
	rank := len(x.shape)
	if rank < 2 || len(x.codes) == 0 {
		return errSlow
	}
	c.k = x.shape[rank-1]
	if c.fixed != nil {
		x = s.rowMajor(m, x)
		k, n := c.fixed.Size()
		if k != c.k {
			return fmt.Errorf("shapes %v and %v cannot be multiplied", x.shape, c.op.Weights.Codes.Shape)
		}
		c.stack, c.rows, c.n, c.left = 1, len(x.codes)/k, n, operand{codes: x.codes, at: c.left.whole(), ld: k}
	} else if err := c.beginStack(s, m, x); err != nil {
		return err
	}
	c.sums = nil
	if c.wzero != 0 && c.stack == 1 {
		c.sums = s.in[0].rowSums(c.e.par, c.left, c.rows, c.k)
	}
	c.shape = append(append(c.shape[:0], x.shape[:rank-1]...), c.n)
	return nil
}

// beginStack reads the operands of a product of two tensors.
func (c *matrices) beginStack(s *step, m *memory, x *value) error {
	y := s.in[1]
	rank := len(y.shape)
	if rank < 2 || len(y.codes) == 0 || c.op.Bias != nil && c.op.Kind != "Gemm" {
		return errSlow
	}
	k, n := y.shape[rank-2], y.shape[rank-1]
	if c.transB {
		k, n = n, k
	}
	if k != c.k {
		return fmt.Errorf("shapes %v and %v cannot be multiplied", x.shape, y.shape)
	}
	lead := x.shape[:len(x.shape)-2]
	switch c.stack, c.rows, c.n = tensor.Count(y.shape[:rank-2]), x.shape[len(x.shape)-2], n; {
	case c.stack == 1 && rank <= len(x.shape):
		x = s.rowMajor(m, x)
		c.rows = len(x.codes) / k
		c.left = operand{codes: x.codes, at: c.left.whole(), ld: k}
	case slices.Equal(lead, y.shape[:rank-2]):
		if !c.left.read(x) || c.left.trans {
			c.left.read(s.rowMajor(m, x))
		}
	default:
		return errSlow // stacks of different shapes
	}
	if !c.right.read(y) {
		c.right.read(s.rowMajor(m, y))
	}
	c.right.trans = c.right.trans != c.transB
	return nil
}

// whole says that there is one matrix.
func (o *operand) whole() []int { return append(o.at[:0], 0) }

// read reads the last two axes of a value as matrices; false where neither rows nor columns lie together.
func (o *operand) read(v *value) bool {
	rank := len(v.shape)
	if v.view == nil && v.last && v.moved() {
		return false
	}
	strides := v.strides()
	row, column := strides[rank-2], strides[rank-1]
	switch {
	case column == 1:
		o.ld, o.trans = row, false
	case row == 1:
		o.ld, o.trans = column, true
	default:
		return false
	}
	o.codes, o.at = v.codes, append(o.at[:0], 0)
	for axis := rank - 3; axis >= 0; axis-- { // the last axis runs fastest
		n := len(o.at)
		for i := 1; i < v.shape[axis]; i++ {
			for _, at := range o.at[:n] {
				o.at = append(o.at, at+i*strides[axis])
			}
		}
	}
	return true
}

// product is one of a stack.
type product struct {
	number int
	packed *kernels.GemmU8S8
	a      []uint8
	lda    int
	terms  kernels.Terms
	work   *scratch
}

// run sends rows of the product to an output, whose row 0 is the first of them.
func (p *product) run(par kernels.Parallel, first, rows int, out kernels.Output) {
	t := p.terms
	if t.Row != nil {
		t.Row = t.Row[first:]
	}
	p.packed.Run(par, p.a[first*p.lda:], p.lda, rows, t, out)
}

// stackShared is how many products of a stack are shared among threads one by one; fewer are shared row by row.
const stackShared = 4

// multiply calls f for every product of the stack, with what may share its work.
func (c *matrices) multiply(f func(p *product, par kernels.Parallel)) {
	if c.stack < stackShared {
		for i := range c.stack {
			c.one(i, c.e.par, f)
		}
		return
	}
	c.e.par.Run(c.stack, func(i int) { c.one(i, nil, f) })
}

func (c *matrices) one(i int, par kernels.Parallel, f func(p *product, par kernels.Parallel)) {
	w := c.e.borrow()
	p := &w.product
	*p = product{number: i, packed: c.fixed, a: c.left.codes[c.left.at[i]:], lda: c.left.ld, terms: kernels.Terms{Column: c.column}, work: w}
	if c.fixed == nil {
		p.packed = &w.packed
		c.table.RepackGemmU8U8(p.packed, c.right.codes[c.right.at[i]:], c.k, c.n, c.right.ld, c.right.trans)
		w.column = c.columnTerms(w.column, p.packed.Sums(), c.k, c.wzero)
		p.terms.Column = w.column
	}
	if c.wzero != 0 {
		sums := c.sums
		if sums == nil {
			w.sums = sumRows(nil, w.sums, operand{codes: p.a, ld: p.lda}, c.rows, c.k)
			sums = w.sums
		}
		w.row = sized(w.row, c.rows)
		for i, sum := range sums {
			w.row[i] = -c.wzero * sum
		}
		p.terms.Row = w.row
	}
	f(p, par)
	c.e.giveBack(w)
}

// sumRows returns the sums of the rows of a matrix.
func sumRows(par kernels.Parallel, dst []int32, a operand, rows, k int) []int32 {
	dst = sized(dst, rows)
	share(par, rows, max(1, byteGrain/max(k, 1)), func(i int) {
		lo, hi := partOf(rows, max(1, byteGrain/max(k, 1)), i)
		for i := lo; i < hi; i++ {
			dst[i] = kernels.SumBytes(a.codes[i*a.ld:][:k])
		}
	})
	return dst
}
