package decode

import (
	"qwb/graph/language/checkpoint"
	"qwb/kernels"
)

// Cache holds the keys and values of the tokens that a sequence has had so far. It grows in steps of whole blocks of positions.
type Cache struct {
	layers []layerCache
	length int // positions filled
	room   int // positions there is memory for
	dim    int // of a head
	width  int // dim, rounded up to whole blocks of vectors

	kind  CacheType
	only  *Rounding // what of it is rounded; nil: everything
	once  bool      // all layers share the memory of one
	codes []int8    // of all heads, for rounding

	remote DeviceCache // of an engine on a device, which keeps everything there
	owner  DeviceModel // whose it is
}

// layerCache is keys and values of one layer, by head. Values follow each other by position, width elements each. Keys are in
// blocks of as many positions as a vector block has: by element of the head, then by position, so that the scores of a block are
// sums of vectors.
type layerCache struct{ keys, values [][]float32 }

const (
	cacheBlock = 64 // by how many positions a cache grows
	keyBlock   = kernels.CombineBlock
)

// blocks rounds n up to whole vector blocks.
func blocks(n int) int { return (n + keyBlock - 1) / keyBlock * keyBlock }

// NewCache returns an empty cache of float32 for sequences of a model.
func NewCache(c *checkpoint.Config) *Cache { return newCache(c, CacheF32) }

// NewCache returns an empty cache of the type that Options named.
func (e *Engine) NewCache() *Cache { return newCache(&e.Config, e.cache) }

// NewOnceCache is NewCache for sequences that single calls run whole, with Clear before each: it takes the memory of one layer.
func (e *Engine) NewOnceCache() *Cache {
	k := e.NewCache()
	k.once = true
	for l := range k.layers {
		k.layers[l] = k.layers[0]
	}
	return k
}

func newCache(c *checkpoint.Config, kind CacheType) *Cache {
	k := &Cache{layers: make([]layerCache, c.Layers), dim: c.HeadDim, width: blocks(c.HeadDim), kind: kind}
	if kind != CacheF32 {
		k.codes = make([]int8, c.KVDim())
	}
	for l := range k.layers {
		k.layers[l] = layerCache{make([][]float32, c.KVHeads), make([][]float32, c.KVHeads)}
	}
	return k
}

// Len is how many positions the cache holds.
func (k *Cache) Len() int { return k.length }

// Clear forgets all positions and keeps the memory.
func (k *Cache) Clear() { k.length = 0 }

// Round makes the cache round what r says in place of what its type does, from now on; nil: its type again.
func (k *Cache) Round(r *Rounding) {
	if k.only = r; r != nil && k.codes == nil {
		k.codes = make([]int8, k.dim*len(k.layers[0].keys))
	}
}

// take makes the cache hold the first n positions of another one of the same model, or of itself.
func (k *Cache) take(from *Cache, n int) {
	k.length = 0
	k.reserve(n)
	for l := range k.layers {
		for h := range k.layers[l].keys {
			copy(k.layers[l].keys[h], from.layers[l].keys[h][:blocks(n)*k.dim])
			copy(k.layers[l].values[h], from.layers[l].values[h][:n*k.width])
		}
	}
	k.length = n
}

// reserve makes room for n more positions.
func (k *Cache) reserve(n int) {
	if k.length+n <= k.room {
		return
	}
	k.room = (max(k.length+n, 2*k.room) + cacheBlock - 1) / cacheBlock * cacheBlock
	enlarge := func(heads [][]float32, width int) {
		for h, old := range heads {
			heads[h] = make([]float32, k.room*width)
			copy(heads[h], old)
		}
	}
	for i, l := range k.layers {
		if i > 0 && k.once {
			break
		}
		enlarge(l.keys, k.dim)
		enlarge(l.values, k.width)
	}
}

// put stores the key and the value of a head at a position, and rounds both where the cache has fewer bits. Goroutines may do so for
// several heads at once.
func (k *Cache) put(layer, head, position int, key, value []float32) {
	if r := k.only; r != nil {
		r.round(layer, key, value, k.codes[head*k.dim:][:k.dim])
	} else if k.kind != CacheF32 {
		k.kind.round(key, k.codes[head*k.dim:][:k.dim])
		k.kind.round(value, k.codes[head*k.dim:][:k.dim])
	}
	l := &k.layers[layer]
	to := l.keys[head][position/keyBlock*keyBlock*k.dim+position%keyBlock:]
	for i, v := range key {
		to[i*keyBlock] = v
	}
	copy(l.values[head][position*k.width:], value)
}
