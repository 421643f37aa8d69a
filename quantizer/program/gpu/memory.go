package gpu

import (
	"cmp"
	"errors"
	"slices"

	"qwb/internal/arrange"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

// memory is all that an engine holds of a device. It does not refer to the engine, so that it can be given back when that is
// garbage.
type memory struct {
	dev     *cuda.Device
	own     bool // the device is closed with the engine
	stream  *cuda.Stream
	buffers map[driver.Ptr]cuda.Buffer
	pinned  map[*cuda.Pinned]bool
	graphs  map[*cuda.Graph]bool
	closers map[*prepared]func()
	closed  bool
}

func newMemory(dev *cuda.Device, own bool) (*memory, error) {
	stream, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &memory{dev: dev, own: own, stream: stream, buffers: map[driver.Ptr]cuda.Buffer{}, pinned: map[*cuda.Pinned]bool{},
		graphs: map[*cuda.Graph]bool{}, closers: map[*prepared]func(){}}, nil
}

func (m *memory) alloc(n int) (cuda.Buffer, error) {
	b, err := m.dev.Alloc(n)
	if err == nil && b.Ptr != 0 {
		m.buffers[b.Ptr] = b
	}
	return b, err
}

// free gives memory back. Work that uses it must stand on the engine's stream or be done.
func (m *memory) free(b cuda.Buffer) {
	if _, ok := m.buffers[b.Ptr]; ok {
		delete(m.buffers, b.Ptr)
		m.dev.Free(b)
	}
}

// constant uploads bytes that stay until they are freed, and waits until they are there.
func (m *memory) constant(raw []byte) (cuda.Buffer, error) {
	b, err := m.alloc(len(raw))
	if err != nil {
		return b, err
	}
	if err = m.stream.Upload(b, raw); err == nil {
		err = m.stream.Synchronize()
	}
	if err != nil {
		m.free(b)
	}
	return b, err
}

func (m *memory) hostAlloc(n int) (*cuda.Pinned, error) {
	p, err := m.dev.HostAlloc(n)
	if err == nil {
		m.pinned[p] = true
	}
	return p, err
}

func (m *memory) hostFree(p *cuda.Pinned) error {
	if !m.pinned[p] {
		return nil
	}
	delete(m.pinned, p)
	return p.Close()
}

func (m *memory) capture(work func() error) (*cuda.Graph, error) {
	g, err := m.stream.Capture(work)
	if err == nil {
		m.graphs[g] = true
	}
	return g, err
}

func (m *memory) drop(g *cuda.Graph) error {
	if !m.graphs[g] {
		return nil
	}
	delete(m.graphs, g)
	return g.Close()
}

// keep makes what a prepared step holds be given back with it.
func (m *memory) keep(p *prepared) {
	if p.close != nil {
		m.closers[p] = p.close
	}
}

// release drops one reference to a prepared step; the last one gives back what it holds.
func (m *memory) release(p *prepared) {
	if p.refs--; p.refs > 0 {
		return
	}
	for _, b := range p.owned {
		m.free(b)
	}
	if f := m.closers[p]; f != nil {
		delete(m.closers, p)
		f()
	}
}

// close gives everything back.
func (m *memory) close() error {
	if m.closed {
		return nil
	}
	m.closed = true
	if m.dev.Closed() {
		return nil // and all of this with it
	}
	errs := []error{m.stream.Synchronize()}
	for g := range m.graphs {
		errs = append(errs, g.Close())
	}
	for _, f := range m.closers {
		f()
	}
	for _, b := range m.buffers {
		m.dev.Free(b)
	}
	for p := range m.pinned {
		errs = append(errs, p.Close())
	}
	errs = append(errs, m.stream.Close())
	if m.own {
		errs = append(errs, m.dev.Close())
	}
	return errors.Join(errs...)
}

// arenaLine is what places in an arena are aligned to.
const arenaLine = 256

// placeValues gives every value an offset into one arena and returns the arena's size: the largest first, each where it leaves the
// least of a gap between those that are needed at the same time, else behind them.
func placeValues(values []*value) int {
	order := slices.Clone(values)
	arrange.Stable(order, func(a, b *value) int { return cmp.Compare(b.size(), a.size()) })
	var placed []*value // by offset
	total := 0
	for _, v := range order {
		size := v.size()
		best, least, end := -1, 0, 0
		for _, o := range placed {
			if o.birth > v.death || v.birth > o.death {
				continue
			}
			if gap := o.offset - end; gap >= size && (best < 0 || gap < least) {
				best, least = end, gap
			}
			end = max(end, (o.offset+o.size()+arenaLine-1)&^(arenaLine-1))
		}
		if v.offset = best; best < 0 {
			v.offset = end
		}
		at, _ := slices.BinarySearchFunc(placed, v.offset, func(o *value, offset int) int { return cmp.Compare(o.offset, offset) })
		placed = slices.Insert(placed, at, v)
		total = max(total, v.offset+size)
	}
	return total
}
