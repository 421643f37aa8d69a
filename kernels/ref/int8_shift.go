package ref

import "fmt"

// Rounding is how Shift rounds.
type ShiftRounding uint8

const (
	TwiceAway ShiftRounding = iota // to nearest twice: ties up at 2^31, then ties away from zero
	TwiceUp                        // to nearest twice, ties up both times
	OnceUp                         // to nearest, ties toward +infinity
	OnceAway                       // to nearest, ties away from zero
	OnceEven                       // to nearest, ties to even
	OnceFloor                      // toward -infinity
	shiftRoundings
)

var shiftRoundingNames = [shiftRoundings]string{"twice-away", "twice-up", "once-up", "once-away", "once-even", "once-floor"}

func (r ShiftRounding) String() string {
	if r < shiftRoundings {
		return shiftRoundingNames[r]
	}
	return fmt.Sprintf("rounding(%d)", uint8(r))
}

// Shift turns sums into codes by integer arithmetic: the sum acc of column j times Mul[j] * 2^(Exp[j]-31), rounded, plus Zero,
// limited to QMin and QMax. Nothing overflows but what is stated:
//
//	Once...:  v = acc * Mul[j] / 2^(31-Exp[j]), rounded once, as Rounding says
//	Twice...: x = acc * 2^max(Exp[j], 0), wrapping in int32
//	          v = x * Mul[j] / 2^31, to nearest, ties up (the saturating rounding doubling high multiplication of gemmlowp)
//	          v = v / 2^max(-Exp[j], 0), to nearest, ties as Rounding says
//	code = min(max(v + Zero, QMin), QMax)
//
// TwiceAway is TFLite's default, OnceUp its single rounding, TVM's UPWARD and, with multipliers of 24 bits, XNNPACK's rndnu;
// OnceAway is TVM's TONEAREST, TwiceUp its AArch64 form. A multiplier of 1 shifts by a power of two.
type Shift struct {
	Mul      []int32 // one per column, not negative
	Exp      []int8  // one per column, -31 to 30
	Rounding ShiftRounding

	Zero, QMin, QMax uint8 // QMin and QMax both 0 mean 0 and 255
}

// Full returns s with the limits of the codes filled in.
func (s Shift) Full() Shift {
	if s.QMin == 0 && s.QMax == 0 {
		s.QMax = 255
	}
	return s
}

// Check reports the first number outside its range.
func (s Shift) Check() error {
	s = s.Full()
	if len(s.Mul) != len(s.Exp) {
		return fmt.Errorf("%d multipliers and %d exponents", len(s.Mul), len(s.Exp))
	}
	for j, m := range s.Mul {
		if m < 0 {
			return fmt.Errorf("multiplier %d of column %d is negative", m, j)
		}
		if e := s.Exp[j]; e < -31 || e > 30 {
			return fmt.Errorf("exponent %d of column %d is not in -31..30", e, j)
		}
	}
	if s.Rounding >= shiftRoundings {
		return fmt.Errorf("no rounding has number %d", uint8(s.Rounding))
	}
	if s.QMin > s.QMax {
		return fmt.Errorf("codes %d to %d", s.QMin, s.QMax)
	}
	return nil
}

// Code returns the code of acc in column j. s must be Full.
func (s *Shift) Code(acc int32, j int) uint8 {
	e := int(s.Exp[j])
	var v int64
	switch s.Rounding {
	case TwiceAway, TwiceUp:
		v = shiftRight(int64(acc<<max(e, 0))*int64(s.Mul[j]), 31, OnceUp)
		second := OnceUp
		if s.Rounding == TwiceAway {
			second = OnceAway
		}
		v = shiftRight(v, max(-e, 0), second)
	default:
		v = shiftRight(int64(acc)*int64(s.Mul[j]), 31-e, s.Rounding)
	}
	return uint8(min(max(v+int64(s.Zero), int64(s.QMin)), int64(s.QMax)))
}

// shiftRight returns v / 2^n rounded. |v| is at most 2^62, n at most 62.
func shiftRight(v int64, n int, r ShiftRounding) int64 {
	if n == 0 {
		return v
	}
	half := int64(1) << (n - 1)
	switch r {
	case OnceUp:
		v += half
	case OnceAway:
		v += half + v>>63
	case OnceEven:
		v += half - 1 + v>>n&1
	}
	return v >> n
}
