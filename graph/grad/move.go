package grad

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// reductions sum over axes.
var reductions = map[string]rule{
	"ReduceSum":  unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { return t.repeated(x, dy, false) }),
	"ReduceMean": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { return t.repeated(x, dy, true) }),
}

// repeated brings what arrives at a reduction back to all that was summed; mean: divided by their number.
func (t *tape) repeated(x, dy graph.ValueID, mean bool) graph.ValueID {
	shape := t.shape(x)
	kept, n := slices.Clone(shape), 1
	axes := t.list("axes", 1)
	if axes == nil && t.n.AttrInt("noop_with_empty_axes", 0) == 0 {
		axes = upTo(0, len(shape))
	}
	for _, a := range axes {
		a, _ := graph.Axis(a, len(shape))
		n *= shape[a]
		kept[a] = 1
	}
	if mean {
		dy = t.scale(dy, 1/float64(n))
	}
	return t.op("Expand", t.reshape(dy, kept), t.integers(shape...))
}

// list is an attribute of integers or, from some opset on, a constant input; nil where both are absent.
func (t *tape) list(attr string, input int) []int {
	var out []int
	for _, v := range t.n.AttrInts(attr) {
		out = append(out, int(v))
	}
	if v := t.n.Input(input); v != graph.NoValue {
		c := t.g.Const(v)
		if c == nil {
			t.fail(fmt.Errorf("its %s are not constant", attr))
			return nil
		}
		out = make([]int, c.Len())
		for i := range out {
			if c.DType == tensor.Int64 {
				out[i] = int(c.I64()[i])
			} else {
				out[i] = int(c.Integers()[i])
			}
		}
	}
	return out
}

// movers hand elements on; where that is not turned round by an operator, by a constant matrix along an axis.
var movers = map[string]rule{
	"Reshape": unary(reshaped), "Flatten": unary(reshaped), "Squeeze": unary(reshaped), "Unsqueeze": unary(reshaped),
	"Transpose": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		rank := len(t.shape(x))
		back := make([]int, rank)
		perm := t.n.AttrInts("perm")
		for i := range back {
			if perm == nil {
				back[i] = rank - 1 - i
			} else {
				back[perm[i]] = i
			}
		}
		return t.transpose(dy, back...)
	}),
	"Expand": unary(func(t *tape, _, _, dy graph.ValueID) graph.ValueID { return t.back(dy, 0) }),
	"Concat": concat,
	"Split":  split,
	"Slice":  unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.indexed(x, dy, t.sliceIndex()) }),
	"Gather": unary(gather),
	"Pad":    unary(pad),
	"Tile": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		index := map[int][]int{}
		for a, n := range t.shape(y) {
			if size := t.shape(x)[a]; n != size {
				for i := range n {
					index[a] = append(index[a], i%size)
				}
			}
		}
		return t.indexed(x, dy, index)
	}),
	"SpaceToDepth": unary(func(t *tape, _, _, dy graph.ValueID) graph.ValueID {
		return t.with("DepthToSpace", []graph.Attr{graph.Int("blocksize", t.n.AttrInt("blocksize", 1))}, dy)
	}),
	"DepthToSpace": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		s, b := t.shape(x), int(t.n.AttrInt("blocksize", 1))
		c := s[1] / b / b
		v := t.reshape(dy, []int{s[0], c, s[2], b, s[3], b})
		if t.n.AttrStr("mode", "DCR") == "CRD" {
			return t.reshape(t.transpose(v, 0, 1, 3, 5, 2, 4), s)
		}
		return t.reshape(t.transpose(v, 0, 3, 5, 1, 2, 4), s)
	}),
	"Resize": unary(resize),
}

func reshaped(t *tape, x, _, dy graph.ValueID) graph.ValueID { return t.reshape(dy, t.shape(x)) }

func concat(t *tape, dy []graph.ValueID) []graph.ValueID {
	list := t.only(0, graph.NoValue)
	axis, _ := graph.Axis(int(t.n.AttrInt("axis", 0)), len(t.shape(t.y())))
	at := 0
	for i := range list {
		size := t.shape(t.x(i))[axis]
		if t.wants(i) {
			list[i] = t.slice(dy[0], []int{at}, []int{at + size}, []int{axis}, []int{1})
		}
		at += size
	}
	return list
}

func split(t *tape, dy []graph.ValueID) []graph.ValueID {
	axis, _ := graph.Axis(int(t.n.AttrInt("axis", 0)), len(t.shape(t.x(0))))
	parts := slices.Clone(dy)
	for i, d := range parts {
		if d == graph.NoValue {
			shape := t.shape(t.n.Outputs[i])
			n := 1
			for _, s := range shape {
				n *= s
			}
			parts[i] = t.constant(shape, make([]float64, n))
		}
	}
	return t.only(0, t.with("Concat", []graph.Attr{graph.Int("axis", int64(axis))}, parts...))
}

// indexed brings what arrives at elements of an axis, listed by where they were read, back to those.
func (t *tape) indexed(x, dy graph.ValueID, index map[int][]int) graph.ValueID {
	shape := t.shape(x)
	for axis, size := range shape {
		list, ok := index[axis]
		if !ok || size == 0 || len(list) == 0 {
			continue
		}
		matrix := make([][]float64, len(list))
		for i, from := range list {
			matrix[i] = make([]float64, size)
			if from >= 0 {
				matrix[i][from] = 1
			}
		}
		dy = t.along(dy, len(shape), axis, matrix)
	}
	return dy
}

// sliceIndex lists, by axis, what a Slice takes.
func (t *tape) sliceIndex() map[int][]int {
	shape := t.shape(t.x(0))
	from, to := t.list("starts", 1), t.list("ends", 2)
	axes, steps := t.list("axes", 3), t.list("steps", 4)
	if axes == nil {
		axes = upTo(0, len(from))
	}
	index := map[int][]int{}
	if t.err != nil {
		return index
	}
	for i, a := range axes {
		a, _ := graph.Axis(a, len(shape))
		step, n := 1, shape[a]
		if steps != nil {
			step = steps[i]
		}
		clamp := func(v, low, high int) int {
			if v < 0 {
				v += n
			}
			return min(max(v, low), high)
		}
		if step > 0 {
			for k := clamp(from[i], 0, n); k < clamp(to[i], 0, n); k += step {
				index[a] = append(index[a], k)
			}
			continue
		}
		for k := clamp(from[i], 0, n-1); k > clamp(to[i], -1, n-1); k += step {
			index[a] = append(index[a], k)
		}
	}
	return index
}

func gather(t *tape, x, _, dy graph.ValueID) graph.ValueID {
	shape := t.shape(x)
	axis, _ := graph.Axis(int(t.n.AttrInt("axis", 0)), len(shape))
	list := t.list("indices", 1)
	for i, v := range list {
		if v < 0 {
			list[i] = v + shape[axis]
		}
	}
	flat := slices.Clone(shape) // axes of the indices become one
	flat[axis] = len(list)
	return t.indexed(x, t.reshape(dy, flat), map[int][]int{axis: list})
}

func pad(t *tape, x, _, dy graph.ValueID) graph.ValueID {
	shape := t.shape(x)
	pads, axes := t.list("pads", 1), t.list("axes", 3)
	if axes == nil {
		axes = upTo(0, len(shape))
	}
	if t.err != nil {
		return dy
	}
	mode := t.n.AttrStr("mode", "constant")
	index := map[int][]int{}
	for i, a := range axes {
		a, _ := graph.Axis(a, len(shape))
		n := shape[a]
		if pads[i] == 0 && pads[i+len(axes)] == 0 {
			continue
		}
		for k := -pads[i]; k < n+pads[i+len(axes)]; k++ {
			from, ok := padded(mode, k, n)
			if !ok {
				t.fail(fmt.Errorf("mode %q, or a pad that is too long", mode))
				return dy
			}
			index[a] = append(index[a], from)
		}
	}
	return t.indexed(x, dy, index)
}

// padded is what stands at place k of an axis of n elements that is padded; -1 for a constant.
func padded(mode string, k, n int) (from int, ok bool) {
	inside := k >= 0 && k < n
	switch {
	case inside:
		return k, true
	case mode == "constant":
		return -1, true
	case mode == "edge":
		return min(max(k, 0), n-1), n > 0
	case mode == "reflect" && k < 0:
		return -k, -k < n
	case mode == "reflect":
		return 2*(n-1) - k, 2*(n-1)-k >= 0
	case mode == "wrap":
		return ((k % n) + n) % n, n > 0
	}
	return 0, false
}
