package verify

import (
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// Recording is what another engine or a board computed for one input: tensors by name.
type Recording interface {
	// Tensor returns the tensor of a name, nil where it was not recorded.
	Tensor(name string) (*tensor.Tensor, error)
}

// tape reads a recording as the tensors of a program. Engines name and lay out what they record in their own ways: a tensor of integers may
// stand under the name of its integers (X_QuantizeLinear) or of its value, or as the real numbers that it stands for, dequantized; images
// may have their channels last.
type tape struct {
	rec Recording
	p   *lower.Program
	// last: somewhere a tensor fits with its channels last only, so all of the recording have them there.
	last bool
	// off says of tensors that were recorded only as real numbers how far these are from the tensor's grid. missing are the tensors of
	// integers that were not recorded, those of off among them.
	off      []analysis.OffGrid
	missing  []string
	recorded int // tensors of integers that were
}

func newTape(rec Recording, p *lower.Program) (*tape, error) {
	s := &tape{rec: rec, p: p}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if want, ok := staticShape(t); ok && t.Const == nil && len(want) > 2 && !s.last {
			for _, name := range s.candidates(t) {
				got, err := rec.Tensor(name)
				if err != nil {
					return nil, err
				}
				if got != nil && got.DType != tensor.String && !fits(got.Shape, want) && fits(got.Shape, channelsLast(want)) {
					s.last = true
				}
			}
		}
	}
	return s, nil
}

// candidates are the names that a tensor may be recorded under, the surest first.
func (s *tape) candidates(t *lower.Tensor) []string {
	if !t.Quantized() {
		return []string{t.Name}
	}
	own := s.p.Graph.Value(t.Value).Name
	return []string{t.Name, own, own + "_DequantizeLinear"}
}

// tensor returns a recorded tensor in the program's type and layout, nil where there is none.
func (s *tape) tensor(id lower.TensorID) (*tensor.Tensor, error) {
	t := &s.p.Tensors[id]
	var off *analysis.OffGrid
	for i, name := range s.candidates(t) {
		got, err := s.rec.Tensor(name)
		if err != nil {
			return nil, err
		}
		if got == nil {
			continue
		}
		if got, err = s.laidOut(got.ToRowMajor(), t); err != nil {
			return nil, err
		}
		switch {
		case !t.Quantized() && got.DType.IsInteger() && t.DType == tensor.Float32:
			continue // the integers that stand for it
		case !t.Quantized() || i == 0 && !got.DType.IsFloat():
			return typed(got, t)
		case got.DType.IsInteger():
			if t.Name == name+"_QuantizeLinear" { // its first encoding: those of later ones have names of their own
				return typed(got, t)
			}
			continue
		}
		codes, far := codesOf(got, t, i == 0)
		if codes != nil {
			return codes, nil
		}
		if off == nil || far.Far < off.Far {
			off = far
		}
	}
	if off != nil && !s.hasReal(t.Value) {
		s.off = append(s.off, *off)
	}
	return nil, nil
}

// hasReal reports whether the program has a value as real numbers too: what was recorded under its name is then those.
func (s *tape) hasReal(v graph.ValueID) bool {
	return slices.ContainsFunc(s.p.Tensors, func(t lower.Tensor) bool { return t.Value == v && !t.Quantized() })
}

// gridSlack is how far, in steps, a recorded real number may be from an integer's, and printed how much farther with its magnitude: tools
// print floats with six digits.
const (
	gridSlack = 1e-3
	printed   = 1e-5
)

// codesOf turns real numbers into the integers of a tensor, nil if one of them is none's. codes says that they may be integers that were
// recorded as floats.
func codesOf(got *tensor.Tensor, t *lower.Tensor, codes bool) (*tensor.Tensor, *analysis.OffGrid) {
	if codes {
		if out, err := typed(got, t); err == nil {
			return out, nil
		}
	}
	x := reals(got)
	far := &analysis.OffGrid{Tensor: t.Name, Compared: int64(len(x))}
	q := make([]int32, len(x))
	e := t.Encoding
	for i, v := range x {
		code := v/float64(e.Scale) + float64(e.ZeroPoint)
		whole := qmath.HalfEven.Round(code)
		d := math.Abs(code - whole)
		switch {
		case math.IsNaN(d): // neither are infinities
			d = math.Inf(1)
		case whole < float64(e.QMin):
			d = max(d, float64(e.QMin)-whole)
		case whole > float64(e.QMax):
			d = max(d, whole-float64(e.QMax))
		default:
			q[i] = int32(whole)
		}
		if d > gridSlack+printed*math.Abs(v)/float64(e.Scale) {
			far.Off++
		}
		far.Far = max(far.Far, analysis.Number(d))
	}
	if x == nil || far.Off > 0 {
		return nil, far
	}
	out := tensor.New(t.DType, got.Shape...)
	return out.WithIntegers(q), nil
}

// reals reads a tensor of floats, nil for any other.
func reals(t *tensor.Tensor) []float64 {
	if x := t.F32(); x != nil {
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = float64(v)
		}
		return out
	}
	return tensor.Of[float64](t)
}

// laidOut gives a recorded tensor the shape of the program's: axes of length 1 may be missing or be too many, and the channels stand last.
func (s *tape) laidOut(got *tensor.Tensor, t *lower.Tensor) (*tensor.Tensor, error) {
	want, ok := staticShape(t)
	if !ok {
		return got, nil
	}
	last := channelsLast(want)
	switch {
	case s.last && len(want) > 2 && fits(got.Shape, last):
		// What lies in memory with the channels last is the row-major form of the shape with them last.
		return (&tensor.Tensor{DType: got.DType, Layout: tensor.ChannelsLast, Shape: want, Data: got.Data}).ToRowMajor(), nil
	case fits(got.Shape, want):
		return &tensor.Tensor{DType: got.DType, Shape: want, Data: got.Data}, nil
	}
	return nil, fmt.Errorf("verify: %q was recorded as %s, it is %s", t.Name, got.Type(), tensor.TypeString(t.DType, want))
}

// staticShape is the shape of a tensor, if all of it is known.
func staticShape(t *lower.Tensor) ([]int, bool) {
	out := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		if !d.Known() {
			return nil, false
		}
		out[i] = int(d.N)
	}
	return out, t.Shape != nil
}

// channelsLast is the shape of an image with its channels behind the other axes.
func channelsLast(shape []int) []int {
	if len(shape) < 3 {
		return shape
	}
	return append(append([]int{shape[0]}, shape[2:]...), shape[1])
}

// fits reports whether shapes differ in axes of length 1 alone.
func fits(a, b []int) bool {
	long := func(d int) bool { return d == 1 }
	return slices.Equal(slices.DeleteFunc(slices.Clone(a), long), slices.DeleteFunc(slices.Clone(b), long))
}

// typed returns a tensor in the program's type. Integers may come in any type that holds them.
func typed(got *tensor.Tensor, t *lower.Tensor) (*tensor.Tensor, error) {
	if got.DType == t.DType {
		return got, nil
	}
	if x := tensor.Of[float64](got); x != nil && t.DType == tensor.Float32 { // what NumPy makes of float32 by itself
		out := tensor.New(t.DType, got.Shape...)
		for i, v := range x {
			out.F32()[i] = float32(v)
		}
		return out, nil
	}
	wrong := fmt.Errorf("verify: %q was recorded as %s, the program has %s", t.Name, got.Type(), t.DType)
	values, ok := wholes(got)
	if !ok || !t.Quantized() {
		return nil, wrong
	}
	out := tensor.New(t.DType, got.Shape...)
	for i, q := range values {
		fits := false // also in a type that no code has
		switch d := out.Data.(type) {
		case []int8:
			d[i] = int8(q)
			fits = int64(d[i]) == q
		case []uint8:
			d[i] = uint8(q)
			fits = int64(d[i]) == q
		case []int16:
			d[i] = int16(q)
			fits = int64(d[i]) == q
		case []uint16:
			d[i] = uint16(q)
			fits = int64(d[i]) == q
		case []int32:
			d[i] = int32(q)
			fits = int64(d[i]) == q
		}
		if !fits {
			return nil, fmt.Errorf("%w: element %d is %d", wrong, i, q)
		}
	}
	return out, nil
}

// wholes reads a tensor as integers, if that is what it holds.
func wholes(t *tensor.Tensor) ([]int64, bool) {
	if d := t.I64(); d != nil {
		return d, true
	}
	out := make([]int64, t.Len())
	if x := t.F32(); x != nil {
		for i, v := range x {
			if out[i] = int64(v); float32(out[i]) != v {
				return nil, false
			}
		}
		return out, true
	}
	codes := t.Integers()
	for i, q := range codes {
		out[i] = int64(q)
	}
	return out, codes != nil
}
