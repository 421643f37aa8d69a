package checkpoint

import (
	"encoding/binary"

	"qwb/kernels/qmath"
)

// Blocks of ggml that are read as the floats they stand for, and are multiplied so: their scales are within blocks of scales, or beside
// minima, or their codes are no numbers. Layouts are those of ggml-common.h.

// blockType is how a type of blocks lies in a file.
type blockType struct {
	form    *qmath.BlockForm
	bytes   int
	codes   []plane // from the lowest bits up
	factors []plane // of the scales of groups, and the minima behind them; none: six bits each as sixBits has them, where there are any
	bias    int     // what is stored of a scale is it and this
	d, m    int     // where D and M are, in half precision; M where the form has minima
}

// plane is where some bits of consecutive numbers are: of each run of bytes the lowest bits belong to the first numbers, one a byte.
type plane struct{ at, bits, run int }

var blockTypes = map[Type]*blockType{
	GGQ41: {form: &qmath.FormQ41, bytes: 20, codes: []plane{{4, 4, 16}}, m: 2},
	GGQ50: {form: &qmath.FormQ50, bytes: 22, codes: []plane{{6, 4, 16}, {2, 1, 1}}},
	GGQ51: {form: &qmath.FormQ51, bytes: 24, codes: []plane{{8, 4, 16}, {4, 1, 1}}, m: 2},
	Q2K:   {form: &qmath.FormQ2K, bytes: 84, codes: []plane{{16, 2, 32}}, factors: []plane{{0, 4, 16}}, d: 80, m: 82},
	Q3K: {form: &qmath.FormQ3K, bytes: 110, codes: []plane{{32, 2, 32}, {0, 1, 32}}, factors: []plane{{96, 4, 8}, {104, 2, 4}}, bias: 32,
		d: 108},
	Q4K:   {form: &qmath.FormQ4K, bytes: 144, codes: []plane{{16, 4, 32}}, m: 2},
	Q5K:   {form: &qmath.FormQ5K, bytes: 176, codes: []plane{{48, 4, 32}, {16, 1, 32}}, m: 2},
	Q6K:   {form: &qmath.FormQ6K, bytes: 210, codes: []plane{{0, 4, 64}, {128, 2, 32}}, factors: []plane{{192, 8, 16}}, d: 208},
	IQ4NL: {form: &qmath.FormIQ4NL, bytes: 18, codes: []plane{{2, 4, 16}}},
	IQ4XS: {form: &qmath.FormIQ4XS, bytes: 136, codes: []plane{{8, 4, 16}}, factors: []plane{{4, 4, 1}, {2, 2, 1}}, bias: 32},
}

// get adds bits of numbers that are 0 there, from bit shift on.
func (p plane) get(dst []uint8, b []byte, shift int) {
	mask := byte(1<<p.bits - 1)
	for b = b[p.at:]; len(dst) > 0; b = b[p.run:] {
		for at := 0; at < 8 && len(dst) > 0; at += p.bits {
			n := min(p.run, len(dst))
			for j, v := range b[:n] {
				dst[j] |= v >> at & mask << shift
			}
			dst = dst[n:]
		}
	}
}

// put writes bits of numbers to bytes that are 0 there.
func (p plane) put(b []byte, src []uint8, shift int) {
	mask := byte(1<<p.bits - 1)
	for b = b[p.at:]; len(src) > 0; b = b[p.run:] {
		for at := 0; at < 8 && len(src) > 0; at += p.bits {
			n := min(p.run, len(src))
			for j, v := range src[:n] {
				b[j] |= v >> shift & mask << at
			}
			src = src[n:]
		}
	}
}

// sixBits is where scale and minimum of a group of Q4_K and Q5_K begin, in the 12 bytes at 4: six bits of a byte each, or four of one and
// two upper bits of another.
const sixBits = 4

// unpack reads a block.
func (k *blockType) unpack(x *qmath.Block, b []byte) {
	f := k.form
	f.Reset(x)
	shift := 0
	for _, p := range k.codes {
		p.get(x.Codes[:f.Elements], b, shift)
		shift += p.bits
	}
	x.D = half(b[k.d:])
	if f.MaxMin != 0 {
		x.M = half(b[k.m:])
	}
	if f.Hi == 1 {
		return
	}
	var list [32]uint8
	n := f.Groups()
	shift = 0
	for _, p := range k.factors {
		p.get(list[:k.numbers()], b, shift)
		shift += p.bits
	}
	if k.factors == nil {
		for j, s := 0, b[sixBits:]; j < n; j++ {
			if j < 4 {
				list[j], list[n+j] = s[j]&63, s[j+4]&63
			} else {
				list[j], list[n+j] = s[j+4]&15|s[j-4]>>6<<4, s[j+4]>>4|s[j]>>6<<4
			}
		}
	}
	for g := range n {
		x.Scales[g] = int8(int(int8(list[g])) - k.bias)
		if f.MaxMin > 0 {
			x.Mins[g] = int8(list[n+g])
		}
	}
}

// numbers is how many factors are stored.
func (k *blockType) numbers() int {
	if k.form.MaxMin > 0 {
		return 2 * k.form.Groups()
	}
	return k.form.Groups()
}

// pack writes a block to bytes that are 0.
func (k *blockType) pack(b []byte, x *qmath.Block) {
	f := k.form
	shift := 0
	for _, p := range k.codes {
		p.put(b, x.Codes[:f.Elements], shift)
		shift += p.bits
	}
	binary.LittleEndian.PutUint16(b[k.d:], qmath.HalfBits(x.D))
	if f.MaxMin != 0 {
		binary.LittleEndian.PutUint16(b[k.m:], qmath.HalfBits(x.M))
	}
	if f.Hi == 1 {
		return
	}
	var list [32]uint8
	n := f.Groups()
	for g := range n {
		list[g], list[(n+g)%len(list)] = uint8(int(x.Scales[g])+k.bias), uint8(x.Mins[g])
	}
	shift = 0
	for _, p := range k.factors {
		p.put(b, list[:k.numbers()], shift)
		shift += p.bits
	}
	if k.factors == nil {
		for j, s := 0, b[sixBits:]; j < n; j++ {
			scale, least := list[j], list[n+j]
			if j < 4 {
				s[j], s[j+4] = scale, least
			} else {
				s[j+4] = scale&15 | least&15<<4
				s[j-4] |= scale >> 4 << 6
				s[j] |= least >> 4 << 6
			}
		}
	}
}

func (k *blockType) read(y []float32, b []byte) {
	var x qmath.Block
	k.unpack(&x, b)
	k.form.Dequantize(y, &x)
}

func half(b []byte) float32 { return qmath.FromHalf(binary.LittleEndian.Uint16(b)) }

// Form is what the numbers of blocks that are read as floats stand for; nil for other types.
func (t Type) Form() *qmath.BlockForm {
	if k := blockTypes[t]; k != nil {
		return k.form
	}
	return nil
}

// AppendBlock appends a block of a type that has a Form.
func (t Type) AppendBlock(b []byte, x *qmath.Block) []byte {
	k := blockTypes[t]
	b = append(b, make([]byte, k.bytes)...)
	k.pack(b[len(b)-k.bytes:], x)
	return b
}

// ParseBlock reads the block at the beginning of b, of a type that has a Form.
func (t Type) ParseBlock(x *qmath.Block, b []byte) { blockTypes[t].unpack(x, b) }

// Raw are the bytes of n elements, the first being element from; both are whole blocks.
func (t *Tensor) Raw(from, n int) []byte { return t.data[t.Type.bytes(from):][:t.Type.bytes(n)] }

// floatBlock is a type of blocks of floats of four bits (E2M1), the low halves of bytes in front of the high ones. It is read, and not
// written.
type floatBlock struct {
	elements, bytes int
	head            int // bytes of scales, each of as many elements
	scale           func(b byte) float32
}

// floatBlocks are those of ggml-common.h. NVFP4 has no sign in its scales: 0x7f, which E4M3 takes for NaN, is 0.
var floatBlocks = map[Type]*floatBlock{
	MXFP4: {32, 17, 1, qmath.DecodeE8M0},
	NVFP4: {64, 36, 4, func(b byte) float32 {
		if b &= 0x7f; b == 0x7f {
			return 0
		}
		return qmath.E4M3FN.Decode(uint16(b))
	}},
}

// fourBits are the floats of four bits; ggml's 0 has no sign.
var fourBits = valuesOf(4, func(code int) float32 {
	if code == 8 {
		return 0
	}
	return qmath.E2M1.Decode(uint16(code))
})

func (k *floatBlock) read(dst []float32, b []byte) {
	n := k.elements / k.head
	for g, s := range b[:k.head] {
		scale := k.scale(s)
		for i, c := range b[k.head+g*n/2:][:n/2] {
			dst[g*n+i] = fourBits[c&15] * scale
			dst[g*n+n/2+i] = fourBits[c>>4] * scale
		}
	}
}
