package decode

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"qwb/kernels/cuda"
)

// gpu is the part of an engine that lies on a device: its weights, the caches of its sequences, and the memory of a pass. The host
// puts tokens in and takes logits out; in between nothing leaves the device.
type gpu struct {
	device *cuda.Device
	stream *cuda.Stream

	layers    []gpuLayer
	finalNorm cuda.Buffer
	embedding gpuEmbedding
	rotary    cuda.Rotary
	reached   int // positions that rotary has

	work   gpuScratch
	graphs map[passShape]*recording

	mu     sync.Mutex
	closed bool
	held   map[cuda.Buffer]struct{} // everything that is allocated
}

// gpuLayer is the vectors of a layer; biases are empty where there are none.
type gpuLayer struct {
	attentionNorm, feedNorm       cuda.Buffer
	queryBias, keyBias, valueBias cuda.Buffer
}

func newGPU(device *cuda.Device) (*gpu, error) {
	s, err := device.NewStream()
	if err != nil {
		return nil, err
	}
	return &gpu{device: device, stream: s, held: map[cuda.Buffer]struct{}{}, graphs: map[passShape]*recording{}}, nil
}

// close gives everything back. Caches that are still about are empty shells then.
func (g *gpu) close() error {
	err := g.stream.Synchronize()
	for _, r := range g.graphs {
		if r.graph != nil {
			_ = r.graph.Close() // what failed before is told
		}
	}
	g.mu.Lock()
	g.closed = true
	for b := range g.held {
		g.device.Free(b)
	}
	g.held = nil
	g.mu.Unlock()
	if pinned := g.work.pinned; pinned != nil {
		_ = pinned.Close()
	}
	_ = g.stream.Close()
	return err
}

// alloc returns device memory that free or close gives back.
func (g *gpu) alloc(bytes int) (cuda.Buffer, error) {
	b, err := g.device.Alloc(bytes)
	if err != nil || bytes == 0 {
		return b, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[b] = struct{}{}
	return b, nil
}

// free gives back what alloc returned. All work is on one stream, so that work under way is done before the memory has another use.
func (g *gpu) free(buffers ...cuda.Buffer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range buffers {
		if _, ok := g.held[b]; ok && !g.closed {
			delete(g.held, b)
			g.device.Free(b)
		}
	}
}

// upload copies a slice to memory of its own, and waits until it is there.
func upload[T int8 | float32 | int32](g *gpu, x []T) (cuda.Buffer, error) {
	b, err := g.alloc(len(x) * int(unsafe.Sizeof(*new(T))))
	if err != nil || len(x) == 0 {
		return b, err
	}
	if err := g.stream.Upload(b, asBytes(x)); err != nil {
		return b, err
	}
	err = g.stream.Synchronize()
	runtime.KeepAlive(x)
	return b, err
}

func asBytes[T any](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

// reachOnGPU uploads the tables of rotary embedding up to a position, in steps that double.
func (e *Engine) reachOnGPU(positions int) error {
	g := e.gpu
	if positions <= g.reached {
		return nil
	}
	positions = min(max(positions, 2*g.reached, cacheBlock), max(e.Context, positions))
	e.rotary.reach(positions)
	g.free(g.rotary.Cos, g.rotary.Sin)
	g.forgetGraphs()
	g.rotary, g.reached = cuda.Rotary{}, 0 // where memory runs out below, nothing is freed twice
	n := positions * len(e.rotary.freqs)
	var err error
	if g.rotary.Cos, err = upload(g, e.rotary.cos[:n]); err != nil {
		return err
	}
	if g.rotary.Sin, err = upload(g, e.rotary.sin[:n]); err != nil {
		return err
	}
	g.rotary.Halves, g.reached = e.rotary.halves, positions
	return nil
}

// gpuCache is the keys and values of a sequence on a device.
type gpuCache struct {
	owner    *gpu
	buffer   cuda.Buffer
	capacity int
}

// reserveOnGPU makes room for n more positions of a cache.
func (e *Engine) reserveOnGPU(k *Cache, n int) error {
	g, h := e.gpu, e.headsOfLayer(0)
	switch {
	case k.gpu == nil && k.length > 0:
		return fmt.Errorf("decode: a cache of %d positions that are not on the device", k.length)
	case k.gpu == nil:
		k.gpu = &gpuCache{owner: g}
		runtime.AddCleanup(k, func(c *gpuCache) { c.owner.free(c.buffer) }, k.gpu)
	case k.gpu.owner != g:
		return fmt.Errorf("decode: a cache of another engine")
	}
	old := *k.gpu
	if k.length+n <= old.capacity {
		return nil
	}
	capacity := max(k.length+n, 2*old.capacity, cacheBlock)
	capacity = (capacity + cuda.KeyBlock - 1) / cuda.KeyBlock * cuda.KeyBlock
	b, err := g.alloc(cuda.CacheBytes(e.Layers, h, capacity))
	if err != nil {
		return err
	}
	from, to := 4*old.capacity*h.Dim, 4*capacity*h.Dim // of the keys, or the values, of one head
	for i := 0; from > 0 && i < 2*e.Layers*h.Shared; i++ {
		if err := g.stream.Copy(b.Slice(i*to, from), old.buffer.Slice(i*from, from)); err != nil {
			g.free(b)
			return err
		}
	}
	g.free(old.buffer)
	k.gpu.buffer, k.gpu.capacity = b, capacity
	return nil
}

// headsOfLayer is the shape of attention.
func (e *Engine) headsOfLayer(l int) cuda.Heads {
	return cuda.Heads{Queries: e.Heads, Shared: e.KVHeads, Dim: e.HeadDim, Layer: l}
}
