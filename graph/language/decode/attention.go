package decode

import "math"

// queryGrain is how many multiply-accumulates of attention are worth a piece of work.
const queryGrain = 1 << 14

// attention is the attention of one layer in progress: what its pieces share.
type attention struct {
	dst, q  []float32
	layer   int
	heads   int // of all rows
	pieces  int
	scale   float32           // of the products of queries and keys
	workers []attentionWorker // by piece
	piece   func(i int)       // bound once
}

// attentionWorker is the memory of one piece.
type attentionWorker struct{ scores, sum []float32 }

// attention writes what the heads of n queries attend to. Query i sees the positions of its sequence up to its own; several heads of
// queries share one of keys and values.
func (e *Engine) attention(dst, q []float32, layer, n int) {
	c, a := &e.Config, &e.s.attention
	work := 0
	for _, p := range e.s.at {
		work += (p.position + 1) * c.QueryDim()
	}
	a.dst, a.q, a.layer, a.heads = dst, q, layer, n*c.Heads
	a.pieces = max(1, min(a.heads, work/queryGrain, 64))
	if a.scale = attentionScale(c.HeadDim); c.AttentionScale != 0 {
		a.scale = c.AttentionScale
	}
	if len(a.workers) < a.pieces {
		a.workers = make([]attentionWorker, a.pieces)
	}
	if a.piece == nil {
		a.piece = e.attendPiece
	}
	if e.par == nil || a.pieces == 1 {
		for i := range a.pieces {
			a.piece(i)
		}
		return
	}
	e.par(a.pieces, a.piece)
}

// attendPiece computes the heads of a piece.
func (e *Engine) attendPiece(piece int) {
	c, a := &e.Config, &e.s.attention
	for h := piece * a.heads / a.pieces; h < (piece+1)*a.heads/a.pieces; h++ {
		at := e.s.at[h/c.Heads]
		kv := &at.cache.layers[a.layer]
		shared := h % c.Heads / (c.Heads / c.KVHeads)
		e.attendHead(a.dst[h*c.HeadDim:][:c.HeadDim], a.q[h*c.HeadDim:][:c.HeadDim], kv.keys[shared], kv.values[shared], at.position+1,
			&a.workers[piece])
	}
}

// attendHead computes softmax(keys * q / sqrt(len(q))) * values for the first n positions, or the last ones of them in a window. The sums
// are added one after the other: over the elements of a head, then over positions.
func (e *Engine) attendHead(dst, q, keys, values []float32, n int, w *attentionWorker) {
	hidden := 0 // positions in front of the window
	if window := e.Window(e.s.attention.layer); window > 0 && window < n {
		first := (n - window) / keyBlock * keyBlock
		keys, values = keys[first*len(q):], values[first*blocks(len(q)):]
		hidden, n = n-window-first, n-first
	}
	scores := grow(&w.scores, blocks(n))
	e.table.Combine(scores, q, keys, keyBlock, keyBlock*len(q))
	scores = scores[:n]
	e.table.MulScalar(scores, scores, e.s.attention.scale)
	e.limit(scores, e.ScoreCap)
	for i := range hidden {
		scores[i] = float32(math.Inf(-1))
	}
	e.table.Softmax(nil, scores, scores, n)
	sum := grow(&w.sum, blocks(len(q)))
	e.table.Combine(sum, scores, values, len(sum), keyBlock)
	copy(dst, sum)
}

// attentionScale is what products of queries and keys are multiplied with.
func attentionScale(dim int) float32 { return float32(1 / math.Sqrt(float64(dim))) }
