package qmath

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checksums (CRC-32, little endian) are those of ml_dtypes 0.6.0 under NumPy: of all codes as float32, every NaN as 0x7fc00000,
// and of the codes, as uint16, of 65,280 numbers that cover every exponent, as they are and limited to the finite range.
var minifloatSums = []struct {
	format                     Minifloat
	bits                       int
	decoded, encoded, saturate uint32
}{
	{Half, 16, 0x3020c7a7, 0x680bfdb0, 0xacd54741},
	{Brain, 16, 0x28c5ed34, 0xcb68e803, 0x584c1571},
	{E4M3FN, 8, 0x2fdee9ac, 0x34d89bae, 0x169c8f8},
	{E4M3FNUZ, 8, 0xf2dfa052, 0x83a3789b, 0x108bb02},
	{E5M2, 8, 0x3d83fd11, 0xa5e60886, 0x204428e1},
	{E5M2FNUZ, 8, 0x9c70b84, 0xed87efef, 0x7edf36ba},
	{E2M1, 4, 0x866770b6, 0x407c341d, 0x407c341d},
}

// everyExponent is float32 without NaN: every sign, exponent and upper mantissa, with some lower bits.
func everyExponent() []float32 {
	var x []float32
	for i := range uint32(1 << 16) {
		if v := math.Float32frombits(i<<16 | i*2654435761&0xffff); v == v {
			x = append(x, v)
		}
	}
	return x
}

func sumOf16(codes []uint16) uint32 {
	b := make([]byte, 0, 2*len(codes))
	for _, c := range codes {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return crc32.ChecksumIEEE(b)
}

func TestMinifloatsAreThoseOfMLDtypes(t *testing.T) {
	x := everyExponent()
	require.Len(t, x, 65280)
	for _, c := range minifloatSums {
		var decoded []byte
		for code := range 1 << c.bits {
			bits := math.Float32bits(c.format.Decode(uint16(code)))
			if bits&0x7fffffff > 0x7f800000 {
				bits = 0x7fc00000
			}
			decoded = binary.LittleEndian.AppendUint32(decoded, bits)
		}
		assert.Equal(t, c.decoded, crc32.ChecksumIEEE(decoded), "codes of format %d", c.format)
		open, clipped := make([]uint16, len(x)), make([]uint16, len(x))
		for i, v := range x {
			open[i], clipped[i] = c.format.Encode(float64(v), false), c.format.Encode(float64(v), true)
		}
		assert.Equal(t, c.encoded, sumOf16(open), "format %d", c.format)
		assert.Equal(t, c.saturate, sumOf16(clipped), "format %d, saturated", c.format)
	}
}

// TestMinifloatsRoundOnce: a float64 just above the middle of two numbers goes up, which a detour through float32 would lose; the
// middle goes to the even one.
func TestMinifloatsRoundOnce(t *testing.T) {
	for _, c := range minifloatSums {
		for code := uint16(0); code < minifloats[c.format].largest; code++ {
			a, b := float64(c.format.Decode(code)), float64(c.format.Decode(code+1))
			mid := (a + b) / 2
			require.Equal(t, code, c.format.Encode(math.Nextafter(mid, a), false))
			require.Equal(t, code+1, c.format.Encode(math.Nextafter(mid, b), false))
			require.Equal(t, code+code&1, c.format.Encode(mid, false))
			require.Equal(t, code, c.format.Encode(a, false))
		}
	}
}

func TestFastHalves(t *testing.T) {
	for _, v := range everyExponent() {
		require.Equal(t, Half.Encode(float64(v), false), HalfBits(v), "%g", v)
		require.Equal(t, Brain.Encode(float64(v), false), BrainBits(v), "%g", v)
	}
	for code := range 1 << 16 {
		a, b := Half.Decode(uint16(code)), FromHalf(uint16(code))
		require.True(t, a == b || a != a && b != b, "%#x", code)
		a, b = Brain.Decode(uint16(code)), FromBrain(uint16(code))
		require.True(t, a == b || a != a && b != b, "%#x", code)
	}
	small := math.Float32frombits(0x7f800001)
	assert.NotEqual(t, uint16(0x7f80), BrainBits(small), "NaN stays NaN")
	assert.Equal(t, uint16(0x7e00), HalfBits(small))
}

// TestE8M0 has the table of ONNX Cast 24, and what lies between.
func TestE8M0(t *testing.T) {
	inf, nan, low := math.Inf(1), math.NaN(), math.Ldexp(1, -130)
	for _, c := range []struct {
		x             float64
		up, down, mid uint8 // saturated
		open          uint8 // to the nearest, not saturated
	}{
		{0, 0, 0, 0, 255}, {nan, 255, 255, 255, 255}, {inf, 254, 254, 254, 255}, {low, 0, 0, 0, 255},
		{math.Ldexp(1, -127), 0, 0, 0, 0}, {math.Ldexp(1, 127), 254, 254, 254, 254}, {math.Ldexp(1.5, 127), 254, 254, 254, 255},
		{1, 127, 127, 127, 127}, {1.25, 128, 127, 127, 127}, {1.5, 128, 127, 128, 128}, {3.5, 129, 128, 129, 129}, {-1, 255, 255, 255, 255},
	} {
		got := []uint8{EncodeE8M0(c.x, Up, true), EncodeE8M0(c.x, Down, true), EncodeE8M0(c.x, HalfUp, true), EncodeE8M0(c.x, HalfUp, false)}
		assert.Equal(t, []uint8{c.up, c.down, c.mid, c.open}, got, "%g", c.x)
	}
	for code := range uint8(255) {
		x := float64(DecodeE8M0(code))
		for _, r := range []Rounding{Up, Down, HalfUp} {
			require.Equal(t, code, EncodeE8M0(x, r, false))
		}
	}
	assert.True(t, math.IsNaN(float64(DecodeE8M0(255))))
}
