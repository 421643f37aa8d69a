package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// packing is how the elements of a matrix lie in the arrays of a quantized checkpoint (quantization.go). An element is
//
//	(values[code] - values[zero point]) * scale
//
// in float32. Arrays stay in the file.
type packing struct {
	name   string // of the codes
	codes  bitArray
	across bool // runs of codes are columns
	values []float32
	zeros  *bitArray // run: group, number in it: row; nil: nothing is taken away
	below  int       // what is stored of a zero point is less by this
	scales floatArray
	row    int // how many rows have the same scales, at least 1
	stride int // from the scale of one row to that of the next
	step   int // from the scale of one group of columns to that of the next
	group  int // columns that share a scale
	index  []byte
	factor func(scale float32) float32 // by what is of the whole matrix; nil: none
	input  float32                     // scale of what the matrix reads; 0: there is none
	first  int                         // the row in the arrays that is row 0 here
	stored int                         // bytes of all arrays
}

// bitArray is numbers of up to eight bits. Each run of them is a stream of bits in 32-bit words, from the lowest bit on; a number may lie
// in two words.
type bitArray struct {
	data []byte
	bits int
	// Bytes from one run to the next, from one word of a run to the next, and from one byte of a word to the next.
	run, word, byte int
	order           []int // where numbers lie within the 32 bits that they have a part in; nil: in order
}

func (a *bitArray) at(run, i int) int {
	if a.order != nil {
		n := len(a.order)
		i = i/n*n + a.order[i%n]
	}
	bit := i * a.bits
	j := bit >> 3
	v := int(a.data[run*a.run+j>>2*a.word+j&3*a.byte]) >> (bit & 7)
	if bit&7+a.bits > 8 {
		j++
		v |= int(a.data[run*a.run+j>>2*a.word+j&3*a.byte]) << (8 - bit&7)
	}
	return v & (1<<a.bits - 1)
}

// floatArray is an array of floats of any type.
type floatArray struct {
	data []byte
	size int
	read func(b []byte) float32
}

func (n *floatArray) at(i int) float32 { return n.read(n.data[i*n.size:]) }

// floatTypes are those of scales. What safetensors calls U8 is a power of two there.
var floatTypes = map[string]floatArray{
	"F32":     {size: 4, read: func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	"F16":     {size: 2, read: func(b []byte) float32 { return qmath.FromHalf(binary.LittleEndian.Uint16(b)) }},
	"BF16":    {size: 2, read: func(b []byte) float32 { return qmath.FromBrain(binary.LittleEndian.Uint16(b)) }},
	"F8_E4M3": {size: 1, read: func(b []byte) float32 { return qmath.E4M3FN.Decode(uint16(b[0])) }},
	"F8_E8M0": {size: 1, read: func(b []byte) float32 { return qmath.DecodeE8M0(b[0]) }},
	"U8":      {size: 1, read: func(b []byte) float32 { return qmath.DecodeE8M0(b[0]) }},
}

// valuesOf is what the codes of some bits stand for.
func valuesOf(bits int, value func(code int) float32) []float32 {
	list := make([]float32, 1<<bits)
	for i := range list {
		list[i] = value(i)
	}
	return list
}

func unsignedValue(code int) float32 { return float32(code) }

func signedValue(code int) float32 { return float32(int8(code)) }

// read converts elements of one row.
func (p *packing) read(dst []float32, row, col int) {
	row += p.first
	of := row / p.row * p.stride
	last, scale, zero := -1, float32(0), float32(0)
	for i := range dst {
		c := col + i
		group := c / p.group
		if p.index != nil {
			group = int(binary.LittleEndian.Uint32(p.index[4*c:]))
		}
		if group != last {
			last, scale = group, p.scales.at(of+group*p.step)
			if p.factor != nil {
				scale = p.factor(scale)
			}
			if p.zeros != nil {
				zero = p.values[(p.zeros.at(group, row)+p.below)&(len(p.values)-1)]
			}
		}
		code := 0
		if p.across {
			code = p.codes.at(c, row)
		} else {
			code = p.codes.at(row, c)
		}
		dst[i] = (p.values[code] - zero) * scale
	}
}

// cut is the packing of some of all rows.
func (p *packing) cut(first, rows, all int) *packing {
	q := *p
	q.first += first
	q.stored = p.stored * rows / all
	return &q
}

// String is the type of the codes and what shares a scale.
func (p *packing) String() string {
	switch {
	case p.index != nil:
		return p.name + " in groups by an index"
	case p.row > 1 && p.stride > 0:
		return fmt.Sprintf("%s in blocks of %d x %d", p.name, p.row, p.group)
	}
	return fmt.Sprintf("%s in groups of %d", p.name, p.group)
}

// readPacked is Tensor.Read of type Packed.
func (t *Tensor) readPacked(dst []float32, from int) {
	for len(dst) > 0 {
		row, col := from/t.Cols, from%t.Cols
		n := min(len(dst), t.Cols-col)
		if t.levels != nil {
			t.levels.read(dst[:n], row, col)
		} else {
			t.packing.read(dst[:n], row, col)
		}
		dst, from = dst[n:], from+n
	}
}

// checkIndex reports what an index of groups has outside of them.
func checkIndex(index []byte, groups int) error {
	for i := 0; i < len(index); i += 4 {
		if g := int32(binary.LittleEndian.Uint32(index[i:])); g < 0 || int(g) >= groups {
			return fmt.Errorf("column %d is of group %d of %d", i/4, g, groups)
		}
	}
	return nil
}

// rising reports whether an index says what groups of neighbours are without one.
func rising(index []byte, group int) bool {
	for i := 0; i < len(index); i += 4 {
		if int(binary.LittleEndian.Uint32(index[i:])) != i/4/group {
			return false
		}
	}
	return true
}
