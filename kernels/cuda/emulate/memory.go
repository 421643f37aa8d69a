package emulate

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"qwb/kernels/cuda/driver"
)

// Addresses: global memory lies far above the windows through which shared and local memory are seen generically, and far below what
// overflows. Between two allocations there is a gap, and no address is used twice.
const (
	globalBase   = 0x7000_0000_0000
	sharedWindow = 0x5000_0000_0000
	localWindow  = 0x6000_0000_0000
	windowSize   = 1 << 32
	paramFrame   = 1 << 40 // where parameters of device functions begin in the parameter space
	gap          = 4096
	alignment    = 512
	poison       = 0xa5 // fresh memory is full of it
)

// allocation is a range of global memory.
type allocation struct {
	base     uint64
	data     []byte
	written  []byte // 1 for every byte of data that has been written
	name     string
	readOnly bool
	freed    bool
}

func (a *allocation) end() uint64 { return a.base + uint64(len(a.data)) }

func (a *allocation) String() string {
	if a.name != "" {
		return fmt.Sprintf("%s, %d bytes at %#x", a.name, len(a.data), a.base)
	}
	return fmt.Sprintf("allocation of %d bytes at %#x", len(a.data), a.base)
}

// memory is the global memory of a device. Allocations are in ascending order of addresses; the list is replaced, never changed, so
// that kernels read it without a lock.
type memory struct {
	mu    sync.Mutex
	list  atomic.Pointer[[]*allocation]
	next  uint64
	used  int64
	total int64
}

func newMemory(total int64) *memory {
	m := &memory{next: globalBase, total: total}
	m.list.Store(&[]*allocation{})
	return m
}

// allocate returns a new range, nil where memory is out. Kept: freed ranges stay in the list without data, so that faults name them.
func (m *memory) allocate(bytes int, name string) *allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes < 0 || m.used+int64(bytes) > m.total {
		return nil
	}
	a := &allocation{base: m.next, data: make([]byte, bytes), written: make([]byte, bytes), name: name}
	for i := range a.data {
		a.data[i] = poison
	}
	m.used += int64(bytes)
	m.next += uint64(align(bytes+gap, alignment))
	list := append(slices.Clip(slices.Clone(*m.list.Load())), a)
	m.list.Store(&list)
	return a
}

const keepFreed = 1024

// free releases the range that begins at an address.
func (m *memory) free(base uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(*m.list.Load())
	i := sort.Search(len(list), func(i int) bool { return list[i].base >= base })
	if i == len(list) || list[i].base != base || list[i].freed {
		return false
	}
	m.used -= int64(len(list[i].data))
	old := *list[i]
	list[i] = &allocation{base: old.base, data: nil, name: fmt.Sprintf("freed %v", &old), freed: true}
	gone := 0
	for _, a := range list {
		if a.freed {
			gone++
		}
	}
	if gone > keepFreed {
		j := slices.IndexFunc(list, func(a *allocation) bool { return a.freed })
		list = slices.Delete(list, j, j+1)
	}
	m.list.Store(&list)
	return true
}

// find returns the last allocation that begins at or below an address.
func find(list []*allocation, address uint64) *allocation {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := (lo + hi) / 2
		if list[mid].base <= address {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	return list[lo-1]
}

// span returns the allocation that holds n bytes from an address on, and the offset.
func (m *memory) span(address driver.Ptr, n int) (*allocation, int, error) {
	a := find(*m.list.Load(), uint64(address))
	if a == nil || a.freed || uint64(address)-a.base > uint64(len(a.data)) || uint64(n) > a.end()-uint64(address) {
		if a == nil {
			return nil, 0, fmt.Errorf("%d bytes at %#x are not allocated", n, uint64(address))
		}
		return nil, 0, fmt.Errorf("%d bytes at %#x are not allocated; before them is %v", n, uint64(address), a)
	}
	return a, int(uint64(address) - a.base), nil
}

// space is a state space.
type space uint8

const (
	spaceGeneric space = iota
	spaceGlobal
	spaceShared
	spaceLocal
	spaceParam
	spaceConst
)

var spaces = map[string]space{"global": spaceGlobal, "shared": spaceShared, "local": spaceLocal, "param": spaceParam, "const": spaceConst}

var spaceNames = map[space]string{spaceGlobal: "global", spaceShared: "shared", spaceLocal: "local", spaceParam: "parameter",
	spaceConst: "constant"}

// resolve returns n bytes at an address of a space, after checking that they exist and that the address is aligned to them. slot is
// where the instruction keeps the allocation it met last.
func (w *warp) resolve(s space, address uint64, n, lane int, slot int32) (space, []byte, []byte, *allocation) {
	if s == spaceGeneric {
		s = spaceGlobal
		switch {
		case address-sharedWindow < windowSize:
			s, address = spaceShared, address-sharedWindow
		case address-localWindow < windowSize:
			s, address = spaceLocal, address-localWindow
		}
	}
	if address&uint64(n-1) != 0 {
		w.fail(misaligned, lane, "%s address %#x is not aligned to %d bytes", spaceNames[s], address, n)
		return s, nil, nil, nil
	}
	switch s {
	case spaceShared:
		sh := w.b.shared
		if address > uint64(len(sh)) || uint64(len(sh))-address < uint64(n) {
			w.fail(driver.IllegalAddress, lane, "%d bytes at shared address %#x; the block has %d (%d static, %d dynamic)", n, address,
				len(sh), len(sh)-w.b.l.dynamic, w.b.l.dynamic)
			return s, nil, nil, nil
		}
		return s, sh[address : address+uint64(n)], w.b.written[address : address+uint64(n)], nil
	case spaceParam:
		if address < paramFrame {
			p := w.b.l.params
			if address > uint64(len(p)) || uint64(len(p))-address < uint64(n) {
				w.fail(driver.IllegalAddress, lane, "%d bytes at parameter address %#x; there are %d", n, address, len(p))
				return s, nil, nil, nil
			}
			return s, p[address : address+uint64(n)], nil, nil
		}
		address -= paramFrame
		fallthrough
	case spaceLocal:
		frame := uint64(w.b.l.program.frame)
		if address > frame || frame-address < uint64(n) {
			w.fail(driver.IllegalAddress, lane, "%d bytes at local address %#x; a thread has %d", n, address, frame)
			return s, nil, nil, nil
		}
		at := uint64(lane)*frame + address
		return s, w.local[at : at+uint64(n)], w.written[at : at+uint64(n)], nil
	}
	a := w.near[slot]
	if a == nil || address-a.base >= uint64(len(a.data)) {
		a = find(w.b.l.memory, address)
		if a == nil || address >= a.end() {
			w.unallocated(address, n, lane, a)
			return s, nil, nil, nil
		}
		w.near[slot] = a
	}
	at := address - a.base
	if uint64(len(a.data))-at < uint64(n) {
		w.unallocated(address, n, lane, a)
		return s, nil, nil, nil
	}
	return s, a.data[at : at+uint64(n)], a.written[at : at+uint64(n)], a
}

func (w *warp) unallocated(address uint64, n, lane int, before *allocation) {
	switch {
	case before == nil:
		w.fail(driver.IllegalAddress, lane, "%d bytes at %#x are not allocated", n, address)
	default:
		w.fail(driver.IllegalAddress, lane, "%d bytes at %#x are not allocated: %d bytes behind the end of %v", n, address,
			address-before.end(), before)
	}
}
