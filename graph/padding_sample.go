package graph

import (
	"slices"

	"qwb/graph/tensor"
)

// Padded is the padding of one sample.
type Padded struct {
	p               *Padding
	real            []bool // by sample and position
	samples, length int
}

// Of returns the padding of a sample, given its inputs by name: nil where all positions are real, or none is, and where the mask has other
// numbers than 0 and 1. A nil p has none.
func (p *Padding) Of(g *Graph, feeds map[string]*tensor.Tensor) *Padded {
	if p == nil {
		return nil
	}
	t := feeds[g.Value(p.Mask).Name]
	if t == nil || len(t.Shape) == 0 || t.Len() == 0 {
		return nil
	}
	d := &Padded{p: p, samples: 1, length: t.Shape[len(t.Shape)-1]}
	if p.full {
		d.samples = t.Shape[0]
	}
	x := numbers(t.ToRowMajor())
	if len(x) != t.Len() || !p.marks(x) {
		return nil
	}
	d.real = make([]bool, d.samples*d.length)
	queries := len(x) / len(d.real) // and heads
	for i, v := range x {
		if at := i/(queries*d.length)*d.length + i%d.length; v == p.Real {
			d.real[at] = true
		}
	}
	if !slices.Contains(d.real, true) || !slices.Contains(d.real, false) {
		return nil
	}
	return d
}

// marks reports whether a mask has such numbers.
func (p *Padding) marks(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return v != 0 && (p.low && v > masksBelow || !p.low && v != 1 || v != v) })
}

// Count is how many positions a sample has, and how many of them are left out.
func (p *Padding) Count(g *Graph, feeds map[string]*tensor.Tensor) (all, padding int) {
	if t := feeds[g.Value(p.Mask).Name]; t != nil && len(t.Shape) > 0 {
		if all = t.Shape[len(t.Shape)-1]; p.full {
			all *= t.Shape[0]
		}
	}
	if d := p.Of(g, feeds); d != nil {
		for _, r := range d.real {
			if !r {
				padding++
			}
		}
	}
	return all, padding
}

// Touches reports whether a value has positions that are left out. A nil d has none.
func (d *Padded) Touches(v ValueID) bool { return d != nil && d.p.roles[v] != nil }

// Real calls f with the runs of elements that belong to real positions, of n elements that are consecutive in the memory of a tensor of
// value v, the first being number first: from and to count from the first one. A tensor whose axes do not have the sizes of the mask is
// real as a whole.
func (d *Padded) Real(v ValueID, shape []int, layout tensor.Layout, first, n int, f func(from, to int) error) error {
	axes, unit, ok := d.axes(v, shape, layout)
	if !ok {
		return f(0, n)
	}
	begin := -1
	for at := 0; at < n; {
		end := min(at+unit-(first+at)%unit, n)
		switch real := d.isReal(axes, first+at); {
		case real && begin < 0:
			begin = at
		case !real && begin >= 0:
			if err := f(begin, at); err != nil {
				return err
			}
			begin = -1
		}
		at = end
	}
	if begin >= 0 {
		return f(begin, n)
	}
	return nil
}

// Elements is how many of a tensor of value v are at real positions.
func (d *Padded) Elements(v ValueID, t *tensor.Tensor) (n int) {
	if !d.Touches(v) {
		return t.Len()
	}
	_ = d.Real(v, t.Shape, t.Layout, 0, t.Len(), func(from, to int) error { // it gives back what the function gives: nothing
		n += to - from
		return nil
	})
	return n
}

// Filled returns a float32 tensor of value v with x at all elements that belong to padding: a copy where there are any. A nil d leaves it
// as it is.
func (d *Padded) Filled(v ValueID, t *tensor.Tensor, x float32) *tensor.Tensor {
	if !d.Touches(v) || t.DType != tensor.Float32 {
		return t
	}
	out := *t
	data := make([]float32, t.Len())
	for i := range data {
		data[i] = x
	}
	_ = d.Real(v, t.Shape, t.Layout, 0, t.Len(), func(from, to int) error { // it gives back what the function gives: nothing
		copy(data[from:to], t.F32()[from:to])
		return nil
	})
	out.Data = data
	return &out
}

// place is an axis that counts something: elements lie stride apart in memory, size of them.
type place struct {
	role
	stride, size int
}

// axes are those of a tensor that count, and how many elements in memory share their numbers.
func (d *Padded) axes(v ValueID, shape []int, layout tensor.Layout) (list []place, unit int, ok bool) {
	roles := d.p.roles[v]
	if len(roles) != len(shape) {
		return nil, 0, false
	}
	order := (&tensor.Tensor{Shape: shape, Layout: layout}).MemoryAxes()
	stride, single := 1, d.samples == 1
	for i := len(order) - 1; i >= 0; i-- {
		a := order[i]
		switch want := []int{0, d.samples, d.length, d.samples * d.length}[roles[a]]; {
		case roles[a] == noRole || roles[a] == samples && shape[a] == 1:
		case shape[a] != want:
			return nil, 0, false
		default:
			list = append(list, place{roles[a], stride, shape[a]})
			single = single || roles[a] != positions
			if unit == 0 {
				unit = stride
			}
		}
		stride *= shape[a]
	}
	return list, unit, single && unit > 0
}

// isReal reports whether an element lies at real positions only.
func (d *Padded) isReal(axes []place, element int) bool {
	sample := 0
	for _, a := range axes {
		if a.role == samples {
			sample = element / a.stride % a.size
		}
	}
	for _, a := range axes {
		i := element / a.stride % a.size
		switch {
		case a.role == positions && !d.real[sample*d.length+i], a.role == both && !d.real[i]:
			return false
		}
	}
	return true
}
