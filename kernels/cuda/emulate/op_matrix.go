package emulate

import (
	"encoding/binary"
	"math"

	"qwb/kernels/cuda/driver"
)

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

func (w *warp) mma(s mmaShape, signedA, signedB, sat bool, regs [4][]int32) {
	var a [16][36]uint8
	var b [8][36]uint8 // by columns
	halves := s.m / 8
	for i, r := range regs[1] {
		for lane, x := range &w.r[r] {
			binary.LittleEndian.PutUint32(a[lane/4+8*(i%halves)][16*(i/halves)+4*(lane%4):], x)
		}
	}
	for i, r := range regs[2] {
		for lane, x := range &w.r[r] {
			binary.LittleEndian.PutUint32(b[lane/4][16*i+4*(lane%4):], x)
		}
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

// asyncCopy is one lane's cp.async that has not been performed.
type asyncCopy struct {
	from, to uint64 // global and shared
	n, src   int    // bytes to write, and of them to read; the others become zero
	lane     int
	pc       int
	slot     int32
}

// asyncQueue is the copies of a warp.
type asyncQueue struct {
	lanes [warpSize]laneCopies
	any   bool
}

// laneCopies are copies in order, in groups that end where ends say; those behind the last end are not committed.
type laneCopies struct {
	list []asyncCopy
	ends []int
}

func (q *asyncQueue) reset() {
	if !q.any {
		return
	}
	for i := range q.lanes {
		q.lanes[i].list, q.lanes[i].ends = q.lanes[i].list[:0], q.lanes[i].ends[:0]
	}
	q.any = false
}

// opCp decodes cp.async and its commits and waits. A copy is performed when it is waited for, not earlier, so that a kernel that reads
// too early does not see it.
func opCp(d *decoder, in *instr) {
	if !d.has("async") {
		d.fail("only cp.async is supported")
		return
	}
	in.shape = shapeExec
	switch d.one("commit_group", "wait_group", "wait_all") {
	case "commit_group":
		in.exec = func(w *warp, m uint32) { w.asyncCommit(m) }
		return
	case "wait_group":
		if !d.operands(1, 1) || d.op.operands[0].kind != opdInt {
			d.fail("the number of groups is no constant")
			return
		}
		n := int(d.op.operands[0].bits & math.MaxInt)
		in.exec = func(w *warp, m uint32) { w.asyncWait(m, n) }
		return
	case "wait_all":
		in.exec = func(w *warp, m uint32) {
			w.asyncCommit(m)
			w.asyncWait(m, 0)
		}
		return
	}
	cache := d.one("ca", "cg")
	d.has("L2::64B", "L2::128B", "L2::256B")
	if cache == "" || !d.has("shared", "shared::cta") || !d.has("global") || !d.operands(3, 4) {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	to, from := &access{space: spaceShared}, &access{space: spaceGlobal}
	to.base, to.offset = d.address(ops[0])
	from.base, from.offset = d.address(ops[1])
	size := int(ops[2].bits)
	if ops[2].kind != opdInt || size != 16 && (cache == "cg" || size != 4 && size != 8) {
		d.fail("the size must be 16, or with .ca 4 or 8")
		return
	}
	src := ref{index: -1}
	if len(ops) == 4 {
		src = d.src(ops[3], ptype{kindUnsigned, 32}, false)
	}
	slot := d.slot()
	in.exec = func(w *warp, m uint32) {
		w.async.any = true
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			c := asyncCopy{from: w.at(from, i), to: w.at(to, i), n: size, src: size, lane: i, pc: w.pc, slot: slot}
			if src.index >= 0 {
				c.src = int(w.r[src.index][i])
			}
			if !w.asyncStart(c) {
				return
			}
			w.async.lanes[i].list = append(w.async.lanes[i].list, c)
		}
	}
}

// asyncStart checks a copy, and marks what it will write.
func (w *warp) asyncStart(c asyncCopy) bool {
	if c.src > c.n {
		w.fail(driver.LaunchFailed, c.lane, "source size %d of a copy of %d bytes", c.src, c.n)
		return false
	}
	if c.from&uint64(c.n-1) != 0 {
		w.fail(misaligned, c.lane, "global address %#x is not aligned to %d bytes", c.from, c.n)
		return false
	}
	if c.src > 0 {
		_, _, written, a, ok := w.asyncSource(c)
		if !ok || !w.readable(spaceGlobal, c.from, written, a, c.lane) {
			return false
		}
	}
	_, data, written, _ := w.resolve(spaceShared, c.to, c.n, c.lane, c.slot)
	if data == nil || !w.raceWrite(c.to, data, nil, c.lane) {
		return false
	}
	fill(written, statePending)
	return true
}

// asyncSource resolves the bytes that a copy reads, which need not be a power of two.
func (w *warp) asyncSource(c asyncCopy) (space, []byte, []byte, *allocation, bool) {
	s, one, _, a := w.resolve(spaceGlobal, c.from, 1, c.lane, c.slot)
	if one == nil {
		return s, nil, nil, nil, false
	}
	at := int(c.from - a.base)
	if at+c.src > len(a.data) {
		w.unallocated(c.from, c.src, c.lane, a)
		return s, nil, nil, nil, false
	}
	return s, a.data[at : at+c.src], a.written[at : at+c.src], a, true
}

func (w *warp) asyncCommit(m uint32) {
	w.async.any = true
	for i := range w.async.lanes {
		if q := &w.async.lanes[i]; m>>i&1 != 0 {
			q.ends = append(q.ends, len(q.list))
		}
	}
}

// asyncWait performs the copies of all groups but the last n.
func (w *warp) asyncWait(m uint32, n int) {
	for i := range w.async.lanes {
		q := &w.async.lanes[i]
		done := len(q.ends) - n
		if m>>i&1 == 0 || done <= 0 {
			continue
		}
		end := q.ends[done-1]
		for _, c := range q.list[:end] {
			w.asyncPerform(c)
		}
		q.list = append(q.list[:0], q.list[end:]...)
		q.ends = append(q.ends[:0], q.ends[done:]...)
		for k := range q.ends {
			q.ends[k] -= end
		}
	}
}

func (w *warp) asyncPerform(c asyncCopy) {
	var buf [16]byte
	if c.src > 0 {
		_, data, _, _, ok := w.asyncSource(c)
		if !ok {
			return
		}
		copy(buf[:], data)
	}
	to := w.b.shared[c.to : c.to+uint64(c.n)]
	written := w.b.written[c.to : c.to+uint64(c.n)]
	fill(written, stateWritten)
	if w.raceWrite(c.to, to, nil, c.lane) {
		copy(to, buf[:c.n])
	}
}
