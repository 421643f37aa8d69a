package cpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// linear is what sums of products have in common. Input codes are bytes, weights are int8: those of uint8 are moved down by 128,
// and their zero points with them. The terms of zero points are in Column and Row of the kernels' Terms.
type linear struct {
	e        *engine
	p        *lower.Program
	s        *lower.Step
	op       *lower.Linear
	node     *graph.Node
	table    *kernels.Table
	zero     int32 // zero point of the input, as a byte
	weights  []int8
	wzero    int32   // zero point of all weights, as int8
	column   []int32 // terms of columns
	row      []int32 // terms of rows, where the right side has a zero point
	sinks    []*sink
	out      kernels.Output // all sinks
	function *exec.Runner
	feeds    map[string]*tensor.Tensor
	results  []*tensor.Tensor
	coders   []*coder // of outputs behind the function
}

// newLinear returns the kernel of a step, nil where the reference has to do it.
func newLinear(e *engine, s *lower.Step, op *lower.Linear) (kernel, error) {
	p := e.program
	x := &p.Tensors[s.Inputs[0]]
	for _, id := range append(append([]lower.TensorID(nil), s.Inputs...), s.Outputs...) {
		if id != lower.NoTensor && p.Tensors[id].Quantized() && p.Tensors[id].DType.Bits() != 8 {
			return nil, nil
		}
	}
	l := &linear{e: e, p: p, s: s, op: op, node: p.Graph.Node(s.Node), table: e.table, zero: x.Encoding.ZeroPoint + steps.Raised(x.DType)}
	if l.zero < 0 || l.zero > 255 {
		return nil, nil
	}
	if p.Profile.Saturates && steps.Pairs(p, s, op) {
		l.table = e.table.Saturating()
	}
	if w := op.Weights; w != nil {
		if !l.takeWeights(w) {
			return nil, nil
		}
	}
	if op.Func != nil {
		session, err := exec.New(op.Rows(), exec.Options{Threads: e.threads, Parallel: e.par})
		if err != nil {
			return nil, err
		}
		l.function, l.feeds, l.results = session.NewRunner(), map[string]*tensor.Tensor{}, make([]*tensor.Tensor, 1)
		for _, id := range s.Outputs {
			var c *coder
			if t := &p.Tensors[id]; t.Quantized() {
				c = newCoder(e, id, p.Profile.Quantizer(t.Encoding.Grid()), t.DType)
			}
			l.coders = append(l.coders, c)
		}
	}
	switch {
	case op.Kind == "Conv":
		return newConv(l)
	case op.Kind == "Gemm" || op.Kind == "MatMul":
		return newMatrices(l), nil
	}
	return nil, nil
}

// takeWeights brings weights to int8. It returns false where channels have different zero points.
func (l *linear) takeWeights(w *lower.Weights) bool {
	shift := int32(0)
	if w.Codes.DType == tensor.Uint8 {
		shift = 128
	}
	for _, z := range w.ZeroPoint {
		if z != w.ZeroPoint[0] {
			return false
		}
	}
	if len(w.ZeroPoint) > 0 {
		l.wzero = w.ZeroPoint[0] - shift
	}
	codes := w.Codes.Integers()
	l.weights = make([]int8, len(codes))
	for i, q := range codes {
		l.weights[i] = int8(q - shift)
	}
	return true
}

// setColumns computes the terms of columns of constant weights.
func (l *linear) setColumns(sums []int32, n, k int, wzero int32) {
	l.column = l.columnTerms(l.column, sums[:n], k, wzero)
}

// columnTerms writes the terms of columns from the sums of the right side over k elements each.
func (l *linear) columnTerms(dst, sums []int32, k int, wzero int32) []int32 {
	dst = sized(dst, len(sums))
	for j, sum := range sums {
		dst[j] = -l.zero*sum + int32(k)*l.zero*wzero
		if b := l.op.Bias; b != nil {
			dst[j] += int32(b[j%len(b)])
		}
	}
	return dst
}

// setRows computes the terms of rows from sums of the left side.
func (l *linear) setRows(wzero int32) []int32 {
	for i := range l.row {
		l.row[i] *= -wzero
	}
	return l.row
}

// rowSums makes room for sums of rows.
func (l *linear) rowSums(n int) []int32 {
	l.row = sized(l.row, n)
	return l.row
}

// outputs takes memory for the outputs, rows positions of n channels, and points the sinks at it. residual is nil where there is
// none.
func (l *linear) outputs(st *step, m *memory, shape []int, last bool, n int) error {
	if l.sinks == nil || l.sinks[0].cols != n {
		l.makeSinks(n)
	}
	var residual *value
	if l.op.Residual {
		residual = st.in[len(st.in)-1]
		if !slices.Equal(residual.shape, shape) {
			return errSlow
		}
		residual = st.laid(m, residual, last)
	}
	for _, k := range l.sinks {
		switch {
		case k.real():
			k.v = m.floats(shape)
		default:
			k.v = m.codes(k.dtype, shape, last)
		}
		k.bind(residual)
	}
	return nil
}

// finish does what is left after the sums: functions, and the layout of real outputs.
func (l *linear) finish(ctx context.Context, st *step, m *memory, last bool) error {
	var real *value
	if k := l.sinks[0]; k.real() {
		real = k.v
		if l.function != nil {
			if err := l.apply(ctx, k); err != nil {
				return err
			}
		}
	}
	at := 0
	for k, id := range st.Outputs {
		switch t := &l.p.Tensors[id]; {
		case !t.Quantized():
			out := real
			if last && real.moved() {
				out = m.floats(real.shape)
				n, c, size := real.planes()
				tensor.TransposePlanes(out.t.F32(), real.t.F32(), n, size, c)
			}
			st.out[k] = out
		case l.function != nil:
			v := m.codes(t.DType, real.shape, last)
			l.coders[k].run(l.e.par, v.codes, real.t.F32())
			if err := l.coders[k].failed(t.Name); err != nil {
				return err
			}
			st.out[k] = v
		default:
			for l.sinks[at].real() {
				at++
			}
			st.out[k] = l.sinks[at].v
			at++
		}
	}
	return nil
}

// apply computes the function of real numbers in place.
func (l *linear) apply(ctx context.Context, k *sink) error {
	g := l.op.Func
	x := k.v.t.F32()
	l.feeds[g.Value(g.Inputs[0]).Name] = tensor.FromF32(x, len(x)/k.cols, k.cols)
	if err := l.function.RunInto(ctx, l.feeds, nil, l.results); err != nil {
		return err
	}
	copy(x, l.results[0].F32())
	return nil
}
