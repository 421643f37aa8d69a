package checkpoint

import (
	"encoding/binary"

	"qwb/kernels/qmath"
)

// Blocks of ggml that are read as the floats they stand for, and are multiplied so: their scales are within blocks of scales, or beside
// minima, or their codes are no numbers. What each element is follows dequantize_row of ggml-quants.c, in float32, without fused
// multiply-add.

// blockType is how a type of blocks lies in a file.
type blockType struct {
	elements, bytes int
	read            func(y []float32, b []byte) // one block
}

var blockTypes = map[Type]blockType{
	GGQ41: {32, 20, readQ41}, GGQ50: {32, 22, readQ50}, GGQ51: {32, 24, readQ51}, Q2K: {256, 84, readQ2K}, Q3K: {256, 110, readQ3K},
	Q4K: {256, 144, readQ4K}, Q5K: {256, 176, readQ5K}, Q6K: {256, 210, readQ6K}, IQ4NL: {32, 18, readIQ4NL}, IQ4XS: {256, 136, readIQ4XS},
}

func half(b []byte) float32 { return qmath.FromHalf(binary.LittleEndian.Uint16(b)) }

// readQ41: half-precision scale and minimum, 16 bytes: low halves are elements 0 to 15, high ones 16 to 31.
func readQ41(y []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for j, q := range b[4:20] {
		y[j] = float32(float32(q&15)*d) + m
		y[j+16] = float32(float32(q>>4)*d) + m
	}
}

// fifth are the fifth bits of the elements j and j+16.
func fifth(b []byte, j int) (low, high byte) {
	bits := binary.LittleEndian.Uint32(b)
	return byte(bits>>j&1) << 4, byte(bits>>(j+16)&1) << 4
}

// readQ50: half-precision scale, fifth bits, low bits as in Q4_0; less 16.
func readQ50(y []float32, b []byte) {
	d := half(b)
	for j, q := range b[6:22] {
		low, high := fifth(b[2:], j)
		y[j] = float32(int(q&15|low)-16) * d
		y[j+16] = float32(int(q>>4|high)-16) * d
	}
}

// readQ51: half-precision scale and minimum, fifth bits, low bits.
func readQ51(y []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for j, q := range b[8:24] {
		low, high := fifth(b[4:], j)
		y[j] = float32(float32(q&15|low)*d) + m
		y[j+16] = float32(float32(q>>4|high)*d) + m
	}
}

// readQ2K: 16 scales and minima of 4 bits, codes of 2 bits, the half-precision scales of both.
func readQ2K(y []float32, b []byte) {
	scales, codes, d, m := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for i := range 16 { // of 16 elements each
		scale, least := float32(d*float32(scales[i]&15)), float32(m*float32(scales[i]>>4))
		q, shift := codes[i/8*32+i%2*16:], i%8/2*2
		for l := range 16 {
			y[i*16+l] = float32(scale*float32(q[l]>>shift&3)) - least
		}
	}
}

// readQ3K: third bits, codes of 2 bits, 16 scales of 6 bits less 32, half-precision scale.
func readQ3K(y []float32, b []byte) {
	thirds, codes, packed, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for i := range 16 {
		low := packed[i%8] >> (i / 8 * 4) & 15
		high := packed[8+i%4] >> (i / 4 * 2) & 3
		scale := float32(d * float32(int(low|high<<4)-32))
		q, t, shift, bit := codes[i/8*32+i%2*16:], thirds[i%2*16:], i%8/2*2, i/8*4+i%8/2
		for l := range 16 {
			code := int(q[l] >> shift & 3)
			if t[l]>>bit&1 == 0 {
				code -= 4
			}
			y[i*16+l] = scale * float32(code)
		}
	}
}

// sixBits returns scale and minimum j of eight, of 6 bits each in 12 bytes.
func sixBits(b []byte, j int) (scale, least float32) {
	if j < 4 {
		return float32(b[j] & 63), float32(b[j+4] & 63)
	}
	return float32(b[j+4]&15 | b[j-4]>>6<<4), float32(b[j+4]>>4 | b[j]>>6<<4)
}

// readQ4K: half-precision scales of scales and minima, eight of both, codes: of 64 elements the low halves are the first 32.
func readQ4K(y []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i := range 8 {
		scale, least := sixBits(b[4:], i)
		scale, least = float32(d*scale), float32(m*least)
		for l, q := range b[16+i/2*32:][:32] {
			y[i*32+l] = float32(scale*float32(q>>(i%2*4)&15)) - least
		}
	}
}

// readQ5K is readQ4K with fifth bits in front of the codes.
func readQ5K(y []float32, b []byte) {
	d, m, fifths := half(b), half(b[2:]), b[16:48]
	for i := range 8 {
		scale, least := sixBits(b[4:], i)
		scale, least = float32(d*scale), float32(m*least)
		for l, q := range b[48+i/2*32:][:32] {
			code := q>>(i%2*4)&15 | fifths[l]>>i&1<<4
			y[i*32+l] = float32(scale*float32(code)) - least
		}
	}
}

// readQ6K: low halves, high bits, 16 int8 scales, half-precision scale; codes less 32.
func readQ6K(y []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for i := range 16 {
		scale := float32(d * float32(int8(scales[i])))
		part := i % 8 / 2 // of four with 32 elements each
		q, h := low[i/8*64+part%2*32+i%2*16:], high[i/8*32+i%2*16:]
		for l := range 16 {
			code := int(q[l]>>(part/2*4)&15|h[l]>>(part*2)&3<<4) - 32
			y[i*16+l] = scale * float32(code)
		}
	}
}

// iq4 is what the codes of IQ4_NL and IQ4_XS stand for.
var iq4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// readIQ4NL: half-precision scale, codes as in Q4_0, which are places in a table.
func readIQ4NL(y []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:18] {
		y[j], y[j+16] = d*iq4[q&15], d*iq4[q>>4]
	}
}

// readIQ4XS: half-precision scale, eight scales of 6 bits less 32, and codes of IQ4_NL.
func readIQ4XS(y []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint16(b[2:])
	for i := range 8 {
		scale := int(b[4+i/2]>>(i%2*4)&15) | int(high>>(2*i)&3)<<4
		s := float32(d * float32(scale-32))
		for j, q := range b[8+i*16:][:16] {
			y[i*32+j], y[i*32+j+16] = s*iq4[q&15], s*iq4[q>>4]
		}
	}
}
