package gpu

import (
	"context"
	"runtime"
	"unsafe"

	"qwb/graph/language/decode"
	"qwb/kernels/cuda"
)

// scratch is the memory of a pass on a device, kept between passes and made anew for more rows or logits.
type scratch struct {
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
func (g *model) forgetGraphs() {
	for _, r := range g.graphs {
		if r.graph != nil {
			_ = r.graph.Close() // it is not needed any more
		}
	}
	clear(g.graphs)
}

// room makes room for a pass.
func (g *model) room(rows, want int) error {
	w := &g.work
	if rows <= w.rows && want <= w.want {
		return nil
	}
	rows, want = max(rows, w.rows), max(want, w.want)
	g.forgetGraphs()
	g.free(w.all...)
	pinned := w.pinned
	*w = scratch{}
	if pinned != nil {
		if err := pinned.Close(); err != nil {
			return err
		}
	}
	widest := max(g.Dim, g.QueryDim(), g.Hidden)
	for _, b := range []struct {
		to    *cuda.Buffer
		bytes int
	}{
		{&w.ids, 4 * rows}, {&w.last, 4 * want}, {&w.places, cuda.PlaceBytes * rows},
		{&w.x, 4 * rows * g.Dim}, {&w.norm, 4 * rows * g.Dim}, {&w.q, 4 * rows * max(g.QueryDim(), g.Dim)},
		{&w.k, 4 * rows * g.KVDim()}, {&w.v, 4 * rows * g.KVDim()}, {&w.attended, 4 * rows * g.QueryDim()},
		{&w.gate, 4 * rows * g.Hidden}, {&w.up, 4 * rows * g.Hidden},
		{&w.codes, max(rows, want) * widest}, {&w.scales, 4 * max(rows, want) * widest},
		{&w.final, 4 * want * g.Dim}, {&w.logits, 4 * want * g.Vocab},
	} {
		var err error
		if *b.to, err = g.alloc(b.bytes); err != nil {
			return err
		}
		w.all = append(w.all, *b.to)
	}
	var err error
	w.inputs = cuda.PlaceBytes*rows + 4*rows + 4*want
	if w.pinned, err = g.device.HostAlloc(w.inputs + 4*want*g.Vocab); err != nil {
		return err
	}
	w.rows, w.want = rows, want
	return nil
}

// Forward implements decode.DeviceModel.
func (g *model) Forward(ctx context.Context, batch []decode.DeviceSequence, n, want int, logits []float32) error {
	w := &g.work
	if err := g.room(n, want); err != nil {
		return err
	}
	longest := 0
	for _, q := range batch {
		if err := q.Cache.Reserve(q.Length, len(q.Tokens)); err != nil {
			return err
		}
		longest = max(longest, q.Length+len(q.Tokens))
	}
	if err := g.reach(longest); err != nil {
		return err
	}
	places, ids, last := w.host(n, want)
	i, j := 0, 0
	for _, q := range batch {
		k := q.Cache.(*cache)
		for t, id := range q.Tokens {
			places[i] = cuda.Place{Cache: k.buffer.Ptr, Position: int32(q.Length + t), Capacity: int32(k.capacity)}
			ids[i] = int32(id)
			if t >= len(q.Tokens)-q.Want {
				last[j] = int32(i)
				j++
			}
			i++
		}
	}
	if err := g.pass(ctx, passShape{n, want, longest}); err != nil {
		return err
	}
	copy(asBytes(logits), w.pinned.Bytes()[w.inputs:])
	runtime.KeepAlive(batch)
	return nil
}

// host returns the places, ids and last rows of a pass in pinned memory.
func (w *scratch) host(n, want int) (places []cuda.Place, ids, last []int32) {
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
func (g *model) pass(ctx context.Context, shape passShape) error {
	shape.longest = min((shape.longest+longestStep-1)/longestStep*longestStep, max(cuda.AttendMost(g.device, g.heads(0)), shape.longest))
	work := func() error { return g.enqueue(ctx, shape) }
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
func (g *model) enqueue(ctx context.Context, shape passShape) error {
	n := shape.rows
	w, pinned := &g.work, g.work.pinned.Bytes()
	ids := cuda.PlaceBytes * w.rows
	q := queue{s: g.stream}
	q.do(func() error { return q.s.Upload(w.places, pinned[:cuda.PlaceBytes*n]) })
	q.do(func() error { return q.s.Upload(w.ids, pinned[ids:][:4*n]) })
	if b := g.weights.Embedding.(*matrix); b.groups != nil {
		q.do(func() error { return cuda.EmbedGroups(q.s, w.x, b.groups, w.ids, n) })
	} else {
		q.do(func() error { return cuda.PickRows(q.s, w.x, b.floats, w.ids, n, g.Dim) })
	}
	for l := range g.layers {
		q.do(ctx.Err)
		g.attend(&q, l, shape)
		g.feed(&q, l, n)
	}
	if shape.want > 0 {
		q.do(func() error { return q.s.Upload(w.last, pinned[ids+4*w.rows:][:4*shape.want]) })
		q.do(func() error { return cuda.PickRows(q.s, w.final, w.x, w.last, shape.want, g.Dim) })
		g.normalize(&q, w.final, w.final, g.norm, shape.want)
		g.multiply(&q, w.final, shape.want, output{g.weights.Classifier, w.logits})
		q.do(func() error { return q.s.Download(pinned[w.inputs:][:4*shape.want*g.Vocab], w.logits) })
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

func (g *model) normalize(q *queue, to, x, scale cuda.Buffer, n int) {
	norm := cuda.FloatNorm{Rows: n, N: g.Dim, Eps: float64(g.NormEps)}
	q.do(func() error { return norm.Launch(q.s, to.Ptr, x.Ptr, scale.Ptr, 0, 0, 0) })
}

// attend adds what a layer attends to.
func (g *model) attend(q *queue, l int, shape passShape) {
	n, layer, heads := shape.rows, &g.weights.Layers[l], g.heads(l)
	w, vectors := &g.work, &g.layers[l]
	g.normalize(q, w.norm, w.x, vectors.attentionNorm, n)
	g.multiply(q, w.norm, n, output{layer.Query, w.q}, output{layer.Key, w.k}, output{layer.Value, w.v})
	for _, b := range []struct {
		x, bias cuda.Buffer
		cols    int
	}{{w.q, vectors.queryBias, g.QueryDim()}, {w.k, vectors.keyBias, g.KVDim()}, {w.v, vectors.valueBias, g.KVDim()}} {
		if b.bias.Bytes > 0 {
			q.do(func() error { return cuda.AddTo(q.s, b.x, b.bias, n*b.cols, b.cols) })
		}
	}
	q.do(func() error { return cuda.Rotate(q.s, w.q, w.k, w.v, w.places, n, heads, g.rotary) })
	q.do(func() error {
		return cuda.Attend(q.s, w.attended, w.q, w.places, n, heads, g.weights.AttentionScale, shape.longest)
	})
	g.multiply(q, w.attended, n, output{layer.Output, w.q})
	q.do(func() error { return cuda.AddTo(q.s, w.x, w.q, n*g.Dim, n*g.Dim) })
}

// feed adds the feed-forward part of a layer.
func (g *model) feed(q *queue, l, n int) {
	w, layer := &g.work, &g.weights.Layers[l]
	g.normalize(q, w.norm, w.x, g.layers[l].feedNorm, n)
	g.multiply(q, w.norm, n, output{layer.Gate, w.gate}, output{layer.Up, w.up})
	q.do(func() error { return cuda.SwiGLU(q.s, w.gate, w.up, n*g.Hidden) })
	g.multiply(q, w.gate, n, output{layer.Down, w.q})
	q.do(func() error { return cuda.AddTo(q.s, w.x, w.q, n*g.Dim, n*g.Dim) })
}

// output is what the product with a matrix is written to.
type output struct {
	matrix decode.DeviceMatrix
	dst    cuda.Buffer
}

// multiply multiplies n rows with matrices. Matrices whose groups have one size share the codes of x.
func (g *model) multiply(q *queue, x cuda.Buffer, n int, outputs ...output) {
	w, quantized := &g.work, 0
	for _, o := range outputs {
		m := o.matrix.(*matrix)
		if m.groups == nil {
			q.do(func() error {
				rows, cols := m.rows, m.cols
				p := cuda.FloatProduct{A: x.Ptr, B: m.floats.Ptr, C: o.dst.Ptr, M: n, N: rows, K: cols, ARow: cols, ACol: 1, BRow: rows,
					BCol: 1, CRow: rows}
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
