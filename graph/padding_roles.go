package graph

import (
	"slices"

	"qwb/graph/tensor"
)

// spread finds the axes that count positions, from the mask and the inputs of its size to the outputs. What follows from the mask alone
// has none: it is the mask in another form, and its low numbers are what calibration looks for.
func (p *Padding) spread(g *Graph, order []NodeID) {
	of, content := make([][]role, g.NumValues()), make([]bool, g.NumValues())
	lengths, _ := lengthsOf(g.Value(p.Mask).Shape)
	for _, v := range g.Inputs {
		shape := g.Value(v).Shape
		switch {
		case v == p.Mask:
			of[v] = make([]role, len(shape))
			of[v][len(shape)-1] = positions
			if len(shape) > 1 && square(shape) {
				of[v][len(shape)-2] = positions
			}
			if p.full {
				of[v][0] = samples
			}
		case len(shape) >= len(lengths) && begins(shape, lengths):
			of[v], content[v] = make([]role, len(shape)), true
			of[v][len(lengths)-1] = positions
			if p.full {
				of[v][0] = samples
			}
		}
	}
	for _, id := range order {
		n := g.Node(id)
		reads := false
		for _, v := range n.Inputs {
			reads = reads || v != NoValue && content[v] && of[v] != nil
		}
		for i, v := range n.Outputs {
			if v == NoValue || g.Value(v).Shape == nil {
				continue
			}
			list := rolesBehind(g, n, i, of)
			if list != nil && len(list) == len(g.Value(v).Shape) && slices.Max(append(list, noRole)) > samples {
				of[v], content[v] = list, reads
			}
		}
	}
	for v := range of {
		if !content[v] {
			of[v] = nil
		}
	}
	p.roles = of
}

// begins reports whether a shape begins with some dimensions, as far as they are known.
func begins(shape, with Shape) bool {
	for i, d := range with {
		if shape[i] != d {
			return false
		}
	}
	return true
}

// rolesBehind are those of an output of a node, nil where nothing is known of them.
func rolesBehind(g *Graph, n *Node, output int, of [][]role) []role {
	spec := n.Spec()
	if spec == nil || len(n.Inputs) == 0 {
		return nil
	}
	first := n.Input(0)
	if first == NoValue {
		return nil
	}
	if list, ok := rolesOfFused(g, n, output, of); ok || !n.IsONNX() && spec.Kind != KindActivation {
		return list
	}
	out := g.Value(n.Outputs[output]).Shape
	if n.Reshapes() {
		return regrouped(of[first], g.Value(first).Shape, out)
	}
	switch n.Op {
	case "MatMul":
		return rolesOfProduct(g, n, of)
	case "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool": // windows: what lies along an axis whose size stays
		list := rolesKept(of[first], g.Value(first).Shape, out)
		if len(list) > 1 && list[1] == positions && spec.Kind == KindComputing {
			list[1] = noRole // channels are summed
		}
		return list
	case "Gemm":
		return rolesOfGemm(n, of)
	case "Gather":
		return rolesOfGather(g, n, of)
	case "Transpose":
		return rolesOfTranspose(n, of[first])
	case "Identity", "Cast", "Dropout", "Where", "Expand", "Clip", "LayerNormalization", "Pad":
		return broadcastRoles(g, n, len(out), of)
	case "Slice", "Split", "Concat", "CumSum":
		return rolesKept(of[first], g.Value(first).Shape, out)
	}
	switch spec.Kind {
	case KindActivation, KindElementwise, KindCompare, KindSoftmax:
		return broadcastRoles(g, n, len(out), of)
	case KindReduce:
		return rolesOfReduce(g, n, of[first])
	case KindNormalization:
		return rolesKept(of[first], g.Value(first).Shape, out)
	}
	return nil
}

// rolesOfFused are those of an output of an operator that has attention or a normalization inside; ok is false for other operators.
func rolesOfFused(g *Graph, n *Node, output int, of [][]role) (list []role, ok bool) {
	from, rank := of[n.Input(0)], len(g.Value(n.Outputs[output]).Shape)
	switch n.Op {
	case "Attention", "MultiHeadAttention", "GroupQueryAttention":
		kept := n.Input(1) // all keys and values are those of one of the inputs where there is no past
		if n.IsONNX() && output > 2 || len(from) < 3 {
			return nil, true
		}
		if output > 0 && !(n.Op == "Attention" && !n.IsONNX()) && kept != NoValue {
			from = of[kept]
		}
		switch {
		case len(from) < 3:
			return nil, true
		case len(from) == rank && output == 0:
			return slices.Clone(from), true
		case len(from) == 4 && rank == 4:
			return slices.Clone(from), true
		case output > 0 && rank == 4: // [batch, heads, positions, size]
			return []role{from[0], noRole, from[1], noRole}, true
		case output > 0 && rank == 5: // of keys and values
			return []role{noRole, from[0], noRole, from[1], noRole}, true
		}
		return nil, true
	case "RotaryEmbedding":
		return slices.Clone(from), true
	case "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization":
		if rank != len(from) {
			return nil, true
		}
		return slices.Clone(from), true
	case "EmbedLayerNormalization":
		if output == 1 || len(from) != 2 {
			return nil, true
		}
		return append(slices.Clone(from), noRole), true
	}
	return nil, false
}

func rolesOfReduce(g *Graph, n *Node, from []role) []role {
	var given []int64
	if n.Input(1) != NoValue {
		if given = toI64(g.Const(n.Input(1))); given == nil {
			return nil
		}
	}
	axes, err := ReduceAxes(n, len(from), given)
	if n.Op == "ArgMax" || n.Op == "ArgMin" {
		axis, ok := Axis(int(n.AttrInt("axis", 0)), len(from))
		axes, err = []int{axis}, nil
		if !ok {
			return nil
		}
	}
	if from == nil || err != nil {
		return nil
	}
	list := []role{}
	for i, r := range from {
		switch {
		case !slices.Contains(axes, i):
			list = append(list, r)
		case n.KeepDims():
			list = append(list, noRole)
		}
	}
	return list
}

// toI64 are the integers of a constant, nil where it is none.
func toI64(t *tensor.Tensor) []int64 {
	if t == nil {
		return nil
	}
	return t.I64()
}

// broadcastRoles are those of what is computed element by element.
func broadcastRoles(g *Graph, n *Node, rank int, of [][]role) []role {
	list := make([]role, rank)
	for _, v := range n.Inputs {
		if v == NoValue || of[v] == nil {
			continue
		}
		shift := rank - len(of[v])
		if shift < 0 {
			return nil
		}
		for i, r := range of[v] {
			if at := &list[shift+i]; *at == noRole || g.Value(v).Shape[i].N != 1 && r != noRole {
				*at = r
			}
		}
	}
	return list
}

// rolesOfProduct are those of rows of one matrix and columns of the other.
func rolesOfProduct(g *Graph, n *Node, of [][]role) []role {
	a, b := n.Input(0), n.Input(1)
	ra, rb := len(g.Value(a).Shape), len(g.Value(b).Shape)
	if ra < 2 || rb < 2 {
		return nil
	}
	list := make([]role, max(ra, rb))
	take := func(of []role, to int, last bool) {
		if of == nil {
			return
		}
		for i, r := range of[:len(of)-2] {
			if at := &list[len(list)-len(of)+i]; *at == noRole {
				*at = r
			}
		}
		if last {
			list[to] = of[len(of)-1]
		} else {
			list[to] = of[len(of)-2]
		}
	}
	take(of[a], len(list)-2, false)
	take(of[b], len(list)-1, true)
	return list
}

// rolesOfGemm are those of the rows; in the normal form there may be more than two axes.
func rolesOfGemm(n *Node, of [][]role) []role {
	x := of[n.Input(0)]
	if len(x) < 2 || n.Gemm().TransA {
		return nil
	}
	return append(slices.Clone(x[:len(x)-1]), noRole)
}

// rolesOfGather are those of the indices in place of one axis.
func rolesOfGather(g *Graph, n *Node, of [][]role) []role {
	data, index := n.Input(0), n.Input(1)
	rank := len(g.Value(data).Shape)
	axis, ok := Axis(int(n.AttrInt("axis", 0)), rank)
	if !ok || g.Value(index).Shape == nil {
		return nil
	}
	from, at := of[data], of[index]
	if from == nil {
		from = make([]role, rank)
	}
	if at == nil {
		at = make([]role, len(g.Value(index).Shape))
	}
	return slices.Concat(from[:axis], at, from[axis+1:])
}

func rolesOfTranspose(n *Node, from []role) []role {
	if from == nil {
		return nil
	}
	list := slices.Clone(from)
	perm := n.AttrInts("perm")
	for i := range list {
		if len(perm) == len(list) {
			list[i] = from[perm[i]]
		} else {
			list[i] = from[len(from)-1-i]
		}
	}
	return list
}

// rolesKept are those of axes whose size stays.
func rolesKept(from []role, in, out Shape) []role {
	if from == nil {
		return nil
	}
	if len(in) != len(out) { // axes that are summed are gone
		return regrouped(from, in, out)
	}
	list := make([]role, len(from))
	for i, r := range from {
		if in[i] == out[i] {
			list[i] = r
		}
	}
	return list
}

// regrouped are those behind a Reshape: axes are matched by the products of their sizes, from the first on.
func regrouped(from []role, in, out Shape) []role {
	if from == nil || in == nil || out == nil {
		return nil
	}
	list := make([]role, len(out))
	for i, k := 0, 0; i < len(in) && k < len(out); {
		a, b := smallestGroup(in[i:], out[k:])
		if a == 0 {
			break
		}
		groupRoles(from[i:i+a], in[i:i+a], out[k:k+b], list[k:k+b])
		i, k = i+a, k+b
	}
	return list
}

// smallestGroup is how many dimensions of both lists, from the first on, have the same product; 0 where none have.
func smallestGroup(in, out Shape) (a, b int) {
	for sum := 2; sum <= len(in)+len(out); sum++ {
		for a := 1; a <= min(sum-1, len(in)); a++ {
			if b := sum - a; b >= 1 && b <= len(out) && sameProduct(in[:a], out[:b]) {
				return a, b
			}
		}
	}
	return 0, 0
}

func sameProduct(a, b Shape) bool {
	if len(a) == 1 && len(b) == 1 {
		return a[0] == b[0] && (a[0].Known() || a[0].Symbol != "")
	}
	p, ok := polyProduct(a)
	q, also := polyProduct(b)
	return ok && also && p.elem() == q.elem() && p.elem() != Elem{}
}

func polyProduct(s Shape) (p poly, ok bool) {
	p = poly{c: 1}
	for _, d := range s {
		q, ok := d.elem().poly()
		if !ok {
			return p, false
		}
		if p, ok = p.times(q); !ok {
			return p, false
		}
	}
	return p, true
}

// groupRoles gives axes that are made of others what those count: where one axis has the size of one of them it is that one, and samples
// and positions become one axis, or the other way round.
func groupRoles(from []role, in, out Shape, list []role) {
	var has []int
	for i, r := range from {
		if r != noRole {
			has = append(has, i)
		}
	}
	var large []int // axes behind it that may count something
	for k, d := range out {
		if d.N != 1 {
			large = append(large, k)
		}
	}
	one := func(s Shape) int { // how many dimensions are not 1
		n := 0
		for _, d := range s {
			if d.N != 1 {
				n++
			}
		}
		return n
	}
	switch {
	case len(in) == 1 && len(out) == 1:
		list[0] = from[0]
	case len(has) == 1 && from[has[0]] == both && len(large) == 2 && one(in) == 1:
		list[large[0]], list[large[1]] = samples, positions
	case len(has) == 1 && len(large) == 1 && in[has[0]].N != 1 && one(in) == 1:
		list[large[0]] = from[has[0]]
	case len(has) == 2 && from[has[0]] == samples && from[has[1]] == positions && len(large) == 1 && one(in) <= 2:
		list[large[0]] = both
	}
}
