package tqc

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Parts says which elements of a tensor share a scale: outer x n x inner as tensor.Blocks has it, and along n runs of size elements, the
// last of which may be shorter. Per channel, outer and inner belong to one part; per group, each index of them has parts of its own.
type Parts struct {
	outer, n, inner int
	size            int
	grouped         bool
}

// PartsOf divides a tensor as a config does. An axis that does not exist is an error, and groups of what is not row-major are.
func PartsOf(t *tensor.Tensor, c *Config) (Parts, error) {
	p := Parts{outer: 1, n: 1, inner: t.Len(), size: 1}
	if c.Policy.Has(PerTensor) {
		return p, nil
	}
	axis, ok := graph.Axis(c.Axis, len(t.Shape))
	if !ok {
		return p, fmt.Errorf("scales along axis %d of %s", c.Axis, t.Type())
	}
	p.outer, p.n, p.inner = t.Blocks(axis)
	if c.Policy.Has(PerGroup) {
		if t.Layout != tensor.RowMajor {
			return p, fmt.Errorf("scales for groups of %d along axis %d of %s", c.GroupSize, c.Axis, t.Type())
		}
		p.grouped, p.size = true, c.GroupSize
	}
	return p, nil
}

// Count is the number of scales; per group they are in the row-major order of the scale tensor.
func (p Parts) Count() int {
	if p.grouped {
		return p.outer * p.blocks() * p.inner
	}
	return p.n
}

// Columns is, where every element has another scale than its neighbours, after how many the scales begin anew; else 0.
func (p Parts) Columns() int {
	if p.grouped || p.inner != 1 || p.n < 2 {
		return 0
	}
	return p.n
}

// Each calls f with the bounds of every run of elements of part i, in memory order.
func (p Parts) Each(i int, f func(from, to int)) {
	if !p.grouped {
		for o := range p.outer {
			at := (o*p.n + i) * p.inner
			f(at, at+p.inner)
		}
		return
	}
	in, o, block := i%p.inner, i/p.inner/p.blocks(), i/p.inner%p.blocks()
	first, end := block*p.size, min((block+1)*p.size, p.n)
	if p.inner == 1 {
		f(o*p.n+first, o*p.n+end)
		return
	}
	for k := first; k < end; k++ {
		at := (o*p.n+k)*p.inner + in
		f(at, at+1)
	}
}

// Of returns the part of element i in memory order.
func (p Parts) Of(i int) int {
	along := i / p.inner % p.n
	if !p.grouped {
		return along
	}
	return (i/(p.inner*p.n)*p.blocks()+along/p.size)*p.inner + i%p.inner
}

// Runs calls f, until it returns false, with the bounds of every run of elements of one part, in memory order.
func (p Parts) Runs(f func(part, from, to int) bool) {
	step, length := 1, 1 // along the axis, and in memory
	switch {
	case !p.grouped:
		length = p.inner
	case p.inner == 1:
		step = p.size
	}
	for o := range p.outer {
		for k := 0; k < p.n; k += step {
			for i := 0; i < p.inner; i += max(length, 1) {
				at := (o*p.n+k)*p.inner + i
				if !f(p.Of(at), at, at+length*min(step, p.n-k)) {
					return
				}
			}
		}
	}
}

// blocks counts the groups along the axis.
func (p Parts) blocks() int { return (p.n + p.size - 1) / p.size }
