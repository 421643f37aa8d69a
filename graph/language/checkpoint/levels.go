package checkpoint

import (
	"encoding/binary"
	"math"
	"slices"

	"qwb/kernels/qmath"
)

// Levels is a matrix of codes that is to be stored by a Scheme. Element [r,c] is, in float32,
//
//	(code - zero) * scale        of integers
//	number(code) * scale         of other number formats, the scale being divided by Global where that is not 0
//
// with the scale and the zero point of row r/Height and column c/Group.
type Levels struct {
	Scheme     *Scheme
	Rows, Cols int
	Group      int // columns that share a scale; divides Cols unless Height is above 1
	Height     int // rows that share a scale, at least 1
	Codes      []uint8
	Scales     []float32 // as they are stored
	Scale      string    // how scales are stored: F32, F16, BF16, F8_E4M3, or U8 for powers of two
	Zeros      []uint8   // like Scales; nil: half of the codes are below 0
	Global     float32
	Input      float32 // scale of what the matrix reads, of Static schemes
}

// NewLevels returns a matrix without codes, scales and zero points yet. Its scales are stored as scale says.
func NewLevels(s *Scheme, rows, cols, group int, scale string) *Levels {
	l := &Levels{Scheme: s, Rows: rows, Cols: cols, Group: group, Height: max(s.Height, 1), Scale: scale}
	l.Codes, l.Scales = make([]uint8, rows*cols), make([]float32, l.across()*((rows+l.Height-1)/l.Height))
	if s.Zeros {
		l.Zeros = make([]uint8, len(l.Scales))
	}
	return l
}

// Signed sets codes that are integers around 0.
func (l *Levels) Signed(codes []int8) {
	for i, q := range codes {
		l.Codes[i] = uint8(int(q) + l.Scheme.Middle())
	}
}

// across is how many scales stand side by side.
func (l *Levels) across() int { return (l.Cols + l.Group - 1) / l.Group }

// read converts elements of one row.
func (l *Levels) read(dst []float32, row, col int) {
	codes, at := l.Codes[row*l.Cols+col:], row/l.Height*l.across()
	for c := range dst {
		i := at + (col+c)/l.Group
		scale := l.Scales[i]
		if l.Global != 0 {
			scale /= l.Global
		}
		if l.Scheme.Number != nil {
			dst[c] = l.Scheme.Number.Decode(uint16(codes[c])) * scale
			continue
		}
		dst[c] = float32(int(codes[c])-l.zero(i)) * scale
	}
}

// zero is the zero point of a scale.
func (l *Levels) zero(i int) int {
	if l.Zeros == nil {
		return l.Scheme.Middle()
	}
	return int(l.Zeros[i])
}

// Rowed is the matrix with its rows in another order: row r is row(r) of it. nil is the order that it has. Scales are of single rows.
func (l *Levels) Rowed(row func(int) int) *Levels {
	if row == nil {
		return l
	}
	out := *l
	n := l.across()
	out.Codes, out.Scales, out.Zeros = nil, nil, nil
	for r := range l.Rows {
		from := row(r)
		out.Codes = append(out.Codes, l.Codes[from*l.Cols:][:l.Cols]...)
		out.Scales = append(out.Scales, l.Scales[from*n:][:n]...)
		if l.Zeros != nil {
			out.Zeros = append(out.Zeros, l.Zeros[from*n:][:n]...)
		}
	}
	return &out
}

// NewPacked returns a matrix of levels as a tensor.
func NewPacked(p Part, name string, l *Levels) *Tensor {
	return &Tensor{Part: p, Name: name, Rows: l.Rows, Cols: l.Cols, Type: Packed, levels: l}
}

// Levels are those that the tensor was made of in this process; nil: it was not.
func (t *Tensor) Levels() *Levels { return t.levels }

// InputScale is the scale by which engines round what a matrix reads, where its file has one number for it; 0 where it has none.
func (t *Tensor) InputScale() float32 {
	if t.packing == nil {
		return 0
	}
	return t.packing.input
}

// stored is an array of a matrix: what its name ends in, and how its bytes are written.
type stored struct {
	end, dtype string
	shape      []int
	put        func(b []byte)
}

// Arrays are the arrays of a matrix in their order, named for its module; Data is nil, see Bytes.
func (l *Levels) Arrays(module string) []SafeArray {
	var list []SafeArray
	for _, a := range l.Scheme.layout(l) {
		list = append(list, SafeArray{Name: module + a.end, DType: a.dtype, Shape: a.shape})
	}
	return list
}

// Bytes appends the bytes of Arrays, one after the other.
func (l *Levels) Bytes(b []byte) []byte {
	for _, a := range l.Scheme.layout(l) {
		n := SafeArray{DType: a.dtype, Shape: a.shape}.Size()
		at := len(b)
		b = slices.Grow(b, n)[:at+n]
		clear(b[at:])
		a.put(b[at:])
	}
	return b
}

// Size is how many bytes an array of its type and shape has.
func (a SafeArray) Size() int {
	n := safeBits[a.DType]
	for _, d := range a.Shape {
		n *= d
	}
	return n / 8
}

// set is the inverse of at, for bits that are 0.
func (a *bitArray) set(run, i, v int) {
	if a.order != nil {
		n := len(a.order)
		i = i/n*n + a.order[i%n]
	}
	bit := i * a.bits
	j := bit >> 3
	a.data[run*a.run+j>>2*a.word+j&3*a.byte] |= byte(v << (bit & 7))
	if bit&7+a.bits > 8 {
		j++
		a.data[run*a.run+j>>2*a.word+j&3*a.byte] |= byte(v >> (8 - bit&7))
	}
}

// putCodes writes the codes of all elements: runs of bits are rows, or columns.
func (l *Levels) putCodes(a bitArray, across bool) {
	for r := range l.Rows {
		for c, q := range l.Codes[r*l.Cols:][:l.Cols] {
			if across {
				a.set(c, r, int(q))
			} else {
				a.set(r, c, int(q))
			}
		}
	}
}

// putZeros writes zero points less below: a run for each group of columns, a number for each row.
func (l *Levels) putZeros(a bitArray, below int) {
	n, mask := l.across(), 1<<a.bits-1
	for r := range l.Rows {
		for g := range n {
			a.set(g, r, (l.zero(r*n+g)-below)&mask)
		}
	}
}

// putScales writes scales in float32, half precision, E4M3 or powers of two, by row and then by group, or the other way.
func (l *Levels) putScales(b []byte, dtype string, across bool) {
	n := l.across()
	m := len(l.Scales) / n
	b = b[:0]
	for i := range l.Scales {
		s := l.Scales[i]
		if across {
			s = l.Scales[i%m*n+i/m]
		}
		switch dtype {
		case "F32":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
		case "F16":
			b = binary.LittleEndian.AppendUint16(b, qmath.HalfBits(s))
		case "BF16":
			b = binary.LittleEndian.AppendUint16(b, qmath.BrainBits(s))
		case "F8_E4M3":
			b = append(b, byte(qmath.E4M3FN.Encode(float64(s), true)))
		default:
			b = append(b, qmath.EncodeE8M0(float64(s), qmath.Down, true))
		}
	}
}
