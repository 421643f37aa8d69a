package kernels

import "fmt"

// StoreShifted turns sums into codes by Shift and stores those of row i from Dst[i*Ldd] on.
type StoreShifted struct {
	Dst []uint8
	Ldd int
	Shift
}

func (o *StoreShifted) check(rows, cols int) {
	checkMatrix("dst", len(o.Dst), rows, cols, o.Ldd)
	checkLen("multipliers", len(o.Mul), cols)
	checkLen("exponents", len(o.Exp), cols)
	if o.QMin > o.QMax {
		panic(fmt.Sprintf("kernels: codes %d to %d", o.QMin, o.QMax))
	}
}

func (o *StoreShifted) store(s *Sums) {
	t := s.out
	if t.rows == 0 { // the first tile of a piece
		t.shift = o.Shift.Full()
	}
	t.acc, t.lacc, t.rows, t.cols = s.Acc, s.Stride, s.Rows, s.Cols
	t.shift.Mul, t.shift.Exp = o.Mul[s.Col:][:s.Cols], o.Exp[s.Col:][:s.Cols]
	t.dst, t.ldd = o.Dst[s.Row*o.Ldd+s.Col:], o.Ldd
	s.table.rows[OpShiftU8].store(t)
}

// goShiftU8 is the plain Go row of OpShiftU8.
func goShiftU8(t *outTile) {
	for i := range t.rows {
		dst := t.dst[i*t.ldd:][:t.cols]
		for j, v := range t.acc[i*t.lacc:][:t.cols] {
			dst[j] = t.shift.Code(v, j)
		}
	}
}
