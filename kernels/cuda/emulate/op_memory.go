package emulate

import (
	"encoding/binary"

	"qwb/kernels/cuda/driver"
)

// access is a load or a store as decoded.
type access struct {
	space    space
	t        ptype
	vector   int
	regs     [4]ref
	base     ref    // of the address
	offset   uint64 // added to it
	slot     int32
	bytes    int  // of the whole vector
	constant bool // the address is
	locked   bool // volatile and the like: ordered with atomics
}

// cacheMods are hints that change nothing here.
var cacheMods = []string{"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "weak", "cta", "gpu", "sys", "L1::evict_normal",
	"L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B"}

var orderMods = []string{"volatile", "relaxed", "acquire", "release", "mmio"}

func opLd(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	a := d.access(d.op.operands[1])
	d.registers(a, d.op.operands[0], true)
	if d.err != nil {
		return
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.load(a, m) }
}

func opSt(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	a := d.access(d.op.operands[0])
	d.registers(a, d.op.operands[1], false)
	if d.err != nil {
		return
	}
	if a.space == spaceConst {
		d.fail("constants cannot be written")
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.store(a, m) }
}

// access decodes the modifiers and the address of a load or store.
func (d *decoder) access(o operand) *access {
	a := &access{vector: 1}
	d.has(cacheMods...)
	a.locked = d.has(orderMods...)
	a.space = spaces[d.one("global", "shared", "local", "param", "const", "shared::cta", "param::entry", "param::func")]
	if d.op.mods != nil {
		for _, m := range d.op.mods {
			switch m {
			case "shared::cta":
				a.space = spaceShared
			case "param::entry", "param::func":
				a.space = spaceParam
			}
		}
	}
	switch d.one("v2", "v4") {
	case "v2":
		a.vector = 2
	case "v4":
		a.vector = 4
	}
	a.t = d.typ()
	if a.t.kind == kindPred || a.vector*a.t.bits > 128 {
		d.fail("this type cannot be loaded or stored")
	}
	a.base, a.offset = d.address(o)
	a.constant = o.name == "" || d.err == nil && d.isPlace(o.name)
	a.bytes = a.vector * a.t.bits / 8
	a.slot = d.slot()
	return a
}

func (d *decoder) isPlace(name string) bool {
	s := d.env.find(name)
	return s != nil && s.kind == symPlace
}

// slot numbers the instructions that access memory.
func (d *decoder) slot() int32 {
	d.prog.memory++
	return int32(d.prog.memory - 1)
}

// address decodes [register+offset], [variable+offset] and [constant].
func (d *decoder) address(o operand) (base ref, offset uint64) {
	if o.kind != opdAddress {
		d.fail("the address is missing its brackets")
		return
	}
	long := ptype{kindUnsigned, 64}
	if o.name == "" {
		return d.constant(uint64(o.offset), long), 0
	}
	if s := d.env.find(o.name); s != nil && s.kind == symPlace {
		return d.constant(d.addressOf(s.v)+uint64(o.offset), long), 0
	}
	r := d.register(o.name)
	if d.err == nil && (r.class == classPred || r.bits < 32) {
		d.fail("register %s cannot hold an address", o.name)
	}
	if d.err != nil {
		return ref{}, 0
	}
	return d.use(r), uint64(o.offset)
}

// registers decodes what is loaded or stored: a register or a vector of them, which may be wider than the type.
func (d *decoder) registers(a *access, o operand, load bool) {
	list := []operand{o}
	if o.kind == opdVector {
		list = o.list
	}
	if len(list) != a.vector {
		d.fail("%d registers for a vector of %d", len(list), a.vector)
		return
	}
	for i, one := range list {
		if load {
			a.regs[i] = d.wideDst(one, a.t)
		} else {
			a.regs[i] = d.src(one, a.t, true)
		}
	}
}

// at returns a lane's address.
func (w *warp) at(a *access, lane int) uint64 {
	if a.base.class == class64 {
		return w.q[a.base.index][lane] + a.offset
	}
	return uint64(w.r[a.base.index][lane] + uint32(a.offset))
}

func (w *warp) load(a *access, m uint32) {
	if a.locked {
		w.b.l.atomics.Lock()
		defer w.b.l.atomics.Unlock()
	}
	if w.loadFast(a, m) {
		return
	}
	size := a.t.bits / 8
	for i := 0; i < warpSize; i++ {
		if m>>i&1 == 0 {
			continue
		}
		address := w.at(a, i)
		s, data, written, alloc := w.resolve(a.space, address, size*a.vector, i, a.slot)
		if data == nil {
			return
		}
		if !w.readable(s, address, written, alloc, i) {
			return
		}
		for k := 0; k < a.vector; k++ {
			x := loadBytes(data[k*size:], size)
			w.put(a.regs[k], i, a.t.extend(x))
		}
	}
}

func (w *warp) store(a *access, m uint32) {
	if a.locked {
		w.b.l.atomics.Lock()
		defer w.b.l.atomics.Unlock()
	}
	if w.storeFast(a, m) {
		return
	}
	size := a.t.bits / 8
	for i := 0; i < warpSize; i++ {
		if m>>i&1 == 0 {
			continue
		}
		address := w.at(a, i)
		s, data, written, alloc := w.resolve(a.space, address, size*a.vector, i, a.slot)
		if data == nil {
			return
		}
		var buf [16]byte
		for k := 0; k < a.vector; k++ {
			storeBytes(buf[k*size:], size, w.get(a.regs[k], i))
		}
		if !w.writable(s, address, data, buf[:size*a.vector], written, alloc, i) {
			return
		}
		copy(data, buf[:size*a.vector])
	}
}

func loadBytes(p []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p))
	case 4:
		return uint64(binary.LittleEndian.Uint32(p))
	}
	return binary.LittleEndian.Uint64(p)
}

func storeBytes(p []byte, n int, x uint64) {
	switch n {
	case 1:
		p[0] = byte(x)
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(p, uint32(x))
	default:
		binary.LittleEndian.PutUint64(p, x)
	}
}

// States of a byte in a map of what has been written.
const (
	stateFresh   = 0
	stateWritten = 1
	statePending = 2 // a copy by cp.async is under way
)

// readable checks that bytes may be read: that they were written, by nobody else since the last barrier.
func (w *warp) readable(s space, address uint64, written []byte, a *allocation, lane int) bool {
	if !w.readableState(s, address, written, a, lane) {
		return false
	}
	switch {
	case s == spaceShared:
		return w.raceRead(address&(windowSize-1), len(written), lane)
	case a != nil:
		return w.blockReads(a, address, len(written), lane)
	}
	return true
}

func (w *warp) readableState(s space, address uint64, written []byte, a *allocation, lane int) bool {
	if w.b.l.options.Initcheck {
		for k, x := range written {
			if x == stateWritten {
				continue
			}
			if x == statePending {
				break
			}
			what := spaceNames[s] + " memory"
			if a != nil {
				what = a.String()
			}
			w.fail(driver.LaunchFailed, lane, "reads byte %#x, which nothing has written: %s", address+uint64(k), what)
			return false
		}
	}
	return true
}

// writable checks that bytes may be written, and takes note that they are.
func (w *warp) writable(s space, address uint64, old, data, written []byte, a *allocation, lane int) bool {
	switch {
	case a != nil && a.readOnly:
		w.fail(driver.IllegalAddress, lane, "writes to constant memory at %#x: %v", address, a)
		return false
	case s == spaceParam && address < paramFrame:
		w.fail(driver.IllegalAddress, lane, "writes to the kernel's parameters")
		return false
	case s == spaceShared:
		if !w.raceWrite(address&(windowSize-1), old, data, lane) {
			return false
		}
	case a != nil:
		if !w.blockWrites(a, address, old, data, lane) {
			return false
		}
	}
	for k := range written {
		written[k] = stateWritten
	}
	return true
}

// atomicAccess checks an atomic access, which is a read and a write that races with no other atomic.
func (w *warp) atomicAccess(s space, address uint64, data, written []byte, a *allocation, lane int) bool {
	if !w.readableState(s, address, written, a, lane) {
		return false
	}
	if a != nil && a.readOnly {
		w.fail(driver.IllegalAddress, lane, "writes to constant memory at %#x: %v", address, a)
		return false
	}
	if s == spaceShared {
		return w.raceAtomic(address&(windowSize-1), len(data), lane)
	}
	w.b.atomics = true
	return true
}
