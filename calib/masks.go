package calib

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// lowestScore is what the smallest number of a mask lies below: -1e4, -1e9, the lowest float32 and -inf are in use.
const lowestScore = -1000

// unseen is how far below the largest number of a row a Softmax in float32 gives exactly 0:
// exp(-104) is below half of the smallest denormal.
const unseen = 104

// hidden is the sum of the probabilities that all masked entries of a row may have: half a step of 1/256, in which 8 bits hold them.
const hidden = 1.0 / 512

// masks knows the tensors in front of a Softmax, ArgMax or TopK in which a very low number means "not this one": it need not be kept
// exact, it has to lie so far below the others that nobody sees it. Such tensors get the range of the numbers that are seen, widened
// downwards until a masked entry is hidden; the low number itself saturates there.
type masks struct {
	r *renderer
	// at has, for each tensor with masked entries, how they came about.
	at map[graph.ValueID]masking
	// low has the operands that bring the low numbers, with the operator that takes them.
	low map[graph.ValueID]graph.NodeID
	// passed are the tensors that the walk from one reader came through.
	passed map[graph.ValueID]bool
}

// masking is how a tensor with masked entries comes from tensors without.
type masking struct {
	node graph.NodeID
	// room is how far below the smallest number that is seen a masked entry has to lie, in units of the tensor; with share it is that part of
	// the range, for readers that compare only.
	room, share float64
}

// findMasks walks back from everything that a mask may be in front of.
func (r *renderer) findMasks() *masks {
	m := &masks{r: r, at: map[graph.ValueID]masking{}, low: map[graph.ValueID]graph.NodeID{}}
	for _, id := range r.order {
		n := r.g.Node(id)
		if n.Domain != "" {
			continue
		}
		m.passed = map[graph.ValueID]bool{}
		switch n.Op {
		case "Softmax", "LogSoftmax", "Hardmax":
			m.walk(n.Input(0), math.Log(float64(r.rowLength(n))/hidden), 0)
		case "ArgMax", "TopK":
			m.walk(n.Input(0), 0, 1.0/32)
		}
	}
	return m
}

// longestRow stands for the length of a row that is not known: only its logarithm counts.
const longestRow = 4096

// rowLength is how many elements of a Softmax sum to 1.
func (r *renderer) rowLength(n *graph.Node) int {
	shape := r.g.Value(n.Input(0)).Shape
	from, to, err := graph.SoftmaxAxes(n, r.g.Opset(""), len(shape))
	if err != nil || len(shape) == 0 {
		return longestRow
	}
	length := 1
	for _, d := range shape[from:to] {
		if !d.Known() {
			return longestRow
		}
		length *= max(int(d.N), 1)
	}
	return length
}

// walk follows the values of v back over operators that keep their order, and notes the tensors that have masked entries.
// It reports whether v is one.
func (m *masks) walk(v graph.ValueID, room, share float64) bool {
	id := m.r.g.Producer(v)
	if id == graph.NoNode || m.passed[v] {
		_, found := m.at[v]
		return found
	}
	m.passed[v] = true
	n := m.r.g.Node(id)
	found := false
	switch n.Op {
	case "Expand", "Slice", "Cast":
		found = m.walk(n.Input(0), room, share)
	case "Mul", "Div":
		if _, factor, ok := m.scaled(n); ok {
			found = m.walk(n.Input(m.computed(n)), room/factor, share)
		}
	case "Clip", "Max":
		found = m.walk(n.Input(m.computed(n)), room, share)
	case "TopK": // its numbers, not their places
		found = v == n.Outputs[0] && m.walk(n.Input(0), room, share)
	case "Add", "Where", "Min", "Concat": // Concat: of scores with those of sinks
		for _, i := range operands(n) {
			if n.Op != "Concat" && m.hides(n, i) {
				m.low[n.Input(i)] = id
				found = true
			}
		}
		for _, i := range operands(n) {
			found = m.walk(n.Input(i), room, share) || found
		}
	default:
		found = n.HandsOn() && m.walk(n.Input(0), room, share)
	}
	if found {
		m.at[v] = masking{node: id, room: max(room, m.at[v].room), share: max(share, m.at[v].share)} // of all readers
	}
	return found
}

// operands are the inputs of an operator whose numbers it puts together.
func operands(n *graph.Node) []int {
	if n.Op == "Where" {
		return []int{1, 2}
	}
	var list []int
	for i := range n.Inputs {
		list = append(list, i)
	}
	return list
}

// computed is the first input that is no constant.
func (m *masks) computed(n *graph.Node) int {
	for i, v := range n.Inputs {
		if v != graph.NoValue && m.r.g.Const(v) == nil {
			return i
		}
	}
	return 0
}

// scaled returns the input of a product with one positive number, or of a quotient by one, and the factor.
func (m *masks) scaled(n *graph.Node) (v graph.ValueID, factor float64, ok bool) {
	i := m.computed(n)
	c := m.r.g.Const(n.Input(1 - i))
	if c == nil || c.DType != tensor.Float32 || c.Len() != 1 || n.Op == "Div" && i == 1 {
		return 0, 0, false
	}
	factor = float64(c.F32()[0])
	if n.Op == "Div" {
		factor = 1 / factor
	}
	return n.Input(i), factor, factor > 0 && !math.IsInf(factor, 0)
}

// hides reports whether operand i brings numbers that lie too low to be seen, whatever the other operand is, and is no score itself.
func (m *masks) hides(n *graph.Node, i int) bool {
	v := n.Input(i)
	own, err := m.r.seen(v)
	if err != nil || !m.computesNothing(v, map[graph.ValueID]bool{}) {
		return false
	}
	lowest := float64(own.Extent().Min)
	if negative, _ := own.Inf(); negative > 0 {
		lowest = math.Inf(-1)
	}
	if lowest > lowestScore {
		return false
	}
	for _, j := range operands(n) {
		if j == i {
			continue
		}
		other, err := m.r.seen(n.Input(j))
		if err != nil {
			return false
		}
		x := other.Extent()
		if n.Op == "Add" {
			lowest += float64(x.Max)
		}
		if !x.Empty() && lowest > float64(x.Min)-unseen {
			return false
		}
	}
	return true
}

// computesNothing reports whether no operator that sums products lies behind v: masks are made of constants, inputs and comparisons.
func (m *masks) computesNothing(v graph.ValueID, done map[graph.ValueID]bool) bool {
	id := m.r.g.Producer(v)
	if id == graph.NoNode || done[v] {
		return true
	}
	done[v] = true
	n := m.r.g.Node(id)
	if spec := n.Spec(); spec == nil || spec.Kind == graph.KindComputing || len(n.Subgraphs()) > 0 {
		return false
	}
	for _, in := range n.Inputs {
		if in != graph.NoValue && !m.computesNothing(in, done) {
			return false
		}
	}
	return true
}

// about reports whether one of the values has masked entries or brings them.
func (m *masks) about(values []graph.ValueID) bool {
	return slices.ContainsFunc(values, func(v graph.ValueID) bool { _, low := m.low[v]; _, at := m.at[v]; return low || at })
}

// try is try for tensors some of which have masked entries or bring them.
func (m *masks) try(values []graph.ValueID, method *observers.Method, c tqc.Config, parameter float64) (t trial, err error) {
	find := func(v graph.ValueID) (observers.Range, error) {
		st, err := m.r.seen(v)
		if err != nil {
			return observers.Range{}, err
		}
		x, warnings, err := method.Range(st, c, parameter)
		t.warnings = append(t.warnings, warnings...)
		return x, err
	}
	t = trial{method: method.Name}
	all := noRange
	for _, v := range values {
		var x observers.Range
		if id, ok := m.low[v]; ok {
			x, err = m.mask(v, id, find)
		} else if at, ok := m.at[v]; ok {
			x, err = m.widened(v, at, find)
		} else if m.filler(v, values) {
			continue
		} else {
			x, err = find(v)
		}
		if err != nil {
			return t, err
		}
		all = covering(all, x)
	}
	t.ranges = []observers.Range{all}
	t.params, _, err = scales(t.ranges, c, 0)
	return t, err
}

// filler reports whether v is a constant of one low number that an operator among whose results is one of values puts into a mask.
func (m *masks) filler(v graph.ValueID, values []graph.ValueID) bool {
	c := m.r.g.Const(v)
	if c == nil || c.DType != tensor.Float32 || c.Len() != 1 || float64(c.F32()[0]) > lowestScore {
		return false
	}
	return slices.ContainsFunc(m.r.g.Uses(v), func(u graph.Use) bool {
		n := m.r.g.Node(u.Node)
		return n.Op == "Where" && slices.ContainsFunc(n.Outputs, func(o graph.ValueID) bool { return slices.Contains(values, o) })
	})
}

// noRange is the range of nothing.
var noRange = observers.Range{Lo: math.Inf(1), Hi: math.Inf(-1)}

// covering is the smallest range that covers both.
func covering(a, b observers.Range) observers.Range {
	return observers.Range{Lo: min(a.Lo, b.Lo), Hi: max(a.Hi, b.Hi)}
}

// widened is the visible range of v with the room below it in which masked entries lie.
func (m *masks) widened(v graph.ValueID, at masking, find func(graph.ValueID) (observers.Range, error)) (observers.Range, error) {
	x, err := m.visible(v, find)
	x.Lo -= max(at.room, at.share*(x.Hi-x.Lo))
	return x, err
}

// visible is the range of the numbers of v that somebody sees.
func (m *masks) visible(v graph.ValueID, find func(graph.ValueID) (observers.Range, error)) (observers.Range, error) {
	at, ok := m.at[v]
	if !ok {
		if _, low := m.low[v]; low {
			return m.shown(v), nil
		}
		return find(v)
	}
	n := m.r.g.Node(at.node)
	switch n.Op {
	case "Mul", "Div":
		in, factor, _ := m.scaled(n)
		x, err := m.visible(in, find)
		return observers.Range{Lo: x.Lo * factor, Hi: x.Hi * factor}, err
	case "Add":
		a, err := m.visible(n.Input(0), find)
		if err != nil {
			return a, err
		}
		b, err := m.visible(n.Input(1), find)
		return observers.Range{Lo: a.Lo + b.Lo, Hi: a.Hi + b.Hi}, err
	case "Where", "Min", "Concat":
		all := noRange
		for _, i := range operands(n) {
			if _, low := m.low[n.Input(i)]; low {
				continue
			}
			x, err := m.visible(n.Input(i), find)
			if err != nil {
				return x, err
			}
			all = covering(all, x)
		}
		return all, nil
	case "Clip", "Max":
		return m.visible(n.Input(m.computed(n)), find)
	}
	return m.visible(n.Input(0), find)
}

// shown is the range of those numbers of a mask that do not mask: of a constant exactly; else nothing is known but the largest.
func (m *masks) shown(v graph.ValueID) observers.Range {
	st, err := m.r.seen(v)
	if err != nil || st.Extent().Empty() {
		return observers.Range{}
	}
	x := observers.Range{Lo: min(float64(st.Extent().Max), 0), Hi: max(float64(st.Extent().Max), 0)}
	if x.Hi = min(x.Hi, -lowestScore); x.Lo < lowestScore {
		return observers.Range{}
	}
	if c := m.r.g.Const(v); c != nil {
		for _, f := range c.F32() {
			if f > lowestScore {
				x.Lo = min(x.Lo, float64(f))
			}
		}
	}
	return x
}

// mask is the range of the operand that brings low numbers: so low that the largest number that it is added to comes out hidden. Where
// it is not added but put in place of the others, its range is that of what it is put into.
func (m *masks) mask(v graph.ValueID, id graph.NodeID, find func(graph.ValueID) (observers.Range, error)) (observers.Range, error) {
	n := m.r.g.Node(id)
	at := m.at[n.Outputs[0]]
	if n.Op != "Add" {
		return m.widened(n.Outputs[0], at, find)
	}
	x := m.shown(v)
	for _, in := range n.Inputs {
		if in == v {
			continue
		}
		other, err := m.visible(in, find)
		if err != nil {
			return x, err
		}
		reach := other.Hi - other.Lo
		// A fiftieth more, for the rounding of both and of the sum.
		x.Lo -= 1.02 * (reach + max(at.room, at.share*reach))
	}
	return x, nil
}
