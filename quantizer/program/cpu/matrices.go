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

	moving []kernels.GemmU8S8 // right sides that are computed, one for each pair of the stack
	right  []uint8            // their codes, of k x n each in rows of ld
	k, n   int
	ld     int
	pack   func(i int)
}

// newMatrices returns nil for what the reference has to do: a transposed left side, constant stacks.
func newMatrices(l *linear) kernel {
	c := &matrices{linear: l}
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
	c.pack = c.packOne
	return c
}

func (c *matrices) run(ctx context.Context, s *step, m *memory) error {
	x := s.in[0]
	if len(x.shape) < 2 || len(x.codes) == 0 {
		return errSlow
	}
	x = s.rowMajor(m, x)
	k := x.shape[len(x.shape)-1]
	rows := len(x.codes) / k
	if c.fixed != nil {
		fk, n := c.fixed.Size()
		if fk != k {
			return fmt.Errorf("shapes %v and %v cannot be multiplied", x.shape, c.op.Weights.Codes.Shape)
		}
		c.shape = append(append(c.shape[:0], x.shape[:len(x.shape)-1]...), n)
		if err := c.outputs(s, m, c.shape, false, n); err != nil {
			return err
		}
		c.fixed.Run(c.e.par, x.codes, k, rows, c.terms(x.codes, rows, k), c.out)
		return c.finish(ctx, s, m, false)
	}
	return c.runStack(ctx, s, m, x, k)
}

// terms returns the terms of a product with left side a.
func (c *matrices) terms(a []uint8, rows, k int) kernels.Terms {
	if c.wzero == 0 {
		return kernels.Terms{Column: c.column}
	}
	for i := range c.rowSums(rows) {
		sum := int32(0)
		for _, q := range a[i*k:][:k] {
			sum += int32(q)
		}
		c.row[i] = sum
	}
	return kernels.Terms{Column: c.column, Row: c.setRows(c.wzero)}
}

// runStack multiplies two tensors, pair after pair.
func (c *matrices) runStack(ctx context.Context, s *step, m *memory, x *value, k int) error {
	y := s.in[1]
	rank := len(y.shape)
	if rank < 2 || len(y.codes) == 0 || c.op.Bias != nil && c.op.Kind != "Gemm" {
		return errSlow
	}
	y = s.rowMajor(m, y)
	yk, n := y.shape[rank-2], y.shape[rank-1]
	ld := n
	if c.transB {
		yk, n = n, yk
	}
	if yk != k {
		return fmt.Errorf("shapes %v and %v cannot be multiplied", x.shape, y.shape)
	}
	stack, rows := tensor.Count(y.shape[:rank-2]), x.shape[len(x.shape)-2]
	if stack == 1 && rank <= len(x.shape) {
		rows = len(x.codes) / k
	} else if !slices.Equal(x.shape[:len(x.shape)-2], y.shape[:rank-2]) {
		return errSlow // stacks of different shapes
	}
	c.shape = append(append(c.shape[:0], x.shape[:len(x.shape)-1]...), n)
	if err := c.outputs(s, m, c.shape, false, n); err != nil {
		return err
	}
	c.right, c.k, c.n, c.ld = y.codes, k, n, ld
	for len(c.moving) < stack {
		c.moving = append(c.moving, kernels.GemmU8S8{})
	}
	share(c.e.par, stack, 1, c.pack)
	c.right = nil
	for i := range stack {
		c.setColumns(c.moving[i].Sums(), n, k, c.wzero)
		for _, k := range c.sinks {
			k.window(i * rows * n)
		}
		a := x.codes[i*rows*k:][:rows*k]
		c.moving[i].Run(c.e.par, a, k, rows, c.terms(a, rows, k), c.out)
	}
	return c.finish(ctx, s, m, false)
}

// packOne packs the right sides of a part of the stack.
func (c *matrices) packOne(part int) {
	lo, hi := partOf(len(c.right)/(c.k*c.n), 1, part)
	for i := lo; i < hi; i++ {
		c.table.RepackGemmU8U8(&c.moving[i], c.right[i*c.k*c.n:][:c.k*c.n], c.k, c.n, c.ld, c.transB)
	}
}

// window moves the sink's outputs to begin at element at.
func (k *sink) window(at int) {
	k.first = at
	switch {
	case k.scaled != nil:
		k.scaled.Dst = k.v.codes[at:]
		if k.residual != nil {
			k.scaled.Residual = k.residual.codes[at:]
		}
	case k.f32 != nil:
		k.f32.Dst = k.v.t.F32()[at:]
	case k.shifted != nil:
		k.shifted.Dst = k.v.codes[at:]
	}
}
