package groupsums

import (
	"context"
	"fmt"
	"math"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
)

// Result is what a run found.
type Result struct {
	Tokens    int    `json:"tokens"`
	Sums      int64  `json:"sums"` // int32 sums that were compared
	Different int64  `json:"sums_different"`
	First     string `json:"first_difference,omitempty"` // the first difference in words
}

// Options say how a model is run.
type Options struct {
	Table    *kernels.Table   // rows of the processor
	Parallel kernels.Parallel // never changes a result
	Tokens   int              // how many are run, at positions 0 to Tokens-1; no more than the model's context
	Progress func(done int64) // elements of matrices that were multiplied, in growing order; may be nil
}

// Run runs tokens that are spread over the vocabulary through the model in one pass, as its weights are stored: matrices of integers
// with activations in the same groups, matrices of floats in floats, without anything to compare. Differences are no error, but
// logits that are not finite are one.
func Run(ctx context.Context, m *checkpoint.Model, o Options) (Result, error) {
	n := min(o.Tokens, m.Context)
	r := run{ctx: ctx, o: o, m: m, n: n, result: Result{Tokens: n}}
	logits := r.forward()
	if r.err == nil {
		for i, v := range logits {
			if v-v != 0 {
				r.err = fmt.Errorf("the logit of token %d at position %d is %g", i%m.Vocab, i/m.Vocab, v)
				break
			}
		}
	}
	if r.err != nil {
		return r.result, fmt.Errorf("running the written model: %w", r.err)
	}
	return r.result, nil
}

// run is a pass of n tokens. The first error stays.
type run struct {
	ctx    context.Context
	o      Options
	m      *checkpoint.Model
	n      int
	done   int64
	result Result
	err    error
}

// token is the one at a position: far from its neighbours in the vocabulary.
func (r *run) token(position int) int { return (1 + position*7919) % r.m.Vocab }

// forward returns the logits of all positions; see checkpoint.Config for what is computed.
func (r *run) forward() []float32 {
	m := r.m
	x := make([]float32, r.n*m.Dim)
	embedding := m.Tensor(checkpoint.Embedding, -1)
	for i := range r.n {
		embedding.Row(x[i*m.Dim:][:m.Dim], r.token(i))
	}
	for l := range m.Layers {
		normal := r.normalize(x, m.Tensor(checkpoint.AttentionNorm, l))
		q := r.biased(r.product(m.Tensor(checkpoint.Query, l), normal), m.Tensor(checkpoint.QueryBias, l))
		k := r.biased(r.product(m.Tensor(checkpoint.Key, l), normal), m.Tensor(checkpoint.KeyBias, l))
		v := r.biased(r.product(m.Tensor(checkpoint.Value, l), normal), m.Tensor(checkpoint.ValueBias, l))
		if r.err != nil {
			return nil
		}
		r.heads(q, m.Tensor(checkpoint.QueryNorm, l))
		r.heads(k, m.Tensor(checkpoint.KeyNorm, l))
		r.turn(q)
		r.turn(k)
		r.add(x, r.biased(r.product(m.Tensor(checkpoint.Output, l), r.attention(q, k, v)), m.Tensor(checkpoint.OutputBias, l)))

		normal = r.normalize(x, m.Tensor(checkpoint.FeedNorm, l))
		gate, up := r.product(m.Tensor(checkpoint.Gate, l), normal), r.product(m.Tensor(checkpoint.Up, l), normal)
		if r.err != nil {
			return nil
		}
		r.o.Table.Swish(gate, gate, 1)
		r.o.Table.Mul(gate, gate, up)
		r.add(x, r.product(m.Tensor(checkpoint.Down, l), gate))
	}
	if r.err != nil {
		return nil
	}
	return r.product(m.Tensor(checkpoint.Classifier, -1), r.normalize(x, m.Tensor(checkpoint.FinalNorm, -1)))
}

func (r *run) normalize(x []float32, scale *checkpoint.Tensor) []float32 {
	out := make([]float32, len(x))
	r.o.Table.RMSNorm(r.o.Parallel, out, x, scale.All(), r.m.Dim, float64(r.m.NormEps))
	return out
}

// heads normalizes every head; nil changes nothing.
func (r *run) heads(x []float32, scale *checkpoint.Tensor) {
	if scale != nil {
		r.o.Table.RMSNorm(r.o.Parallel, x, x, scale.All(), r.m.HeadDim, float64(r.m.NormEps))
	}
}

// biased adds a vector to every row; nil adds nothing.
func (r *run) biased(x []float32, bias *checkpoint.Tensor) []float32 {
	if bias != nil && r.err == nil {
		r.o.Table.AddRow(x, x, bias.All())
	}
	return x
}

func (r *run) add(x, y []float32) {
	if r.err == nil {
		r.o.Table.Add(x, x, y)
	}
}

// turn is rotary embedding of all heads of all positions.
func (r *run) turn(x []float32) {
	freqs := r.m.Frequencies()
	half := len(freqs)
	step, apart := 2, 1
	if r.m.Pairing == checkpoint.Halves {
		step, apart = 1, half
	}
	width := len(x) / r.n
	for position := range r.n {
		for head := x[position*width:][:width]; len(head) > 0; head = head[2*half:] {
			for i, f := range freqs {
				cos, sin := r.m.Angle(position, f)
				a, b := float64(head[i*step]), float64(head[i*step+apart])
				head[i*step], head[i*step+apart] = float32(a*cos-b*sin), float32(a*sin+b*cos)
			}
		}
	}
}

// attention is that of all heads and positions, each to those before it and itself.
func (r *run) attention(q, k, v []float32) []float32 {
	m := r.m
	d, wide, narrow := m.HeadDim, m.QueryDim(), m.KVDim()
	out, scores := make([]float32, len(q)), make([]float32, r.n)
	scale := 1 / math.Sqrt(float64(d))
	for position := range r.n {
		for h := range m.Heads {
			at, shared := position*wide+h*d, h/(m.Heads/m.KVHeads)*d
			row := scores[:position+1]
			for t := range row {
				sum := 0.0
				for i, a := range q[at : at+d] {
					sum += float64(a) * float64(k[t*narrow+shared+i])
				}
				row[t] = float32(sum * scale)
			}
			r.o.Table.Softmax(nil, row, row, len(row))
			for t, w := range row {
				for i := range d {
					out[at+i] += float32(w * v[t*narrow+shared+i])
				}
			}
		}
	}
	return out
}
