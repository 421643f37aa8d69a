package emulate

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// triples are operands: the numbers at which something changes in all combinations, then random ones.
func triples[T uint32 | uint64](edges []T) [][3]T {
	var out [][3]T
	for _, a := range edges {
		for _, b := range edges {
			out = append(out, [3]T{a, b, edges[len(out)%len(edges)]})
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		out = append(out, [3]T{T(r.Uint64()), T(r.Uint64() >> r.IntN(64)), T(r.Uint64())})
	}
	return out
}

var (
	edges32 = []uint32{0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1<<31 - 1, 1 << 31, 1<<31 + 1,
		1<<32 - 2, 1<<32 - 1, 0x80402010}
	edges64 = []uint64{0, 1, 2, 31, 32, 63, 64, 65, 255, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1,
		0x0123456789abcdef}
)

func hiS64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	if int64(a) < 0 {
		hi -= b
	}
	if int64(b) < 0 {
		hi -= a
	}
	return hi
}

func choose[T any](is bool, a, b T) T {
	if is {
		return a
	}
	return b
}

func sat(x int64) uint32 { return uint32(int32(max(min(x, 1<<31-1), -1<<31))) }

func TestIntegers32(t *testing.T) {
	s := func(x uint32) int64 { return int64(int32(x)) }
	for _, c := range []struct {
		body string
		want func(a, b, c uint32) uint32
	}{
		{"add.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a + b }},
		{"add.sat.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return sat(s(a) + s(b)) }},
		{"sub.sat.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return sat(s(a) - s(b)) }},
		{"sub.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a - b }},
		{"mul.lo.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a * b }},
		{"mul.hi.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(uint64(s(a)*s(b)) >> 32) }},
		{"mul.hi.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }},
		{"mul24.lo.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(int32(a<<8) >> 8 * (int32(b<<8) >> 8)) }},
		{"mul24.hi.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(uint64(a&0xffffff) * uint64(b&0xffffff) >> 16) }},
		{"mad.lo.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return a*b + c }},
		{"mad.hi.u32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return uint32(uint64(a)*uint64(b)>>32) + c }},
		{"mad.hi.sat.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return sat(s(a)*s(b)>>32 + s(c)) }},
		{"mad.lo.s32 %r9, %r2, 3, -7;", func(a, b, c uint32) uint32 { return a*3 - 7 }},
		{"or.b32 %r3, %r3, 1; div.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 {
			return uint32(s(a) / s(b|1))
		}},
		{"or.b32 %r3, %r3, 1; div.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a / (b | 1) }},
		{"or.b32 %r3, %r3, 1; rem.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(s(a) % s(b|1)) }},
		{"or.b32 %r3, %r3, 1; rem.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a % (b | 1) }},
		{"abs.s32 %r9, %r2;", func(a, b, c uint32) uint32 { return uint32(max(s(a), -s(a))) }},
		{"neg.s32 %r9, %r2;", func(a, b, c uint32) uint32 { return -a }},
		{"min.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(min(s(a), s(b))) }},
		{"max.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(max(s(a), s(b))) }},
		{"min.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return min(a, b) }},
		{"max.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return max(a, b) }},
		{"sad.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return c + uint32(max(s(a)-s(b), s(b)-s(a))) }},
		{"and.b32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a & b }},
		{"or.b32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a | b }},
		{"xor.b32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return a ^ b }},
		{"not.b32 %r9, %r2;", func(a, b, c uint32) uint32 { return ^a }},
		{"cnot.b32 %r9, %r2;", func(a, b, c uint32) uint32 { return choose(a == 0, uint32(1), 0) }},
		{"shl.b32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(uint64(a) << min(b, 32)) }},
		{"shr.u32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(uint64(a) >> min(b, 32)) }},
		{"shr.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return uint32(s(a) >> min(b, 32)) }},
		{"shf.l.wrap.b32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) << (c & 31) >> 32)
		}},
		{"shf.l.clamp.b32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) << min(c, 32) >> 32)
		}},
		{"shf.r.wrap.b32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return uint32((uint64(b)<<32 | uint64(a)) >> (c & 31)) }},
		{"shf.r.clamp.b32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return uint32((uint64(b)<<32 | uint64(a)) >> min(c, 32)) }},
		{"popc.b32 %r9, %r2;", func(a, b, c uint32) uint32 { return uint32(bits.OnesCount32(a)) }},
		{"clz.b32 %r9, %r2;", func(a, b, c uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }},
		{"brev.b32 %r9, %r2;", func(a, b, c uint32) uint32 { return bits.Reverse32(a) }},
		{"bfind.u32 %r9, %r2;", func(a, b, c uint32) uint32 { return uint32(31 - bits.LeadingZeros32(a)) }},
		{"bfind.s32 %r9, %r2;", func(a, b, c uint32) uint32 { return uint32(31 - bits.LeadingZeros32(choose(s(a) < 0, ^a, a))) }},
		{"bfind.shiftamt.u32 %r9, %r2;", func(a, b, c uint32) uint32 {
			return choose(a == 0, uint32(1<<32-1), uint32(bits.LeadingZeros32(a)))
		}},
		{"bfe.u32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return uint32(field(uint64(a), b, c, 32, false)) }},
		{"bfe.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return uint32(field(uint64(a), b, c, 32, true)) }},
		{"bfi.b32 %r9, %r2, %r3, %r4, 5;", func(a, b, c uint32) uint32 {
			for i := uint32(0); i < 5 && c&255+i < 32; i++ {
				at := c&255 + i
				b = b&^(1<<at) | a>>i&1<<at
			}
			return b
		}},
		{"prmt.b32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 {
			var r uint32
			for k := range 4 {
				n := c >> (4 * k) & 15
				x := byte(uint64(b)<<32>>(8*(n&7)) | uint64(a)>>(8*(n&7)))
				if n >= 8 {
					x = byte(int8(x) >> 7)
				}
				r |= uint32(x) << (8 * k)
			}
			return r
		}},
		{"prmt.b32.b4e %r9, %r2, %r3, 1;", func(a, b, c uint32) uint32 { return a>>8&255 | a&255<<8 | b>>24<<16 | b>>16&255<<24 }},
		{"prmt.b32.rc16 %r9, %r2, %r3, 1;", func(a, b, c uint32) uint32 { return a>>16 | a>>16<<16 }},
		{"lop3.b32 %r9, %r2, %r3, %r4, 0x96;", func(a, b, c uint32) uint32 { return a ^ b ^ c }},
		{"lop3.b32 %r9, %r2, %r3, %r4, 0xf8;", func(a, b, c uint32) uint32 { return a | b&c }},
		{"lop3.b32 %r9, %r2, %r3, %r4, 0x1a;", func(a, b, c uint32) uint32 { return (a&b | c) ^ a }},
		{"dp4a.s32.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return products(a, b, c, true, true) }},
		{"dp4a.u32.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return products(a, b, c, false, true) }},
		{"dp4a.s32.u32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return products(a, b, c, true, false) }},
		{"dp4a.u32.u32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return products(a, b, c, false, false) }},
		{"dp2a.lo.s32.u32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 {
			return c + uint32(int32(int16(a))*int32(b&255)) + uint32(int32(int16(a>>16))*int32(b>>8&255))
		}},
		{"dp2a.hi.u32.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 {
			return c + a&65535*uint32(int32(int8(b>>16))) + a>>16*uint32(int32(int8(b>>24)))
		}},
		{"slct.s32.s32 %r9, %r2, %r3, %r4;", func(a, b, c uint32) uint32 { return choose(s(c) >= 0, a, b) }},
		{"slct.b32.f32 %r9, %r2, %r3, 0fBF800000;", func(a, b, c uint32) uint32 { return b }},
		{"setp.lt.s32 %p1, %r2, %r3; selp.b32 %r9, %r2, %r4, %p1;", func(a, b, c uint32) uint32 { return choose(s(a) < s(b), a, c) }},
		{"setp.ge.u32 %p1, %r2, %r3; selp.b32 %r9, %r2, %r4, %p1;", func(a, b, c uint32) uint32 { return choose(a >= b, a, c) }},
		{"setp.le.s32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", func(a, b, c uint32) uint32 { return choose(s(a) <= s(b), uint32(1), 0) }},
		{"setp.gt.s32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", func(a, b, c uint32) uint32 { return choose(s(a) > s(b), uint32(1), 0) }},
		{"setp.ls.u32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", func(a, b, c uint32) uint32 { return choose(a <= b, uint32(1), 0) }},
		{"setp.ne.b32 %p1, %r2, %r3; selp.b32 %r9, 1, 0, %p1;", func(a, b, c uint32) uint32 { return choose(a != b, uint32(1), 0) }},
		{"setp.gt.u32 %p1, %r2, %r4; setp.lt.and.s32 %p2|%p3, %r2, %r3, !%p1; selp.b32 %r5, 1, 0, %p2; selp.b32 %r6, 2, 0, %p3; " +
			"or.b32 %r9, %r5, %r6;", func(a, b, c uint32) uint32 {
			return choose(a > c, uint32(0), choose(s(a) < s(b), uint32(1), 2))
		}},
		{"set.lt.u32.s32 %r9, %r2, %r3;", func(a, b, c uint32) uint32 { return choose(s(a) < s(b), uint32(1<<32-1), 0) }},
		{"setp.lt.s32 %p1, %r2, %r3; setp.eq.s32 %p2, %r3, %r4; xor.pred %p3, %p1, %p2; not.pred %p4, %p3; mov.pred %p5, %p4; " +
			"selp.b32 %r9, 1, 0, %p5;", func(a, b, c uint32) uint32 { return choose((s(a) < s(b)) == (b == c), uint32(1), 0) }},
		{"mov.u32 %r9, %r4; setp.lt.s32 %p1, %r2, %r3; @%p1 add.s32 %r9, %r2, 1; @!%p1 bra done; xor.b32 %r9, %r9, %r3; done:",
			func(a, b, c uint32) uint32 { return choose(s(a) < s(b), a+1^b, c) }},
		// narrow types live in registers of their own
		{"cvt.u16.u32 %rs1, %r2; cvt.u16.u32 %rs2, %r3; add.s16 %rs3, %rs1, %rs2; cvt.u32.u16 %r9, %rs3;",
			func(a, b, c uint32) uint32 { return uint32(uint16(a + b)) }},
		{"cvt.u16.u32 %rs1, %r2; cvt.u16.u32 %rs2, %r3; mul.wide.s16 %r9, %rs1, %rs2;",
			func(a, b, c uint32) uint32 { return uint32(int32(int16(a)) * int32(int16(b))) }},
		{"cvt.u16.u32 %rs1, %r2; cvt.u16.u32 %rs2, %r3; mul.hi.s16 %rs3, %rs1, %rs2; cvt.s32.s16 %r9, %rs3;",
			func(a, b, c uint32) uint32 { return uint32(int32(int16(a)) * int32(int16(b)) >> 16) }},
		{"cvt.u16.u32 %rs1, %r2; shr.s16 %rs3, %rs1, 3; cvt.u32.u16 %r9, %rs3;", func(a, b, c uint32) uint32 {
			return uint32(uint16(int16(a) >> 3))
		}},
		{"cvt.u16.u32 %rs1, %r2; shl.b16 %rs3, %rs1, 9; cvt.s32.s8 %r9, %rs3;", func(a, b, c uint32) uint32 { return 0 }},
		{"cvt.u16.u32 %rs1, %r2; setp.gt.s16 %p1, %rs1, -5; selp.b16 %rs2, %rs1, 9, %p1; cvt.u32.u16 %r9, %rs2;",
			func(a, b, c uint32) uint32 { return choose(int16(a) > -5, a&65535, 9) }},
		{"mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r9, {%rs2, %rs1};", func(a, b, c uint32) uint32 { return a<<16 | a>>16 }},
		{"add.cc.u32 %r5, %r2, %r3; addc.u32 %r9, %r4, 0;", func(a, b, c uint32) uint32 {
			return c + uint32((uint64(a)+uint64(b))>>32)
		}},
		{"sub.cc.u32 %r5, %r2, %r3; subc.u32 %r9, %r4, 0;", func(a, b, c uint32) uint32 { return c - choose(a < b, uint32(1), 0) }},
		{"mov.u32 %r9, %laneid; add.u32 %r9, %r9, WARP_SZ;", nil},
	} {
		in := triples(edges32)
		got := lanesOf(t, 61, c.body, in)
		for i, x := range in {
			want := uint32(i%warpSize + warpSize)
			if c.want != nil {
				want = c.want(x[0], x[1], x[2])
			}
			require.Equal(t, want, got[i], "%s of %#x", c.body, x)
		}
	}
}

// field is bfe as the manual writes it.
func field(a uint64, b, c uint32, width int, signed bool) uint64 {
	msb, pos, n := width-1, int(b&255), int(c&255)
	sign := uint64(0)
	if signed && n > 0 {
		sign = a >> min(pos+n-1, msb) & 1
	}
	var d uint64
	for i := 0; i <= msb; i++ {
		if i < n && pos+i <= msb {
			d |= a >> (pos + i) & 1 << i
		} else {
			d |= sign << i
		}
	}
	return d
}

func products(a, b, c uint32, sa, sb bool) uint32 {
	for k := 0; k < 32; k += 8 {
		x, y := int32(a>>k&255), int32(b>>k&255)
		if sa {
			x = int32(int8(x))
		}
		if sb {
			y = int32(int8(y))
		}
		c += uint32(x * y)
	}
	return c
}

func TestIntegers64(t *testing.T) {
	for _, c := range []struct {
		body string
		want func(a, b, c uint64) uint64
	}{
		{"add.s64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return a + b }},
		{"sub.s64 %rd9, %rd2, 5;", func(a, b, c uint64) uint64 { return a - 5 }},
		{"mul.lo.s64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return a * b }},
		{"mul.hi.u64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi }},
		{"mul.hi.s64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return hiS64(a, b) }},
		{"mad.lo.s64 %rd9, %rd2, %rd3, %rd4;", func(a, b, c uint64) uint64 { return a*b + c }},
		{"or.b64 %rd3, %rd3, 1; div.s64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 {
			return choose(b|1 == 1<<64-1, -a, uint64(int64(a)/int64(b|1)))
		}},
		{"or.b64 %rd3, %rd3, 1; rem.u64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return a % (b | 1) }},
		{"min.s64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return uint64(min(int64(a), int64(b))) }},
		{"max.u64 %rd9, %rd2, %rd3;", func(a, b, c uint64) uint64 { return max(a, b) }},
		{"abs.s64 %rd9, %rd2;", func(a, b, c uint64) uint64 { return choose(int64(a) < 0, -a, a) }},
		{"neg.s64 %rd9, %rd2;", func(a, b, c uint64) uint64 { return -a }},
		{"and.b64 %rd5, %rd2, %rd3; xor.b64 %rd6, %rd5, %rd4; not.b64 %rd9, %rd6;", func(a, b, c uint64) uint64 { return ^(a&b ^ c) }},
		{"cvt.u32.u64 %r2, %rd3; shl.b64 %rd9, %rd2, %r2;", func(a, b, c uint64) uint64 { return a << uint32(b) }},
		{"cvt.u32.u64 %r2, %rd3; shr.u64 %rd9, %rd2, %r2;", func(a, b, c uint64) uint64 { return a >> uint32(b) }},
		{"cvt.u32.u64 %r2, %rd3; shr.s64 %rd9, %rd2, %r2;", func(a, b, c uint64) uint64 { return uint64(int64(a) >> uint32(b)) }},
		{"popc.b64 %r2, %rd2; clz.b64 %r3, %rd3; mov.b64 %rd9, {%r2, %r3};", func(a, b, c uint64) uint64 {
			return uint64(bits.LeadingZeros64(b))<<32 | uint64(bits.OnesCount64(a))
		}},
		{"brev.b64 %rd9, %rd2;", func(a, b, c uint64) uint64 { return bits.Reverse64(a) }},
		{"bfe.u64 %rd9, %rd2, 7, 40;", func(a, b, c uint64) uint64 { return field(a, 7, 40, 64, false) }},
		{"bfe.s64 %rd9, %rd2, 7, 40;", func(a, b, c uint64) uint64 { return field(a, 7, 40, 64, true) }},
		{"bfi.b64 %rd9, %rd2, %rd3, 9, 33;", func(a, b, c uint64) uint64 {
			m := uint64(1<<33-1) << 9
			return b&^m | a<<9&m
		}},
		{"mov.b64 {%r2, %r3}, %rd2; mul.wide.s32 %rd9, %r2, %r3;", func(a, b, c uint64) uint64 {
			return uint64(int64(int32(a)) * int64(int32(a>>32)))
		}},
		{"mov.b64 {%r2, %r3}, %rd2; mul.wide.u32 %rd9, %r2, %r3;", func(a, b, c uint64) uint64 { return a & (1<<32 - 1) * (a >> 32) }},
		{"mov.b64 {%r2, %r3}, %rd2; mad.wide.s32 %rd9, %r2, -3, %rd3;", func(a, b, c uint64) uint64 {
			return uint64(int64(int32(a))*-3) + b
		}},
		{"mov.b64 {%rs1, %rs2, %rs3, %rs4}, %rd2; mov.b64 %rd9, {%rs4, %rs3, %rs2, %rs1};", func(a, b, c uint64) uint64 {
			return a<<48 | a<<16&0xffff00000000 | a>>16&0xffff0000 | a>>48
		}},
		{"setp.lt.s64 %p1, %rd2, %rd3; selp.b64 %rd9, %rd2, %rd4, %p1;", func(a, b, c uint64) uint64 {
			return choose(int64(a) < int64(b), a, c)
		}},
		{"setp.hi.u64 %p1, %rd2, %rd3; selp.b64 %rd9, %rd2, %rd4, %p1;", func(a, b, c uint64) uint64 { return choose(a > b, a, c) }},
		{"setp.eq.s64 %p1, %rd2, %rd3; @%p1 mov.u64 %rd9, 5; @!%p1 mov.u64 %rd9, %rd4;", func(a, b, c uint64) uint64 {
			return choose(a == b, 5, c)
		}},
		{"add.cc.u64 %rd5, %rd2, %rd3; addc.u64 %rd9, %rd4, 0;", func(a, b, c uint64) uint64 {
			_, carry := bits.Add64(a, b, 0)
			return c + carry
		}},
		{"cvt.s64.s32 %rd9, %r1;", nil},
		{"cvt.u32.u64 %r2, %rd2; cvt.s64.s32 %rd9, %r2;", func(a, b, c uint64) uint64 { return uint64(int64(int32(a))) }},
		{"cvt.u32.u64 %r2, %rd2; cvt.s64.s8 %rd9, %r2;", func(a, b, c uint64) uint64 { return uint64(int64(int8(a))) }},
		{"cvt.sat.s32.s64 %r2, %rd2; cvt.s64.s32 %rd9, %r2;", func(a, b, c uint64) uint64 {
			return uint64(max(min(int64(a), 1<<31-1), -1<<31))
		}},
		{"cvt.sat.u8.s64 %rs2, %rd2; cvt.u64.u16 %rd9, %rs2;", func(a, b, c uint64) uint64 { return uint64(max(min(int64(a), 255), 0)) }},
		{"cvt.sat.s16.u64 %rs2, %rd2; cvt.u64.u16 %rd9, %rs2;", func(a, b, c uint64) uint64 { return min(a, 32767) }},
		{"cvt.sat.u64.s64 %rd9, %rd2;", func(a, b, c uint64) uint64 { return uint64(max(int64(a), 0)) }},
	} {
		in := triples(edges64)
		got := lanesOf(t, 61, c.body, in)
		for i, x := range in {
			want := uint64(i % warpSize)
			if c.want != nil {
				want = c.want(x[0], x[1], x[2])
			}
			require.Equal(t, want, got[i], "%s of %#x", c.body, x)
		}
	}
}
