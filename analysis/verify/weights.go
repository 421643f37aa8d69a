package verify

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// weights are constant factors, as integers in the layout of the operator's input 1.
type weights struct {
	shape []int
	bits  int
	axis  int // of the output channels, or of those of one group of a ConvTranspose
	codes []int32
	// By output channel: scale, zero point, and the sum of the codes.
	scale []float32
	zero  []int32
	sum   []int64
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
	w := &weights{bits: l.set.Slot(slot).Config.Bits, shape: t.Shape, axis: axis, codes: make([]int32, t.Len()), group: 1}
	if l.node.Conv().Transposed {
		w.group = l.node.Conv().Group
	}
	p := l.set.Params(slot)
	along := t.Shape[axis]
	for c := range along * w.group {
		g := l.set.Grid(slot, c%along)
		w.scale, w.zero = append(w.scale, g.Scale), append(w.zero, g.ZeroPoint)
	}
	w.sum = make([]int64, len(w.scale))
	per := len(p.Scale) > 1
	for i, x := range t.F32() {
		at := 0
		if per {
			at = w.local(i)
		}
		w.codes[i] = l.set.Grid(slot, at).Quantize(x)
		w.sum[w.channel(i)] += int64(w.codes[i])
	}
	return w, nil
}

// local is the place of code i along the channel axis.
func (w *weights) local(i int) int {
	inner := 1
	for _, n := range w.shape[w.axis+1:] {
		inner *= n
	}
	return i / inner % w.shape[w.axis]
}

// channel is the output channel of code i. The groups of a ConvTranspose lie behind each other along axis 0.
func (w *weights) channel(i int) int {
	if w.group == 1 {
		return w.local(i)
	}
	return i/(len(w.codes)/w.group)*w.shape[w.axis] + w.local(i)
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

// centered returns a code less its zero point.
func (w *weights) centered(i int) int32 { return w.codes[i] - w.zero[w.channel(i)] }

func (w *weights) compare(f *faults, got *lower.Weights) {
	number(f, "weight bits", 0, w.bits, got.Bits)
	number(f, "weight axis", 0, w.axis, got.Axis)
	number(f, "number of channels", 0, len(w.scale), got.Channels)
	numbers(f, "weight code", w.codes, got.Codes.Integers())
	numbers(f, "weight scale", w.scale, got.Scale)
	numbers(f, "weight zero point", w.zero, got.ZeroPoint)
	numbers(f, "zero-point term", w.sum, got.Sum)
	number(f, "number of terms", 0, len(w.codes)/max(len(w.scale), 1), got.Terms)
}
