package gpu

import (
	"runtime"
	"sync"
	"unsafe"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels/cuda"
)

// device runs language models on an NVIDIA GPU.
type device struct{ *cuda.Device }

// On is a device on which decode runs models, in float or with weights in groups. Engines on it must be closed before it is.
func On(d *cuda.Device) decode.Device { return device{d} }

// model is a model on a device. The host puts tokens in and takes logits out; in between nothing leaves the device.
type model struct {
	checkpoint.Config
	device *cuda.Device
	stream *cuda.Stream

	weights *decode.DeviceWeights // what lies on the device as matrices; vectors are uploaded
	layers  []vectors
	norm    cuda.Buffer // the final one
	rotary  cuda.Rotary
	reached int // positions that rotary has

	work   scratch
	graphs map[passShape]*recording

	mu     sync.Mutex
	closed bool
	held   map[cuda.Buffer]struct{} // everything that is allocated
}

// vectors is the vectors of a layer; biases are empty where there are none.
type vectors struct {
	attentionNorm, feedNorm       cuda.Buffer
	queryBias, keyBias, valueBias cuda.Buffer
}

// OpenModel implements decode.Device.
func (d device) OpenModel(c *checkpoint.Config) (decode.DeviceModel, error) {
	s, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	return &model{Config: *c, device: d.Device, stream: s, held: map[cuda.Buffer]struct{}{}, graphs: map[passShape]*recording{}}, nil
}

// Start implements decode.DeviceModel.
func (g *model) Start(w *decode.DeviceWeights) (err error) {
	g.weights = w
	vector := func(x []float32) (b cuda.Buffer) {
		if err == nil {
			b, err = upload(g, x)
		}
		return b
	}
	for i := range w.Layers {
		l := &w.Layers[i]
		g.layers = append(g.layers, vectors{vector(l.AttentionNorm), vector(l.FeedNorm), vector(l.QueryBias), vector(l.KeyBias),
			vector(l.ValueBias)})
	}
	g.norm = vector(w.FinalNorm)
	return err
}

// Close implements decode.DeviceModel: it gives everything back. Caches that are still about are empty shells then.
func (g *model) Close() error {
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
func (g *model) alloc(bytes int) (cuda.Buffer, error) {
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
func (g *model) free(buffers ...cuda.Buffer) {
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
func upload[T int8 | float32 | int32](g *model, x []T) (cuda.Buffer, error) {
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
