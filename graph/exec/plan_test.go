package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// Buffers that live at the same time never share an element, and the arena is not larger than all of them together nor, on
// these inputs, than 1.3 times what lives at once.
func TestPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		steps := 1 + rng.IntN(40)
		var bufs []buffer
		for s := range steps {
			for range rng.IntN(4) {
				d := []tensor.DType{tensor.Float32, tensor.Float32, tensor.Uint8, tensor.Int64}[rng.IntN(4)]
				bufs = append(bufs, buffer{dtype: d, n: rng.IntN(5000), birth: int32(s), death: int32(min(steps, s+rng.IntN(6)))})
			}
		}
		p := newPlan(bufs, steps)
		p.place()
		all, peak := 0, 0
		for s := range steps + 1 {
			live := 0
			for _, b := range bufs {
				if b.dtype == tensor.Float32 && int(b.birth) <= s && s <= int(b.death) {
					live += padded(b.n)
				}
			}
			peak = max(peak, live)
		}
		for i, a := range bufs {
			if a.dtype == tensor.Float32 {
				all += padded(a.n)
			}
			for k, b := range bufs[:i] {
				together := a.birth <= b.death && b.birth <= a.death
				apart := p.offset[i] >= p.offset[k]+b.n || p.offset[k] >= p.offset[i]+a.n
				require.True(t, poolOf(a.dtype) != poolOf(b.dtype) || !together || apart || a.n*b.n == 0, "buffers %d and %d overlap", i, k)
			}
		}
		require.LessOrEqual(t, len(p.arena.f32), all)
		require.LessOrEqual(t, float64(len(p.arena.f32)), 1.3*float64(peak)+64)
		for s := range steps {
			nth := int32(0)
			for i, b := range bufs {
				if int(b.birth) == s {
					require.Equal(t, int32(i), p.slot(int32(s), nth))
					nth++
				}
			}
			require.Equal(t, int32(-1), p.slot(int32(s), nth))
		}
	}
}

// naive is move as its definition reads.
func naive(m move, dst, src []int32) {
	it := newCounter(m.shape, 0)
	for range tensor.Count(m.shape) {
		dst[m.dstOff+it.dot(m.dst)] = src[m.srcOff+it.dot(m.src)]
		it.next()
	}
}

func TestMoveIsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	par := parallelFunc(3)
	s := sessionState{par: par}
	for range 2000 {
		rank := rng.IntN(5)
		shape, perm := make([]int, rank), rng.Perm(rank)
		for a := range shape {
			shape[a] = 1 + rng.IntN([]int{4, 40}[rng.IntN(2)])
		}
		if rank > 3 {
			shape[0], shape[1] = min(shape[0], 4), min(shape[1], 4)
		}
		// The source is a larger tensor, permuted, partly reversed or repeated; the destination is dense.
		own := make([]int, rank)
		for a := range own {
			own[a] = shape[a] + rng.IntN(3)
		}
		permuted := make([]int, rank)
		for a, p := range perm {
			permuted[p] = own[a]
		}
		step := rowStrides(permuted)
		m := move{shape: shape, dst: rowStrides(shape), src: make([]int, rank)}
		for a, p := range perm {
			m.src[a] = step[p]
			switch rng.IntN(6) {
			case 0:
				m.srcOff += (shape[a] - 1) * m.src[a]
				m.src[a] = -m.src[a]
			case 1:
				m.src[a] = 0
			}
		}
		src := make([]int32, tensor.Count(own))
		for i := range src {
			src[i] = rng.Int32()
		}
		want, got := make([]int32, tensor.Count(shape)), make([]int32, tensor.Count(shape))
		naive(m, want, src)
		m.run(s.parallel, got, src)
		require.Equal(t, want, got, "%+v", m)
	}
}

func TestPackCacheIsBounded(t *testing.T) {
	var cache packCache
	made := 0
	isInt := func(v any) bool { _, ok := v.(int); return ok }
	get := func(k *tensor.Tensor) int {
		v, ok := cache.find(k)
		if !ok {
			made++
			v = made
			cache.keep(k, v, isInt)
		}
		return v.(int)
	}
	keys := make([]*tensor.Tensor, maxPacks+1)
	for i := range keys {
		keys[i] = tensor.New(tensor.Float32, 1)
		assert.Equal(t, i+1, get(keys[i]))
	}
	assert.Equal(t, 2, get(keys[1]), "the last few are kept")
	assert.Equal(t, maxPacks+2, get(keys[0]), "the oldest is not")
	assert.Len(t, cache.entries, maxPacks)
	assert.Equal(t, maxPacks+2, cache.keep(keys[0], -1, isInt), "what another goroutine has made meanwhile is there")
	assert.Equal(t, "other", cache.keep(keys[0], "other", func(v any) bool { _, ok := v.(string); return ok }))
	assert.Len(t, cache.entries, maxPacks, "one of a kind for a constant")
}
