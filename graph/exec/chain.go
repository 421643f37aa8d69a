package exec

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// A chain is a run of elementwise operators in which each reads what the one before computed and nobody else does. Where
// nobody looks at the values between, the first step computes the last one's result, block by block while the block is in the
// cache, and the others pass it on. The kernels and their order are those of the
// single steps, so the results are the same to the bit.

// element is an elementwise operator on float32 as kernels: of one number, or of two.
type element struct {
	one kernelMap // nil for two
	two arithOp
}

// chainBlock is how many elements are taken through a chain at a time.
const chainBlock = 1 << 12

// lookBlock is that of a chain somebody looks at, in whole rows.
const lookBlock = 1 << 14

// findChains links the steps that can follow each other in a chain.
func (s *sessionState) findChains() {
	s.birth = make([]int32, s.g.NumValues())
	fill(s.birth, -1)
	for i := range s.steps {
		st := &s.steps[i]
		st.element = elementOf(s.g, st.node, s.constant)
		for _, v := range st.node.Outputs {
			if v != graph.NoValue {
				s.birth[v] = int32(i)
			}
		}
	}
	for i := range s.steps {
		n := s.steps[i].node
		if s.steps[i].isConst || len(n.Outputs) != 1 || n.Outputs[0] == graph.NoValue || s.steps[i].element == nil {
			continue
		}
		use, ok := s.g.SoleUse(n.Outputs[0])
		if !ok {
			continue
		}
		k := s.stepOf[use.Node]
		if k < 0 { // it computes nothing
			continue
		}
		if next := &s.steps[k]; next.element != nil && !next.bounded && !next.isConst && len(next.node.Outputs) == 1 {
			s.steps[i].next, next.carrier = next, use.Index
		}
	}
}

// elementOf returns what a node computes of each element, nil if it is not elementwise.
func elementOf(g *graph.Graph, n *graph.Node, constant func(graph.ValueID) *tensor.Tensor) *element {
	if !n.IsONNX() {
		return nil
	}
	version := g.Opset(n.Domain)
	if f := kernelOf(n); f != nil {
		return &element{one: f}
	}
	switch op, ok := chainArith[n.Op]; {
	case ok && version >= 7 && len(n.Inputs) == 2:
		return &element{two: op}
	case n.Op == "Pow" && len(n.Inputs) == 2 && isTwo(constant(n.Inputs[1])):
		return &element{one: square32}
	}
	if lo, hi, ok := graph.LimitsOf(n, g.Opset(""), constant); ok {
		return &element{one: func(t *kernels.Table, dst, a []float32) { t.Limits(dst, a, lo, hi) }}
	}
	return nil
}

// Element is an operator that computes every float32 number of its result from those at the same place, as an executor computes it.
type Element struct{ element *element }

// ElementOf returns node n of g as such an operator; false if it is none, or one that executors compute in another way.
func ElementOf(g *graph.Graph, n *graph.Node) (Element, bool) {
	e := elementOf(g, n, g.Const)
	return Element{e}, e != nil
}

// Operands is how many tensors it reads, 1 or 2.
func (e Element) Operands() int {
	if e.element.one != nil {
		return 1
	}
	return 2
}

// One is dst[i] = f(a[i]); dst may be a.
func (e Element) One(t *kernels.Table, dst, a []float32) { e.element.one(t, dst, a) }

// Two is dst[i] = a[i] op b[i]; dst may be one of them.
func (e Element) Two(t *kernels.Table, dst, a, b []float32) { vectorF32(t, e.element.two, dst, a, b) }

// Right is dst[i] = a[i] op b; dst may be a.
func (e Element) Right(t *kernels.Table, dst, a []float32, b float32) {
	scalarF32(t, e.element.two, dst, a, b)
}

// Left is dst[i] = a op b[i]; dst may be b.
func (e Element) Left(t *kernels.Table, dst []float32, a float32, b []float32) {
	scalarLeftF32(t, e.element.two, dst, a, b)
}

// Adds reports whether it is a sum of two.
func (e Element) Adds() bool { return e.element.one == nil && e.element.two == opAdd }

var chainArith = map[string]arithOp{"Add": opAdd, "Sub": opSub, "Mul": opMul, "Div": opDiv}

func square32(t *kernels.Table, dst, a []float32) { t.Mul(dst, a, a) }

func isTwo(t *tensor.Tensor) bool {
	if t == nil || t.Len() != 1 {
		return false
	}
	v, err := float64s(t)
	return err == nil && v[0] == 2
}

// operand is the other operand of a link: one number, one per element, the same for every period elements, or one for each
// run of elements.
type operand struct {
	data        []float32
	period, run int // run 1 with the period of data's length repeats data; period 0: no other operand
}

// link is one operator of a chain that is being computed.
type link struct {
	step    *step
	element *element
	other   operand
	left    bool // the other operand is the left one
	limit   *limit
	// look and bounded are the nodes whose outputs the results are, before and after the limit, if somebody looks at them.
	look, bounded *graph.Node
}

// follow fills r.chain with what step i computes of its followers' work: links, the first being that of the step itself. An
// operator of two numbers may be a chain of its own: that is shorter than meeting the operands axis by axis.
func (r *runnerState) follow(i int) {
	r.chain = r.chain[:0]
	st := &r.s.steps[i]
	if st.element == nil {
		return
	}
	t, k := r.chainInput(st)
	if t == nil {
		return
	}
	own, ok := r.linkOf(st, i, k, t.Shape, t.Layout)
	if !ok {
		return
	}
	r.chain = append(r.chain, own)
	for st.next != nil && !r.watched[st.node.Outputs[0]] {
		st = st.next
		l, ok := r.linkOf(st, i, st.carrier, t.Shape, t.Layout)
		if !ok {
			break
		}
		r.chain = append(r.chain, l)
	}
	if len(r.chain) == 1 && own.element.one != nil && !r.showsEarly(own.step.node.Outputs[0]) {
		r.chain = r.chain[:0] // its evaluator does the same
	}
}

// chainInput returns the input whose elements a chain begins with: that of a function of one number, else the first of the
// larger ones.
func (r *runnerState) chainInput(st *step) (t *tensor.Tensor, k int) {
	for i, v := range st.node.Inputs {
		if i > 0 && st.element.one != nil {
			break
		}
		if v == graph.NoValue || r.watched[v] || r.vals[v].t == nil || r.vals[v].t.DType != tensor.Float32 {
			return nil, 0
		}
		if x := r.vals[v].t; t == nil || x.Len() > t.Len() {
			t, k = x, i
		}
	}
	return t, k
}

// linkOf returns a step as a link of the chain that step head computes, whose elements come in at input k; false if it cannot
// be one because an operand is not there yet or makes the result larger.
func (r *runnerState) linkOf(st *step, head, k int, shape []int, layout tensor.Layout) (l link, ok bool) {
	l = link{step: st, element: st.element, left: k == 1}
	if st.element.one != nil {
		return l, true
	}
	if t := r.otherOperand(st, head, k); t != nil {
		l.other, ok = operandOf(t, shape, layout)
	}
	return l, ok
}

// otherOperand returns the input beside k if it is a float32 tensor that exists before step head and nobody looks at it.
func (r *runnerState) otherOperand(st *step, head, k int) *tensor.Tensor {
	v := st.node.Inputs[1-k]
	if v == graph.NoValue || int(r.s.birth[v]) >= head || r.watched[v] || r.vals[v].t == nil || r.vals[v].t.DType != tensor.Float32 {
		return nil
	}
	return r.vals[v].t
}

// operandOf says how the elements of t meet those of a tensor of the given shape.
func operandOf(t *tensor.Tensor, shape []int, layout tensor.Layout) (operand, bool) {
	d := t.F32()
	n := tensor.Count(shape)
	switch {
	case len(d) == 1 && len(t.Shape) <= len(shape):
		return operand{d, 1, 1}, true
	case len(t.Shape) > len(shape) || n == 0:
		return operand{}, false
	case slices.Equal(t.Shape, shape) && (t.Layout == layout || sameOrder(shape)):
		return operand{d, n, 1}, true
	case layout != tensor.RowMajor && !sameOrder(shape) || t.Layout != tensor.RowMajor && !sameOrder(t.Shape):
		return operand{}, false
	}
	// Aligned at the last axis: a tail that agrees and ones before it, or a head that agrees and ones after it.
	shift := len(shape) - len(t.Shape)
	tail := len(t.Shape)
	for tail > 0 && t.Shape[tail-1] == shape[shift+tail-1] {
		tail--
	}
	if tensor.Count(t.Shape[:tail]) == 1 {
		return operand{d, len(d), 1}, true
	}
	if shift == 0 {
		head := 0
		for head < len(shape) && t.Shape[head] == shape[head] {
			head++
		}
		if tensor.Count(t.Shape[head:]) == 1 {
			return operand{d, n, tensor.Count(shape[head:])}, true
		}
	}
	return operand{}, false
}

// runChain computes a step, and with it those that r.chain says.
func (r *runnerState) runChain(c *call) error {
	looks := false
	for k := range r.chain {
		l := &r.chain[k]
		if l.step != c.step {
			r.absorb(r.s.stepOf[l.step.node.ID], l.step.node.Inputs[l.step.carrier])
		}
		l.look = r.lookedAt(l.step)
		looks = looks || l.look != nil
		if k < len(r.chain)-1 {
			continue
		}
		if l.limit = r.bounds(l.step, 0); l.limit != nil {
			l.bounded = r.lookedAt(&r.s.steps[l.step.followers[0].step])
			looks = looks || l.bounded != nil
		}
	}
	x, _ := r.chainInput(c.step)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	src, dst := x.F32(), out.F32()
	block, row := chainBlock, 1
	if looks {
		row = rowLen(out)
		block = max(1, lookBlock/row) * row
	}
	c.parallel(len(dst)/row, 2*len(r.chain)*row, func(lo, hi int) {
		hi *= row
		for at := lo * row; at < hi; at += block {
			end := min(at+block, hi)
			from, to := src[at:end], dst[at:end]
			for k := range r.chain {
				l := &r.chain[k]
				l.apply(r.s.table, to, from, at)
				r.showTo(l.look, out, at, to)
				if l.limit != nil {
					r.s.table.Limits(to, to, l.limit.lo, l.limit.hi)
					r.showTo(l.bounded, out, at, to)
				}
				from = to
			}
		}
	})
	return nil
}

// apply computes a link's elements from at on, without its limit.
func (l *link) apply(t *kernels.Table, dst, src []float32, at int) {
	switch o := l.other; {
	case l.element.one != nil:
		l.element.one(t, dst, src)
	case len(o.data) == 1:
		l.scalar(t, dst, src, o.data[0])
	case o.run == 1:
		for i := 0; i < len(dst); {
			from := (at + i) % o.period
			n := min(o.period-from, len(dst)-i)
			l.vector(t, dst[i:i+n], src[i:i+n], o.data[from:from+n])
			i += n
		}
	default:
		for i := 0; i < len(dst); {
			n := min(o.run-(at+i)%o.run, len(dst)-i)
			l.scalar(t, dst[i:i+n], src[i:i+n], o.data[(at+i)/o.run])
			i += n
		}
	}
}

func (l *link) vector(t *kernels.Table, dst, src, other []float32) {
	if l.left {
		src, other = other, src
	}
	vectorF32(t, l.element.two, dst, src, other)
}

func (l *link) scalar(t *kernels.Table, dst, src []float32, other float32) {
	if l.left {
		scalarLeftF32(t, l.element.two, dst, other, src)
		return
	}
	scalarF32(t, l.element.two, dst, src, other)
}

// kernelOf returns a node that maps one float32 to another as a kernel, nil for other nodes.
func kernelOf(n *graph.Node) kernelMap {
	switch n.Op {
	case "Sigmoid":
		return (*kernels.Table).Sigmoid
	case "Tanh":
		return (*kernels.Table).Tanh
	case "Erf":
		return (*kernels.Table).Erf
	case "Exp":
		return (*kernels.Table).Exp
	case "Sqrt":
		return (*kernels.Table).Sqrt
	case "Round":
		return (*kernels.Table).Round
	case "HardSwish":
		return (*kernels.Table).HardSwish
	case "Reciprocal":
		return func(t *kernels.Table, dst, a []float32) { t.ScalarDiv(dst, 1, a) }
	case "HardSigmoid":
		alpha, beta := n.Alpha(), n.Beta()
		return func(t *kernels.Table, dst, a []float32) { t.HardSigmoid(dst, a, alpha, beta) }
	case "Swish":
		alpha := n.Alpha()
		return func(t *kernels.Table, dst, a []float32) { t.Swish(dst, a, alpha) }
	case "Gelu":
		if n.TanhGelu() {
			return (*kernels.Table).GeluTanh
		}
		return (*kernels.Table).Gelu
	}
	return nil
}
