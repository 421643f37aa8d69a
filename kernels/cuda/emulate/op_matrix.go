package emulate

import "encoding/binary"

// mmaShape is a shape of mma.sync for 8-bit integers, by the registers that a lane holds.
type mmaShape struct{ m, n, k int }

var mmaShapes = map[string]mmaShape{"m16n8k32": {16, 8, 32}, "m16n8k16": {16, 8, 16}, "m8n8k16": {8, 8, 16}}

// opMma multiplies matrices of 8-bit integers that a warp holds in pieces: D = A B + C.
//
// With g = lane/4 and t = lane%4, of A a lane has four columns from 4t on of row g; with 16 rows also of row g+8; with 32 columns
// then the same from column 4t+16 on. Of B it has four rows from 4t on of column g, then from 4t+16 on. Of C and D it has columns 2t
// and 2t+1 of row g, and with 16 rows of row g+8.
func opMma(d *decoder, in *instr) {
	if !d.has("sync") || !d.has("aligned") || !d.has("row") || !d.has("col") {
		d.fail("only mma.sync.aligned SHAPE.row.col is supported")
		return
	}
	var s mmaShape
	for name, shape := range mmaShapes {
		if d.has(name) {
			s = shape
		}
	}
	sat := d.has("satfinite")
	dt, at, bt, ct := d.typ(), d.typ(), d.typ(), d.typ()
	word := ptype{kindSigned, 32}
	if s.k == 0 || dt != word || ct != word || at.bits != 8 || bt.bits != 8 || at.kind > kindSigned || bt.kind > kindSigned {
		d.fail("this matrix product is not supported")
		return
	}
	if !d.operands(4, 4) {
		return
	}
	counts := [4]int{s.m / 4, s.m * s.k / 128, s.k / 16, s.m / 4}
	var regs [4][]int32
	for i, o := range d.op.operands {
		list := []operand{o}
		if o.kind == opdVector {
			list = o.list
		}
		if len(list) != counts[i] {
			d.fail("operand %d has %d registers, not %d", i, len(list), counts[i])
			return
		}
		for _, one := range list {
			if i == 0 {
				regs[i] = append(regs[i], d.dst(one, class32).index)
			} else {
				regs[i] = append(regs[i], d.src(one, word, false).index)
			}
		}
	}
	in.members = wholeWarp
	in.shape = shapeGather
	in.exec = func(w *warp, _ uint32) { w.mma(s, at.signed(), bt.signed(), sat, regs) }
}

// A dot product of bytes is computed on three of them at a time: with X = 2^21, the coefficient of X^2 of
// (a0 + a1 X + a2 X^2)(b2 + b1 X + b0 X^2) is a0 b0 + a1 b1 + a2 b2. The sum of 11 such products has it in 21 bits below the highest
// one, which hold the sum of 32 products of bytes whatever their signs; what stands above them is in the way of nothing.
const (
	packBits  = 21
	packCount = 11 // of a row of 32
)

type packed [packCount]int64

// pack packs bytes, those of a left factor with the first one lowest, those of a right factor with the first one highest.
func pack(row *[36]uint8, signed, left bool) (p packed) {
	for i := range p {
		x, y, z := int64(row[3*i]), int64(row[3*i+1]), int64(row[3*i+2])
		if signed {
			x, y, z = int64(int8(x)), int64(int8(y)), int64(int8(z))
		}
		if !left {
			x, z = z, x
		}
		p[i] = x + y<<packBits + z<<(2*packBits)
	}
	return p
}

// dot returns the sum of products of two packed rows, with the highest bit to be taken off. half is half a unit of the result where
// the parts below it may be negative.
func dot(a, b *packed, half int64) int64 {
	s := half
	s += a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3]
	s += a[4]*b[4] + a[5]*b[5] + a[6]*b[6] + a[7]*b[7]
	s += a[8]*b[8] + a[9]*b[9] + a[10]*b[10]
	return s << 1
}

// gatherBytes puts a register to 16 columns of 8 rows: four bytes of every lane, four lanes to a row.
func gatherBytes(rows *[8][36]uint8, col int, r *lanes32) {
	for g := range rows {
		to := rows[g][col : col+16]
		binary.LittleEndian.PutUint32(to, r[4*g])
		binary.LittleEndian.PutUint32(to[4:], r[4*g+1])
		binary.LittleEndian.PutUint32(to[8:], r[4*g+2])
		binary.LittleEndian.PutUint32(to[12:], r[4*g+3])
	}
}

func (w *warp) mma(s mmaShape, signedA, signedB, sat bool, regs [4][]int32) {
	var a [16][36]uint8
	var b [8][36]uint8 // by columns
	halves := s.m / 8
	for i, r := range regs[1] {
		gatherBytes((*[8][36]uint8)(a[8*(i%halves):]), 16*(i/halves), &w.r[r])
	}
	for i, r := range regs[2] {
		gatherBytes(&b, 16*i, &w.r[r])
	}
	var pa [16]packed
	var pb [8]packed
	for i := range s.m {
		pa[i] = pack(&a[i], signedA, true)
	}
	for i := range pb {
		pb[i] = pack(&b[i], signedB, false)
	}
	half := int64(0)
	if signedA || signedB {
		half = 1 << (2*packBits - 1)
	}
	for i := range regs[0] {
		c, d := &w.r[regs[3][i]], &w.tmp[i]
		for lane := range d {
			sum := dot(&pa[lane/4+8*(i/2)], &pb[lane%4*2+i%2], half)
			if half != 0 {
				sum >>= 2*packBits + 1
			} else {
				sum = int64(uint64(sum) >> (2*packBits + 1))
			}
			if sat {
				d[lane] = uint32(clampS32(int64(int32(c[lane])) + sum))
			} else {
				d[lane] = c[lane] + uint32(sum)
			}
		}
	}
	for i, r := range regs[0] {
		w.r[r] = w.tmp[i]
	}
}

// opLdmatrix loads one, two or four matrices of 8 rows of 16 bytes from shared memory; lanes 8i to 8i+7 have the addresses of the
// rows of matrix i. A lane gets bytes 4(lane%4) on of row lane/4; with .trans elements of 16 bits are transposed.
func opLdmatrix(d *decoder, in *instr) {
	if !d.has("sync") || !d.has("aligned") || !d.has("m8n8") {
		d.fail("only ldmatrix.sync.aligned.m8n8 is supported")
		return
	}
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[d.one("x1", "x2", "x4")]
	trans := d.has("trans")
	if !d.has("shared", "shared::cta") || d.typ().bits != 16 || n == 0 || !d.operands(2, 2) {
		d.fail("this form is not supported")
		return
	}
	list := []operand{d.op.operands[0]}
	if list[0].kind == opdVector {
		list = list[0].list
	}
	if len(list) != n {
		d.fail("%d registers for %d matrices", len(list), n)
		return
	}
	var to []int32
	for _, o := range list {
		to = append(to, d.dst(o, class32).index)
	}
	a := &access{space: spaceShared}
	a.base, a.offset = d.address(d.op.operands[1])
	a.slot = d.slot()
	in.members = wholeWarp
	in.shape = shapeGather
	in.exec = func(w *warp, _ uint32) {
		if w.ldmatrixFast(a, to, trans) {
			return
		}
		for i := range to {
			for row := 0; row < 8; row++ {
				lane := 8*i + row
				address := w.at(a, lane)
				s, data, written, alloc := w.resolve(spaceShared, address, 16, lane, a.slot)
				if data == nil || !w.readable(s, address, written, alloc, lane) {
					return
				}
				if trans {
					for col := 0; col < 8; col++ {
						t := &w.tmp[i][4*col+row/2]
						*t = *t&^(0xffff<<(row%2*16)) | uint32(binary.LittleEndian.Uint16(data[2*col:]))<<(row%2*16)
					}
					continue
				}
				for k := 0; k < 4; k++ {
					w.tmp[i][4*row+k] = binary.LittleEndian.Uint32(data[4*k:])
				}
			}
		}
		for i, r := range to {
			w.r[r] = w.tmp[i]
		}
	}
}

// ldmatrixFast loads where every check lets it pass, or returns false.
func (w *warp) ldmatrixFast(a *access, to []int32, trans bool) bool {
	data := w.b.shared
	lanes := w.spread(a, uint32(uint64(1)<<(8*len(to))-1), 0, len(data), 16)
	if trans || lanes == nil || !w.allWritten(w.b.written, lanes, 16) || w.b.race.on && !w.raceReads(lanes, 16) {
		return false
	}
	for i, r := range to {
		d := &w.r[r]
		for row := range 8 {
			p := data[w.offsets[(8*i+row)&31]:]
			_ = p[15]
			for k := range 4 {
				d[4*row+k] = binary.LittleEndian.Uint32(p[4*k:])
			}
		}
	}
	return true
}
