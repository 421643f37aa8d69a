package kernels

import (
	"fmt"
	"math"

	"qwb/kernels/ref"
)

// GroupMatrix says what a matrix in groups is made of: Rows x Cols codes, row after row, with one scale for every Size neighbours.
// Groups run on from row to row where Size does not divide Cols; it divides Rows*Cols. A product of Size codes must fit an int32:
// Size is at most MaxGroup.
type GroupMatrix struct {
	Rows, Cols, Size int
	// Bits of a code: 8, codes of -127 to 127, or 4, codes of -8 to 7. 0: 8.
	Bits int
	// Float says that the matrix multiplies floats as they are. Else they are quantized at run time.
	Float bool
	// Plain computes products by the loops of package ref on codes as they were read.
	Plain bool
	// Read reads codes and scales of len(codes) elements, the first being element from: multiples of Size. Several goroutines may
	// call it.
	Read func(codes []int8, scales []float32, from int)
}

// MaxGroup is the largest group whose sum is an int32 for all codes, and with them raised by 128.
const MaxGroup = 1 << 16

// groupLanes is how many rows a panel has.
const groupLanes = 16

// Groups is a matrix in groups, packed for a row of products. Many goroutines may use it at once. It holds what was read once:
// codes in 8 or 4 bits, and scales. Matrices whose groups do not divide rows, or are no multiple of 4 (of 8 for 4 bits), are packed class
// by class; see groupsClass.
type Groups struct {
	GroupMatrix
	row, quantizer Row

	packed []uint32 // panels of 16 rows; see pack
	codes  []int8   // where there are neither panels nor classes
	scales []float32

	classes []groupsClass // of matrices without panels
}

// PackGroups packs a matrix.
func (t *Table) PackGroups(par Parallel, m GroupMatrix) (*Groups, error) {
	if m.Bits == 0 {
		m.Bits = 8
	}
	n := m.Rows * m.Cols
	switch {
	case m.Bits != 8 && m.Bits != 4:
		return nil, fmt.Errorf("codes of %d bits; there are kernels for 8 and 4", m.Bits)
	case m.Rows < 1 || m.Cols < 1 || m.Size < 1 || n%m.Size != 0:
		return nil, fmt.Errorf("groups of %d do not divide the elements of %d rows of %d", m.Size, m.Rows, m.Cols)
	case m.Size > MaxGroup:
		return nil, fmt.Errorf("groups of %d elements; the sum of more than %d products may leave 32 bits", m.Size, MaxGroup)
	}
	g := &Groups{GroupMatrix: m, row: t.rows[m.op()], quantizer: t.rows[OpQuantizeGroups]}
	if m.Plain || m.Cols%m.Size != 0 || m.Size%g.perWord() != 0 {
		codes, scales := make([]int8, n), make([]float32, n/m.Size)
		m.Read(codes, scales, 0)
		if !m.Plain && m.Rows >= leastClass*m.period() {
			return g, g.packClasses(t, par, codes, scales)
		}
		g.codes, g.scales = codes, scales
		return g, nil
	}
	panels := ceil(m.Rows, groupLanes)
	g.packed = make([]uint32, panels*g.panelWords())
	par.Slices(panels, max(1, packGrain/(groupLanes*m.Cols)), func(lo, hi int) {
		codes, scales := make([]int8, groupLanes*m.Cols), make([]float32, groupLanes*m.Cols/m.Size)
		for p := lo; p < hi; p++ {
			rows := min(groupLanes, m.Rows-p*groupLanes)
			clear(codes[rows*m.Cols:])
			clear(scales[rows*m.Cols/m.Size:])
			m.Read(codes[:rows*m.Cols], scales[:rows*m.Cols/m.Size], p*groupLanes*m.Cols)
			g.pack(g.packed[p*g.panelWords():][:g.panelWords()], codes, scales)
		}
	})
	return g, nil
}

// op is the operation of products with the matrix.
func (m *GroupMatrix) op() Op {
	switch {
	case m.Float && m.Bits == 4:
		return OpGroupsFloat4
	case m.Float:
		return OpGroupsFloat8
	case m.Bits == 4:
		return OpGroups4
	}
	return OpGroups8
}

// packGrain is how many codes are worth a piece of their own when a matrix is packed.
const packGrain = 1 << 18

func ceil(n, by int) int { return (n + by - 1) / by }

// perWord is how many codes a word has.
func (g *Groups) perWord() int { return 32 / g.Bits }

// panelWords is how many words a panel has: those of the codes, and the scales.
func (g *Groups) panelWords() int {
	return groupLanes * (g.Cols/g.perWord() + g.Cols/g.Size)
}

// pack writes a panel: group by group, first its codes, word by word for all 16 rows, then the 16 scales. A word has the
// codes of four neighbours, the first in the lowest byte; of four bits those of eight, the first four in the lower halves of
// the bytes. Codes are raised to be unsigned.
func (g *Groups) pack(dst []uint32, codes []int8, scales []float32) {
	for ; len(codes) > 0; codes = codes[g.Cols:] {
		lane := dst
		for at := 0; at < g.Cols; at += g.Size {
			c := codes[at:][:g.Size]
			for ; len(c) > 0; c = c[g.perWord():] {
				if g.Bits == 8 {
					lane[0] = word4(c) ^ 0x80808080
				} else {
					lane[0] = word4(c)&0x0f0f0f0f ^ 0x08080808 | (word4(c[4:])&0x0f0f0f0f^0x08080808)<<4
				}
				lane = lane[groupLanes:]
			}
			lane[0] = math.Float32bits(scales[0])
			lane, scales = lane[min(groupLanes, len(lane)):], scales[1:]
		}
		dst = dst[1:]
	}
}

// word4 puts four codes into a word, the first in the lowest byte.
func word4(c []int8) uint32 {
	_ = c[3] // one check of bounds
	return uint32(uint8(c[0])) | uint32(uint8(c[1]))<<8 | uint32(uint8(c[2]))<<16 | uint32(uint8(c[3]))<<24
}

// unpackCode returns code i of a word.
func unpackCode(w uint32, i, bits int) int8 {
	if bits == 8 {
		return int8(w>>(8*i)) ^ -128
	}
	return int8(w>>(8*(i%4)+4*(i/4))&15) - 8
}

// Row writes the numbers of one row, code times scale, to dst, which has Cols elements.
func (g *Groups) Row(dst []float32, row int) {
	switch {
	case g.classes != nil:
		c := &g.classes[row%len(g.classes)]
		for k, p := range c.pieces {
			c.group(dst[p.lo:p.hi], row/len(g.classes), k)
		}
		return
	case g.packed == nil:
		at := row * g.Cols
		for k, c := range g.codes[at:][:g.Cols] {
			dst[k] = float32(c) * g.scales[(at+k)/g.Size]
		}
		return
	}
	for k := range g.Cols / g.Size {
		g.group(dst[k*g.Size:][:g.Size], row, k)
	}
}

// group writes the first numbers of a group of a row, of a matrix with panels.
func (g *Groups) group(dst []float32, row, group int) {
	words := g.Size / g.perWord()
	lane := g.packed[row/groupLanes*g.panelWords()+group*(words+1)*groupLanes+row%groupLanes:]
	scale := math.Float32frombits(lane[words*groupLanes])
	for k := range dst {
		dst[k] = float32(unpackCode(lane[k/g.perWord()*groupLanes], k%g.perWord(), g.Bits)) * scale
	}
}

// Bytes is how much memory the matrix takes.
func (g *Groups) Bytes() int {
	n := 4*len(g.packed) + len(g.codes) + 4*len(g.scales)
	for _, c := range g.classes {
		n += c.Bytes()
	}
	return n
}

// Pieces is how many int32 sums the product of a row of the matrix with quantized activations has; see ref.DotGroups.
func (g *Groups) Pieces(row int) int { return ref.Pieces(g.Cols, g.Size, row*g.Cols%g.Size) }

// TotalPieces is how many int32 sums a product of the matrix with one vector has.
func (g *Groups) TotalPieces() int {
	if g.Cols%g.Size == 0 {
		return g.Rows * (g.Cols / g.Size)
	}
	n := 0
	for r := range g.Rows {
		n += g.Pieces(r)
	}
	return n
}
