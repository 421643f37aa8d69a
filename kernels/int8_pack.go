package kernels

import (
	"encoding/binary"
	"unsafe"
)

// groups returns the number of groups that segments of n elements each take, of segments segments.
func (l layout8) groups(segments, n int) int {
	g := l.group()
	return segments * ((n + g - 1) / g)
}

// panelLen is the length in bytes of a panel of nr columns.
func (l layout8) panelLen(segments, n, nr int) int {
	return l.groups(segments, n) * l.group() * nr * l.bytes()
}

// pack8 writes panels of nr columns for sums over segments runs of n elements; column j takes weight p of run s from
// at(s*n+p, j). dst is all zero before.
func pack8(dst []int8, l layout8, segments, n, cols, nr int, at func(p, j int) int8) {
	g, size := l.group(), l.panelLen(segments, n, nr)
	perSegment := (n + g - 1) / g
	for j0 := 0; j0 < cols; j0 += nr {
		panel := dst[j0/nr*size:][:size]
		for s := range segments {
			for p := range n {
				group, e := s*perSegment+p/g, p%g
				for j := range min(nr, cols-j0) {
					l.put(panel, nr, group, e, j, at(s*n+p, j0+j))
				}
			}
		}
	}
}

// put writes element e of weight group g of column j.
func (l layout8) put(panel []int8, nr, g, e, j int, w int8) {
	switch l {
	case flat8:
		panel[g*nr+j] = w
	case quads8:
		panel[(g*nr+j)*4+e] = w
	case pairs16:
		at := (((g*2+e&1)*nr+j)*2 + e>>1) * 2
		panel[at], panel[at+1] = w, w>>7
	case wide32:
		at := (g*nr + j) * 4
		panel[at], panel[at+1], panel[at+2], panel[at+3] = w, w>>7, w>>7, w>>7
	}
}

// packMatrix8 is pack8 of a k x n matrix with rows ld apart, or with trans of an n x k one, to every element of which flip is
// exclusively ored. sums are those of the columns.
func packMatrix8[T int8 | uint8](dst []int8, sums []int32, l layout8, b []T, k, n, ld int, trans bool, nr int, flip T) {
	size := l.panelLen(1, k, nr)
	m := matrix8{ld, 1, 0x80}
	if trans {
		m.byRow, m.byColumn = 1, ld
	}
	if flip != 0 {
		m.toUnsigned = 0
	}
	bytes := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
	for j0 := 0; j0 < n; j0 += nr {
		panel := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(dst[j0/nr*size:]))), size)
		cols := min(nr, n-j0)
		sums := sums[j0:][:cols]
		clear(sums)
		rows, most := 0, 0 // that are packed by words
		if l == quads8 && k >= 4 {
			if rows = k &^ 3; trans {
				most = cols
				m.packColumns(panel, sums, bytes[j0*ld:], rows, nr)
			} else {
				most = cols &^ 7
				m.packRows(panel, sums[:most], bytes[j0:], rows, nr)
			}
		}
		g := l.group()
		for p := range k {
			first := 0
			if p < rows {
				first = most
			}
			for j := first; j < cols; j++ {
				w := int8(bytes[p*m.byRow+(j0+j)*m.byColumn] ^ m.toUnsigned ^ 0x80)
				l.put(dst[j0/nr*size:][:size], nr, p/g, p%g, j, w)
				sums[j] += int32(w)
			}
		}
	}
}

// matrix8 says where the elements of a matrix of bytes lie. The weight of byte q is (q^toUnsigned) - 128.
type matrix8 struct {
	byRow, byColumn int
	toUnsigned      uint8
}

// Sums of bytes are taken in the four 16-bit lanes of words, of the bytes of even number and of odd.
const (
	evenBytes  = 0x00ff00ff00ff00ff
	evenWords  = 0x0000ffff0000ffff
	lanesHold  = 0xffff / 0xff // sums of so many bytes fit into a lane
	everyByte  = 0x0101010101010101
	lowerHalf  = 0xffffffff
	signOfByte = 0x80
)

// packColumns packs rows, a multiple of four, of columns that lie one after the other, four bytes at a time.
func (m matrix8) packColumns(panel []uint8, sums []int32, b []uint8, rows, nr int) {
	flip := uint32(m.toUnsigned) * (everyByte & lowerHalf)
	for j := range sums {
		column, at, total := b[j*m.byColumn:], 4*j, uint32(0)
		for p := 0; p < rows; {
			lanes := uint32(0)
			for end := min(rows, p+4*(lanesHold/2)); p < end; p += 4 {
				v := binary.LittleEndian.Uint32(column[p:]) ^ flip
				lanes += v&(evenBytes&lowerHalf) + v>>8&(evenBytes&lowerHalf)
				binary.LittleEndian.PutUint32(panel[at:], v^signOfByte*(everyByte&lowerHalf))
				at += 4 * nr
			}
			total += lanes&0xffff + lanes>>16
		}
		sums[j] = int32(total) - signOfByte*int32(rows)
	}
}

// packRows packs four rows at a time, rows being a multiple of that, of columns in groups of eight.
func (m matrix8) packRows(panel []uint8, sums []int32, b []uint8, rows, nr int) {
	flip := uint64(m.toUnsigned) * everyByte
	for j := 0; j < len(sums); j += 8 {
		even, odd, held := uint64(0), uint64(0), 0
		flush := func() {
			for i := range 4 {
				sums[j+2*i] += int32(even >> (16 * i) & 0xffff)
				sums[j+2*i+1] += int32(odd >> (16 * i) & 0xffff)
			}
			even, odd, held = 0, 0, 0
		}
		for p := 0; p < rows; p += 4 {
			at := b[p*m.byRow+j:]
			v0 := binary.LittleEndian.Uint64(at) ^ flip
			v1 := binary.LittleEndian.Uint64(at[m.byRow:]) ^ flip
			v2 := binary.LittleEndian.Uint64(at[2*m.byRow:]) ^ flip
			v3 := binary.LittleEndian.Uint64(at[3*m.byRow:]) ^ flip
			if held += 4; held > lanesHold {
				flush()
				held = 4
			}
			even += v0&evenBytes + v1&evenBytes + v2&evenBytes + v3&evenBytes
			odd += v0>>8&evenBytes + v1>>8&evenBytes + v2>>8&evenBytes + v3>>8&evenBytes
			const sign = signOfByte * everyByte
			v0, v1, v2, v3 = v0^sign, v1^sign, v2^sign, v3^sign
			// Pairs of rows by column, those of even number and of odd; then all four rows, of columns 0 and 4, 2 and 6, 1 and 5, 3 and 7.
			a, c := v0&evenBytes|v1&evenBytes<<8, v2&evenBytes|v3&evenBytes<<8
			d, e := v0>>8&evenBytes|v1&^evenBytes, v2>>8&evenBytes|v3&^evenBytes
			x04, x26 := a&evenWords|c&evenWords<<16, a>>16&evenWords|c&^evenWords
			x15, x37 := d&evenWords|e&evenWords<<16, d>>16&evenWords|e&^evenWords
			to := panel[p*nr+4*j:][:32]
			binary.LittleEndian.PutUint64(to, x04&lowerHalf|x15<<32)
			binary.LittleEndian.PutUint64(to[8:], x26&lowerHalf|x37<<32)
			binary.LittleEndian.PutUint64(to[16:], x04>>32|x15&^lowerHalf)
			binary.LittleEndian.PutUint64(to[24:], x26>>32|x37&^lowerHalf)
		}
		flush()
		for i := range 8 {
			sums[j+i] -= signOfByte * int32(rows)
		}
	}
}

// SumBytes returns the sum of bytes.
func SumBytes(x []uint8) int32 {
	total := uint64(0)
	for len(x) >= 8 {
		lanes := uint64(0)
		n := min(len(x)&^7, 8*(lanesHold/2))
		for p := 0; p < n; p += 8 {
			v := binary.LittleEndian.Uint64(x[p:])
			lanes += v&evenBytes + v>>8&evenBytes
		}
		total += lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48
		x = x[n:]
	}
	for _, q := range x {
		total += uint64(q)
	}
	return int32(total)
}
