package decode

import "qwb/graph/checkpoint"

// Cache holds the keys and values of the tokens that a sequence has had so far. It grows in steps of whole blocks of positions.
type Cache struct {
	layers []layerCache
	length int // positions filled
	room   int // positions there is memory for
	kvDim  int
}

// layerCache is keys and values of one layer: by head, by position, HeadDim elements.
type layerCache struct{ keys, values [][]float32 }

// cacheBlock is by how many positions a cache grows.
const cacheBlock = 64

// NewCache returns an empty cache for sequences of a model.
func NewCache(c *checkpoint.Config) *Cache {
	k := &Cache{layers: make([]layerCache, c.Layers), kvDim: c.HeadDim}
	for l := range k.layers {
		k.layers[l] = layerCache{make([][]float32, c.KVHeads), make([][]float32, c.KVHeads)}
	}
	return k
}

// Len is how many positions the cache holds.
func (k *Cache) Len() int { return k.length }

// Clear forgets all positions and keeps the memory.
func (k *Cache) Clear() { k.length = 0 }

// reserve makes room for n more positions.
func (k *Cache) reserve(n int) {
	if k.length+n <= k.room {
		return
	}
	room := (max(k.length+n, 2*k.room) + cacheBlock - 1) / cacheBlock * cacheBlock
	for l := range k.layers {
		for _, heads := range [][][]float32{k.layers[l].keys, k.layers[l].values} {
			for h, old := range heads {
				heads[h] = make([]float32, room*k.kvDim)
				copy(heads[h], old)
			}
		}
	}
	k.room = room
}
