package cpu

import (
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// tail is a part of an island behind one product, computed from blocks of the product's real numbers while they are in the cache:
// functions of single elements, of elements and a number, a row of constants or another tensor of the same shape, and, for blocks of
// whole rows, normalizations of rows. It has the kernels of the float executor, which give an element, or a row, the same bits
// wherever it stands.
type tail struct {
	table   *kernels.Table
	bias    []float32 // added to the sums of each column before anything else, one number for each, or one for all; or nil
	ops     []tailOp
	blocks  int  // registers: block 0 is the product's
	rowwise bool // it needs whole rows
	others  []graph.ValueID
}

// tailOp computes one block from others.
type tailOp struct {
	element exec.Element
	rows    rowsKernel // in place of element
	in      [2]tailRef
	out     int // a block
	adds    bool
}

// rowsKernel computes rows of n elements; dst may be src.
type rowsKernel func(t *kernels.Table, dst, src []float32, n int)

// tailRef is an operand: a block, or what its data are, a number, a row or the block at the same place of another tensor.
type tailRef struct {
	kind  refKind
	block int
	data  []float32
	other int
}

type refKind uint8

const (
	noRef refKind = iota
	blockRef
	numberRef
	rowRef
	otherRef
)

// tailBlock is how many elements are taken through a tail at a time: they and a few results stay in the first-level cache.
const tailBlock = 1 << 12

// scratch is the memory of one goroutine at work on a product of a stack, or on a tail.
type scratch struct {
	product   product
	packed    kernels.GemmU8S8 // a right side that is computed
	column    []int32          // its terms
	row, sums []int32          // terms of rows, and sums of the left side's
	real      []float32        // rows of the product, for a tail
	blocks    [][]float32      // of a tail
	given     []float32        // for operands that do not lie as the block does
	codes     []uint8
}

// borrow returns memory that giveBack takes back.
func (e *engine) borrow() *scratch {
	if w, ok := e.spare.Get().(*scratch); ok {
		return w
	}
	return new(scratch)
}

func (e *engine) giveBack(w *scratch) {
	w.product = product{}
	e.spare.Put(w)
}

// tailMaker compiles a tail.
type tailMaker struct {
	g       *graph.Graph
	main    graph.ValueID // the product
	rank    int           // of it
	cols    int           // of a row
	tail    *tail
	at      map[graph.ValueID]int           // the block of each value
	moved   map[graph.ValueID]graph.ValueID // what a moved value was before the first move
	lastUse map[graph.ValueID]int           // by position in order
	free    []int
}

// newTail compiles nodes, in order of execution, behind the real numbers of a product, value main with rows of cols elements. It
// returns nil where something has no place in a tail.
func newTail(g *graph.Graph, nodes []graph.NodeID, main graph.ValueID, cols int) *tailMaker {
	k := &tailMaker{g: g, main: main, rank: len(g.Value(main).Shape), cols: cols, tail: &tail{table: kernels.Select(cpu.Detect()), blocks: 1},
		at: map[graph.ValueID]int{main: 0}, moved: map[graph.ValueID]graph.ValueID{}, lastUse: map[graph.ValueID]int{}}
	if k.rank == 0 {
		return nil
	}
	for i, id := range nodes {
		n := g.Node(id)
		for _, v := range n.Inputs {
			k.lastUse[v] = i
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && g.IsOutput(v) {
				k.lastUse[v] = len(nodes)
			}
		}
	}
	for _, v := range g.Outputs {
		k.lastUse[v] = len(nodes)
	}
	for i, id := range nodes {
		if !k.node(g.Node(id), i) {
			return nil
		}
	}
	k.foldBias()
	return k
}

func (k *tailMaker) node(n *graph.Node, i int) bool {
	if !n.IsONNX() || len(n.Outputs) == 0 ||
		slices.ContainsFunc(n.Outputs[1:], func(v graph.ValueID) bool { return v != graph.NoValue }) ||
		len(n.Inputs) == 0 || k.g.Value(n.Outputs[0]).DType != tensor.Float32 {
		return false
	}
	x, out := n.Inputs[0], n.Outputs[0]
	if n.HandsOn() {
		from, moved := k.moved[x]
		if _, ok := k.at[x]; ok {
			from, moved = x, true
		}
		for _, v := range n.Inputs[1:] {
			moved = moved && (v == graph.NoValue || k.g.Const(v) != nil)
		}
		if moved {
			k.moved[out] = from
			k.lastUse[from] = max(k.lastUse[from], k.lastUse[out]) // its block is read at the end
		}
		return moved && k.onlyMoved(out)
	}
	var op tailOp
	operands := 1
	if op.rows = k.rowsOf(n); op.rows != nil {
		k.tail.rowwise = true
	} else {
		e, ok := exec.ElementOf(k.g, n)
		if !ok {
			return false
		}
		op.element, op.adds, operands = e, e.Adds(), e.Operands()
	}
	blocks := 0
	for j := range operands {
		if op.in[j] = k.operand(n.Inputs[j]); op.in[j].kind == noRef {
			return false
		}
		if op.in[j].kind == blockRef {
			blocks++
		}
	}
	if blocks == 0 {
		return false
	}
	op.out = -1
	for j := range operands {
		if v := n.Inputs[j]; op.in[j].kind == blockRef && k.lastUse[v] == i {
			if op.out < 0 {
				op.out = op.in[j].block
			} else if op.in[j].block != op.out {
				k.free = append(k.free, op.in[j].block)
			}
		}
	}
	if op.out < 0 {
		if n := len(k.free); n > 0 {
			op.out, k.free = k.free[n-1], k.free[:n-1]
		} else {
			op.out = k.tail.blocks
			k.tail.blocks++
		}
	}
	k.at[out] = op.out
	k.tail.ops = append(k.tail.ops, op)
	return true
}

// onlyMoved reports whether what reads v moves it on.
func (k *tailMaker) onlyMoved(v graph.ValueID) bool {
	for _, u := range k.g.Uses(v) {
		if n := k.g.Node(u.Node); u.Index != 0 || !n.HandsOn() {
			return false
		}
	}
	return true
}

// operand returns how value v is read, noRef where it cannot be.
func (k *tailMaker) operand(v graph.ValueID) tailRef {
	if v == graph.NoValue {
		return tailRef{}
	}
	if b, ok := k.at[v]; ok {
		return tailRef{kind: blockRef, block: b}
	}
	value := k.g.Value(v)
	if c := k.g.Const(v); c != nil && !k.g.IsInput(v) {
		rank := len(c.Shape)
		switch {
		case c.DType != tensor.Float32 || rank > k.rank:
			return tailRef{}
		case c.Len() == 1:
			return tailRef{kind: numberRef, data: c.F32()}
		case c.Len() == k.cols && c.Shape[rank-1] == k.cols:
			return tailRef{kind: rowRef, data: c.F32()}
		}
		return tailRef{}
	}
	if !slices.Contains(k.g.Inputs, v) || value.DType != tensor.Float32 || len(value.Shape) != k.rank {
		return tailRef{}
	}
	for i, d := range k.g.Value(k.main).Shape { // one that is broadcast is no operand
		if x := value.Shape[i]; d.N > 0 && x.N > 0 && d.N != x.N {
			return tailRef{}
		}
	}
	at := slices.Index(k.tail.others, v)
	if at < 0 {
		at = len(k.tail.others)
		k.tail.others = append(k.tail.others, v)
	}
	return tailRef{kind: otherRef, other: at}
}

// rowsOf returns what a node computes of rows, nil if it is something else.
func (k *tailMaker) rowsOf(n *graph.Node) rowsKernel {
	last := func(axis int) bool { return axis == -1 || axis == k.rank-1 }
	row := func(i int) []float32 {
		if i >= len(n.Inputs) || n.Inputs[i] == graph.NoValue {
			return nil
		}
		if r := k.operand(n.Inputs[i]); r.kind == rowRef {
			return r.data
		}
		return nil
	}
	has := func(i int) bool { return i < len(n.Inputs) && n.Inputs[i] != graph.NoValue }
	switch n.Op {
	case "Softmax":
		if axis, flat := graph.SoftmaxAxis(n, k.g.Opset(n.Domain)); !flat && last(axis) {
			return func(t *kernels.Table, dst, src []float32, n int) { t.Softmax(nil, dst, src, n) }
		}
	case "LayerNormalization":
		scale, bias, eps := row(1), row(2), n.Epsilon()
		if last(n.Axis()) && scale != nil && (bias != nil) == has(2) {
			return func(t *kernels.Table, dst, src []float32, n int) {
				t.LayerNorm(nil, dst, src, scale, bias, n, eps, nil, nil)
			}
		}
	}
	return nil
}

// foldBias takes a first addition of constants to the product out of the operations.
func (k *tailMaker) foldBias() {
	t := k.tail
	if len(t.ops) == 0 || !t.ops[0].adds || t.ops[0].out != 0 {
		return
	}
	a, b := t.ops[0].in[0], t.ops[0].in[1]
	if b.kind == blockRef {
		a, b = b, a
	}
	if a.kind == blockRef && a.block == 0 && (b.kind == rowRef || b.kind == numberRef) {
		t.bias, t.ops = b.data, t.ops[1:]
	}
}

// run computes a block of a product. others are the other tensors, with rows of total elements; row 0 of the product is their row first.
// It calls done with every part that is computed, of some of the rows.
func (t *tail) run(w *scratch, b *kernels.Block, others [][]float32, total, first int, done func(part *kernels.Block, blocks [][]float32)) {
	part := kernels.Block{Stride: b.Stride, Col: b.Col, Cols: b.Cols}
	w.blocks = slices.Grow(w.blocks[:0], t.blocks)[:t.blocks]
	for from := 0; from < b.Rows; from += part.Rows {
		part.Row, part.Rows = b.Row+from, min(b.Rows-from, max(1, tailBlock/b.Stride))
		n := part.Rows * part.Stride
		w.blocks[0] = b.Real[from*b.Stride:][:n]
		for i := 1; i < len(w.blocks); i++ {
			w.blocks[i] = sized(w.blocks[i], n)
		}
		for i := range t.ops {
			t.op(w, &t.ops[i], &part, others, total, first)
		}
		done(&part, w.blocks)
	}
	w.blocks[0] = nil // it is the product's
}

func (t *tail) op(w *scratch, o *tailOp, b *kernels.Block, others [][]float32, total, first int) {
	dst := w.blocks[o.out]
	if o.rows != nil {
		o.rows(t.table, dst, w.blocks[o.in[0].block], b.Stride)
		return
	}
	if o.element.Operands() == 1 {
		o.element.One(t.table, dst, w.blocks[o.in[0].block])
		return
	}
	switch {
	case o.in[0].kind == numberRef:
		o.element.Left(t.table, dst, o.in[0].data[0], w.blocks[o.in[1].block])
	case o.in[1].kind == numberRef:
		o.element.Right(t.table, dst, w.blocks[o.in[0].block], o.in[1].data[0])
	default:
		o.element.Two(t.table, dst, w.give(&o.in[0], b, others, total, first), w.give(&o.in[1], b, others, total, first))
	}
}

// give returns an operand as it meets a block.
func (w *scratch) give(r *tailRef, b *kernels.Block, others [][]float32, total, first int) []float32 {
	if r.kind == blockRef {
		return w.blocks[r.block]
	}
	from, step := r.data, 0
	if r.kind == otherRef {
		from, step = others[r.other][(first+b.Row)*total:], total
		if b.Stride == total {
			return from[:b.Rows*total]
		}
	}
	w.given = sized(w.given, b.Rows*b.Stride)
	for i := range b.Rows {
		copy(w.given[i*b.Stride:], from[i*step+b.Col:][:b.Cols])
	}
	return w.given
}

// sized returns s with n elements, undefined ones.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
