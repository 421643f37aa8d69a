package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/kernels/cuda/driver"
)

// Sizes of the pool. Every block is a multiple of blockRound, which keeps every address aligned to it.
const (
	blockRound   = 512
	smallLimit   = 1 << 20 // smaller requests are carved out of segments of segmentRound, which larger ones never share
	segmentRound = 2 << 20 // segments are multiples of it
)

// PoolStats are bytes of a device's memory.
type PoolStats struct {
	Allocated int64 // in buffers, rounded as the pool rounds
	Reserved  int64 // taken from the driver, Allocated included
	Peak      int64 // the most that Allocated has been
	Buffers   int
}

// pool keeps what is freed for the next one who asks: the driver's own allocation and release stop the whole device. Memory comes
// from the driver in segments; a segment is a chain of blocks, taken or free, of which no two free ones are neighbours.
type pool struct {
	mu    sync.Mutex
	take  func(bytes int) (driver.Ptr, error)
	give  func(driver.Ptr) error
	free  [2][]*block // of large and of small segments, by size and then by address
	live  map[driver.Ptr]*block
	stats PoolStats
}

type block struct {
	ptr        driver.Ptr
	size       int
	small      int // index into pool.free
	alone      bool
	prev, next *block // neighbours in the segment
	taken      bool
}

func newPool(take func(int) (driver.Ptr, error), give func(driver.Ptr) error) *pool {
	return &pool{take: take, give: give, live: map[driver.Ptr]*block{}}
}

// Alloc returns device memory from the pool, aligned to 512 bytes and with whatever it held before. No bytes are no memory, and a
// Buffer that need not be freed. Of an emulated device every buffer is an allocation of its own and as long as was asked for, so
// that an access beyond its end or to a freed one is seen.
func (d *Device) Alloc(bytes int) (Buffer, error) {
	if bytes == 0 {
		return Buffer{}, nil
	}
	ptr, err := d.pool.alloc(bytes, d.Emulated)
	if err != nil {
		return Buffer{}, err
	}
	return Buffer{Ptr: ptr, Bytes: bytes}, nil
}

// Free gives a buffer of Alloc back to the pool, at once: the next Alloc may return the same memory. Work that still uses it must
// stand on the stream that the next owner uses too, or be done; the pool does not know streams. Free panics where b is not what
// Alloc returned, or was freed.
func (d *Device) Free(b Buffer) {
	if b.Ptr != 0 {
		d.pool.release(b.Ptr)
	}
}

// TrimPool gives the memory that no buffer uses back to the driver. It may have to wait for all work on the device.
func (d *Device) TrimPool() error {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	_, err := d.pool.trim()
	return err
}

// PoolStats returns how much memory is in use.
func (d *Device) PoolStats() PoolStats {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return d.pool.stats
}

func (p *pool) alloc(bytes int, alone bool) (driver.Ptr, error) {
	if bytes < 0 || bytes > math.MaxInt-segmentRound {
		return 0, fmt.Errorf("cuda: a buffer of %d bytes", bytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		return 0, errClosed
	}
	size, small := multiple(bytes, blockRound), 0
	if bytes < smallLimit {
		small = 1
	}
	var b *block
	if alone {
		size = bytes
	} else {
		b = p.fit(size, small)
	}
	if b == nil {
		var err error
		if b, err = p.segment(size, small, alone); err != nil {
			return 0, fmt.Errorf("cuda: no %d bytes of device memory (buffers have %d, the pool %d): %w", bytes, p.stats.Allocated,
				p.stats.Reserved, err)
		}
	}
	p.split(b, size)
	b.taken = true
	p.live[b.ptr] = b
	p.stats.Buffers++
	p.stats.Allocated += int64(b.size)
	p.stats.Peak = max(p.stats.Peak, p.stats.Allocated)
	return b.ptr, nil
}

// fit takes the smallest free block that is large enough out of the free ones, nil if there is none.
func (p *pool) fit(size, small int) *block {
	free := p.free[small]
	i, _ := slices.BinarySearchFunc(free, size, func(b *block, size int) int { return cmp.Compare(b.size, size) })
	if i == len(free) {
		return nil
	}
	b := free[i]
	p.free[small] = slices.Delete(free, i, i+1)
	return b
}

// segment takes memory from the driver: a chain of one block. Where there is none, it comes again after all cached memory was
// returned.
func (p *pool) segment(size, small int, alone bool) (*block, error) {
	if !alone {
		size = multiple(size, segmentRound)
	}
	ptr, err := p.take(size)
	var r *driver.Result
	if errors.As(err, &r) && r.Code == driver.OutOfMemory {
		n, e := p.trim()
		if e != nil {
			return nil, e
		}
		if n > 0 {
			ptr, err = p.take(size)
		}
	}
	if err != nil {
		return nil, err
	}
	p.stats.Reserved += int64(size)
	return &block{ptr: ptr, size: size, small: small, alone: alone}, nil
}

// split leaves size bytes in a block that is in no list, and makes a free one of the rest where that is of use: a rest of a large
// block that large buffers cannot use stays with it.
func (p *pool) split(b *block, size int) {
	rest := b.size - size
	if rest == 0 || b.small == 0 && rest < smallLimit {
		return
	}
	r := &block{ptr: b.ptr + driver.Ptr(size), size: rest, small: b.small, prev: b, next: b.next}
	if r.next != nil {
		r.next.prev = r
	}
	b.next, b.size = r, size
	p.insert(r)
}

func (p *pool) release(ptr driver.Ptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		return // closed: it is the driver's again
	}
	b := p.live[ptr]
	if b == nil {
		panic(fmt.Sprintf("cuda: the buffer at %#x is none of the pool", uint64(ptr)))
	}
	delete(p.live, ptr)
	p.stats.Buffers--
	p.stats.Allocated -= int64(b.size)
	b.taken = false
	if b.alone {
		p.stats.Reserved -= int64(b.size)
		// What fails here failed in earlier work, and is reported to whoever waits for that.
		_ = p.give(b.ptr)
		return
	}
	if n := b.next; n != nil && !n.taken {
		p.remove(n)
		b.join(n)
	}
	if v := b.prev; v != nil && !v.taken {
		p.remove(v)
		v.join(b)
		b = v
	}
	p.insert(b)
}

// join appends the next block to b.
func (b *block) join(n *block) {
	b.size += n.size
	b.next = n.next
	if b.next != nil {
		b.next.prev = b
	}
}

// trim returns the segments that no buffer uses, and how many they were.
func (p *pool) trim() (int, error) {
	var errs []error
	for i, free := range p.free {
		p.free[i] = slices.DeleteFunc(free, func(b *block) bool {
			if b.prev != nil || b.next != nil {
				return false
			}
			p.stats.Reserved -= int64(b.size)
			errs = append(errs, p.give(b.ptr))
			return true
		})
	}
	return len(errs), errors.Join(errs...)
}

// close returns everything, buffers in use too.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := map[*block]bool{}
	for _, b := range p.live {
		first[b.first()] = true
	}
	for _, free := range p.free {
		for _, b := range free {
			first[b.first()] = true
		}
	}
	var errs []error
	for b := range first {
		errs = append(errs, p.give(b.ptr))
	}
	p.free, p.live, p.stats = [2][]*block{}, nil, PoolStats{Peak: p.stats.Peak}
	return errors.Join(errs...)
}

func (b *block) first() *block {
	for b.prev != nil {
		b = b.prev
	}
	return b
}

func (p *pool) insert(b *block) {
	i, _ := slices.BinarySearchFunc(p.free[b.small], b, bySize)
	p.free[b.small] = slices.Insert(p.free[b.small], i, b)
}

func (p *pool) remove(b *block) {
	i, ok := slices.BinarySearchFunc(p.free[b.small], b, bySize)
	if !ok {
		panic("cuda: a free block that is in no list")
	}
	p.free[b.small] = slices.Delete(p.free[b.small], i, i+1)
}

func bySize(a, b *block) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.ptr, b.ptr)) }

// multiple returns the multiple of a size that is at least n.
func multiple(n, to int) int { return (n + to - 1) / to * to }
