package weights

import (
	"fmt"
	"math"

	"qwb/graph/language/checkpoint"
	"qwb/kernels/qmath"
)

// What Hugging Face's quantizers store is made matrix by matrix: its arrays stand one behind the other.

// Affine is how codes with zero points are made.
func (e Encoding) Affine() qmath.AffineRule {
	return qmath.AffineRule{Max: 1<<e.Scheme.Bits - 1, Stored: e.scales()}
}

// levels is the matrix that is to be in the file, given its elements.
func (it *Item) levels(x []float32) (*checkpoint.Levels, error) {
	l, err := it.codedLevels(x)
	if err != nil || !it.Encoding.Scheme.Static {
		return l, err
	}
	own := *l
	own.Input = it.Input
	return &own, nil
}

// codedLevels is levels, but for the scale of the inputs.
func (it *Item) codedLevels(x []float32) (*checkpoint.Levels, error) {
	if it.keeps() {
		return it.Tensor.Levels().Rowed(it.Row), nil
	}
	if it.carried {
		return it.carriedLevels()
	}
	e, t := it.Encoding, it.Tensor
	l := checkpoint.NewLevels(e.Scheme, t.Rows, t.Cols, e.Group, e.Scale)
	switch {
	case e.Scheme.Number != nil:
		return l, it.numbers(l, x)
	case e.Scheme.Zeros:
		return l, it.affine(l, x)
	}
	codes := make([]int8, len(x))
	if !e.quantize(codes, l.Scales, x) {
		return nil, it.unfit()
	}
	l.Signed(codes)
	return l, nil
}

// affine makes codes with zero points.
func (it *Item) affine(l *checkpoint.Levels, x []float32) error {
	rule := it.Encoding.Affine()
	for g := range l.Scales {
		group := x[g*l.Group:][:l.Group]
		scale, zero := rule.Factors(group)
		if it.Encoding.Search {
			scale, zero = rule.Weighted(group, nil)
		}
		if scale-scale != 0 {
			return it.unfit()
		}
		l.Scales[g], l.Zeros[g] = scale, uint8(zero)
		for i, v := range group {
			if v-v != 0 {
				return it.unfit()
			}
			l.Codes[g*l.Group+i] = uint8(rule.Code(v, scale, zero))
		}
	}
	return nil
}

// numbers makes codes of small floats: the largest magnitude that shares a scale becomes the largest number, or a power of two is the
// scale, of the two next to that the one with the smaller squared error.
func (it *Item) numbers(l *checkpoint.Levels, x []float32) error {
	number := *l.Scheme.Number
	top := number.Decode(number.Encode(math.Inf(1), true))
	l.Global = it.Global
	across := (l.Cols + l.Group - 1) / l.Group
	for i := range l.Scales {
		r, c := i/across*l.Height, i%across*l.Group
		rows, cols := min(l.Height, l.Rows-r), min(l.Group, l.Cols-c)
		most := float32(0)
		for k := range rows * cols {
			v := x[(r+k/cols)*l.Cols+c+k%cols]
			if v-v != 0 {
				return it.unfit()
			}
			most = max(most, qmath.Abs32(v))
		}
		encode := func(stored float32) (lost float64) {
			l.Scales[i] = stored
			scale := stored
			if l.Global != 0 {
				scale /= l.Global
			}
			for k := range rows * cols {
				at := (r+k/cols)*l.Cols + c + k%cols
				code := uint16(0)
				if scale != 0 {
					code = number.Encode(float64(x[at]/scale), true)
				}
				l.Codes[at] = uint8(code)
				d := float64(x[at]) - float64(number.Decode(code)*scale)
				lost += d * d
			}
			return lost
		}
		switch l.Scheme.Scales {
		case "F8_E4M3":
			encode(qmath.E4M3FN.Decode(qmath.E4M3FN.Encode(float64(it.Global*most/top), true)))
		case "U8":
			up := qmath.DecodeE8M0(qmath.EncodeE8M0(float64(most/top), qmath.Up, true))
			if encode(up/2) >= encode(up) {
				continue
			}
			encode(up / 2)
		default:
			encode(most / top)
		}
	}
	return nil
}

// compareLevels compares a matrix as it is read with the codes, scales and zero points that were to be written, bit for bit, and with its
// source: where the nearest codes were taken, none may be further away than half a step, but for the ends of the grid.
func (p *piece) compareLevels(read []float32) error {
	l, err := p.item.levels(p.x)
	if err != nil {
		return err
	}
	want := make([]float32, len(p.x))
	checkpoint.NewPacked(p.item.Part, "", l).Read(want, 0)
	p.found.Codes = int64(len(l.Codes))
	for i, v := range read {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			return p.at(i, fmt.Errorf("is %g, not %g", v, want[i]))
		}
		if l.Scheme.Number != nil {
			continue
		}
		r, c := i/l.Cols, i%l.Cols
		scale := float64(qmath.Abs32(l.Scales[r*(l.Cols/l.Group)+c/l.Group]))
		steps := math.Abs(float64(v)-float64(p.x[i])) / scale
		last := l.Codes[i] == 0 || int(l.Codes[i]) == 1<<l.Scheme.Bits-1
		// A scale in half precision is off by up to 2^-11 of itself, and codes are multiplied with it.
		if !p.item.keeps() && !last && !(steps <= 0.5001) && scale != 0 {
			return p.at(i, fmt.Errorf("is %g, not %g: %.3g steps of its group apart", v, p.x[i], steps))
		}
		if scale != 0 && !p.item.keeps() {
			p.found.LargestError = max(p.found.LargestError, steps)
		}
	}
	return nil
}
