package verify

import (
	"fmt"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// weights are constant factors, as integers in the layout of the operator's input 1.
type weights struct {
	shape []int
	bits  int
	axis  int // of the output channels, or of those of one group of a ConvTranspose
	// codes are there while somebody works with them (see filled), since those of all steps would take four times the memory of the program.
	codes []int32
	make  func() []int32
	// By output channel: scale and zero point.
	scale []float32
	zero  []int32
	group int // of a ConvTranspose, else 1
}

// deriveWeights quantizes the constant input 1, nil where it is not constant or has no channels.
func (l *layer) deriveWeights() (*weights, error) {
	t := l.g.Const(l.node.Inputs[1])
	axis, ok := target.OutputAxis(l.g, l.node, 1)
	if t == nil || !ok {
		return nil, nil
	}
	slot := l.set.Input(l.node.ID, 1)
	if slot == tqc.NoSlot || !l.set.Slot(slot).State().Quantizes() || t.DType != tensor.Float32 {
		return nil, fmt.Errorf("the weights are not quantized")
	}
	t = t.ToRowMajor()
	w := &weights{bits: l.set.Slot(slot).Config.Bits, shape: t.Shape, axis: axis, group: 1}
	if l.node.Conv().Transposed {
		w.group = l.node.Conv().Group
	}
	p := l.set.Params(slot)
	along := t.Shape[axis]
	for c := range along * w.group {
		g := l.set.Grid(slot, c%along)
		w.scale, w.zero = append(w.scale, g.Scale), append(w.zero, g.ZeroPoint)
	}
	w.make = func() []int32 {
		codes, x := make([]int32, t.Len()), t.F32()
		if len(p.Scale) == 1 {
			l.set.Grid(slot, 0).QuantizeSlice(codes, x)
			return codes
		}
		grids := make([]qmath.Grid, along)
		for c := range grids {
			grids[c] = l.set.Grid(slot, c)
		}
		w.runs(func(c, from, to int) {
			if to == from+1 { // a matrix whose columns are the channels
				codes[from] = grids[c%along].Quantize(x[from])
				return
			}
			grids[c%along].QuantizeSlice(codes[from:to], x[from:to])
		})
		return codes
	}
	return w, nil
}

// filled returns the weights with their codes.
func (w *weights) filled() *weights {
	if w.codes != nil {
		return w
	}
	own := *w
	own.codes = w.make()
	return &own
}

// count is how many codes there are.
func (w *weights) count() int { return tensor.Count(w.shape) }

// runs calls f with the bounds of every run of codes of one output channel.
// The groups of a ConvTranspose lie behind each other along axis 0.
func (w *weights) runs(f func(channel, from, to int)) {
	n, inner := w.shape[w.axis], 1
	for _, d := range w.shape[w.axis+1:] {
		inner *= d
	}
	count, c := w.count(), 0
	for from := 0; from < count; from += inner {
		if w.group > 1 {
			f(c+from/(count/w.group)*n, from, from+inner)
		} else {
			f(c, from, from+inner)
		}
		if c++; c == n {
			c = 0
		}
	}
}

// reach is the largest sum of magnitudes of a digit that are added into one sum.
func (w *weights) reach(d *digit) float64 {
	sums := make([]float64, len(w.scale))
	w.runs(func(c, from, to int) {
		sum := sums[c]
		for _, v := range d.values[from:to] {
			sum += float64(max(v, -v))
		}
		sums[c] = sum
	})
	return slices.Max(append(sums, 0))
}

// perChannel reports whether channels have scales of their own.
func (w *weights) perChannel() bool {
	for _, s := range w.scale {
		if s != w.scale[0] {
			return true
		}
	}
	return false
}

// centered returns the codes of filled weights less their zero points.
func (w *weights) centered() []int32 {
	list := make([]int32, len(w.codes))
	w.runs(func(c, from, to int) {
		for i, q := range w.codes[from:to] {
			list[from+i] = q - w.zero[c]
		}
	})
	return list
}

func (w *weights) compare(f *faults, got *lower.Weights) {
	own := w.filled()
	sums := make([]int64, len(w.scale))
	w.runs(func(c, from, to int) {
		for _, q := range own.codes[from:to] {
			sums[c] += int64(q)
		}
	})
	number(f, "weight bits", 0, w.bits, got.Bits)
	number(f, "weight axis", 0, w.axis, got.Axis)
	number(f, "number of channels", 0, len(w.scale), got.Channels)
	numbers(f, "weight code", own.codes, got.Codes.Integers())
	numbers(f, "weight scale", w.scale, got.Scale)
	numbers(f, "weight zero point", w.zero, got.ZeroPoint)
	numbers(f, "zero-point term", sums, got.Sum)
	number(f, "number of terms", 0, w.count()/max(len(w.scale), 1), got.Terms)
}
