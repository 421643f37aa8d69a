package grad

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// list is an attribute of integers or, from some opset on, a constant input; nil where both are absent.
func (t *tape) list(attr string, input int) []int {
	var out []int
	for _, v := range t.n.AttrInts(attr) {
		out = append(out, int(v))
	}
	if v := t.n.Input(input); v != graph.NoValue {
		c := t.G.Const(v)
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
	"Resize":          unary(resize),
	"Trilu":           unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { return t.again(dy) }),
	"ReverseSequence": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { return t.again(dy) }),
	"CenterCropPad":   unary(centerCropPad),
	"RotaryEmbedding": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { // turned back
		in := slices.Clone(t.n.Inputs)
		in[0], in[2] = dy, t.op("Neg", in[2])
		return t.with("RotaryEmbedding", t.n.Attrs, in...)
	}),
}

// again is the operator itself of something in place of its first input.
func (t *tape) again(x graph.ValueID) graph.ValueID {
	return t.with(t.n.Op, t.n.Attrs, append([]graph.ValueID{x}, t.n.Inputs[1:]...)...)
}

func centerCropPad(t *tape, x, y, dy graph.ValueID) graph.ValueID {
	index := map[int][]int{}
	for axis, to := range t.shape(y) {
		from := t.shape(x)[axis]
		crop, before := max(from-to, 0)/2, max(to-from, 0)/2
		for k := range to {
			at := k - before + crop
			if at >= from {
				at = -1
			}
			index[axis] = append(index[axis], max(at, -1))
		}
	}
	return t.indexed(x, dy, index)
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
			parts[i] = t.zeros(t.shape(t.n.Outputs[i]))
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
	if t.Err != nil {
		return index
	}
	for i, a := range axes {
		a, _ := graph.Axis(a, len(shape))
		step := 1
		if steps != nil {
			step = steps[i]
		}
		first, count := graph.ClampSlice(int64(shape[a]), int64(from[i]), int64(to[i]), int64(step))
		for k := range int(count) {
			index[a] = append(index[a], int(first)+k*step)
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
	if t.Err != nil {
		return dy
	}
	mode := t.n.AttrStr("mode", "constant")
	outside := exec.PadIndex[mode]
	index := map[int][]int{}
	for i, a := range axes {
		a, _ := graph.Axis(a, len(shape))
		n, begin, end := shape[a], pads[i], pads[i+len(axes)]
		for k := -begin; (begin != 0 || end != 0) && k < n+end; k++ {
			from := k
			switch inside := k >= 0 && k < n; {
			case inside:
			case mode == "constant":
				from = -1
			case outside == nil:
				t.fail(fmt.Errorf("mode %q", mode))
				return dy
			default:
				from = outside(k, n)
			}
			index[a] = append(index[a], from)
		}
	}
	return t.indexed(x, dy, index)
}
