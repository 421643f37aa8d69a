package cpu

import (
	"cmp"
	"context"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// crossings computes an island together with products before it and the integers made of it: the parts of the island that are tails
// behind one product each, and the rest. Runs with a hook, which shows the steps between, compute the steps as they are.
type crossings struct {
	parts []*crossing
	rest  *step   // the island without these parts; nil: nothing is left
	steps []*step // all that are computed, in order
}

// crossing is one product with its tail and the integers behind it.
type crossing struct {
	e       *engine
	product *matrices
	step    *step
	tail    *tail
	others  []lower.TensorID // the tail's other tensors
	outs    []crossingOut

	send func(p *product, par kernels.Parallel) // one

	// For the shape at hand.
	shape  []int
	refuse bool           // it cannot be computed here
	scale  kernels.Scale  // of the product, with the bias of the tail
	direct *kernels.Scale // to codes at once, where there is nothing between

	given [][]float32 // of a run: the other tensors
	real  []float32   // and the product, where it is needed whole
}

// crossingOut is an output of the island.
type crossingOut struct {
	block  int            // of the tail
	real   lower.TensorID // the float32 tensor that others read, or NoTensor
	codes  []codesOf      // integers made of it
	moves  *graph.Graph   // what moves the elements before they get there; nil: nothing
	floats []float32      // of a run

	// For the shape at hand.
	to   []int // shape
	base []int // where each product of the stack begins, and
	ldd  int   // how far apart its rows are
	view *view // of the elements as they are stored; nil where they are stored in their place
}

// codesOf are integers of a crossing.
type codesOf struct {
	id    lower.TensorID
	coder *coder
	dtype tensor.DType
	views bool // all that read them read views
	value *value
}

// joinCrossings finds crossings.
func (e *engine) joinCrossings() error {
	makers, readers := make([]*step, len(e.program.Tensors)), make([][]*step, len(e.program.Tensors))
	for _, s := range e.steps {
		for _, id := range s.Inputs {
			readers[id] = append(readers[id], s)
		}
		for _, id := range s.Outputs {
			if id != lower.NoTensor {
				makers[id] = s
			}
		}
	}
	for _, s := range e.steps {
		op, ok := s.Op.(*lower.Island)
		if !ok || s.covered {
			continue
		}
		c := &crossings{steps: []*step{s}}
		if err := c.find(e, s, op.Graph, makers, readers); err != nil {
			return err
		}
		if len(c.parts) == 0 {
			continue
		}
		slices.SortFunc(c.steps, func(a, b *step) int { return cmp.Compare(a.ID, b.ID) })
		for _, k := range c.steps {
			k.covered = k != s
		}
		s.crossing = c
	}
	return nil
}

// piece is a part of an island that has no element in common with the others.
type piece struct {
	nodes []graph.NodeID
	mains []graph.ValueID // that products make
}

// find cuts an island into pieces and makes crossings of those that it can.
func (c *crossings) find(e *engine, s *step, g *graph.Graph, makers []*step, readers [][]*step) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	product := map[graph.ValueID]*step{}
	for i, v := range g.Inputs {
		id := s.Inputs[i]
		if m := makers[id]; m != nil && len(readers[id]) == 1 && !slices.Contains(e.program.Outputs, id) && !g.IsOutput(v) && m.crosses() {
			product[v] = m
		}
	}
	of := piecesOf(g, order, product)
	var pieces []*piece
	var rest []graph.ValueID
	used := map[graph.ValueID]bool{}
	for _, v := range g.Outputs {
		p := of[v]
		if p == nil || len(p.mains) == 0 {
			rest = append(rest, v)
		} else if !slices.Contains(pieces, p) {
			pieces = append(pieces, p)
		}
	}
	for _, p := range pieces {
		slices.SortFunc(p.nodes, func(a, b graph.NodeID) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
		main := slices.MaxFunc(p.mains, func(a, b graph.ValueID) int { return cmp.Compare(product[a].ID, product[b].ID) })
		if x, with := newCrossing(e, s, g, p.nodes, main, product[main], readers); x != nil {
			c.parts, c.steps, used[main] = append(c.parts, x), append(c.steps, with...), true
			continue
		}
		for _, v := range g.Outputs {
			if of[v] == p {
				rest = append(rest, v)
			}
		}
	}
	if len(c.parts) == 0 || len(rest) == 0 {
		return nil
	}
	return c.leave(e, s, g, used, rest)
}

// piecesOf cuts a graph into pieces that share no value but what goes into it; product are values that products make.
func piecesOf(g *graph.Graph, order []graph.NodeID, product map[graph.ValueID]*step) map[graph.ValueID]*piece {
	of := map[graph.ValueID]*piece{}
	for _, id := range order {
		n := g.Node(id)
		p := &piece{nodes: []graph.NodeID{id}}
		for _, v := range n.Inputs {
			if product[v] != nil && of[v] == nil {
				of[v] = &piece{mains: []graph.ValueID{v}}
			}
			if q := of[v]; q != nil && q != p {
				q.nodes, q.mains = append(q.nodes, p.nodes...), append(q.mains, p.mains...)
				for v, other := range of {
					if other == p {
						of[v] = q
					}
				}
				p = q
			}
		}
		for _, v := range n.Outputs {
			of[v] = p
		}
	}
	return of
}

// leave makes a step of the outputs of an island that no crossing makes.
func (c *crossings) leave(e *engine, s *step, g *graph.Graph, used map[graph.ValueID]bool, rest []graph.ValueID) error {
	var in []graph.ValueID
	left := &lower.Step{ID: s.ID, Node: s.Node, Nodes: s.Nodes}
	for i, v := range g.Inputs {
		if !used[v] {
			in, left.Inputs = append(in, v), append(left.Inputs, s.Inputs[i])
		}
	}
	for _, v := range rest {
		left.Outputs = append(left.Outputs, s.Outputs[slices.Index(g.Outputs, v)])
	}
	part, err := graph.Extract(g, in, rest)
	if err != nil {
		return err
	}
	op := &lower.Island{Graph: part}
	left.Op = op
	kernel, err := newIsland(e, op.Graph)
	c.rest = &step{Step: left, engine: e, kernel: kernel, in: make([]*value, len(left.Inputs)), out: make([]*value, len(left.Outputs))}
	return e.fail(s, err)
}

// crosses reports whether a step is a product of which nothing is made but real numbers.
func (s *step) crosses() bool {
	p, ok := s.kernel.(*matrices)
	return ok && p.function == nil && !p.op.Residual && len(s.Outputs) == 1 && !p.p.Tensors[s.Outputs[0]].Quantized() && !s.covered
}

// newCrossing makes a crossing of nodes of an island behind a product. It returns the other steps that it covers too; nil where a node
// has no place in a tail.
func newCrossing(e *engine, island *step, g *graph.Graph, nodes []graph.NodeID, main graph.ValueID, product *step,
	readers [][]*step) (*crossing, []*step) {
	shape := e.program.Tensors[product.Outputs[0]].Shape
	if len(shape) == 0 || shape[len(shape)-1].N <= 0 {
		return nil, nil
	}
	k := newTail(g, nodes, main, int(shape[len(shape)-1].N))
	if k == nil {
		return nil, nil
	}
	c := &crossing{e: e, product: product.kernel.(*matrices), step: product, tail: k.tail}
	c.send = c.one
	for _, v := range k.tail.others {
		c.others = append(c.others, island.Inputs[slices.Index(g.Inputs, v)])
	}
	with := []*step{product}
	for i, v := range g.Outputs {
		if !slices.Contains(nodes, g.Producer(v)) {
			continue
		}
		id := island.Outputs[i]
		if id == lower.NoTensor {
			continue
		}
		out := crossingOut{real: lower.NoTensor}
		if from, moved := k.moved[v]; moved {
			moves, err := movesOf(g, from, v)
			if err != nil {
				return nil, nil
			}
			out.block, out.moves = k.at[from], moves
		} else {
			out.block = k.at[v]
		}
		if slices.Contains(e.program.Outputs, id) {
			out.real = id
		}
		for _, r := range readers[id] {
			q, ok := r.kernel.(*quantize)
			if !ok || q.last || r.function != nil {
				out.real = id
				continue
			}
			to := r.Outputs[0]
			views := !slices.Contains(e.program.Outputs, to) && !slices.ContainsFunc(readers[to], func(s *step) bool {
				p, ok := s.kernel.(*matrices)
				return !ok || p.fixed != nil
			})
			out.codes = append(out.codes, codesOf{id: to, coder: newCoder(e, id, q.coder.quantizer, q.dtype), dtype: q.dtype, views: views})
			with = append(with, r)
		}
		if out.moves != nil && out.real != lower.NoTensor {
			return nil, nil
		}
		c.outs = append(c.outs, out)
	}
	return c, with
}

// movesOf returns the moves between two values as a graph that moves numbers of elements.
func movesOf(g *graph.Graph, from, to graph.ValueID) (*graph.Graph, error) {
	part, err := graph.Extract(g, []graph.ValueID{from}, []graph.ValueID{to})
	if err != nil {
		return nil, err
	}
	for _, id := range part.Nodes() {
		part.Value(part.Node(id).Outputs[0]).DType = tensor.Int32
	}
	part.Value(part.Inputs[0]).DType = tensor.Int32
	return part, nil
}

func (c *crossings) run(ctx context.Context, m *memory) error {
	for _, p := range c.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.run(ctx, m); err == errSlow {
			return c.apart(ctx, m)
		} else if err != nil {
			return p.e.fail(p.step, err)
		}
	}
	for _, s := range c.steps {
		s.slowly = false
	}
	if c.rest == nil {
		return nil
	}
	return c.rest.whole(ctx, m)
}

// apart computes the steps one by one, which these inputs need.
func (c *crossings) apart(ctx context.Context, m *memory) error {
	for _, s := range c.steps {
		if err := s.whole(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// run computes one product, its tail and what is made of it.
func (c *crossing) run(ctx context.Context, m *memory) error {
	p, s, e := c.product, c.step, c.e
	s.read()
	for _, v := range s.in {
		m.use(v)
	}
	if err := p.begin(s, m); err != nil {
		return err
	}
	if !slices.Equal(c.shape, p.shape) || c.shape == nil {
		c.shape = nil
		err := c.prepare(ctx)
		if err != nil && err != errSlow {
			return err
		}
		c.shape, c.refuse = slices.Clone(p.shape), err == errSlow
	}
	if c.refuse {
		return errSlow
	}
	c.given = c.given[:0]
	for _, id := range c.others {
		v := e.values[id]
		if v.t == nil || v.t.DType != tensor.Float32 || !slices.Equal(v.shape, c.shape) || v.t.Layout != tensor.RowMajor {
			return errSlow
		}
		m.use(v)
		c.given = append(c.given, v.t.F32())
	}
	if c.real = nil; c.tail.rowwise && p.stack < stackShared {
		c.real = m.floats(c.shape).t.F32()
	}
	for i := range c.outs {
		c.outs[i].take(e, m)
	}
	p.multiply(c.send)
	for i := range c.outs {
		for _, k := range c.outs[i].codes {
			if err := k.coder.failed(e.program.Tensors[k.id].Name); err != nil {
				return err
			}
		}
		c.outs[i].finish(e, m)
	}
	return nil
}

// prepare finds what depends on the shape of the product.
func (c *crossing) prepare(ctx context.Context) error {
	p := c.product
	if p.sinks == nil || p.sinks[0].cols != p.n {
		p.makeSinks(p.n)
	}
	f32 := p.sinks[0].f32
	if f32 == nil {
		return errSlow
	}
	c.scale = f32.Scale
	if !c.fold() {
		return errSlow
	}
	for i := range c.outs {
		o := &c.outs[i]
		if o.to, o.view, o.ldd = slices.Clone(p.shape), nil, p.n; o.moves != nil {
			if err := o.learn(ctx, p); err != nil {
				return err
			}
		}
		if o.view != nil || o.moves == nil {
			o.base, o.ldd = o.base[:0], p.n
			for k := range p.stack {
				o.base = append(o.base, k*p.rows*p.n)
			}
		}
	}
	c.direct = c.atOnce()
	return nil
}

// fold puts the tail's bias into the scale of the product; false where that would not compute the same. A product that is neither
// limited nor so small that it could be a zero of negative sign has no other bits for a bias of 0.
func (c *crossing) fold() bool {
	s := &c.scale
	plain := s.Lo == 0 && s.Hi == 0 || math.IsInf(float64(s.Lo), -1) && math.IsInf(float64(s.Hi), 1)
	for j, f := range s.Factor {
		plain = plain && f >= 0x1p-100 && (s.Bias == nil || s.Bias[j] == 0)
	}
	if !plain {
		return c.tail.bias == nil
	}
	s.Lo, s.Hi, s.Bias = 0, 0, nil
	if b := c.tail.bias; b != nil {
		s.Bias = make([]float32, len(s.Factor))
		for j := range s.Bias {
			s.Bias[j] = b[j%len(b)]
		}
	}
	return s.Check() == nil
}

// atOnce returns how the sums become codes without a block of real numbers between; nil if they cannot.
func (c *crossing) atOnce() *kernels.Scale {
	if len(c.tail.ops) > 0 || len(c.outs) != 1 || c.outs[0].real != lower.NoTensor || len(c.outs[0].codes) != 1 {
		return nil
	}
	k := c.outs[0].codes[0].coder
	q := k.quantizer
	if !k.fast || k.to.Away || k.to.Factor != 1 {
		return nil
	}
	s := c.scale
	s.Divisor, s.Zero, s.QMin, s.QMax = k.to.Divisor, uint8(k.to.Zero), uint8(q.QMin+k.bias), uint8(q.QMax+k.bias)
	if s.QMin >= s.QMax || s.Check() != nil {
		return nil
	}
	return &s
}

// learn finds where moved elements lie.
func (o *crossingOut) learn(ctx context.Context, p *matrices) error {
	numbers := tensor.New(tensor.Int32, p.shape...)
	for i := range numbers.Len() {
		tensor.Of[int32](numbers)[i] = int32(i)
	}
	session, err := exec.New(o.moves, exec.Options{Context: ctx})
	if err != nil {
		return errSlow
	}
	outs, err := session.NewRunner().Run(ctx, map[string]*tensor.Tensor{o.moves.Value(o.moves.Inputs[0]).Name: numbers}, nil)
	if err != nil {
		return cmp.Or(context.Cause(ctx), error(errSlow))
	}
	from := tensor.Of[int32](outs[0].ToRowMajor())
	o.to = slices.Clone(outs[0].Shape)
	if len(from) != numbers.Len() {
		return errSlow
	}
	if o.rows(from, p) {
		return nil
	}
	v := &view{strides: make([]int, len(o.to)), move: steps.MoveOf(0, from, o.to, len(from))}
	for axis, step := len(o.to)-1, 1; axis >= 0; axis-- {
		if o.to[axis] > 1 {
			v.strides[axis] = int(from[step])
		}
		step *= o.to[axis]
	}
	if index := make([]int, len(o.to)); !affine(from, o.to, v.strides, index) {
		return errSlow
	}
	o.view = v
	return nil
}

// affine reports whether the elements of a shape come from places that lie strides apart.
func affine(from []int32, shape, strides, index []int) bool {
	at := 0
	for _, f := range from {
		if int(f) != at {
			return false
		}
		for axis := len(shape) - 1; axis >= 0; axis-- {
			at += strides[axis]
			if index[axis]++; index[axis] < shape[axis] {
				break
			}
			at -= strides[axis] * shape[axis]
			index[axis] = 0
		}
	}
	return true
}

// rows finds where rows of products are stored that stay whole; false if they do not, or do not lie evenly.
func (o *crossingOut) rows(from []int32, p *matrices) bool {
	to := make([]int, len(from))
	for i, f := range from {
		to[f] = i
	}
	if o.base, o.ldd = o.base[:0], p.n; p.rows > 1 {
		o.ldd = to[p.n] - to[0]
	}
	for k := range p.stack {
		o.base = append(o.base, to[k*p.rows*p.n])
	}
	for f, at := range to {
		row, j := f/p.n, f%p.n
		if at != o.base[row/p.rows]+row%p.rows*o.ldd+j {
			return false
		}
	}
	return o.ldd >= p.n
}

// take takes memory for an output.
func (o *crossingOut) take(e *engine, m *memory) {
	if o.floats = nil; o.real != lower.NoTensor {
		v := m.floats(o.to)
		e.values[o.real], o.floats = v, v.t.F32()
	}
	for i := range o.codes {
		k := &o.codes[i]
		k.value = m.codes(k.dtype, o.to, false)
		k.value.view = o.view
		e.values[k.id] = k.value
	}
}

// finish moves what has to lie in its place.
func (o *crossingOut) finish(e *engine, m *memory) {
	for i := range o.codes {
		if k := &o.codes[i]; o.view != nil && !k.views {
			v := m.codes(k.dtype, o.to, false)
			moveBytes(e.par, v.codes, k.value.codes, &o.view.move, 0)
			e.values[k.id] = v
		}
	}
}

// one computes one product of the stack.
func (c *crossing) one(p *product, par kernels.Parallel) {
	rows, n := c.product.rows, c.product.n
	switch {
	case c.direct != nil:
		o := &c.outs[0]
		p.run(par, 0, rows, &kernels.StoreScaled{Dst: o.codes[0].value.codes[o.base[p.number]:], Ldd: o.ldd, Scale: *c.direct})
	case !c.tail.rowwise:
		p.run(par, 0, rows, &kernels.StoreBlocks{Scale: c.scale, Done: func(b *kernels.Block) {
			w := c.e.borrow()
			c.behind(w, b, p.number)
			c.e.giveBack(w)
		}})
	case c.real != nil:
		real := c.real[p.number*rows*n:][:rows*n]
		p.run(par, 0, rows, &kernels.StoreF32{Dst: real, Ldd: n, Scale: c.scale})
		grain := max(1, byteGrain/2/n)
		share(par, rows, grain, func(i int) {
			lo, hi := partOf(rows, grain, i)
			w := c.e.borrow()
			c.behind(w, &kernels.Block{Real: real[lo*n : hi*n], Stride: n, Row: lo, Rows: hi - lo, Cols: n}, p.number)
			c.e.giveBack(w)
		})
	default:
		w, most := p.work, max(16, 4*tailBlock/n)
		for lo := 0; lo < rows; lo += most {
			count := min(most, rows-lo)
			w.real = sized(w.real, count*n)
			p.run(nil, lo, count, &kernels.StoreF32{Dst: w.real, Ldd: n, Scale: c.scale})
			c.behind(w, &kernels.Block{Real: w.real, Stride: n, Row: lo, Rows: count, Cols: n}, p.number)
		}
	}
}

// behind computes what is behind a block of a product.
func (c *crossing) behind(w *scratch, b *kernels.Block, number int) {
	n := c.product.n
	c.tail.run(w, b, c.given, n, number*c.product.rows, func(part *kernels.Block, blocks [][]float32) {
		for i := range c.outs {
			c.outs[i].store(w, part, blocks[c.outs[i].block], number)
		}
	})
}

// store stores a part of a product: real numbers, and the codes that are made of them.
func (o *crossingOut) store(w *scratch, b *kernels.Block, real []float32, number int) {
	at := o.base[number] + b.Row*o.ldd + b.Col
	together := b.Stride == b.Cols && o.ldd == b.Cols
	if o.floats != nil {
		for i := range b.Rows {
			copy(o.floats[at+i*o.ldd:][:b.Cols], real[i*b.Stride:])
		}
	}
	for k := range o.codes {
		dst, coder := o.codes[k].value.codes, o.codes[k].coder
		if together {
			coder.code(dst[at:][:len(real)], real)
			continue
		}
		w.codes = sized(w.codes, len(real))
		coder.code(w.codes, real)
		for i := range b.Rows {
			copy(dst[at+i*o.ldd:][:b.Cols], w.codes[i*b.Stride:])
		}
	}
}
