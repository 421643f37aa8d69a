package kernels

import (
	"sync"

	"qwb/kernels/ref"
)

// sums is one call of a comparison: what it reads, and the lanes it adds to. Assembly reads it by offset; a test holds the
// offsets.
type sums struct {
	x, y, z *float32
	n       int // elements, a multiple of ref.Lanes and not 0
	lanes   [4][ref.Lanes]float64
}

// sumsPool spares the memory that a row's arguments take.
var sumsPool = sync.Pool{New: func() any { return new(sums) }}

// Compare is ref.Compare, bit for bit. y must be at least as long as x.
func (t *Table) Compare(x, y []float32) (noise, signal, other, dot float64) {
	checkLen("y", len(y), len(x))
	row, _ := compareRows(t.rows[OpRowSum].ISA)
	if row == nil {
		return ref.Compare(x, y)
	}
	for lo := 0; lo < len(x); lo += ref.CompareBlock {
		s := compareBlock(row, x[lo:min(lo+ref.CompareBlock, len(x))], y[lo:], nil, ref.Compare4)
		noise, signal, other, dot = noise+s[0], signal+s[1], other+s[2], dot+s[3]
	}
	return noise, signal, other, dot
}

// Parts is ref.Parts, bit for bit. y and z must be at least as long as x.
func (t *Table) Parts(x, y, z []float32) (signal, first, second float64) {
	checkLen("y", len(y), len(x))
	checkLen("z", len(z), len(x))
	_, row := compareRows(t.rows[OpRowSum].ISA)
	if row == nil {
		return ref.Parts(x, y, z)
	}
	for lo := 0; lo < len(x); lo += ref.CompareBlock {
		s := compareBlock(row, x[lo:min(lo+ref.CompareBlock, len(x))], y[lo:], z[lo:], ref.Parts3)
		signal, first, second = signal+s[0], first+s[1], second+s[2]
	}
	return signal, first, second
}

// compareBlock gives the elements up to a multiple of the lanes to the row, finishes with rest, and folds the lanes.
func compareBlock(row func(*sums), x, y, z []float32, rest func(lanes *[4][ref.Lanes]float64, x, y, z []float32)) [4]float64 {
	s := sumsPool.Get().(*sums)
	defer sumsPool.Put(s)
	*s = sums{}
	y = y[:len(x)]
	if s.n = whole(len(x)); s.n > 0 {
		s.x, s.y = &x[0], &y[0]
		if z != nil {
			s.z = &z[0]
		}
		row(s)
	}
	if z != nil {
		z = z[s.n:len(x)]
	}
	rest(&s.lanes, x[s.n:], y[s.n:], z)
	var out [4]float64
	for i := range out {
		out[i] = ref.FoldLanes(&s.lanes[i])
	}
	s.x, s.y, s.z = nil, nil, nil
	return out
}
