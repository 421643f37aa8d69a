package qdq

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// Original makes the float graph that of o, the network which was quantized: its weights and activations take the place of the dequantized
// and of those that were put back. The integers stay those of the file. o is as it was loaded, or in normal form, and stays unchanged. It
// has to be the same network: operator by operator, and weights that quantize to the integers of the file. Else the error names the first
// node that differs, and nothing is changed. Biases that a tool corrected stay as the file has them, with a warning.
func (q *Quantized) Original(ctx context.Context, o *graph.Graph) error {
	var best *matcher
	var first error
	for _, without := range unfolded {
		g := o.Clone()
		list := slices.DeleteFunc(slices.Clone(passes.Normalize), func(p passes.Pass) bool {
			return slices.Contains(without, p.Name) || without == nil
		})
		if _, err := passes.Run(ctx, g, list); err != nil {
			return err
		}
		graph.InferShapes(g)
		m := &matcher{q: q, a: q.Graph, b: g, same: map[graph.ValueID]graph.ValueID{}, values: map[graph.ValueID]*tensor.Tensor{},
			sketchA: sketch{q.Graph, map[graph.ValueID]uint64{}}, sketchB: sketch{g, map[graph.ValueID]uint64{}}}
		err := m.outputs()
		if err == nil {
			return m.apply()
		}
		if best == nil || len(m.same) > len(best.same) {
			best, first = m, err
		}
	}
	return first
}

// unfolded are lists of passes that are left out of the normal form, all of them first: tools quantize networks with normalizations and
// sums folded into what is in front of them, and without.
var unfolded = func() [][]string {
	norms := []string{passes.FoldBatchNorm.Name, passes.FoldScaleAfter.Name, passes.FoldScaleBefore.Name, passes.FoldBias.Name,
		passes.FoldOffsetBefore.Name}
	return [][]string{nil, {}, {passes.MatMulAddToGemm.Name}, norms, append(slices.Clone(norms), passes.MatMulAddToGemm.Name)}
}()

// matcher walks two graphs from their outputs to their inputs: a, of the quantized file, and b, the original.
type matcher struct {
	q         *Quantized
	a, b      *graph.Graph
	same      map[graph.ValueID]graph.ValueID  // by value of a: that of b
	values    map[graph.ValueID]*tensor.Tensor // constants of a to be replaced
	edits     []func() error                   // activations to be changed
	corrected []string                         // nodes whose bias the tool changed

	sketchA, sketchB sketch
}

func (m *matcher) outputs() error {
	if len(m.a.Outputs) != len(m.b.Outputs) {
		return fmt.Errorf("%s: --float: %s, the quantized file has %d", stage, plain.Count(len(m.b.Outputs), "output"), len(m.a.Outputs))
	}
	for i, v := range m.a.Outputs {
		if err := m.value(v, m.b.Outputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// differ is an error about node b of the original, and node a of the file where there is one.
func (m *matcher) differ(a, b graph.NodeID, format string, args ...any) error {
	what := fmt.Errorf("it is not the network that was quantized: "+format, args...)
	if b != graph.NoNode {
		return m.b.ErrorAt(stage+": --float", b, what)
	}
	return m.a.ErrorAt(stage+": --float: the quantized file", a, what)
}

// through returns what stands behind Identities.
func through(g *graph.Graph, v graph.ValueID) graph.ValueID {
	for p := g.Producer(v); p != graph.NoNode && g.Node(p).Op == "Identity"; p = g.Producer(v) {
		v = g.Node(p).Inputs[0]
	}
	return v
}

// value holds what computes a value of a against what computes one of b.
func (m *matcher) value(av, bv graph.ValueID) error {
	if (av == graph.NoValue) != (bv == graph.NoValue) {
		return errInputs
	}
	if av == graph.NoValue {
		return nil
	}
	av, bv = through(m.a, av), through(m.b, bv)
	if was, seen := m.same[av]; seen {
		if was != bv {
			return m.differ(m.a.Producer(av), m.b.Producer(bv), "what it computes is read where the file reads something else")
		}
		return nil
	}
	pa, pb := m.a.Producer(av), m.b.Producer(bv)
	switch {
	case pa == graph.NoNode && pb == graph.NoNode:
		if !m.inputs(av, bv) {
			return fmt.Errorf("%s: --float: it is not the network that was quantized: input %q is %q in the file", stage, m.b.Value(bv).Name,
				m.a.Value(av).Name)
		}
		m.same[av] = bv
		return nil
	case pa == graph.NoNode || pb == graph.NoNode:
		return m.differ(pa, pb, "the file has %s there", m.what(av, bv, pa))
	}
	low, high, limited := graph.LimitsOf(m.b.Node(pb), m.b.Opset(""), m.b.Const)
	limited = limited && low <= high
	own, ownHigh, ownLimited := graph.LimitsOf(m.a.Node(pa), m.a.Opset(""), m.a.Const)
	restored := slices.ContainsFunc(m.q.implied, func(x activation) bool { return x.id == pa })
	m.same[av] = bv
	switch {
	case limited && ownLimited && (restored || near(own, low, high-low) && near(ownHigh, high, high-low)):
		if restored && (own != low || ownHigh != high) {
			if err := m.limit(pa, pb, av, low, high, func(lo, hi float32) error { m.q.setLimits(pa, lo, hi); return nil }); err != nil {
				return err
			}
		}
		return m.value(m.a.Node(pa).Inputs[0], m.b.Node(pb).Inputs[0])
	case limited && !ownLimited:
		k := slices.Index(m.a.Node(pa).Outputs, av)
		if err := m.limit(pa, pb, av, low, high, func(lo, hi float32) error { return m.q.activate(pa, k, lo, hi) }); err != nil {
			return err
		}
		return m.nodes(pa, m.b.Producer(through(m.b, m.b.Node(pb).Inputs[0])), av, through(m.b, m.b.Node(pb).Inputs[0]))
	case restored && !limited:
		m.edits = append(m.edits, func() error { return m.q.withdraw(pa) })
		return m.value(m.a.Node(pa).Inputs[0], bv)
	}
	return m.nodes(pa, pb, av, bv)
}

// near reports whether two limits of a range are the same: files hold them on the grids of the tensors that they limit.
func near(x, y, width float32) bool {
	return x == y || math.Abs(float64(x)-float64(y)) <= 0.01*float64(width)
}

// errInputs is what value says where only one of two nodes has an input.
var errInputs = errors.New("inputs")

// what names what the file has in place of something.
func (m *matcher) what(av, bv graph.ValueID, pa graph.NodeID) string {
	switch {
	case pa != graph.NoNode:
		return fmt.Sprintf("%s where the other has %q", m.a.Node(pa).Op, m.b.Value(bv).Name)
	case m.a.Const(av) != nil:
		return "a constant"
	}
	return fmt.Sprintf("input %q", m.a.Value(av).Name)
}

// inputs reports whether two values are the same graph input, by place.
func (m *matcher) inputs(av, bv graph.ValueID) bool {
	place := func(g *graph.Graph, v graph.ValueID) int {
		k := 0
		for _, in := range g.Inputs {
			if in == v {
				return k
			}
			if g.Const(in) == nil {
				k++
			}
		}
		return -1
	}
	i := place(m.a, av)
	return i >= 0 && i == place(m.b, bv)
}

// limit plans an activation with the limits of the original. The grid behind it must clip there too: the quantized network stays as it is.
func (m *matcher) limit(pa, pb graph.NodeID, av graph.ValueID, low, high float32, change func(lo, hi float32) error) error {
	q := common(m.a, m.q.reads, m.q.outputs, av)
	if q == nil || !q.single() {
		return m.differ(pa, pb, "the file leaves it out, and does not quantize what it computes")
	}
	codec, step := q.at(0), float64(q.scale[0])
	for _, end := range []struct {
		x    *float32
		code int32
	}{{&low, q.low}, {&high, q.high}} {
		own := codec.Dequantize(end.code)
		switch {
		case codec.Quantize(*end.x) == end.code:
		case math.Abs(float64(*end.x)-float64(own)) <= step: // half a step inside, rounded the other way
			*end.x = own
		default:
			return m.differ(pa, pb, "the file leaves it out, and its grid from %g to %g does not clip in its place", codec.Dequantize(q.low),
				codec.Dequantize(q.high))
		}
	}
	m.edits = append(m.edits, func() error { return change(low, high) })
	return nil
}

// nodes holds two nodes against each other that compute av and bv.
func (m *matcher) nodes(pa, pb graph.NodeID, av, bv graph.ValueID) error {
	if pb == graph.NoNode {
		return m.differ(pa, pb, "it computes what %q is", m.b.Value(bv).Name)
	}
	x, y := m.a.Node(pa), m.b.Node(pb)
	shapes := m.a.Value(av).Shape.String() == m.b.Value(bv).Shape.String()
	if x.Reshapes() && y.Reshapes() && shapes {
		return m.value(x.Inputs[0], y.Inputs[0])
	}
	if x.Op != y.Op || x.Domain != y.Domain || slices.Index(x.Outputs, av) != slices.Index(y.Outputs, bv) {
		return m.differ(pa, pb, "the file has %s %q there", x.Op, x.Name)
	}
	if name := attributeThatDiffers(x, y); name != "" && !(shapes && len(x.Inputs) != len(y.Inputs)) {
		return m.differ(pa, pb, "attribute %s is another in the file", name)
	}
	n := len(x.Inputs)
	if n != len(y.Inputs) {
		if !shapes { // of other opsets: axes as an attribute, or as an input
			return m.differ(pa, pb, "%s, in the file %d", plain.Count(len(y.Inputs), "input"), n)
		}
		n = min(1, n, len(y.Inputs))
	}
	order := []int{0, 1}
	if (x.Op == "Add" || x.Op == "Mul") && n == 2 && !m.alike(x.Inputs[0], y.Inputs[0]) && m.alike(x.Inputs[0], y.Inputs[1]) {
		order = []int{1, 0}
	}
	for i := range n {
		k := i
		if i < 2 && n == 2 {
			k = order[i]
		}
		var err error
		if av, bv := x.Input(i), y.Input(k); av != graph.NoValue && bv != graph.NoValue && m.a.Const(av) != nil && m.b.Const(bv) != nil {
			err = m.constant(pa, pb, i, av, bv)
		} else {
			err = m.value(av, bv)
		}
		if err == errInputs {
			err = m.differ(pa, pb, "input %d is there in one of the two only", i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// alike reports whether two values may be the same: computed by operators of the same names from the inputs on, activations left out.
func (m *matcher) alike(av, bv graph.ValueID) bool {
	return m.sketchA.of(av) == m.sketchB.of(bv)
}

// sketch is a hash of how values are computed: names of operators alone.
type sketch struct {
	g    *graph.Graph
	seen map[graph.ValueID]uint64
}

func (s sketch) of(v graph.ValueID) uint64 {
	v = through(s.g, v)
	if h, seen := s.seen[v]; seen {
		return h
	}
	h := fnv.New64a()
	p := s.g.Producer(v)
	if p == graph.NoNode {
		fmt.Fprint(h, slices.Index(s.g.Inputs, v) >= 0)
		s.seen[v] = h.Sum64()
		return s.seen[v]
	}
	n := s.g.Node(p)
	var in []uint64
	for _, x := range n.Inputs {
		if x != graph.NoValue && s.g.Const(x) == nil {
			in = append(in, s.of(x))
		}
	}
	if _, _, ok := graph.LimitsOf(n, s.g.Opset(""), s.g.Const); (ok || n.Reshapes()) && len(in) > 0 {
		s.seen[v] = in[0]
		return in[0]
	}
	if n.Op == "Add" || n.Op == "Mul" {
		slices.Sort(in)
	}
	fmt.Fprint(h, n.Op, slices.Index(n.Outputs, v), in)
	s.seen[v] = h.Sum64()
	return s.seen[v]
}

// defaults are attributes that an exporter writes or leaves out.
var defaults = map[string]func(a *graph.Attr) bool{
	"group": one, "alpha": one, "beta": one, "strides": one, "dilations": one, "transA": zero, "transB": zero, "pads": zero, "ceil_mode": zero,
	"count_include_pad": zero, "storage_order": zero, "allowzero": zero, "output_padding": zero, "training_mode": zero,
	"select_last_index": zero,
	"keepdims":          one, "noop_with_empty_axes": zero, "kernel_shape": func(*graph.Attr) bool { return true },
	"auto_pad": func(a *graph.Attr) bool { return a.S == "NOTSET" }, "mode": func(a *graph.Attr) bool { return a.S == "constant" },
}

func one(a *graph.Attr) bool  { return allInts(a, 1) }
func zero(a *graph.Attr) bool { return allInts(a, 0) }

func allInts(a *graph.Attr, x int64) bool {
	switch a.Kind {
	case graph.AttrInt:
		return a.I == x
	case graph.AttrFloat:
		return a.F == float32(x)
	}
	return a.Kind == graph.AttrInts && !slices.ContainsFunc(a.Ints, func(i int64) bool { return i != x })
}

// attributeThatDiffers returns the name of an attribute that only one of two nodes has, or that differs; "" for none.
func attributeThatDiffers(x, y *graph.Node) string {
	for _, of := range [][2]*graph.Node{{x, y}, {y, x}} {
		for i := range of[0].Attrs {
			a, b := &of[0].Attrs[i], of[1].Attr(of[0].Attrs[i].Name)
			known := defaults[a.Name]
			switch {
			case a.Name == "axis" && a.Kind == graph.AttrInt:
				if x.Axis() != y.Axis() {
					return a.Name
				}
			case b == nil && (known == nil || known(a)):
			case b == nil || a.Kind != b.Kind || a.I != b.I || a.F != b.F || a.S != b.S || !slices.Equal(a.Ints, b.Ints) ||
				!slices.Equal(a.Floats, b.Floats) || (a.T == nil) != (b.T == nil) || a.T != nil && !tensor.Equal(a.T, b.T):
				return a.Name
			}
		}
	}
	return ""
}

// How near constants lie: folding a normalization rounds. Integers are within half a step, and up to 127 * 2^-11 more of a tool that
// divides in half precision.
const (
	sameFloat = 1e-4
	sameStep  = 0.57
)

// constant holds input i of a node of the file against a constant of the original.
func (m *matcher) constant(pa, pb graph.NodeID, i int, av, bv graph.ValueID) error {
	was, seen := m.same[av]
	if seen && was == bv {
		return nil
	}
	x, y := m.a.Const(av).ToRowMajor(), m.b.Const(bv).ToRowMajor()
	if x.Len() != y.Len() || x.DType != y.DType {
		return m.differ(pa, pb, "input %d is %s, in the file %s", i, y.Type(), x.Type())
	}
	if x.DType != tensor.Float32 {
		if !reflect.DeepEqual(x.Data, y.Data) && m.a.Node(pa).Op != "Reshape" {
			return m.differ(pa, pb, "input %d has other numbers in the file", i)
		}
		return nil
	}
	q := last(m.q.reads[graph.Use{Node: pa, Index: i}])
	if c := m.q.codes[av]; c != nil {
		q = c.grid
	}
	bias := i == graph.BiasInput && (graph.Slides(m.a.Node(pa).Op) || m.a.Node(pa).Op == "Gemm") || m.a.Node(pa).Op == "Add"
	t, at := m.float(x, y, q)
	if at >= 0 && bias {
		m.corrected = append(m.corrected, m.a.Node(pa).Name)
		return nil
	}
	if at >= 0 {
		return m.differ(pa, pb, "element %d of input %d (%q) is %.6g, in the file %.6g", at, i, m.b.Value(bv).Name, y.F32()[at], x.F32()[at])
	}
	if !seen { // equal numbers of the file may stand for two that were not
		m.same[av], m.values[av] = bv, t
	}
	return nil
}

// float returns the numbers y of the original in the shape of x, those of the file on grid q (nil: none), and the first element that is not
// the same, -1 for none. Numbers in the middle between two integers lie a little nearer to that of the file.
func (m *matcher) float(x, y *tensor.Tensor, q *grid) (*tensor.Tensor, int) {
	out := tensor.New(tensor.Float32, x.Shape...)
	a, b, w := x.F32(), y.F32(), out.F32()
	most := 0.0
	for _, v := range a {
		most = max(most, math.Abs(float64(v)))
	}
	same := sameFloat
	if m.q.half {
		same = 0x1p-10
	}
	index := func(int) int { return 0 }
	if q != nil {
		index = q.index(x.Shape)
	}
	for i := range a {
		w[i] = b[i]
		off := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(off) && a[i] != b[i] && !(a[i] != a[i] && b[i] != b[i]) {
			return nil, i
		}
		if q == nil {
			if off > same*max(most, math.Abs(float64(b[i]))) {
				return nil, i
			}
			continue
		}
		codec := q.at(index(i))
		code := codec.Quantize(a[i])
		if codec.Quantize(b[i]) == code {
			continue
		}
		if step := float64(codec.Scale); off > sameStep*step+same*math.Abs(float64(b[i])) && off > sameFloat*most {
			return nil, i
		}
		if w[i] = a[i] + 0.49*(b[i]-a[i]); codec.Quantize(w[i]) != code {
			w[i] = a[i]
		}
	}
	return out, -1
}

// apply does what was found.
func (m *matcher) apply() error {
	for v, t := range m.values {
		m.a.SetConst(v, t)
	}
	for _, edit := range m.edits {
		if err := edit(); err != nil {
			return fmt.Errorf("%s: --float: %w", stage, err)
		}
	}
	if n := len(m.corrected); n > 0 {
		slices.Sort(m.corrected)
		m.q.Warnings = append(m.q.Warnings, tqc.Warning{Node: m.corrected[0], Value: float64(n),
			Text: fmt.Sprintf("the biases of %s differ from those of the "+
				"float network by more than half a step: the tool corrected them, and they stay as the file has them", plain.Count(n, "operator"))})
	}
	m.q.original = true
	graph.InferShapes(m.a)
	return m.a.Check()
}
