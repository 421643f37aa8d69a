package analysis

import (
	"slices"

	"qwb/graph"
)

// sizing lists, by operator, the inputs whose elements say how large the outputs are: nil is all inputs.
var sizing = map[string][]int{
	"NonZero": nil, "NonMaxSuppression": nil, "Range": nil, "Compress": {1}, "Unique": {0}, "TopK": {1}, "OneHot": {1},
	"Reshape": {1}, "Expand": {1}, "Slice": {1, 2, 3, 4}, "Split": {1}, "Tile": {1}, "Pad": {1, 3}, "ConstantOfShape": {0},
	"Resize": {1, 2, 3}, "Upsample": {1}, "CenterCropPad": {1}, "AffineGrid": {1}, "Col2Im": {1, 2}, "MaxUnpool": {2},
	"If": {0}, "Loop": {0, 1},
}

// counts says of the values of a graph what may differ between two runs on the same sample, one in float and one quantized.
type counts struct {
	differs []bool // elements
	counted []bool // size: how many there are depends on numbers that differ
}

// countsOf follows a graph. Elements differ behind float inputs; sizes where such elements say how large something is, as the
// threshold of a detector does, and behind that, except where shapes are known.
func countsOf(g *graph.Graph) *counts {
	c := &counts{make([]bool, g.NumValues()), make([]bool, g.NumValues())}
	for _, v := range g.Inputs {
		c.differs[v] = !g.Value(v).DType.IsInteger() && g.Const(v) == nil
	}
	order, err := g.Order()
	if err != nil {
		return c // nothing can run it
	}
	for _, id := range order {
		n := g.Node(id)
		spec := n.Spec()
		differs, counted := spec == nil || spec.Kind == graph.KindControl, false
		by, sizes := sizing[n.Op]
		sizes = sizes && n.IsONNX()
		for i, v := range n.Inputs {
			if v == graph.NoValue || g.Const(v) != nil {
				continue
			}
			differs = differs || c.differs[v]
			counted = counted || c.counted[v] || sizes && c.differs[v] && (by == nil || slices.Contains(by, i))
		}
		if n.Op == "Shape" || n.Op == "Size" {
			differs = counted
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				c.differs[v], c.counted[v] = differs, counted && !fixed(g.Value(v).Shape)
			}
		}
	}
	return c
}

func fixed(s graph.Shape) bool {
	return s != nil && !slices.ContainsFunc(s, func(d graph.Dim) bool { return !d.Known() })
}

// before lists the last float tensors in front of v whose size does not depend on numbers: what v was chosen from, and by. Inputs of the
// graph are none of them.
func (c *counts) before(g *graph.Graph, v graph.ValueID) (list []graph.ValueID) {
	seen := map[graph.ValueID]bool{}
	var visit func(v graph.ValueID)
	visit = func(v graph.ValueID) {
		p := g.Producer(v)
		if seen[v] || p == graph.NoNode || g.Const(v) != nil || !c.differs[v] {
			return
		}
		if seen[v] = true; !c.counted[v] && g.Value(v).DType.IsFloat() {
			list = append(list, v)
			return
		}
		for _, x := range g.Node(p).Inputs {
			if x != graph.NoValue {
				visit(x)
			}
		}
	}
	visit(v)
	return list
}

// judgedBy lists what the outputs of a graph are judged by. That is an output itself, unless how many elements it has depends on the
// numbers (Compress, NonZero, NonMaxSuppression and the like): the last tensors in front stand for that one. instead holds, for each of
// the list, the outputs that it stands for beside itself. counted says that there are such outputs.
func judgedBy(g *graph.Graph) (list []graph.ValueID, instead [][]graph.ValueID, counted bool) {
	c := countsOf(g)
	before := make([][]graph.ValueID, len(g.Outputs))
	for k, v := range g.Outputs {
		if c.counted[v] {
			before[k] = c.before(g, v)
		}
		if len(before[k]) == 0 {
			list = append(list, v)
		}
	}
	instead = make([][]graph.ValueID, len(list))
	for k, v := range g.Outputs {
		for _, x := range before[k] {
			at := slices.Index(list, x)
			if at < 0 {
				at, list, instead = len(list), append(list, x), append(instead, nil)
			}
			instead[at], counted = append(instead[at], v), true
		}
	}
	return list, instead, counted
}

// AnyCounted reports whether a graph has such an output.
func AnyCounted(g *graph.Graph) bool {
	c := countsOf(g)
	return slices.ContainsFunc(g.Outputs, func(v graph.ValueID) bool { return c.counted[v] })
}

// Counted reports whether how many elements output k of a graph has depends on its numbers, so that two runs cannot be compared there.
func Counted(g *graph.Graph, k int) bool { return countsOf(g).counted[g.Outputs[k]] }
