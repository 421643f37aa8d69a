package tflite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

func (b *builder) pad(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	y := out[0]
	mode := n.Pad().Mode
	list, err := b.places(g, n, x.shape, 1)
	if err != nil {
		return err
	}
	if mode != "constant" && mode != "reflect" {
		return b.gathered(list[0], x, y)
	}
	first := slices.Index(tensor.Of[int32](list[0].ToRowMajor()), 0)
	if first < 0 {
		return fmt.Errorf("a Pad that removes elements has no form in the file")
	}
	begin := unravel(first, y.shape)
	perm := order(len(x.shape), []*value{x})
	var pads []int
	for _, a := range perm {
		end := y.shape[a] - x.shape[a] - begin[a]
		if end < 0 {
			return fmt.Errorf("a Pad that removes elements has no form in the file")
		}
		pads = append(pads, begin[a], end)
	}
	ids := []int{b.read(x, perm), b.list("paddings", pads, len(perm), 2)}
	switch fill := b.fill(g, n); {
	case mode == "reflect":
		b.op("MIRROR_PAD", ids, []int{b.make(y, perm)}, "mode", 0)
	case x.enc != nil || fill == 0: // of integers the zero point
		b.op("PAD", ids, []int{b.make(y, perm)})
	default:
		b.op("PADV2", append(ids, b.number(y.name+"/fill", fill)), []int{b.make(y, perm)})
	}
	return nil
}

// gathered writes a value whose elements all come from x, along each axis by themselves, as a GATHER for each axis that is not as it was.
func (b *builder) gathered(from *tensor.Tensor, x, y *value) error {
	numbers := tensor.Of[int32](from.ToRowMajor())
	lists := make([][]int, len(y.shape))
	for a, inner := len(y.shape)-1, 1; a >= 0; a-- {
		for j := range y.shape[a] {
			at := int(numbers[j*inner])
			if at < 0 {
				return fmt.Errorf("elements of %v that are not among those of %v", y.shape, x.shape)
			}
			lists[a] = append(lists[a], unravel(at, x.shape)[a])
		}
		inner *= y.shape[a]
	}
	for k, at := range numbers {
		index := unravel(k, y.shape)
		for a, i := range index {
			index[a] = lists[a][i]
		}
		if !slices.Equal(index, unravel(int(at), x.shape)) {
			return fmt.Errorf("elements of %v that axes do not choose by themselves", y.shape)
		}
	}
	var axes []int
	for a, list := range lists {
		if !slices.Equal(list, identity(x.shape[a])) {
			axes = append(axes, a)
		}
	}
	if len(axes) == 0 {
		return b.same(nil, nil, x, []*value{y})
	}
	perm := order(len(x.shape), []*value{x})
	in, shape := b.read(x, perm), slices.Clone(x.shape)
	for k, a := range axes {
		shape[a] = len(lists[a])
		out := -1
		if k == len(axes)-1 {
			out = b.make(y, perm)
		} else {
			out = b.temporary(y, "gathered", permuted(shape, perm), y.enc)
		}
		b.op("GATHER", []int{in, b.list("indices", lists[a])}, []int{out}, "axis", where(perm, a))
		in = out
	}
	return nil
}

// fill is the number that a Pad of floats puts around.
func (b *builder) fill(g *graph.Graph, n *graph.Node) float32 {
	if c := g.Const(n.Input(2)); c != nil && c.DType == tensor.Float32 && c.Len() == 1 {
		return c.F32()[0]
	}
	return n.AttrFloat("value", 0)
}
