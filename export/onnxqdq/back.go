package onnxqdq

import (
	"context"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
	"qwb/quantizer/tqc"
)

// Back reads a model that was written and says what it holds, for ONNX in both forms. It looks at nothing but the nodes of the file: what
// they are called tells which node of the plan they are.
func Back(ctx context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	m, err := export.ReadModel(in, out)
	if err != nil {
		return nil, err
	}
	graph.InferShapes(m.Graph)
	m.Graph = joined(m.Graph)
	r := &recoverer{g: m.Graph, plan: in.Model.Graph, set: in.Set, chains: map[graph.ValueID]*chain{}}
	r.held = &export.Recovered{Wants: r.wants, Lacks: r.lacks, Forget: r.g.Forget}
	if in.Pixels != nil {
		r.pixels(in.Pixels)
	}
	if err := r.floats(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("%w (of the file)", err)
	}
	if err := r.floatOutputs(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return &export.Readback{Held: r.held, Graph: m.Graph, Close: m.Close}, nil
}

// recoverer reads one file.
type recoverer struct {
	g, plan *graph.Graph // plan is asked for names of nodes, and for shapes of what the file packs
	set     *tqc.Set     // is asked for how many scales packed weights have
	held    *export.Recovered
	chains  map[graph.ValueID]*chain
}

// chain is what stands behind a tensor: the grids that it is brought to in turn, and the constant that it is made of, nil where it is
// computed: codes where integers is set.
type chain struct {
	grids    []*heldGrid
	constant *tensor.Tensor
	integers bool
}

// heldGrid is what a Q or DQ says. Scales of run time are told apart by the tensor that holds them.
type heldGrid struct {
	dtype     tensor.DType
	kind      qmath.NumberType
	scale     []float32
	zero      []int32
	axis      int // -1: one scale
	block     int
	low, high int32
	runTime   graph.ValueID // graph.NoValue where scales are constant
}

func (a *heldGrid) same(b *heldGrid) bool {
	return a.dtype == b.dtype && a.kind == b.kind && a.axis == b.axis && a.block == b.block && a.runTime == b.runTime &&
		slices.Equal(a.scale, b.scale) && slices.Equal(a.zero, b.zero)
}

func (r *recoverer) run(ctx context.Context) error {
	for _, id := range r.plan.Nodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		of := r.plan.Node(id)
		at, ok := r.g.LookupNode(of.Name)
		if !ok {
			if at, ok = r.g.LookupNode(of.Name + "_Clip"); !ok || !is(of, "Relu", "Clip") {
				continue // what is missing tells
			}
			c, err := r.codes(r.g.Node(at).Inputs[0]) // limits of codes stand for it
			if err != nil {
				return err
			}
			if err := r.input(of.Name, 0, c); err != nil {
				return err
			}
			continue
		}
		if _, file := r.attributes(of, r.g.Node(at)); file != nil {
			r.held.Add(file)
		}
		if err := r.node(of, r.g.Node(at)); err != nil {
			return r.g.ErrorAt("export", at, err)
		}
	}
	for _, v := range r.g.Outputs {
		c, err := r.either(v) // of a quantizer's codes, its grid
		if err != nil {
			return err
		}
		for k, q := range c.grids {
			r.grid(export.OutputName(r.g.Value(v).Name, k), q, false)
		}
	}
	return nil
}

// node adds what the file's node says of the inputs of the plan's.
func (r *recoverer) node(of, n *graph.Node) error {
	if err := r.sameRank(of, n); err != nil {
		return err
	}
	if form, ok := qdq.QOperators[n.Op]; ok {
		return r.operator(of, n, &form)
	}
	if n.Op == "MatMulNBits" && of.Op != n.Op {
		return r.blocks(of, n)
	}
	for i := range of.Inputs {
		v := r.inputOf(of, n, i)
		if v == graph.NoValue {
			continue
		}
		c, err := r.either(v)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		if err := r.input(of.Name, i, c); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	return nil
}

// inputOf is input i of the plan's node in the file: that of the file's node, but that a Clip in front of 8-bit floats is a Min behind a
// Max, or one of the two.
func (r *recoverer) inputOf(of, n *graph.Node, i int) graph.ValueID {
	if of.Op != "Clip" || i == 0 || !is(n, "Max", "Min") {
		return n.Input(i)
	}
	if is(n, "Min") && i == 1 {
		p := r.g.Producer(n.Input(0))
		if p == graph.NoNode || !is(r.g.Node(p), "Max") || r.ours(r.g.Node(p)) {
			return graph.NoValue
		}
		return r.g.Node(p).Input(1)
	}
	if is(n, "Max") != (i == 1) {
		return graph.NoValue
	}
	return n.Input(1)
}

// ours reports whether a node of the file is one of the plan.
func (r *recoverer) ours(n *graph.Node) bool {
	_, ok := r.plan.LookupNode(n.Name)
	return ok
}

// input adds what is behind one input.
func (r *recoverer) input(node string, i int, c *chain) error {
	if c.constant == nil || len(c.grids) != 1 {
		for k, q := range c.grids {
			r.grid(export.SlotName(node, i, k), q, false)
		}
		if c.constant != nil && len(c.grids) == 0 {
			r.numbers(export.SlotName(node, i, 0), c.constant, r.precision(node))
		}
		return nil
	}
	at, q := export.SlotName(node, i, 0), c.grids[0]
	r.grid(at, q, true)
	codes := c.constant.ToRowMajor()
	if !c.integers {
		d := tensor.Int32
		if q.kind == qmath.Integers {
			d = q.dtype
		}
		var err error
		if codes, err = tqc.QuantizeTo(d, c.constant, q.config(), &tqc.Params{Scale: q.scale, ZeroPoint: q.zero}); err != nil {
			return err
		}
		codes = r.g.Stored(codes)
	}
	kind := export.Codes
	if q.dtype == tensor.Int32 {
		kind = export.Bias
	}
	r.held.Add(&export.Item{At: at, Kind: kind, Narrow: codes})
	return nil
}

// config is the scheme by which Q makes codes of a constant.
func (q *heldGrid) config() *tqc.Config {
	c := &tqc.Config{Policy: tqc.PerTensor, Axis: max(q.axis, 0), GroupSize: q.block,
		Format: qmath.Format{Type: q.kind, Bits: q.dtype.Bits(), QMin: q.low, QMax: q.high}}
	switch {
	case q.block > 0:
		c.Policy = tqc.PerGroup
	case q.axis >= 0:
		c.Policy = tqc.PerChannel
	}
	return c
}

// precision is what a node of the plan is computed in.
func (r *recoverer) precision(node string) qmath.Precision {
	id, ok := r.plan.LookupNode(node)
	if !ok || int(id) >= len(r.set.Domains) {
		return qmath.FP32
	}
	return r.set.Domains[id].Precision()
}

// numbers adds a float constant that is not quantized, of a node that is computed in precision p; other types are no numbers of a plan. A
// file may hold the numbers of fp16 and bf16 as float32, rounded.
func (r *recoverer) numbers(at string, t *tensor.Tensor, p qmath.Precision) {
	it := &export.Item{At: at, Kind: export.Numbers}
	switch t = t.ToRowMajor(); t.DType {
	case tensor.Float32:
		it.Floats = t.F32()
		if p != qmath.FP32 && !slices.ContainsFunc(it.Floats, func(x float32) bool { return p.Round(x) != x && x == x }) {
			it.Stored = p.Round
		}
	case tensor.Float16:
		it.Floats, it.Stored = decoded(tensor.Of[uint16](t), qmath.FromHalf), qmath.FP16.Round
	case tensor.BFloat16:
		it.Floats, it.Stored = decoded(tensor.Of[uint16](t), qmath.FromBrain), qmath.BF16.Round
	default:
		return
	}
	r.held.Add(it)
}

func decoded(codes []uint16, number func(uint16) float32) []float32 {
	list := make([]float32, len(codes))
	for i, c := range codes {
		list[i] = number(c)
	}
	return list
}

// grid adds grid, scales and zero points.
func (r *recoverer) grid(at string, q *heldGrid, constant bool) {
	list := []int32{int32(q.kind), int32(q.axis), int32(q.block)}
	switch {
	case constant:
	case q.runTime != graph.NoValue:
		list = append(list, 1)
	default:
		list = append(list, 0, q.low, q.high)
	}
	r.held.Add(&export.Item{At: at, Kind: export.Grid, Ints: list})
	if q.runTime != graph.NoValue {
		return
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: q.scale})
	if q.kind == qmath.Integers {
		r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: q.zero})
	}
}

// either is float or codes, by the type of the tensor.
func (r *recoverer) either(v graph.ValueID) (*chain, error) {
	if p := r.g.Producer(v); p != graph.NoNode && r.givesCodes(p) || p == graph.NoNode && storageOf(r.g.Value(v).DType) != nil &&
		r.g.Const(v) == nil {
		return r.codes(v)
	}
	return r.float(v)
}

// float returns what is behind a tensor of floats. Nodes that the plan does not have carry input 0: Casts,
// and what the opset or an engine needs.
func (r *recoverer) float(v graph.ValueID) (*chain, error) {
	return r.remember(v, func() (*chain, error) {
		p := r.g.Producer(v)
		if p == graph.NoNode {
			return &chain{constant: r.g.Const(v)}, nil
		}
		n := r.g.Node(p)
		switch {
		case is(n, dequantizeLinear):
			return r.dequantized(n)
		case is(n, quantizeLinear, dynamicQuantize):
			return r.codes(v)
		}
		if c := r.book(n); c != nil {
			return c, nil
		}
		if r.ours(n) || n.Input(0) == graph.NoValue {
			return &chain{}, nil
		}
		return r.either(n.Inputs[0])
	})
}

func (r *recoverer) remember(v graph.ValueID, find func() (*chain, error)) (*chain, error) {
	if c := r.chains[v]; c != nil {
		return c, nil
	}
	c, err := find()
	if err == nil {
		r.chains[v] = c
	}
	return c, err
}

func (r *recoverer) dequantized(n *graph.Node) (*chain, error) {
	from, err := r.codes(n.Inputs[0])
	if err != nil {
		return nil, err
	}
	q, err := r.gridOf(n, n.Input(1), n.Input(2), r.g.Value(n.Inputs[0]).DType)
	if err != nil {
		return nil, err
	}
	return from.with(q, true), nil
}

// with adds a grid. codes says that it is that of codes which are there already: the same as theirs adds nothing.
func (c *chain) with(q *heldGrid, codes bool) *chain {
	if k := len(c.grids); k > 0 && c.grids[k-1].same(q) && (codes || q.axis < 0 && q.runTime == graph.NoValue) {
		return c
	}
	return &chain{append(slices.Clip(c.grids), q), c.constant, c.integers}
}

// codes returns what is behind a tensor of integers or of narrow floats.
func (r *recoverer) codes(v graph.ValueID) (*chain, error) {
	if t := r.g.Const(v); t != nil {
		return &chain{constant: t, integers: true}, nil
	}
	p := r.g.Producer(v)
	if p == graph.NoNode {
		return &chain{}, nil
	}
	return r.remember(v, func() (*chain, error) {
		n := r.g.Node(p)
		form, whole := qdq.QOperators[n.Op]
		switch {
		case is(n, quantizeLinear, dynamicQuantize):
			from, err := r.either(n.Inputs[0])
			if err != nil {
				return nil, err
			}
			scale, zero := n.Input(1), n.Input(2)
			if is(n, dynamicQuantize) {
				scale, zero = n.Outputs[1], n.Outputs[2]
			}
			q, err := r.gridOf(n, scale, zero, r.g.Value(v).DType)
			if err != nil {
				return nil, err
			}
			if from.constant == nil && len(q.scale) == 1 {
				q.low, q.high = export.Limited(r.g, n.Inputs[0], qmath.Codec{Format: q.config().Format, Scale: q.scale[0], ZeroPoint: q.zero[0]})
			}
			return from.with(q, false), nil
		case whole:
			q, err := r.gridOf(n, n.Input(form.Out[0]), n.Input(form.Out[1]), r.g.Value(v).DType)
			return &chain{grids: []*heldGrid{q}}, err
		}
		from, err := r.either(n.Input(0))
		if err != nil || len(from.grids) == 0 {
			return from, err
		}
		last := *from.grids[len(from.grids)-1]
		if is(n, "Clip") {
			return r.clipped(from, n, last)
		}
		s := storageOf(last.dtype)
		last.low, last.high = s.low, s.high
		return &chain{grids: []*heldGrid{&last}}, nil // it moves codes
	})
}

// clipped is a chain whose last codes a Clip limits.
func (r *recoverer) clipped(from *chain, n *graph.Node, q heldGrid) (*chain, error) {
	var ends [2]int32
	for i := range ends {
		t := r.g.Const(n.Input(1 + i))
		if t == nil || t.Len() != 1 || t.Integers() == nil {
			return nil, fmt.Errorf("limits of codes that are no constants: node %q", n.Name)
		}
		ends[i] = t.Integers()[0]
	}
	for _, code := range []*int32{&q.low, &q.high} {
		*code = min(max(*code, ends[0]), ends[1])
	}
	grids := slices.Clone(from.grids)
	grids[len(grids)-1] = &q
	return &chain{grids, from.constant, from.integers}, nil
}

// givesCodes reports whether a node computes codes.
func (r *recoverer) givesCodes(p graph.NodeID) bool {
	n := r.g.Node(p)
	if is(n, quantizeLinear, dynamicQuantize) {
		return true
	}
	if _, whole := qdq.QOperators[n.Op]; whole {
		return n.Input(qdq.QOperators[n.Op].Out[0]) != graph.NoValue
	}
	if is(n, dequantizeLinear) || n.Input(0) == graph.NoValue || is(n, "Cast", "Shape", "Size", "Where") {
		return false
	}
	x := n.Inputs[0]
	if q := r.g.Producer(x); q != graph.NoNode {
		return r.givesCodes(q)
	}
	return false
}

// gridOf reads scale and zero point of codes of type d.
func (r *recoverer) gridOf(n *graph.Node, scale, zero graph.ValueID, d tensor.DType) (*heldGrid, error) {
	s := storageOf(d)
	if s == nil {
		return nil, fmt.Errorf("codes of type %s", d)
	}
	q := &heldGrid{dtype: d, kind: s.kind, axis: -1, low: s.low, high: s.high, runTime: graph.NoValue}
	shape, block := r.g.Value(n.Input(0)).Shape, int(n.AttrInt("block_size", 0))
	t := r.g.Const(scale)
	var err error
	switch p := r.g.Producer(scale); {
	case t != nil:
		q.scale, err = scalesOf(t)
	case p != graph.NoNode && is(r.g.Node(p), dequantizeLinear) && r.g.Const(r.g.Node(p).Input(0)) != nil:
		if t, err = r.twoLevels(r.g.Node(p)); err == nil {
			q.scale = t.F32()
		}
	default:
		q.runTime = scale
	}
	if err != nil {
		return nil, err
	}
	if q.runTime == graph.NoValue {
		if err := q.zeros(r.g.Const(zero)); err != nil {
			return nil, err
		}
	}
	if block > 0 || t != nil && len(t.Shape) > 0 {
		q.axis = int(n.AttrInt("axis", 1))
		if rank := len(shape); rank > 0 {
			q.axis, _ = graph.Axis(q.axis, rank)
		}
	}
	if q.runTime == graph.NoValue {
		q.block = block
	}
	return q, nil
}

// zeros reads zero points, as many as scales.
func (q *heldGrid) zeros(t *tensor.Tensor) error {
	if t == nil {
		q.zero = make([]int32, len(q.scale))
		return nil
	}
	list := t.ToRowMajor().Integers()
	if t.DType != q.dtype || len(list) != 1 && len(list) != len(q.scale) {
		return fmt.Errorf("%d zero points of type %s for %d scales of %s", t.Len(), t.DType, len(q.scale), q.dtype)
	}
	q.zero = slices.Clone(list)
	for len(q.zero) < len(q.scale) {
		q.zero = append(q.zero, list[0])
	}
	return nil
}

// scalesOf reads scales: float32, or powers of two.
func scalesOf(t *tensor.Tensor) ([]float32, error) {
	switch t = t.ToRowMajor(); t.DType {
	case tensor.Float32:
		return t.F32(), nil
	case tensor.Float8E8M0:
		list := make([]float32, t.Len())
		for i, code := range tensor.Of[uint8](t) {
			list[i] = qmath.DecodeE8M0(code)
		}
		return list, nil
	}
	return nil, fmt.Errorf("scales of type %s", t.DType)
}

// twoLevels reads scales that a DequantizeLinear makes of E4M3 numbers.
func (r *recoverer) twoLevels(n *graph.Node) (*tensor.Tensor, error) {
	codes, whole := r.g.Const(n.Inputs[0]), r.g.Const(n.Input(1))
	if whole == nil || whole.DType != tensor.Float32 || whole.Len() != 1 || codes.DType != tensor.Float8E4M3FN {
		return nil, fmt.Errorf("scales of %q are not E4M3 numbers times one float32", n.Name)
	}
	codec := qmath.Codec{Format: qmath.FormatOf(qmath.FloatE4M3), Scale: whole.ToRowMajor().F32()[0]}
	out := tensor.New(tensor.Float32, codes.Shape...)
	for i, c := range codes.ToRowMajor().Integers() {
		out.F32()[i] = codec.Dequantize(c)
	}
	return out, nil
}

// book reads a constant whose codes stand for the numbers of a table, as builder.book writes it: nil where there is none.
func (r *recoverer) book(n *graph.Node) *chain {
	groups := is(n, "Reshape")
	if groups {
		p := r.g.Producer(n.Input(0))
		if p == graph.NoNode {
			return nil
		}
		n = r.g.Node(p)
	}
	if !is(n, "Mul") {
		return nil
	}
	p := r.g.Producer(n.Input(0))
	if p == graph.NoNode || !is(r.g.Node(p), "Gather") {
		return nil
	}
	gather := r.g.Node(p)
	table, cast := r.g.Const(gather.Input(0)), r.g.Producer(gather.Input(1))
	if table == nil || cast == graph.NoNode || !is(r.g.Node(cast), "Cast") {
		return nil
	}
	codes, scale := r.g.Const(r.g.Node(cast).Input(0)), r.g.Const(n.Input(1))
	if codes == nil || scale == nil || scale.DType != tensor.Float32 || !slices.Equal(table.F32(), qmath.Book()) {
		return nil
	}
	q := &heldGrid{dtype: codes.DType, kind: qmath.BookNF4, scale: scale.ToRowMajor().F32(), zero: make([]int32, scale.Len()), axis: -1,
		runTime: graph.NoValue}
	for i, d := range scale.Shape {
		if !groups && scale.Len() > 1 && d > 1 || groups && i > 0 && d == 1 && codes.Shape[i] > 1 {
			q.axis = i
		}
	}
	if groups {
		q.block, q.axis = codes.Shape[q.axis], q.axis-1
	}
	return &chain{[]*heldGrid{q}, codes, true}
}
