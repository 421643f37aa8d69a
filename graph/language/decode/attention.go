package decode

import (
	"math"

	"qwb/kernels"
)

// queryGrain is how many multiply-accumulates of attention are worth a piece of work.
const queryGrain = 1 << 14

// queryTile is how many queries of a head are computed at once: those of positions that follow each other, the first a multiple of it.
const queryTile = 8

// attention is the attention of one layer in progress: what its pieces share.
type attention struct {
	dst, q  []float32
	layer   int
	tiles   []queries
	pieces  int
	scale   float32           // of the products of queries and keys
	workers []attentionWorker // by piece
	piece   func(i int)       // bound once
}

// queries are up to queryTile rows of the pass, of positions of one sequence that follow each other.
type queries struct{ first, rows int }

// attentionWorker is the memory of one piece.
type attentionWorker struct{ scores, sum []float32 }

// attention writes what the heads of the queries of all rows attend to. A query sees the positions of its sequence up to its own; several
// heads of queries share one of keys and values.
func (e *Engine) attention(dst, q []float32, layer int) {
	c, a := &e.Config, &e.s.attention
	work, window := 0, e.Window(layer)
	a.tiles = a.tiles[:0]
	for i, p := range e.s.at {
		work += (p.position + 1) * c.QueryDim()
		if p.position%queryTile == 0 || i == 0 || e.s.at[i-1] != (place{p.cache, p.position - 1}) || window > 0 && p.position >= window {
			a.tiles = append(a.tiles, queries{first: i})
		}
		a.tiles[len(a.tiles)-1].rows++
	}
	a.dst, a.q, a.layer = dst, q, layer
	a.pieces = max(1, min(len(a.tiles)*c.Heads, work/queryGrain, 64))
	if a.scale = attentionScale(c.HeadDim); c.AttentionScale != 0 {
		a.scale = c.AttentionScale
	}
	if len(a.workers) < a.pieces {
		a.workers = make([]attentionWorker, a.pieces)
	}
	if a.piece == nil {
		a.piece = e.attendPiece
	}
	e.par.Run(a.pieces, a.piece)
}

// attendPiece computes the tiles of a piece, counted head by head.
func (e *Engine) attendPiece(piece int) {
	c, a := &e.Config, &e.s.attention
	n := len(a.tiles)
	for i := piece * n * c.Heads / a.pieces; i < (piece+1)*n*c.Heads/a.pieces; i++ {
		e.attendTile(a.tiles[i%n], i/n, &a.workers[piece])
	}
}

// attendTile computes softmax(keys * q / sqrt(len(q))) * values of a head for each query of a tile, of the positions up to its own, or the
// last ones of them in a window. The sums are added one after the other: over the elements of a head, then over positions.
func (e *Engine) attendTile(t queries, head int, w *attentionWorker) {
	c, a, at := &e.Config, &e.s.attention, e.s.at[t.first]
	dim, stride, from := c.HeadDim, c.QueryDim(), t.first*c.QueryDim()+head*c.HeadDim
	kv, shared := &at.cache.layers[a.layer], head/(c.Heads/c.KVHeads)
	keys, values, n, hidden := kv.keys[shared], kv.values[shared], at.position+1, 0 // hidden: positions in front of the window
	if window := e.Window(a.layer); window > 0 && window < n {
		first := (n - window) / keyBlock * keyBlock
		keys, values = keys[first*dim:], values[first*blocks(dim):]
		hidden, n = n-window-first, n-first
	}
	width := blocks(n + t.rows - 1)
	scores := grow(&w.scores, t.rows*width)
	e.table.Combine(kernels.Combination{Dst: scores, S: a.q[from:], M: keys, Rows: t.rows, N: dim, StepS: stride, StepDst: width,
		Blocks: width / keyBlock, Step: keyBlock, BlockStep: keyBlock * dim})
	e.table.MulScalar(scores, scores, a.scale)
	e.limit(scores, e.ScoreCap)
	for r := range t.rows {
		row := scores[r*width:][:width]
		hide(row[:hidden])
		hide(row[n+r:])
	}
	e.table.Softmax(nil, scores, scores, width)
	sum := grow(&w.sum, t.rows*blocks(dim))
	e.table.Combine(kernels.Combination{Dst: sum, S: scores, M: values, Rows: t.rows, N: n, Grow: true, StepS: width, StepDst: blocks(dim),
		Blocks: blocks(dim) / keyBlock, Step: blocks(dim), BlockStep: keyBlock})
	for r := range t.rows {
		copy(a.dst[from+r*stride:][:dim], sum[r*blocks(dim):])
	}
}

// hide makes scores those of positions that a query does not see.
func hide(scores []float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
}

// attentionScale is what products of queries and keys are multiplied with.
func attentionScale(dim int) float32 { return float32(1 / math.Sqrt(float64(dim))) }
