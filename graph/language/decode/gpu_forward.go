package decode

import (
	"context"
	"unsafe"

	"qwb/kernels/cuda"
)

// gpuScratch is the memory of a pass on a device, kept between passes and made anew for more rows or logits.
type gpuScratch struct {
	rows, want int // that it has room for
	all        []cuda.Buffer

	ids, last, places                      cuda.Buffer
	x, norm, q, k, v, attended             cuda.Buffer
	gate, up, codes, scales, final, logits cuda.Buffer

	// pinned holds ids, places and last of a pass, and behind them its logits.
	pinned *cuda.Pinned
	inputs int // bytes of the first part
}

// passShape is what the recording of a pass depends on.
type passShape struct{ rows, want, longest int }

// recording is a pass that was run, and recorded when it came again.
type recording struct{ graph *cuda.Graph }

const (
	recordRows  = 16 // passes of more rows take so long that their launches cost nothing
	recordMost  = 8
	longestStep = 256 // the lengths of texts for which one recording serves
)

// forgetGraphs drops recordings, which name memory that is given back.
func (g *gpu) forgetGraphs() {
	for _, r := range g.graphs {
		if r.graph != nil {
			_ = r.graph.Close() // it is not needed any more
		}
	}
	clear(g.graphs)
}

// room makes room for a pass.
func (e *Engine) room(rows, want int) error {
	g := e.gpu
	w := &g.work
	if rows <= w.rows && want <= w.want {
		return nil
	}
	rows, want = max(rows, w.rows), max(want, w.want)
	g.forgetGraphs()
	g.free(w.all...)
	pinned := w.pinned
	*w = gpuScratch{}
	if pinned != nil {
		if err := pinned.Close(); err != nil {
			return err
		}
	}
	widest := max(e.Dim, e.QueryDim(), e.Hidden)
	for _, b := range []struct {
		to    *cuda.Buffer
		bytes int
	}{
		{&w.ids, 4 * rows}, {&w.last, 4 * want}, {&w.places, cuda.PlaceBytes * rows},
		{&w.x, 4 * rows * e.Dim}, {&w.norm, 4 * rows * e.Dim}, {&w.q, 4 * rows * max(e.QueryDim(), e.Dim)},
		{&w.k, 4 * rows * e.KVDim()}, {&w.v, 4 * rows * e.KVDim()}, {&w.attended, 4 * rows * e.QueryDim()},
		{&w.gate, 4 * rows * e.Hidden}, {&w.up, 4 * rows * e.Hidden},
		{&w.codes, max(rows, want) * widest}, {&w.scales, 4 * max(rows, want) * widest},
		{&w.final, 4 * want * e.Dim}, {&w.logits, 4 * want * e.Vocab},
	} {
		var err error
		if *b.to, err = g.alloc(b.bytes); err != nil {
			return err
		}
		w.all = append(w.all, *b.to)
	}
	var err error
	w.inputs = cuda.PlaceBytes*rows + 4*rows + 4*want
	if w.pinned, err = g.device.HostAlloc(w.inputs + 4*want*e.Vocab); err != nil {
		return err
	}
	w.rows, w.want = rows, want
	return nil
}

// forwardOnGPU is forward on the device.
func (e *Engine) forwardOnGPU(ctx context.Context, batch []Sequence, n, want int) ([]float32, error) {
	g := e.gpu
	w := &g.work
	if n == 0 {
		return nil, nil
	}
	if err := e.room(n, want); err != nil {
		return nil, err
	}
	longest := 0
	for _, q := range batch {
		if err := e.reserveOnGPU(q.Cache, len(q.Tokens)); err != nil {
			return nil, err
		}
		longest = max(longest, q.Cache.length+len(q.Tokens))
	}
	if err := e.reachOnGPU(longest); err != nil {
		return nil, err
	}
	places, ids, last := w.host(n, want)
	i, j := 0, 0
	for _, q := range batch {
		for t, id := range q.Tokens {
			places[i] = cuda.Place{Cache: q.Cache.gpu.buffer.Ptr, Position: int32(q.Cache.length + t), Capacity: int32(q.Cache.gpu.capacity)}
			ids[i] = int32(id)
			if t >= len(q.Tokens)-q.Want {
				last[j] = int32(i)
				j++
			}
			i++
		}
	}
	if err := e.pass(ctx, passShape{n, want, longest}); err != nil {
		return nil, err
	}
	for _, q := range batch {
		q.Cache.length += len(q.Tokens)
	}
	logits := grow(&e.s.logits, want*e.Vocab)
	copy(asBytes(logits), w.pinned.Bytes()[w.inputs:])
	return logits, nil
}

// host returns the places, ids and last rows of a pass in pinned memory.
func (w *gpuScratch) host(n, want int) (places []cuda.Place, ids, last []int32) {
	b := w.pinned.Bytes()
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&b[offset]) }
	places = unsafe.Slice((*cuda.Place)(at(0)), n)
	ids = unsafe.Slice((*int32)(at(cuda.PlaceBytes*w.rows)), n)
	if want > 0 {
		last = unsafe.Slice((*int32)(at(cuda.PlaceBytes*w.rows+4*w.rows)), want)
	}
	return places, ids, last
}

// pass runs the rows that lie in pinned memory and waits for their logits. Small passes that come again are recorded and replayed.
func (e *Engine) pass(ctx context.Context, shape passShape) error {
	g := e.gpu
	shape.longest = min((shape.longest+longestStep-1)/longestStep*longestStep, max(cuda.AttendMost(g.device, e.headsOfLayer(0)), shape.longest))
	work := func() error { return e.enqueue(ctx, shape) }
	r := g.graphs[shape]
	switch {
	case shape.rows > recordRows || len(g.graphs) >= recordMost && r == nil:
	case r == nil:
		g.graphs[shape] = &recording{}
	case r.graph == nil:
		var err error
		if r.graph, err = g.stream.Capture(work); err != nil {
			return err
		}
		fallthrough
	default:
		work = func() error { return r.graph.Launch(g.stream) }
	}
	err := ctx.Err()
	if err == nil {
		err = work()
	}
	if waited := g.stream.Synchronize(); err == nil {
		err = waited
	}
	return err
}

// enqueue puts a pass on the stream: inputs from pinned memory, logits to it.
func (e *Engine) enqueue(ctx context.Context, shape passShape) error {
	g, n := e.gpu, shape.rows
	w, pinned := &g.work, g.work.pinned.Bytes()
	ids := cuda.PlaceBytes * w.rows
	q := queue{s: g.stream}
	q.do(func() error { return q.s.Upload(w.places, pinned[:cuda.PlaceBytes*n]) })
	q.do(func() error { return q.s.Upload(w.ids, pinned[ids:][:4*n]) })
	if b := g.embedding; b.groups != nil {
		q.do(func() error { return cuda.EmbedGroups(q.s, w.x, b.groups, w.ids, n) })
	} else {
		q.do(func() error { return cuda.PickRows(q.s, w.x, b.floats, w.ids, n, e.Dim) })
	}
	for l := range e.layers {
		q.do(ctx.Err)
		e.attendOnGPU(&q, l, shape)
		e.feedOnGPU(&q, l, n)
	}
	if shape.want > 0 {
		q.do(func() error { return q.s.Upload(w.last, pinned[ids+4*w.rows:][:4*shape.want]) })
		q.do(func() error { return cuda.PickRows(q.s, w.final, w.x, w.last, shape.want, e.Dim) })
		e.normalizeOnGPU(&q, w.final, w.final, g.finalNorm, shape.want)
		e.multiplyOnGPU(&q, w.final, shape.want, gpuOutput{e.classifier, w.logits})
		q.do(func() error { return q.s.Download(pinned[w.inputs:][:4*shape.want*e.Vocab], w.logits) })
	}
	return q.err
}

// queue puts work on a stream until something fails.
type queue struct {
	s   *cuda.Stream
	err error
}

func (q *queue) do(work func() error) {
	if q.err == nil {
		q.err = work()
	}
}

func (e *Engine) normalizeOnGPU(q *queue, to, x, scale cuda.Buffer, n int) {
	norm := cuda.FloatNorm{Rows: n, N: e.Dim, Eps: float64(e.NormEps)}
	q.do(func() error { return norm.Launch(q.s, to.Ptr, x.Ptr, scale.Ptr, 0, 0, 0) })
}

// attendOnGPU is attend.
func (e *Engine) attendOnGPU(q *queue, l int, shape passShape) {
	g, n, layer, heads := e.gpu, shape.rows, &e.layers[l], e.headsOfLayer(l)
	w, vectors := &g.work, &g.layers[l]
	e.normalizeOnGPU(q, w.norm, w.x, vectors.attentionNorm, n)
	e.multiplyOnGPU(q, w.norm, n, gpuOutput{layer.query, w.q}, gpuOutput{layer.key, w.k}, gpuOutput{layer.value, w.v})
	for _, b := range []struct {
		x, bias cuda.Buffer
		cols    int
	}{{w.q, vectors.queryBias, e.QueryDim()}, {w.k, vectors.keyBias, e.KVDim()}, {w.v, vectors.valueBias, e.KVDim()}} {
		if b.bias.Bytes > 0 {
			q.do(func() error { return cuda.AddTo(q.s, b.x, b.bias, n*b.cols, b.cols) })
		}
	}
	q.do(func() error { return cuda.Rotate(q.s, w.q, w.k, w.v, w.places, n, heads, g.rotary) })
	q.do(func() error {
		return cuda.Attend(q.s, w.attended, w.q, w.places, n, heads, attentionScale(e.HeadDim), shape.longest)
	})
	e.multiplyOnGPU(q, w.attended, n, gpuOutput{layer.output, w.q})
	q.do(func() error { return cuda.AddTo(q.s, w.x, w.q, n*e.Dim, n*e.Dim) })
}

// feedOnGPU is feed.
func (e *Engine) feedOnGPU(q *queue, l, n int) {
	w, layer := &e.gpu.work, &e.layers[l]
	e.normalizeOnGPU(q, w.norm, w.x, e.gpu.layers[l].feedNorm, n)
	e.multiplyOnGPU(q, w.norm, n, gpuOutput{layer.gate, w.gate}, gpuOutput{layer.up, w.up})
	q.do(func() error { return cuda.SwiGLU(q.s, w.gate, w.up, n*e.Hidden) })
	e.multiplyOnGPU(q, w.gate, n, gpuOutput{layer.down, w.q})
	q.do(func() error { return cuda.AddTo(q.s, w.x, w.q, n*e.Dim, n*e.Dim) })
}

// gpuOutput is what the product with a matrix is written to.
type gpuOutput struct {
	matrix *linear
	dst    cuda.Buffer
}

// multiplyOnGPU is multiply. Matrices whose groups have one size share the codes of x.
func (e *Engine) multiplyOnGPU(q *queue, x cuda.Buffer, n int, outputs ...gpuOutput) {
	w, quantized := &e.gpu.work, 0
	for _, o := range outputs {
		m := o.matrix.gpu
		if m.groups == nil {
			q.do(func() error {
				rows, cols := o.matrix.rows, m.floats.Bytes/4/o.matrix.rows
				p := cuda.FloatProduct{A: x.Ptr, B: m.floats.Ptr, C: o.dst.Ptr, M: n, N: rows, K: cols, ARow: cols, ACol: 1, BRow: rows, BCol: 1, CRow: rows}
				return p.Launch(q.s)
			})
			continue
		}
		in := cuda.GroupRows{Codes: w.codes, Scales: w.scales, N: n}
		if m.float {
			in = cuda.GroupRows{Floats: x, N: n}
		} else if quantized != m.groups.Size {
			quantized = m.groups.Size
			q.do(func() error { return cuda.QuantizeGroups(q.s, in, x, m.groups.Cols, quantized) })
		}
		q.do(func() error { return cuda.MulGroups(q.s, o.dst, m.groups, in) })
	}
}
