package exec

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
)

// packedWindows are the weights of a convolution of codes. ones, of weights of 1, sums the windows of each group; it is nil where
// no weight has a zero point.
type packedWindows struct{ weights, ones *kernels.ConvU8S8 }

// convCodes convolves the codes of input 0 by those of input w, with zero points in inputs zx and zw, and adds bias. target makes
// the result. It returns false for types and shapes that the kernels do not know, and then does nothing.
func (c *call) convCodes(zx, w, zw int, bias []int32, target func() (*codeResult, error)) (bool, error) {
	x, weights := c.raw(0), c.raw(w)
	if !isCode(x.DType) || !isCode(weights.DType) || len(x.Shape) < 3 || len(x.Shape) > 5 || x.Len() == 0 || weights.Len() == 0 {
		return false, nil
	}
	s, ok := c.cachedWindow()
	if !ok {
		var err error
		if s, err = convWindow(c.node, x, weights); err != nil {
			return false, err
		}
		c.keepWindow(s)
	}
	if bias != nil && len(bias) != s.M {
		return false, fmt.Errorf("bias of %d elements for %d channels", len(bias), s.M)
	}
	src, moved := c.bytesOf(c.last(0))
	zeros, err := c.zeros(zx, 1, moved)
	if err != nil {
		return false, err
	}
	zws, err := c.zeros(zw, s.M, c.rightMove(w))
	if err != nil || len(zeros) != 1 || zeros[0] < 0 || zeros[0] > 255 {
		return false, err
	}
	packed, ok := derived[*packedWindows](c, w)
	if !ok {
		packed = derive(c, w, c.packWindows(c.in(w), s))
	}
	result, err := target()
	if err != nil {
		return false, err
	}
	c.runWindows(packed, src, s, zeros[0], zws, bias, result.from(0))
	result.finish(c)
	return true, nil
}

// packWindows packs weights, and the windows' sums.
func (c *call) packWindows(w *tensor.Tensor, s kernels.ConvShape) *packedWindows {
	codes, ok := w.Data.([]int8)
	if !ok {
		b := w.Data.([]uint8)
		codes = make([]int8, len(b))
		for i, q := range b {
			codes[i] = int8(q ^ 0x80)
		}
	}
	one := s
	one.M = s.Group
	ones := make([]int8, one.WeightLen())
	fill(ones, 1)
	return &packedWindows{c.run.s.table.PackConvU8S8(codes, s), c.run.s.table.PackConvU8S8(ones, one)}
}

// runWindows convolves src with zero point zx by weights with zero points zw, one or one per channel.
func (c *call) runWindows(w *packedWindows, src []uint8, s kernels.ConvShape, zx int32, zw, bias []int32, out kernels.Output) {
	mem, sums, par := &c.run.codes, w.weights.Sums(), c.run.s.par
	products := int32(s.WeightLen() / s.M)
	mem.column = resize(mem.column, s.M)
	for j := range mem.column {
		mem.column[j] = zx * (products*zw[j%len(zw)] - sums[j])
		if bias != nil {
			mem.column[j] += bias[j]
		}
	}
	terms := kernels.Terms{Column: mem.column}
	if len(zw) > 1 || zw[0] != 0 {
		one := s
		one.M = s.Group
		mem.window = resize(mem.window, one.OutLen())
		w.ones.Run(par, src, one, uint8(zx), &mem.padded, kernels.Terms{}, &kernels.StoreS32{Dst: mem.window, Ldd: s.Group})
		if len(zw) == 1 && s.Group == 1 {
			for i := range mem.window {
				mem.window[i] *= -zw[0]
			}
			terms.Row = mem.window
		} else {
			each, inner := s.M/s.Group, out
			out = kernels.StoreAll{kernels.StoreFunc(func(t *kernels.Sums) {
				for i := range t.Rows {
					acc, windows := t.Acc[i*t.Stride:][:t.Cols], mem.window[(t.Row+i)*s.Group:][:s.Group]
					for j := range acc {
						m := t.Col + j
						acc[j] -= zw[m%len(zw)] * windows[m/each]
					}
				}
			}), inner}
		}
	}
	w.weights.Run(par, src, s, uint8(zx), &mem.padded, terms, out)
}
