package jpeg

import "errors"

var (
	errShort = errors.New("the file is cut off or damaged: compressed data end too early")
	errCode  = errors.New("the file is damaged: bad Huffman code")
)

// lutBits is the length of codes that are looked up at once.
const lutBits = 9

// huffman is a decoding table (ITU-T T.81, Annex C and F.2.2.3).
type huffman struct {
	lut    [1 << lutBits]uint16 // length<<8 | value, 0 for longer codes
	limit  [17]int32            // first code that is too large for this length, left-aligned to 16 bits
	offset [17]int32            // index of a value = code + offset
	values []uint8
}

// newHuffman builds a table from the numbers of codes of 1 to 16 bits and their values.
func newHuffman(counts [16]uint8, values []uint8) (*huffman, error) {
	h := &huffman{values: values}
	code, k := int32(0), int32(0)
	for n := 1; n <= 16; n++ {
		h.offset[n] = k - code
		for range counts[n-1] {
			if n <= lutBits {
				at := int(code) << (lutBits - n)
				if at+1<<(lutBits-n) > len(h.lut) {
					return nil, errCode
				}
				for i := range 1 << (lutBits - n) {
					h.lut[at+i] = uint16(n)<<8 | uint16(values[k])
				}
			}
			code++
			k++
		}
		if code > 1<<n {
			return nil, errCode
		}
		h.limit[n] = code << (16 - n)
		code <<= 1
	}
	return h, nil
}

// bits reads the entropy-coded segment of a file. The first error stays, and zeros follow it.
type bits struct {
	src []byte
	pos int    // of the next byte; stops at a marker
	acc uint64 // the last n bits read
	n   int
	err error
}

// fill reads on until 16 bits are there or a marker stands in the way.
func (b *bits) fill() {
	for b.n <= 48 && b.pos < len(b.src) {
		c := b.src[b.pos]
		if c == 0xff {
			if b.pos+1 >= len(b.src) || b.src[b.pos+1] != 0 {
				return
			}
			b.pos++
		}
		b.pos++
		b.acc, b.n = b.acc<<8|uint64(c), b.n+8
	}
}

func (b *bits) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// receive returns the next n bits, at most 16.
func (b *bits) receive(n int) int32 {
	if b.n < n {
		b.fill()
		if b.n < n {
			b.fail(errShort)
			return 0
		}
	}
	b.n -= n
	return int32(b.acc>>b.n) & (1<<n - 1)
}

// signed returns the next n bits as the difference they code (EXTEND of F.2.2.1).
func (b *bits) signed(n int) int32 {
	if n == 0 {
		return 0
	}
	v := b.receive(n)
	if v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// decode returns the value of the next code.
func (b *bits) decode(h *huffman) uint8 {
	if b.n < 16 {
		b.fill()
	}
	var next int32 // the next 16 bits, zeros behind the end
	if b.n >= 16 {
		next = int32(b.acc>>(b.n-16)) & 0xffff
	} else {
		next = int32(b.acc<<(16-b.n)) & 0xffff
	}
	n, v := 0, uint8(0)
	if e := h.lut[next>>(16-lutBits)]; e != 0 {
		n, v = int(e>>8), uint8(e)
	} else {
		for n = lutBits + 1; n <= 16 && next >= h.limit[n]; n++ {
		}
		if n > 16 {
			if b.n < 16 {
				b.fail(errShort)
			}
			b.fail(errCode)
			return 0
		}
		v = h.values[next>>(16-n)+h.offset[n]]
	}
	if n > b.n {
		b.fail(errShort)
		return 0
	}
	b.n -= n
	return v
}

// restart drops what is left of the segment, and takes the given restart marker.
func (b *bits) restart(marker uint8) {
	b.acc, b.n = 0, 0
	for b.pos+1 < len(b.src) {
		if b.src[b.pos] == 0xff && b.src[b.pos+1] != 0 && b.src[b.pos+1] != 0xff {
			if b.src[b.pos+1] != marker {
				break
			}
			b.pos += 2
			return
		}
		b.pos++
	}
	b.fail(errors.New("the file is damaged: a restart marker is missing"))
}
