package checkpoint

import (
	"strings"

	"qwb/kernels/qmath"
)

// Step is how many neighbours in a row share a scale where elements are integers times a scale, zero points taken off: 0 where they are
// something else, as floats, small floats and groups with minima are.
func (t *Tensor) Step() int {
	f := t.Type.Form()
	switch {
	case t.levels != nil && t.levels.Scheme.Number == nil:
		return t.levels.Group
	case t.levels != nil:
		return 0
	case t.Type == Packed:
		if p := t.packing; strings.HasPrefix(p.name, "int") && p.index == nil && p.factor == nil && t.Cols%p.group == 0 {
			return p.group
		}
		return 0
	case f != nil && f.MaxMin == 0:
		return f.Group
	case t.Quantized() && t.Cols%t.GroupSize() == 0:
		return t.GroupSize()
	}
	return 0
}

// Integers reads integers and scales, one for each Step of them: an element is float32(integer) * scale. len(codes) elements of the
// flattened tensor are read, the first being element from: both are multiples of Step and of blocks.
func (t *Tensor) Integers(codes []int16, scales []float32, from int) {
	step := t.Step()
	switch f := t.Type.Form(); {
	case f != nil:
		var b qmath.Block
		for i := 0; i < len(codes); i += f.Elements {
			t.Type.ParseBlock(&b, t.Raw(from+i, f.Elements))
			for k := range f.Elements {
				codes[i+k] = int16(f.Value(b.Codes[k]))
			}
			for g := range f.Groups() {
				scales[i/step+g], _ = b.Factors(g)
			}
		}
	case t.Type == Packed:
		for i := range codes {
			codes[i], scales[i/step] = t.integer((from+i)/t.Cols, (from+i)%t.Cols)
		}
	default:
		small := make([]int8, len(codes))
		t.Codes(small, scales, from)
		for i, q := range small {
			codes[i] = int16(q)
		}
	}
}

// integer is one element of type Packed, and its scale.
func (t *Tensor) integer(r, c int) (code int16, scale float32) {
	if l := t.levels; l != nil {
		i := r/l.Height*l.across() + c/l.Group
		return int16(int(l.Codes[r*l.Cols+c]) - l.zero(i)), l.Scales[i]
	}
	p := t.packing
	r += p.first
	group, zero := c/p.group, float32(0)
	if p.zeros != nil {
		zero = p.values[(p.zeros.at(group, r)+p.below)&(len(p.values)-1)]
	}
	run, at := r, c
	if p.across {
		run, at = c, r
	}
	return int16(p.values[p.codes.at(run, at)] - zero), p.scales.at(r/p.row*p.stride + group*p.step)
}
