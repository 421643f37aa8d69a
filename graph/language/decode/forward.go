package decode

import (
	"context"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
)

// scratch is the memory of a forward pass, kept between passes.
type scratch struct {
	at           []place
	x            []float32 // the residual stream: rows x Dim
	norm         rows
	q, k, v      []float32
	attended     rows
	gate, up     []float32
	hidden       rows
	routing      routing
	last, logits []float32
	final        rows
	attention    attention
	placed       int       // the layer that place is at
	head, gated  func(int) // pieces of place and between, bound once

	batch    kernels.Batch // products of floats
	products []kernels.GroupsProduct
	parts    []checkpoint.Part // of the products
}

// place is where a row of the pass belongs.
type place struct {
	cache    *Cache
	position int
}

func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

func (e *Engine) forward(ctx context.Context, batch []Sequence, n, want int) ([]float32, error) {
	s, c := &e.s, &e.Config
	x := grow(&s.x, n*c.Dim)
	at := grow(&s.at, n)
	i, reach := 0, 0
	for _, q := range batch {
		q.Cache.reserve(len(q.Tokens))
		for t, id := range q.Tokens {
			at[i] = place{q.Cache, q.Cache.length + t}
			row := x[i*c.Dim:][:c.Dim]
			e.embed(row, id)
			e.scale(row, c.EmbedScale)
			i++
		}
		reach = max(reach, q.Cache.length+len(q.Tokens))
	}
	e.rotary.reach(reach)
	e.local.reach(reach)
	for l := range e.layers {
		leave, err := e.enter(ctx, l)
		if err != nil {
			return nil, err
		}
		e.attend(&e.layers[l], l, n)
		e.feed(&e.layers[l], n)
		leave()
	}
	last := grow(&s.last, want*c.Dim)
	i, j := 0, 0
	for _, q := range batch {
		q.Cache.length += len(q.Tokens)
		i += len(q.Tokens)
		copy(last[j*c.Dim:], x[(i-q.Want)*c.Dim:i*c.Dim])
		j += q.Want
	}
	return e.classify(ctx, last, want)
}

// classify returns the logits of n vectors of the residual stream.
func (e *Engine) classify(ctx context.Context, x []float32, n int) ([]float32, error) {
	logits := grow(&e.s.logits, n*e.Vocab)
	if n == 0 {
		return logits, nil
	}
	e.normalize(&e.s.final, x, e.finalNorm, n)
	if e.packer == nil {
		e.multiply(&e.s.final, n, output{e.classifier, logits})
	} else if err := e.classifyInParts(ctx, logits, n); err != nil {
		return nil, err
	}
	e.scale(logits, e.LogitScale)
	e.limit(logits, e.LogitCap)
	return logits, nil
}

// normalize writes RMSNorm of n vectors of x to dst.
func (e *Engine) normalize(dst *rows, x, scale []float32, n int) {
	e.table.RMSNorm(e.par, dst.reset(n, e.Dim), x, scale, e.Dim, float64(e.NormEps))
}

// attend adds the attention of a layer to the residual stream.
func (e *Engine) attend(l *layer, index, n int) {
	e.look(l, index, n)
	e.output(l, n)
}

// look computes what the output matrix of an attention reads, s.attended.
func (e *Engine) look(l *layer, index, n int) {
	s, c := &e.s, &e.Config
	e.normalize(&s.norm, s.x, l.attentionNorm, n)
	q, k, v := grow(&s.q, n*c.QueryDim()), grow(&s.k, n*c.KVDim()), grow(&s.v, n*c.KVDim())
	e.multiply(&s.norm, n, output{l.query, q}, output{l.key, k}, output{l.value, v})
	addRows(q, l.queryBias)
	addRows(k, l.keyBias)
	addRows(v, l.valueBias)
	e.normalizeEach(q, l.queryNorm)
	e.normalizeEach(k, l.keyNorm)
	e.place(index)
	e.attention(s.attended.reset(n, c.QueryDim()), q, index)
}

// output adds what the output matrix makes of s.attended.
func (e *Engine) output(l *layer, n int) {
	e.multiply(&e.s.attended, n, output{l.output, grow(&e.s.q, n*e.Dim)})
	addRows(e.s.q, l.outputBias)
	e.join(l.afterAttention)
}

// placeGrain is how many elements of queries are worth to be turned in pieces, one for each head of keys.
const placeGrain = 1 << 13

// place turns queries and keys by their positions and puts keys and values into the caches of a layer.
func (e *Engine) place(layer int) {
	s := &e.s
	if s.head == nil {
		s.head = e.placeHead
	}
	s.placed = layer
	par := e.par
	if len(s.q) < placeGrain {
		par = nil
	}
	par.Run(e.KVHeads, s.head)
}

// placeHead does so for a head of keys and its heads of queries.
func (e *Engine) placeHead(head int) {
	s, c, rotary := &e.s, &e.Config, e.rotary
	if c.Window(s.placed) > 0 {
		rotary = e.local
	}
	queries := c.QueryDim() / c.KVHeads
	for i, p := range s.at {
		k, v := s.k[i*c.KVDim()+head*c.HeadDim:][:c.HeadDim], s.v[i*c.KVDim()+head*c.HeadDim:][:c.HeadDim]
		if c.Turns(s.placed) {
			rotary.turn(s.q[i*c.QueryDim()+head*queries:][:queries], p.position)
			rotary.turn(k, p.position)
		}
		p.cache.put(s.placed, head, p.position, k, v)
	}
}

// join adds what a part has computed to the residual stream, normalized where there are gains.
func (e *Engine) join(after []float32) {
	e.normalizeEach(e.s.q, after)
	e.scale(e.s.q, e.ResidualScale)
	e.table.Add(e.s.x, e.s.x, e.s.q)
}

// normalizeEach replaces vectors as long as the gains by their RMSNorm; without gains it does nothing.
func (e *Engine) normalizeEach(x, scale []float32) {
	if scale != nil {
		e.table.RMSNorm(e.par, x, x, scale, len(scale), float64(e.NormEps))
	}
}

// feed adds the feed-forward part of a layer to the residual stream.
func (e *Engine) feed(l *layer, n int) {
	if l.router != nil {
		e.normalize(&e.s.norm, e.s.x, l.feedNorm, n)
		e.mix(l, n)
		e.join(l.afterFeed)
		return
	}
	e.gate(l, n)
	e.down(l, n)
}

// gate computes what the down matrix of a layer without experts reads, s.hidden.
func (e *Engine) gate(l *layer, n int) {
	e.normalize(&e.s.norm, e.s.x, l.feedNorm, n)
	e.between(&l.mlp, &e.s.norm, n)
}

// down adds what the down matrix makes of s.hidden.
func (e *Engine) down(l *layer, n int) {
	e.multiply(&e.s.hidden, n, output{l.down, grow(&e.s.q, n*e.Dim)})
	e.join(l.afterFeed)
}

// between computes what the last matrix of a feed-forward part reads, s.hidden.
func (e *Engine) between(m *mlp, x *rows, n int) {
	s, width := &e.s, m.gate.rows
	e.multiply(x, n, output{m.gate, grow(&s.gate, n*width)}, output{m.up, grow(&s.up, n*width)})
	s.hidden.reset(n, width)
	if s.gated == nil {
		s.gated = e.activate
	}
	e.par.Run((n*width+gateGrain-1)/gateGrain, s.gated)
}

// gateGrain is how many elements of gates are a piece.
const gateGrain = 1 << 14

// activate computes a piece of the elements between the matrices of a feed-forward part.
func (e *Engine) activate(piece int) {
	s, from, to := &e.s, piece*gateGrain, min((piece+1)*gateGrain, len(e.s.gate))
	gate := s.gate[from:to]
	if e.GELU {
		e.table.GeluTanh(gate, gate)
	} else {
		e.table.Swish(gate, gate, 1)
	}
	e.table.Mul(s.hidden.x[from:to], gate, s.up[from:to])
}

// scale multiplies with a factor; 0 is none.
func (e *Engine) scale(x []float32, by float32) {
	if by != 0 {
		e.table.MulScalar(x, x, by)
	}
}

// limit makes every x most * tanh(x/most); 0 does nothing.
func (e *Engine) limit(x []float32, most float32) {
	if most != 0 {
		e.table.MulScalar(x, x, 1/most)
		e.table.Tanh(x, x)
		e.table.MulScalar(x, x, most)
	}
}

// addRows adds a vector to every row of x; nil adds nothing.
func addRows(x, bias []float32) {
	if bias == nil {
		return
	}
	for ; len(x) > 0; x = x[len(bias):] {
		for i, b := range bias {
			x[i] += b
		}
	}
}
