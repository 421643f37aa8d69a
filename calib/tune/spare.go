package tune

import (
	"slices"
	"sync"

	"qwb/graph/tensor"
)

// spares are buffers of copies that nobody reads any more, for the next ones: the pages of new ones cost as much as what is written there.
type spares struct {
	limit int64 // bytes

	mu    sync.Mutex
	bytes int64
	list  [][]float32 // by rising capacity
}

// copy is a copy of a tensor, in its layout.
func (p *spares) copy(t *tensor.Tensor) *tensor.Tensor {
	if t.DType != tensor.Float32 {
		return t.Clone()
	}
	x := t.F32()
	buffer := p.take(len(x))
	if buffer == nil {
		return t.Clone()
	}
	copy(buffer, x)
	return &tensor.Tensor{DType: t.DType, Layout: t.Layout, Shape: slices.Clone(t.Shape), Data: buffer}
}

// take returns a buffer of n elements that is at most half as large again; nil where there is none.
func (p *spares) take(n int) []float32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.find(n)
	if at == len(p.list) || cap(p.list[at]) > n+n/2 {
		return nil
	}
	buffer := p.list[at]
	p.list = slices.Delete(p.list, at, at+1)
	p.bytes -= 4 * int64(cap(buffer))
	return buffer[:n]
}

// give takes the elements of a tensor that nobody reads any more; the largest are left to others where that is more than the limit.
func (p *spares) give(t *tensor.Tensor) {
	if t == nil || t.DType != tensor.Float32 || t.Len() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	buffer := t.F32()
	p.list = slices.Insert(p.list, p.find(cap(buffer)), buffer)
	for p.bytes += 4 * int64(cap(buffer)); p.bytes > p.limit; {
		last := len(p.list) - 1
		p.bytes -= 4 * int64(cap(p.list[last]))
		p.list = slices.Delete(p.list, last, last+1)
	}
}

// find is the place of the first buffer that holds n elements.
func (p *spares) find(n int) int {
	at, _ := slices.BinarySearchFunc(p.list, n, func(b []float32, n int) int { return cap(b) - n })
	return at
}
