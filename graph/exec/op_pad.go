package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// padEvals surround a tensor.
var padEvals = []evaluator{
	{"Pad", buildPad},
}

// buildPad takes pads and value as attributes before opset 11, as inputs since. Negative pads crop.
func buildPad(n *graph.Node, version int64) (evalFunc, error) {
	mode := n.Pad().Mode
	if PadIndex[mode] == nil && mode != "constant" {
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	return func(c *call) error {
		x := c.raw(0)
		r := len(x.Shape)
		pads := convertInts(n.Pad().Pads)
		var err error
		if version >= 11 {
			if pads, err = ints(c.in(1)); err != nil {
				return err
			}
		}
		begin := make([]int, r)
		if version >= 18 && c.has(3) {
			axes, err := ints(c.in(3))
			if err != nil {
				return err
			}
			if len(pads) < len(axes) {
				return fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
			}
			for i, a := range axes {
				if a, err = axisIn(a, r); err != nil {
					return err
				}
				begin[a] = pads[i]
			}
		} else {
			copy(begin, pads)
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		return pad(c, out, x, begin, mode, padValue(c, n, version, out.DType))
	}, nil
}

// padValue returns the constant as storage of one element, nil for zero.
func padValue(c *call, n *graph.Node, version int64, d tensor.DType) any {
	if version < 11 {
		value, err := castTo(d, tensor.FromF32([]float32{n.Pad().Value}, 1))
		if err != nil {
			return nil
		}
		return value
	}
	if t := c.in(2); t != nil && t.DType == d && t.Len() == 1 {
		return t.Data
	}
	return nil
}

// PadIndex says, for each mode of Pad but constant, which element of an axis of n elements stands at position i outside of it.
var PadIndex = map[string]func(i, n int) int{
	"edge": func(i, n int) int { return min(max(i, 0), n-1) },
	"wrap": func(i, n int) int { return ((i % n) + n) % n },
	"reflect": func(i, n int) int {
		if n == 1 {
			return 0
		}
		period := 2 * (n - 1)
		i = ((i % period) + period) % period
		return min(i, period-i)
	},
}

// pad fills out, whose axis a begins begin[a] elements before that of x.
func pad(c *call, out, x *tensor.Tensor, begin []int, mode string, value any) error {
	axes := out.MemoryAxes()
	step := strides(x)
	at := make([][]int, len(axes))
	for k, a := range axes {
		n := x.Shape[a]
		at[k] = make([]int, out.Shape[a])
		for i := range at[k] {
			j := i - begin[a]
			if j < 0 || j >= n {
				if mode == "constant" {
					at[k][i] = outside
					continue
				}
				if n == 0 {
					return fmt.Errorf("mode %q cannot pad the empty %s", mode, x.Type())
				}
				j = PadIndex[mode](j, n)
			}
			at[k][i] = j * step[a]
		}
	}
	if len(at) == 0 {
		copyElements(out.Data, 0, x.Data, 0, 1)
		return nil
	}
	storageOf(out.Data).pick(x.Data, at, value, c.parallel)
	return nil
}
