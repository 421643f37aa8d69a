package emulate

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	edgesF32 = []uint32{0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x3f800001, 0x3effffff, 0x3f000000,
		0x40200000, 0xc0200000, 0x4b000001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc12345}
	edgesF64 = []uint64{0, 1 << 63, 1, 1<<63 | 1, 1 << 52, 1<<52 - 1, 0x3ff0000000000000, 0xbff0000000000000, 0x3ff0000000000001,
		0x3fe0000000000000, 0x4004000000000000, 0x41dfffffffc00000, 0x41e0000000000000, 0x43e0000000000000, 0xc3e0000000000000,
		0x7fefffffffffffff, 0x36a0000000000000, 0x369fffffffffffff, 0x47efffffefffffff, 0x47effffff0000000, 0x7ff0000000000000,
		0xfff0000000000000}
)

// floats32 are triples of single precision whose exponents are near each other, so that sums cancel and round.
func floats32() [][3]uint32 {
	in := triples(edgesF32)
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		base := r.Uint32N(200)
		var x [3]uint32
		for k := range x {
			x[k] = (base+r.Uint32N(30))<<23 | r.Uint32()&0x807fffff
			if r.IntN(3) == 0 {
				x[k] &= ^uint32(0xfff) // ties
			}
		}
		in = append(in, x)
	}
	return in
}

// rounded rounds an exact value to a precision with a smallest exponent, as IEEE 754 says, by integer arithmetic on scaled values.
func rounded(e *big.Float, mode string, prec, low, high int) float64 {
	if e.Sign() == 0 || e.IsInf() {
		f, _ := e.Float64()
		return f
	}
	neg := e.Sign() < 0
	abs := new(big.Float).Abs(e)
	unit := max(abs.MantExp(nil)-prec, low) // of the last place
	scaled := new(big.Float).SetMantExp(abs, -unit)
	whole, acc := scaled.Int(nil)
	rest := new(big.Float).SetPrec(9000).Sub(scaled, new(big.Float).SetInt(whole))
	up := false
	switch mode {
	case "rn":
		half := rest.Cmp(big.NewFloat(0.5))
		up = half > 0 || half == 0 && whole.Bit(0) == 1
	case "rp":
		up = !neg && acc != big.Exact
	case "rm":
		up = neg && acc != big.Exact
	}
	if up {
		whole.Add(whole, big.NewInt(1))
	}
	r := new(big.Float).SetMantExp(new(big.Float).SetInt(whole), unit)
	if r.MantExp(nil) > high {
		if mode == "rz" || mode == "rp" && neg || mode == "rm" && !neg {
			largest := new(big.Float).SetMantExp(new(big.Float).Sub(big.NewFloat(1), new(big.Float).SetMantExp(big.NewFloat(1), -prec)), high)
			f, _ := largest.Float64()
			return choose(neg, -f, f)
		}
		return choose(neg, math.Inf(-1), math.Inf(1))
	}
	f, _ := r.Float64()
	return choose(neg, -f, f)
}

func finite(xs ...float64) bool {
	for _, x := range xs {
		if x != x || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

func bigOf(x float64) *big.Float { return new(big.Float).SetPrec(9000).SetFloat64(x) }

func TestRoundedFloats32(t *testing.T) {
	exact := map[string]func(a, b, c *big.Float) *big.Float{
		"add %r9, %r2, %r3":      func(a, b, _ *big.Float) *big.Float { return a.Add(a, b) },
		"sub %r9, %r2, %r3":      func(a, b, _ *big.Float) *big.Float { return a.Sub(a, b) },
		"mul %r9, %r2, %r3":      func(a, b, _ *big.Float) *big.Float { return a.Mul(a, b) },
		"fma %r9, %r2, %r3, %r4": func(a, b, c *big.Float) *big.Float { return a.Add(a.Mul(a, b), c) },
		"div %r9, %r2, %r3":      func(a, b, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2000).Quo(a, b) },
		"sqrt %r9, %r2": func(a, _, _ *big.Float) *big.Float {
			return new(big.Float).SetPrec(2000).Sqrt(a)
		},
		"rcp %r9, %r2": func(a, _, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2000).Quo(big.NewFloat(1), a) },
	}
	in := floats32()
	for form, f := range exact {
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			body := fmt.Sprintf("%s.%s.f32%s;", firstWord(form), mode, form[len(firstWord(form)):])
			got := lanesOf(t, 61, body, in)
			for i, x := range in {
				a, b, c := float64(f32(x[0])), float64(f32(x[1])), float64(f32(x[2]))
				name := firstWord(form)
				if !finite(a, b, c) || name == "div" && b == 0 || name == "rcp" && a == 0 || name == "sqrt" && a <= 0 {
					continue
				}
				e := f(bigOf(a), bigOf(b), bigOf(c))
				if e.Sign() == 0 {
					require.Zero(t, got[i]<<1, "%s of %#x", body, x)
					continue
				}
				want := math.Float32bits(float32(rounded(e, mode, 24, -149, 128)))
				require.Equal(t, want, got[i], "%s of %#x", body, x)
			}
		}
	}
}

func firstWord(s string) string {
	for i, c := range s {
		if c == ' ' {
			return s[:i]
		}
	}
	return s
}

func TestRoundedFloats64(t *testing.T) {
	exact := map[string]func(a, b, c *big.Float) *big.Float{
		"add %rd9, %rd2, %rd3":       func(a, b, _ *big.Float) *big.Float { return a.Add(a, b) },
		"mul %rd9, %rd2, %rd3":       func(a, b, _ *big.Float) *big.Float { return a.Mul(a, b) },
		"fma %rd9, %rd2, %rd3, %rd4": func(a, b, c *big.Float) *big.Float { return a.Add(a.Mul(a, b), c) },
		"div %rd9, %rd2, %rd3":       func(a, b, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2000).Quo(a, b) },
		"sqrt %rd9, %rd2":            func(a, _, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2000).Sqrt(a) },
	}
	in := triples(edgesF64)
	for form, f := range exact {
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			name := firstWord(form)
			body := name + "." + mode + ".f64" + form[len(name):] + ";"
			got := lanesOf(t, 61, body, in)
			for i, x := range in {
				a, b, c := f64(x[0]), f64(x[1]), f64(x[2])
				if !finite(a, b, c) || name == "div" && b == 0 || name == "sqrt" && a <= 0 {
					continue
				}
				e := f(bigOf(a), bigOf(b), bigOf(c))
				if e.Sign() == 0 {
					require.Zero(t, got[i]<<1, "%s of %#x", body, x)
					continue
				}
				require.Equal(t, b64(rounded(e, mode, 53, -1074, 1024)), got[i], "%s of %#x", body, x)
			}
		}
	}
}

// TestSpecialFloats is zeros with their signs, infinities and NaN.
func TestSpecialFloats(t *testing.T) {
	const zero, minus, inf, ninf, nan, one, tiny = 0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00001, 0x3f800000, 1
	for _, c := range []struct {
		body    string
		a, b, c uint32
		want    uint32
	}{
		{"add.rn.f32 %r9, %r2, %r3;", one, one | minus, 0, zero},
		{"add.rm.f32 %r9, %r2, %r3;", one, one | minus, 0, minus},
		{"add.rn.f32 %r9, %r2, %r3;", minus, minus, 0, minus},
		{"add.rn.f32 %r9, %r2, %r3;", inf, ninf, 0, nan32},
		{"add.rn.f32 %r9, %r2, %r3;", nan, one, 0, nan32},
		{"mul.rn.f32 %r9, %r2, %r3;", inf, zero, 0, nan32},
		{"mul.rn.f32 %r9, %r2, %r3;", minus, one, 0, minus},
		{"mul.rz.f32 %r9, %r2, %r3;", minus, one, 0, minus},
		{"fma.rn.f32 %r9, %r2, %r3, %r4;", inf, one, ninf, nan32},
		{"fma.rn.f32 %r9, %r2, %r3, %r4;", minus, one, minus, minus},
		{"fma.rn.f32 %r9, %r2, %r3, %r4;", one, one, one | minus, zero},
		{"fma.rm.f32 %r9, %r2, %r3, %r4;", one, one, one | minus, minus},
		{"div.rn.f32 %r9, %r2, %r3;", one, minus, 0, ninf},
		{"div.rn.f32 %r9, %r2, %r3;", zero, zero, 0, nan32},
		{"sqrt.rn.f32 %r9, %r2;", one | minus, 0, 0, nan32},
		{"sqrt.rn.f32 %r9, %r2;", minus, 0, 0, minus},
		{"rcp.rn.f32 %r9, %r2;", minus, 0, 0, ninf},
		{"min.f32 %r9, %r2, %r3;", nan, one, 0, one},
		{"min.f32 %r9, %r2, %r3;", one, nan, 0, one},
		{"max.f32 %r9, %r2, %r3;", nan, nan, 0, nan32},
		{"min.f32 %r9, %r2, %r3;", zero, minus, 0, minus},
		{"min.f32 %r9, %r2, %r3;", minus, zero, 0, minus},
		{"max.f32 %r9, %r2, %r3;", zero, minus, 0, zero},
		{"max.f32 %r9, %r2, %r3;", minus, zero, 0, zero},
		{"max.f32 %r9, %r2, %r3;", one, 0x40000000, 0, 0x40000000},
		{"min.f32 %r9, %r2, %r3;", one, 0x40000000, 0, one},
		{"min.NaN.f32 %r9, %r2, %r3;", nan, one, 0, nan32},
		{"abs.f32 %r9, %r2;", one | minus, 0, 0, one},
		{"neg.f32 %r9, %r2;", zero, 0, 0, minus},
		{"copysign.f32 %r9, %r2, %r3;", minus, one, 0, one | minus},
		{"add.ftz.f32 %r9, %r2, %r3;", tiny, tiny, 0, zero},
		{"add.f32 %r9, %r2, %r3;", tiny, tiny, 0, 2},
		{"mul.ftz.f32 %r9, %r2, %r3;", 0x00800000, 0x3f000000, 0, zero},
		{"add.sat.f32 %r9, %r2, %r3;", one, one, 0, one},
		{"add.sat.f32 %r9, %r2, %r3;", nan, one, 0, zero},
		{"fma.rn.sat.f32 %r9, %r2, %r3, %r4;", one, one | minus, zero, zero},
		{"ex2.approx.f32 %r9, %r2;", 0x40400000, 0, 0, 0x41000000},
		{"lg2.approx.f32 %r9, %r2;", 0x41000000, 0, 0, 0x40400000},
		{"rsqrt.approx.f32 %r9, %r2;", 0x40800000, 0, 0, 0x3f000000},
		{"rcp.approx.ftz.f32 %r9, %r2;", 0x40800000, 0, 0, 0x3e800000},
		{"div.full.f32 %r9, %r2, %r3;", 0x40800000, 0x40000000, 0, 0x40000000},
		{"testp.notanumber.f32 %p1, %r2; selp.b32 %r9, 1, 0, %p1;", nan, 0, 0, 1},
		{"testp.subnormal.f32 %p1, %r2; selp.b32 %r9, 1, 0, %p1;", tiny, 0, 0, 1},
		{"testp.finite.f32 %p1, %r2; selp.b32 %r9, 1, 0, %p1;", inf, 0, 0, 0},
		{"mov.f32 %r9, 1.5;", 0, 0, 0, 0x3fc00000},
		{"mov.b32 %r9, 0f3FC00000;", 0, 0, 0, 0x3fc00000},
	} {
		require.Equal(t, c.want, lanesOf(t, 80, c.body, [][3]uint32{{c.a, c.b, c.c}})[0], "%s of %#x %#x %#x", c.body, c.a, c.b, c.c)
	}
}

func TestFloatComparisons(t *testing.T) {
	relations := map[string]func(less, equal, greater, unordered bool) bool{
		"eq": func(l, e, g, u bool) bool { return e }, "ne": func(l, e, g, u bool) bool { return l || g },
		"lt": func(l, e, g, u bool) bool { return l }, "le": func(l, e, g, u bool) bool { return l || e },
		"gt": func(l, e, g, u bool) bool { return g }, "ge": func(l, e, g, u bool) bool { return g || e },
		"equ": func(l, e, g, u bool) bool { return e || u }, "neu": func(l, e, g, u bool) bool { return !e },
		"ltu": func(l, e, g, u bool) bool { return l || u }, "leu": func(l, e, g, u bool) bool { return !g },
		"gtu": func(l, e, g, u bool) bool { return g || u }, "geu": func(l, e, g, u bool) bool { return !l },
		"num": func(l, e, g, u bool) bool { return !u }, "nan": func(l, e, g, u bool) bool { return u },
	}
	in := triples(edgesF32)
	for rel, f := range relations {
		got := lanesOf(t, 61, "setp."+rel+".f32 %p1, %r2, %r3; selp.u32 %r9, 1, 0, %p1;", in)
		long := lanesOf(t, 61, "cvt.f64.f32 %fd1, %r2; cvt.f64.f32 %fd2, %r3; setp."+rel+".f64 %p1, %fd1, %fd2; selp.u32 %r9, 1, 0, %p1;", in)
		for i, x := range in {
			a, b := f32(x[0]), f32(x[1])
			want := choose(f(a < b, a == b, a > b, a != a || b != b), uint32(1), 0)
			require.Equal(t, want, got[i], "%s of %#x", rel, x)
			require.Equal(t, want, long[i], "%s of %#x in double precision", rel, x)
		}
	}
}

// nearestInteger is what cvt to an integer gives, from an exact value.
func nearestInteger(x float64, mode string, low, high float64) float64 {
	switch mode {
	case "rni":
		x = math.RoundToEven(x)
	case "rzi":
		x = math.Trunc(x)
	case "rmi":
		x = math.Floor(x)
	case "rpi":
		x = math.Ceil(x)
	}
	return min(max(x, low), high)
}

func TestConversionsFromFloat(t *testing.T) {
	in := floats32()
	for _, mode := range []string{"rni", "rzi", "rmi", "rpi"} {
		same := lanesOf(t, 61, "cvt."+mode+".f32.f32 %r9, %r2;", in)
		s32 := lanesOf(t, 61, "cvt."+mode+".s32.f32 %r9, %r2;", in)
		u32 := lanesOf(t, 61, "cvt."+mode+".u32.f32 %r9, %r2;", in)
		s8 := lanesOf(t, 61, "cvt."+mode+".s8.f32 %r9, %r2;", in)
		u16 := lanesOf(t, 61, "cvt."+mode+".u16.f32 %rs1, %r2; cvt.u32.u16 %r9, %rs1;", in)
		s64 := lanesOf(t, 61, "cvt."+mode+".s64.f32 %rd9, %r2; shr.u64 %rd8, %rd9, 32; cvt.u32.u64 %r9, %rd8;", in)
		for i, x := range in {
			a := float64(f32(x[0]))
			if a != a {
				require.Equal(t, []uint32{nan32, 0, 0, 0, 0, 1 << 31}, []uint32{same[i], s32[i], u32[i], s8[i], u16[i], s64[i]})
				continue
			}
			require.Equal(t, math.Float32bits(float32(nearestInteger(a, mode, math.Inf(-1), math.Inf(1)))), same[i], "%s f32 of %#x", mode, x[0])
			require.Equal(t, uint32(int32(nearestInteger(a, mode, -1<<31, 1<<31-1))), s32[i], "%s s32 of %#x", mode, x[0])
			require.Equal(t, uint32(nearestInteger(a, mode, 0, 1<<32-1)), u32[i], "%s u32 of %#x", mode, x[0])
			require.Equal(t, uint32(int32(nearestInteger(a, mode, -128, 127))), s8[i], "%s s8 of %#x", mode, x[0])
			require.Equal(t, uint32(nearestInteger(a, mode, 0, 65535)), u16[i], "%s u16 of %#x", mode, x[0])
			big, _ := bigOf(nearestInteger(a, mode, math.Inf(-1), math.Inf(1))).Int64() // clamps
			if !math.IsInf(a, 0) {
				require.Equal(t, uint32(uint64(big)>>32), s64[i], "%s s64 of %#x", mode, x[0])
			}
		}
	}
}

func TestConversionsToFloat(t *testing.T) {
	in := triples(edges64)
	for _, mode := range []string{"rn", "rz", "rm", "rp"} {
		for _, c := range []struct {
			typ   string
			value func(x uint64) *big.Float
		}{
			{"s32", func(x uint64) *big.Float { return bigOf(float64(int32(x))) }},
			{"u32", func(x uint64) *big.Float { return bigOf(float64(uint32(x))) }},
			{"s64", func(x uint64) *big.Float { return new(big.Float).SetPrec(64).SetInt64(int64(x)) }},
			{"u64", func(x uint64) *big.Float { return new(big.Float).SetPrec(64).SetUint64(x) }},
		} {
			source := choose(c.typ[1:] == "64", "%rd2", "%r2")
			body := "cvt.u32.u64 %r2, %rd2; cvt." + mode + ".f32." + c.typ + " %r3, " + source + "; cvt.u64.u32 %rd9, %r3;"
			got := lanesOf(t, 61, body, in)
			long := lanesOf(t, 61, "cvt.u32.u64 %r2, %rd2; cvt."+mode+".f64."+c.typ+" %rd9, "+source+";", in)
			for i, x := range in {
				e := c.value(x[0])
				require.Equal(t, uint64(math.Float32bits(float32(rounded(e, mode, 24, -149, 128)))), got[i], "%s of %#x", body, x[0])
				require.Equal(t, b64(rounded(e, mode, 53, -1074, 1024)), long[i], "%s to f64 of %#x", c.typ, x[0])
			}
		}
		doubles := triples(edgesF64)
		got := lanesOf(t, 61, "cvt."+mode+".f32.f64 %r3, %rd2; cvt.u64.u32 %rd9, %r3;", doubles)
		for i, x := range doubles {
			if a := f64(x[0]); finite(a) && a != 0 {
				require.Equal(t, uint64(math.Float32bits(float32(rounded(bigOf(a), mode, 24, -149, 128)))), got[i], "%s of %#x", mode, x[0])
			}
		}
	}
}

func TestHalf(t *testing.T) {
	var all [][3]uint32
	for h := range uint32(1 << 16) {
		all = append(all, [3]uint32{h})
	}
	wide := lanesOf(t, 61, "cvt.u16.u32 %rs1, %r2; cvt.f32.f16 %r9, %rs1;", all)
	for h, x := range wide {
		e, m, want := h>>10&31, h&1023, 0.0
		switch {
		case e == 31 && m != 0:
			require.Equal(t, uint32(nan32), x)
			continue
		case e == 31:
			want = math.Inf(1)
		case e == 0:
			want = float64(m) / (1 << 24)
		default:
			want = math.Ldexp(1+float64(m)/1024, e-15)
		}
		if h>>15 != 0 {
			want = -want
		}
		require.Equal(t, math.Float32bits(float32(want)), x, "%#x", h)
	}
	in := floats32()
	for _, mode := range []string{"rn", "rz"} {
		half := lanesOf(t, 61, "cvt."+mode+".f16.f32 %rs1, %r2; cvt.u32.u16 %r9, %rs1;", in)
		bf := lanesOf(t, 80, "cvt."+mode+".bf16.f32 %rs1, %r2; cvt.u32.u16 %r9, %rs1;", in)
		two := lanesOf(t, 80, "cvt."+mode+".f16x2.f32 %r9, %r2, %r3;", in)
		for i, x := range in {
			a := float64(f32(x[0]))
			if !finite(a) {
				continue
			}
			want := rounded(bigOf(a), mode, 11, -24, 16)
			require.Equal(t, want, halfToFloat(uint16(half[i])), "%s of %#x", mode, x[0])
			require.Equal(t, half[i], two[i]>>16)
			require.Equal(t, rounded(bigOf(a), mode, 8, -133, 128), float64(f32(bf[i]<<16)), "%s bf16 of %#x", mode, x[0])
		}
	}
	for _, c := range []struct {
		name string
		f    func(a, b, c float64) *big.Float
	}{
		{"add.f16 %rs3, %rs1, %rs2;", func(a, b, c float64) *big.Float { return bigOf(a + b) }},
		{"mul.f16 %rs3, %rs1, %rs2;", func(a, b, c float64) *big.Float { return bigOf(a * b) }},
		{"fma.rn.f16 %rs3, %rs1, %rs2, %rs4;", func(a, b, c float64) *big.Float {
			return new(big.Float).SetPrec(9000).Add(bigOf(a*b), bigOf(c))
		}},
	} {
		got := lanesOf(t, 61, "cvt.u16.u32 %rs1, %r2; cvt.u16.u32 %rs2, %r3; cvt.u16.u32 %rs4, %r4;"+c.name+"cvt.u32.u16 %r9, %rs3;", in)
		for i, x := range in {
			a, b, d := halfToFloat(uint16(x[0])), halfToFloat(uint16(x[1])), halfToFloat(uint16(x[2]))
			if !finite(a, b, d) {
				continue
			}
			e := c.f(a, b, d)
			if e.Sign() != 0 {
				require.Equal(t, rounded(e, "rn", 11, -24, 16), halfToFloat(uint16(got[i])), "%s of %#x", c.name, x)
			}
		}
	}
}
