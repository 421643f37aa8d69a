package tune

import (
	"slices"
	"unsafe"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/tqc"
)

// grid8 is where the codes of a tensor lie: number = float32(code - zero) * scale.
type grid8 struct {
	zero  uint8
	scale float32
}

// codeBlock is how many elements are coded and read back at a time.
const codeBlock = 4096

// grid returns the grid that the set has for a value where it is computed, or where it is read, moved to codes from 0 on.
func (w *walk) grid(v graph.ValueID) (to kernels.ToCodes, ok bool) {
	p := w.Reference.Producer(v)
	if p == graph.NoNode || w.Reference.Captured(v) || w.Reference.IsOutput(v) {
		return to, false
	}
	slots := []tqc.SlotID{w.Set.Output(p, slices.Index(w.Reference.Node(p).Outputs, v))}
	for _, u := range w.Reference.Uses(v) {
		slots = append(slots, w.Set.Input(u.Node, u.Index))
	}
	at := slices.IndexFunc(slots, func(s tqc.SlotID) bool {
		return s != tqc.NoSlot && w.Set.Slot(s).State().Quantizes() && len(w.Set.Params(s).Scale) == 1
	})
	if at < 0 {
		return to, false
	}
	g := w.Set.Grid(slots[at], 0)
	to = kernels.CodesOf(g, -g.QMin)
	return to, g.QMax-g.QMin <= 255 && to.Check() == nil
}

// code is a copy of a value of the quantized lane in a quarter of the memory: the codes of its elements, in its layout. Where these do not
// give every bit back, as of a value that is not on a grid, it is the elements.
func (w *walk) code(s *state, v graph.ValueID, t *tensor.Tensor) *tensor.Tensor {
	to, ok := w.grid(v)
	if !ok || t.DType != tensor.Float32 {
		return w.spares.copy(t)
	}
	g := grid8{uint8(to.Zero), to.Divisor}
	codes, back := make([]uint8, t.Len()), make([]float32, codeBlock)
	for x, c := t.F32(), codes; len(x) > 0; {
		n := min(len(x), codeBlock)
		rows().ToCodes(c[:n], x[:n], &to)
		rows().FromCodes(back[:n], c[:n], g.zero, g.scale)
		if !slices.Equal(bitsOf(back[:n]), bitsOf(x[:n])) {
			return w.spares.copy(t)
		}
		x, c = x[n:], c[n:]
	}
	coded := &tensor.Tensor{DType: tensor.Uint8, Layout: t.Layout, Shape: slices.Clone(t.Shape), Data: codes}
	s.coded[coded] = g
	return coded
}

// bitsOf are the bits of numbers.
func bitsOf(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// open returns what a tensor has the codes of, which is the caller's until shut; the tensor itself where it has none.
func (w *walk) open(s *state, t *tensor.Tensor) *tensor.Tensor {
	g, ok := s.coded[t]
	if !ok {
		return t
	}
	codes := t.Data.([]uint8)
	x := w.spares.take(len(codes))
	if x == nil {
		x = make([]float32, len(codes))
	}
	rows().FromCodes(x, codes, g.zero, g.scale)
	return &tensor.Tensor{DType: tensor.Float32, Layout: t.Layout, Shape: t.Shape, Data: x}
}

// shut gives back what open returned for t.
func (w *walk) shut(t, opened *tensor.Tensor) {
	if opened != t {
		w.spares.give(opened)
	}
}

// forget gives up what was seen of the layer that is left, but for what is kept.
func (w *walk) forget(s *state, seen *sight) {
	for _, t := range []*tensor.Tensor{seen.xq, seen.xf, seen.yf, seen.yq} {
		if !s.keeps(t) {
			w.release(s, t)
		}
	}
}

// keeps reports whether a lane keeps a tensor, or whether it is nil.
func (s *state) keeps(t *tensor.Tensor) bool {
	return t == nil || slices.Contains(s.quantized.kept, t) || slices.Contains(s.float.kept, t)
}

// release gives up a tensor of a sample that nobody reads any more.
func (w *walk) release(s *state, t *tensor.Tensor) {
	delete(s.coded, t)
	w.spares.give(t)
}
