package observers

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/bits"
)

// exactWords is the size of an Exact: 384 bits hold 2^106 times the largest float32 in units of the smallest.
const exactWords = 6

// Exact is a sum of float32 numbers without any rounding: an integer in units of 2^-149, the smallest float32, in two's complement, the
// lowest word first. Neither the order of the additions nor how they are split changes it. The zero value is 0.
type Exact [exactWords]uint64

// exactUnit is the exponent of the unit.
const exactUnit = -149

// Add adds a float32; infinities and NaN must not be given.
func (x *Exact) Add(v float32) {
	b := math.Float32bits(v)
	e, m := int(b>>23&0xff), int64(b&0x7fffff)
	if e > 0 {
		m |= 1 << 23
		e--
	}
	if b>>31 != 0 {
		m = -m
	}
	x.AddScaled(m, e+exactUnit)
}

// AddScaled adds m * 2^e, for e from -149 to 127.
func (x *Exact) AddScaled(m int64, e int) {
	if m == 0 {
		return
	}
	at, shift := (e-exactUnit)/64, uint((e-exactUnit)%64)
	low, high, sign := uint64(m)<<shift, uint64(m>>63), uint64(m>>63)
	if shift > 0 {
		high = uint64(m >> (64 - shift))
	}
	var carry uint64
	x[at], carry = bits.Add64(x[at], low, 0)
	x[at+1], carry = bits.Add64(x[at+1], high, carry)
	for i := at + 2; i < exactWords; i++ {
		x[i], carry = bits.Add64(x[i], sign, carry)
	}
}

// AddExact adds another sum.
func (x *Exact) AddExact(y *Exact) {
	var carry uint64
	for i := range x {
		x[i], carry = bits.Add64(x[i], y[i], carry)
	}
}

// big returns the integer.
func (x *Exact) big() *big.Int {
	neg := int64(x[exactWords-1]) < 0
	b := make([]byte, 0, 8*exactWords)
	borrow := uint64(1)
	var words Exact
	for i, w := range x {
		if neg {
			words[i], borrow = bits.Add64(^w, 0, borrow)
		} else {
			words[i] = w
		}
	}
	for i := exactWords - 1; i >= 0; i-- {
		for s := 56; s >= 0; s -= 8 {
			b = append(b, byte(words[i]>>s))
		}
	}
	n := new(big.Int).SetBytes(b)
	if neg {
		n.Neg(n)
	}
	return n
}

// Float64 returns the sum rounded once, to nearest, ties to even.
func (x *Exact) Float64() float64 {
	f, _ := new(big.Float).SetPrec(0).SetMode(big.ToNearestEven).SetInt(x.big()).Float64()
	return math.Ldexp(f, exactUnit)
}

// append adds the canonical form: sign (0, 1 for negative) and 2*trailing zero bits as a varint, the length of the magnitude without
// these bits in bytes, and its bytes, the lowest first.
func (x *Exact) append(b []byte) []byte {
	n := x.big()
	sign := uint64(0)
	if n.Sign() < 0 {
		sign = 1
		n.Neg(n)
	}
	zeros := uint64(0)
	if n.Sign() != 0 {
		zeros = uint64(n.TrailingZeroBits())
		n.Rsh(n, uint(zeros))
	}
	b = binary.AppendUvarint(b, zeros<<1|sign)
	m := n.Bytes()
	b = append(b, byte(len(m)))
	for i := len(m) - 1; i >= 0; i-- {
		b = append(b, m[i])
	}
	return b
}

var errExact = errors.New("not an exact sum")

// parseExact reads the canonical form and returns the rest of b.
func parseExact(b []byte) (x Exact, rest []byte, err error) {
	head, n := binary.Uvarint(b)
	if n <= 0 {
		return x, nil, errExact
	}
	if b = b[n:]; len(b) == 0 || int(b[0]) > len(b)-1 || b[0] > 8*exactWords || head>>1 >= 64*exactWords {
		return x, nil, errExact
	}
	m := b[1 : 1+int(b[0])]
	rest = b[1+len(m):]
	if len(m) == 0 {
		if head != 0 {
			return x, nil, errExact
		}
		return x, rest, nil
	}
	if m[0]&1 == 0 || m[len(m)-1] == 0 {
		return x, nil, errExact
	}
	be := make([]byte, len(m))
	for i, v := range m {
		be[len(m)-1-i] = v
	}
	v := new(big.Int).SetBytes(be)
	v.Lsh(v, uint(head>>1))
	if v.BitLen() > 64*exactWords-1 {
		return x, nil, errExact
	}
	full := v.FillBytes(make([]byte, 8*exactWords))
	for i := range x {
		for k := range 8 {
			x[i] |= uint64(full[len(full)-1-8*i-k]) << (8 * k)
		}
	}
	if head&1 != 0 {
		carry := uint64(1)
		for i, w := range x {
			x[i], carry = bits.Add64(^w, 0, carry)
		}
	}
	return x, rest, nil
}
