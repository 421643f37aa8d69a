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
		t.steps = steps(t.shift)
	}
	t.acc, t.lacc, t.rows, t.cols = s.Acc, s.Stride, s.Rows, s.Cols
	t.shift.Mul, t.shift.Exp = o.Mul[s.Col:][:s.Cols], o.Exp[s.Col:][:s.Cols]
	t.dst, t.ldd = o.Dst[s.Row*o.Ldd+s.Col:], o.Ldd
	s.table.rows[OpShiftU8].store(t)
}

// shiftSteps are the constants by which one sequence of steps computes every rounding of Shift:
//
//	p = (acc << left) * mul, where left is max(exp, 0) & s.left
//	v = (p + firstHalf) >> first
//	v = (v + half + (v>>63 & sign) + (v>>n & even)) >> n, where n is max(second-exp, 0)
//	code = min(max(v, least), most) + zero
//
// half is 1<<(n-1) & halfMask + halfLess, sign is signMask; both are 0 where n is 0.
type shiftSteps struct {
	first, firstHalf                       int64
	second, left                           int32
	halfMask, halfLess, signMask, evenMask int64
	least, most, zero                      int64
}

func steps(s Shift) shiftSteps {
	x := shiftSteps{second: 31, halfMask: -1, zero: int64(s.Zero), least: int64(s.QMin) - int64(s.Zero), most: int64(s.QMax) - int64(s.Zero)}
	switch s.Rounding {
	case TwiceAway, TwiceUp:
		x.first, x.firstHalf, x.second, x.left = 31, 1<<30, 0, -1
	case OnceEven:
		x.halfLess, x.evenMask = -1, 1
	case OnceFloor:
		x.halfMask = 0
	}
	if s.Rounding == TwiceAway || s.Rounding == OnceAway {
		x.signMask = -1
	}
	return x
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
