package gpu

import (
	"runtime"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels/cuda"
)

// cacheBlock is by how many positions a cache grows, at least.
const cacheBlock = 64

// cache is the keys and values of a sequence on a device.
type cache struct{ *stored }

// stored is what is given back when the cache is garbage.
type stored struct {
	owner    *model
	buffer   cuda.Buffer
	capacity int
}

// NewCache implements decode.DeviceModel.
func (g *model) NewCache() decode.DeviceCache {
	k := &cache{&stored{owner: g}}
	runtime.AddCleanup(k, func(s *stored) { s.owner.free(s.buffer) }, k.stored)
	return k
}

// Reserve implements decode.DeviceCache.
func (k *cache) Reserve(length, n int) error {
	g, h := k.owner, k.owner.heads(0)
	old := *k.stored
	if length+n <= old.capacity {
		return nil
	}
	capacity := max(length+n, 2*old.capacity, cacheBlock)
	capacity = (capacity + cuda.KeyBlock - 1) / cuda.KeyBlock * cuda.KeyBlock
	b, err := g.alloc(cuda.CacheBytes(g.Layers, h, capacity))
	if err != nil {
		return err
	}
	from, to := 4*old.capacity*h.Dim, 4*capacity*h.Dim // of the keys, or the values, of one head
	for i := 0; from > 0 && i < 2*g.Layers*h.Shared; i++ {
		if err := g.stream.Copy(b.Slice(i*to, from), old.buffer.Slice(i*from, from)); err != nil {
			g.free(b)
			return err
		}
	}
	g.free(old.buffer)
	k.buffer, k.capacity = b, capacity
	return nil
}

// heads is the shape of attention.
func (g *model) heads(l int) cuda.Heads {
	return cuda.Heads{Queries: g.Heads, Shared: g.KVHeads, Dim: g.HeadDim, Layer: l}
}

// reach uploads the tables of rotary embedding up to a position, in steps that double.
func (g *model) reach(positions int) error {
	if positions <= g.reached {
		return nil
	}
	positions = min(max(positions, 2*g.reached, cacheBlock), max(g.Context, positions))
	cos, sin := g.weights.Angles(positions)
	g.free(g.rotary.Cos, g.rotary.Sin)
	g.forgetGraphs()
	g.rotary, g.reached = cuda.Rotary{}, 0 // where memory runs out below, nothing is freed twice
	var err error
	if g.rotary.Cos, err = upload(g, cos); err != nil {
		return err
	}
	if g.rotary.Sin, err = upload(g, sin); err != nil {
		return err
	}
	g.rotary.Halves, g.reached = g.Pairing == checkpoint.Halves, positions
	return nil
}
