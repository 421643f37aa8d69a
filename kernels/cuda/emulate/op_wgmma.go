package emulate

import (
	"fmt"
	"slices"

	"qwb/kernels/cuda/driver"
)

// Products of a warpgroup, wgmma.mma_async: four warps multiply a matrix of 64 rows by one of up to 256 columns, both in shared memory,
// and go on while that is under way. A warp computes its own 16 rows, and as late as it may: when it waits for them. Until then its
// accumulators hold nonsense, which must still be there at the end, and what the product reads must not be written.

// matrixProduct is a product that a warp has started and not waited for.
type matrixProduct struct {
	a, b       descriptor
	n          int // columns
	signed     [2]bool
	sat, adds  bool
	sums       *accumulators
	since      uint32 // what racecheck knows of shared memory that was written later is newer than this
	pc         int
	descriptor [2]uint64
}

// accumulators are registers of a warp that a product will write. Meanwhile what they will hold stands here.
type accumulators struct {
	list    []int // in program.accumulators
	values  []lanes32
	pending int // products
}

// productQueue is the products of a warp: since the last commit, and in groups, the oldest first.
type productQueue struct {
	open   []*matrixProduct
	groups [][]*matrixProduct
	flight []*accumulators // by number in program.accumulators: who has it
	fenced []lanes32       // what they held at the last wgmma.fence; none before it
	count  int             // products started
}

func (q *productQueue) reset() {
	if q.count > 0 || q.fenced != nil {
		*q = productQueue{}
	}
}

// productNote is what the warps of a warpgroup must agree on.
type productNote struct {
	pc         int
	descriptor [2]uint64
	adds       bool
}

// proxyState remembers when threads have fenced their writes to shared memory for the other proxy, through which products read it: by
// thread, the segment of racecheck that began with the last fence, and with the last one that was before a barrier.
type proxyState struct{ latest, ordered []uint32 }

// fenced reports whether a write is fenced for what a warp starts now. That another warp's write and fence come before is sure only
// behind a barrier.
func (p *proxyState) fenced(w *warp, note uint32) bool {
	segment, thread := note>>whoBits, note&whoMask
	if int(thread) >= len(p.latest) {
		return false
	}
	at := p.latest[thread]
	if at >= w.b.race.since && thread/warpSize != uint32(w.index) {
		at = p.ordered[thread]
	}
	return segment < at
}

// fence takes note of a fence of some lanes.
func (p *proxyState) fence(w *warp, m uint32) {
	r := &w.b.race
	if !r.on {
		return
	}
	if p.latest == nil {
		n := len(w.b.warps) * warpSize
		p.latest, p.ordered = make([]uint32, n), make([]uint32, n)
	}
	r.warpSync(w)
	for _, l := range w.lanes(m) {
		at := w.index*warpSize + int(l)
		if p.latest[at] < r.since {
			p.ordered[at] = p.latest[at]
		}
		p.latest[at] = w.segment
	}
}

// opFence decodes fences. Only that between proxies changes anything here.
func opFence(d *decoder, in *instr) {
	if !d.has("proxy") {
		nothing(d, in)
		return
	}
	if what := d.one("async", "async.shared::cta"); what == "" {
		d.fail("this proxy is not supported")
		return
	}
	if d.module.target < "sm_90" {
		d.fail("needs sm_90")
		return
	}
	shared := d.has("shared::cta") || len(d.op.mods) == 2 // without a state space it is for all
	d.has("global")
	if !d.operands(0, 0) {
		return
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		if shared {
			w.b.proxy.fence(w, m)
		}
	}
}

// swizzleBytes are the lengths of the rows of the modes that a descriptor names in its two highest bits.
var swizzleBytes = [4]uint64{16, 128, 64, 32}

// descriptor says where a matrix with 32 bytes of k in a row stands in shared memory. Eight rows are together: without swizzling their
// pieces of 16 bytes follow each other, and the second piece of each stands leading further; else rows of 128, 64 or 32 bytes follow
// each other, and the pieces of a row are exchanged. The next eight rows stand stride further.
type descriptor struct {
	start, leading, stride, row uint64
}

// decodeDescriptor takes a descriptor apart: in bits 0-13, 16-29 and 32-45 addresses and distances without their four lowest bits, in
// 49-51 an offset of the swizzling, in 62-63 its mode.
func decodeDescriptor(bits uint64) (descriptor, error) {
	field := func(at int) uint64 { return bits >> at & 0x3fff << 4 }
	m := descriptor{field(0), field(16), field(32), swizzleBytes[bits>>62]}
	pattern := 8 * m.row
	switch {
	case bits>>49&7 != 0:
		return m, fmt.Errorf("a base offset of %d is not supported", bits>>49&7)
	case m.row == 16:
	case m.start%pattern >= m.row:
		return m, fmt.Errorf("the matrix begins at %#x, which is not in the first row of a pattern of %d bytes", m.start, pattern)
	case m.start%m.row+32 > m.row:
		return m, fmt.Errorf("the matrix begins at %#x, less than 32 bytes before the end of a row of %d", m.start, m.row)
	case m.stride%pattern != 0:
		return m, fmt.Errorf("eight rows begin %d bytes apart, which is no multiple of %d", m.stride, pattern)
	}
	return m, nil
}

// at is where a piece of 16 bytes of a row stands. Swizzling exchanges bits 4, 5 and 6 of an address with an exclusive or of bits 7, 8
// and 9, or the lower two or one of them.
func (m *descriptor) at(row, piece int) uint64 {
	p := m.start + uint64(row/8)*m.stride + uint64(row%8)*m.row
	if m.row == 16 {
		return p + uint64(piece)*m.leading
	}
	p += uint64(piece) * 16
	return p ^ p>>7&(m.row/16-1)<<4
}

// opWgmma decodes wgmma.mma_async of bytes, and its fence, commits and waits.
func opWgmma(d *decoder, in *instr) {
	if d.module.target != "sm_90a" {
		d.fail("needs sm_90a")
		return
	}
	what := d.one("mma_async", "fence", "commit_group", "wait_group")
	if what == "" || !d.has("sync") || !d.has("aligned") {
		d.fail("this form is not supported")
		return
	}
	in.shape, in.members = shapeGather, wholeWarp
	switch what {
	case "fence":
		in.exec = func(w *warp, _ uint32) { w.productsFence() }
	case "commit_group":
		in.exec = func(w *warp, _ uint32) {
			q := &w.products
			q.groups, q.open = append(q.groups, q.open), nil
		}
	case "wait_group":
		if !d.operands(1, 1) || d.op.operands[0].kind != opdInt {
			d.fail("the number of groups is no constant")
			return
		}
		left := int(d.op.operands[0].bits)
		in.exec = func(w *warp, _ uint32) { w.productsWait(left) }
	default:
		d.matrixProduct(in)
	}
}

func (d *decoder) matrixProduct(in *instr) {
	n := 0
	for i, m := range d.op.mods {
		if k, err := fmt.Sscanf(m, "m64n%dk32", &n); k == 1 && err == nil && m == fmt.Sprintf("m64n%dk32", n) {
			d.used[i] = true
			break
		}
	}
	sat := d.has("satfinite")
	dt, at, bt := d.typ(), d.typ(), d.typ()
	if n != 24 && (n < 8 || n > 256 || n%16 != 0 && n != 8) || dt != (ptype{kindSigned, 32}) || at.bits != 8 || bt.bits != 8 ||
		at.kind > kindSigned || bt.kind > kindSigned || at.kind == kindBits || bt.kind == kindBits {
		d.fail("this matrix product is not supported")
		return
	}
	if at.kind != bt.kind && d.module.version < 8.4 {
		d.fail("signed with unsigned bytes needs PTX ISA 8.4")
		return
	}
	if !d.operands(4, 4) {
		return
	}
	ops := d.op.operands
	if ops[0].kind != opdVector || len(ops[0].list) != n/2 {
		d.fail("%d registers, not %d", len(ops[0].list), n/2)
		return
	}
	if ops[1].kind != opdName || ops[2].kind != opdName {
		d.fail("both factors must be descriptors in registers")
		return
	}
	list := d.accumulators(ops[0].list)
	if list == nil {
		return
	}
	long := ptype{kindUnsigned, 64}
	a, b := d.src(ops[1], long, false).index, d.src(ops[2], long, false).index
	p, invert := d.pred(ops[3])
	signed := [2]bool{at.signed(), bt.signed()}
	in.exec = func(w *warp, _ uint32) {
		m := &matrixProduct{n: n, signed: signed, sat: sat, pc: w.pc}
		switch w.p[p] ^ invert {
		case 0:
		case allLanes:
			m.adds = true
		default:
			w.fail(driver.LaunchFailed, 0, "lanes do not agree whether to add to the accumulators")
			return
		}
		m.descriptor = [2]uint64{w.q[a][0], w.q[b][0]}
		for i := range warpSize {
			if w.q[a][i] != m.descriptor[0] || w.q[b][i] != m.descriptor[1] {
				w.fail(driver.LaunchFailed, i, "lanes do not agree on a descriptor")
				return
			}
		}
		w.productStart(m, list)
	}
}

// accumulators are the places of the accumulators in registers; nil with d.err set where one is none.
func (d *decoder) accumulators(registers []operand) []int {
	var list []int
	for _, o := range registers {
		if o.kind != opdName || o.pair != "" || o.negate {
			d.fail("an accumulator is no register")
			return nil
		}
		r := d.register(o.name)
		if d.err != nil {
			return nil
		}
		if r.class != class32 {
			d.fail("register %s has the wrong width", o.name)
			return nil
		}
		d.use(r)
		d.def(r)
		i := slices.Index(d.prog.accumulators, d.keep(r).index) // it has to keep its place while products are under way
		if i < 0 {
			i = len(d.prog.accumulators)
			d.prog.accumulators = append(d.prog.accumulators, d.keep(r).index)
		}
		if slices.Contains(list, i) {
			d.fail("accumulator %s stands twice", o.name)
			return nil
		}
		list = append(list, i)
	}
	return list
}

// productsFence takes note of what the accumulators hold: they must not change before a product takes them.
func (w *warp) productsFence() {
	q := &w.products
	list := w.b.l.program.accumulators
	if q.fenced == nil {
		q.fenced = make([]lanes32, len(list))
	}
	for i, r := range list {
		q.fenced[i] = w.r[r]
	}
}

// nonsense is what accumulator i holds while a product is under way.
func nonsense(i int) uint32 { return 0xdead0000 + uint32(i) }

func (w *warp) productStart(m *matrixProduct, list []int) {
	q, registers := &w.products, w.b.l.program.accumulators
	var err error
	if m.a, err = decodeDescriptor(m.descriptor[0]); err == nil {
		m.b, err = decodeDescriptor(m.descriptor[1])
	}
	if err != nil {
		w.fail(illegalInstruction, 0, "%v", err)
		return
	}
	if !w.productAgrees(productNote{m.pc, m.descriptor, m.adds}) {
		return
	}
	q.count++
	if q.flight == nil {
		q.flight = make([]*accumulators, len(registers))
	}
	m.sums = q.flight[list[0]]
	if m.sums == nil || !slices.Equal(m.sums.list, list) {
		m.sums = &accumulators{list: list, values: make([]lanes32, len(list))}
		for k, i := range list {
			switch {
			case q.flight[i] != nil:
				w.fail(driver.LaunchFailed, 0, "accumulator %d belongs to a product of another shape that is under way", k)
				return
			case q.fenced == nil || q.fenced[i] != w.r[registers[i]]:
				w.fail(driver.LaunchFailed, 0, "accumulator %d was written with no wgmma.fence since", k)
				return
			}
			r := &w.r[registers[i]]
			q.flight[i], m.sums.values[k] = m.sums, *r
			for lane := range r {
				r[lane] = nonsense(i)
			}
		}
	}
	m.sums.pending++
	if !w.productReads(m, true) {
		return
	}
	if r := &w.b.race; r.on {
		m.since = r.segment
		r.warpSync(w)
	}
	q.open = append(q.open, m)
}

// productAgrees checks that the warps of a warpgroup start the same products.
func (w *warp) productAgrees(note productNote) bool {
	group := w.index / 4
	if 4*group+4 > len(w.b.warps) {
		w.fail(illegalInstruction, 0, "warp %d is in no group of four", w.index)
		return false
	}
	for len(w.b.products) <= group {
		w.b.products = append(w.b.products, nil)
	}
	log := &w.b.products[group]
	if n := w.products.count; n == len(*log) {
		*log = append(*log, note)
	} else if (*log)[n] != note {
		w.fail(driver.LaunchFailed, 0, "product %d of the warp is not that of the others of its warpgroup, %s with descriptors %#x", n,
			w.code[(*log)[n].pc].source.where(), (*log)[n].descriptor)
		return false
	}
	return true
}

// productsEnd checks, when all threads of a block have ended, that no warp had fewer products than others of its warpgroup.
func (b *block) productsEnd() *fault {
	for i, log := range b.products {
		for _, w := range b.warps[4*i : 4*i+4] {
			if n := w.products.count; n < len(log) {
				w.pc = log[n].pc
				w.fail(driver.LaunchFailed, 0, "warp %d has ended with %d products, others of its warpgroup with %d", w.index, n, len(log))
				return w.fault
			}
		}
	}
	return nil
}

// productReads checks what a product reads, when it starts and when it is over: that it has been written, fenced and not been written
// since.
func (w *warp) productReads(m *matrixProduct, starts bool) bool {
	first := w.index % 4 * 16
	for row := range 16 + m.n {
		for piece := range 2 {
			at := m.b.at(row-16, piece)
			if row < 16 {
				at = m.a.at(first+row, piece)
			}
			if !w.productReadsPiece(m, at, starts) {
				return false
			}
		}
	}
	return true
}

func (w *warp) productReadsPiece(m *matrixProduct, at uint64, starts bool) bool {
	if at+16 > uint64(len(w.b.shared)) {
		w.fail(driver.IllegalAddress, 0, "a product reads 16 bytes at shared address %#x of %#x", at, len(w.b.shared))
		return false
	}
	does := "starts a product that reads"
	if !starts {
		does = "ends a product that reads"
	}
	if !w.arrived(at, 16, 0, does) || starts && !w.readableState(spaceShared, at, w.b.written[at:at+16], nil, 0) {
		return false
	}
	r := &w.b.race
	if !r.on {
		return true
	}
	thread := uint32(w.index * warpSize)
	ok := true
	r.notes(at, 16, func(p *raceNotes, byte uint64, _ int) bool {
		switch {
		case !starts && p.writer>>whoBits > m.since:
			w.race(0, byte, does, "was written while it was under way", p.writer)
			ok = false
		case starts && p.writer != 0 && !w.b.proxy.fenced(w, p.writer):
			w.race(0, byte, does, "was written with no fence.proxy.async before a barrier", p.writer)
			ok = false
		default:
			if note := r.read(w, p, thread); note != 0 {
				w.race(0, byte, does, "was written", note)
				ok = false
			}
		}
		return !ok
	})
	return ok
}

// productsWait computes all groups but the last left.
func (w *warp) productsWait(left int) {
	q := &w.products
	for len(q.groups) > left {
		for _, m := range q.groups[0] {
			if !w.productReads(m, false) {
				return
			}
			w.productCompute(m)
			if m.sums.pending--; m.sums.pending == 0 && !w.productWrites(m.sums) {
				return
			}
		}
		q.groups = q.groups[1:]
	}
	w.b.race.warpSync(w)
}

// productWrites puts results into their registers.
func (w *warp) productWrites(s *accumulators) bool {
	q := &w.products
	for k, i := range s.list {
		r := &w.r[w.b.l.program.accumulators[i]]
		for lane, x := range r {
			if x != nonsense(i) {
				w.fail(driver.LaunchFailed, lane, "accumulator %d was written while a product was under way", k)
				return false
			}
		}
		*r, q.flight[i] = s.values[k], nil
		q.fenced[i] = *r
	}
	return true
}

// productCompute adds the product to the sums. Lane l of a warp has of the 16 rows of its warp l/4 and l/4+8, of every eight columns
// 2(l%4) and the one after it.
func (w *warp) productCompute(m *matrixProduct) {
	var row [36]uint8
	read := func(d *descriptor, at int) {
		for piece := range 2 {
			copy(row[16*piece:], w.b.shared[d.at(at, piece):][:16])
		}
	}
	var a [16]packed
	for i := range a {
		read(&m.a, w.index%4*16+i)
		a[i] = pack(&row, m.signed[0], true)
	}
	half := int64(0)
	if m.signed[0] || m.signed[1] {
		half = 1 << (2*packBits - 1)
	}
	for col := range m.n {
		read(&m.b, col)
		b := pack(&row, m.signed[1], false)
		for i := range a {
			sum := dot(&a[i], &b, half)
			if half != 0 {
				sum >>= 2*packBits + 1
			} else {
				sum = int64(uint64(sum) >> (2*packBits + 1))
			}
			c := &m.sums.values[col/8*4+i/8*2+col%2][i%8*4+col%8/2]
			if !m.adds {
				*c = 0
			}
			if m.sat {
				*c = uint32(clampS32(int64(int32(*c)) + sum))
			} else {
				*c += uint32(sum)
			}
		}
	}
}
