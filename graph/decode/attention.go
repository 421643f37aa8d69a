package decode

import "math"

// queryGrain is how many multiply-accumulates of attention are worth a piece of work.
const queryGrain = 1 << 13

// attention writes what the heads of n queries attend to. Query i sees the positions of its sequence up to its own; several heads of
// queries share one of keys and values.
func (e *Engine) attention(dst, q []float32, layer, n int) {
	c, s := &e.Config, &e.s
	heads := n * c.Heads
	work := 0
	for _, p := range s.at {
		work += (p.position + 1) * c.QueryDim()
	}
	pieces := max(1, min(heads, work/queryGrain, 64))
	if len(s.scores) < pieces {
		s.scores = make([][]float32, pieces)
	}
	body := func(piece int) {
		for h := piece * heads / pieces; h < (piece+1)*heads/pieces; h++ {
			row, head := h/c.Heads, h%c.Heads
			at := s.at[row]
			kv := &at.cache.layers[layer]
			shared := head / (c.Heads / c.KVHeads)
			scores := grow(&s.scores[piece], at.position+1)
			e.attendHead(dst[h*c.HeadDim:][:c.HeadDim], q[h*c.HeadDim:][:c.HeadDim], kv.keys[shared], kv.values[shared], scores)
		}
	}
	if e.par == nil || pieces == 1 {
		for i := range pieces {
			body(i)
		}
		return
	}
	e.par(pieces, body)
}

// attendHead computes softmax(keys * q / sqrt(len(q))) * values for as many positions as there are scores.
func (e *Engine) attendHead(dst, q, keys, values, scores []float32) {
	d := len(q)
	scale := float32(1 / math.Sqrt(float64(d)))
	for t := range scores {
		var sum float32
		for i, k := range keys[t*d:][:d] {
			sum += q[i] * k
		}
		scores[t] = sum * scale
	}
	e.table.Softmax(nil, scores, scores, len(scores))
	clear(dst)
	for t, w := range scores {
		for i, v := range values[t*d:][:d] {
			dst[i] += w * v
		}
	}
}
