package language

import (
	"context"
	"encoding/binary"
	"slices"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// local is the error at the output of one matrix, sums over all tokens so far.
type local struct {
	known                   bool
	signal                  float64 // squares of the float output
	error                   float64 // squares of the difference
	clip, round, activation float64 // products of the steps with the difference
}

func (l *local) result(m *MatrixDamage) {
	if !l.known {
		return
	}
	of := func(x float64) *float64 {
		if l.signal > 0 {
			x /= l.signal
		}
		return &x
	}
	m.Local, m.Clip, m.Round, m.Activation = of(l.error), of(l.clip), of(l.round), of(l.activation)
}

// localRun is the memory of local errors.
type localRun struct {
	float, clipped, weights, whole []float32 // what a matrix gives
	sums                           []local
}

// add adds n rows of four forms of an output, each row by itself and then row after row, so that threads and batches change nothing.
func (r *layersRun) add(l *local, float, clipped, weights, whole []float32, n int) {
	cols := len(float) / n
	for len(r.local.sums) < n {
		r.local.sums = append(r.local.sums, local{})
	}
	sums := r.local.sums[:n]
	r.scorer.par.Run(n, func(i int) {
		var s local
		c, w, q := clipped[i*cols:], weights[i*cols:], whole[i*cols:]
		for k, v := range float[i*cols:][:cols] {
			x, e := float64(v), float64(q[k])-float64(v)
			s.signal += float64(x * x)
			s.error += float64(e * e)
			s.clip += float64((float64(c[k]) - x) * e)
			s.round += float64((float64(w[k]) - float64(c[k])) * e)
			s.activation += float64((float64(q[k]) - float64(w[k])) * e)
		}
		sums[i] = s
	})
	l.known = true
	for _, s := range sums {
		l.signal, l.error = l.signal+s.signal, l.error+s.error
		l.clip, l.round, l.activation = l.clip+s.clip, l.round+s.round, l.activation+s.activation
	}
}

// coded reports whether what a matrix becomes is known as codes with scales.
func (r *layersRun) coded(p checkpoint.Part) bool { return r.cfg.Quantized.Of(p).Quantized() }

// locals adds the errors of matrices that are about to read rows of activations.
func (r *layersRun) locals(ctx context.Context, parts []checkpoint.Part, x []float32) error {
	e := r.cfg.Model
	for _, p := range parts {
		i, ok := r.of[p]
		if !ok || !r.coded(p) {
			continue
		}
		rows, cols := e.Shape(p.Role)
		n := len(x) / cols
		product := func(dst *[]float32, m *checkpoint.Model, w decode.Weights) ([]float32, error) {
			*dst = slices.Grow((*dst)[:0], n*rows)[:n*rows]
			if m != nil {
				restore, err := e.Replace(ctx, m, p, w)
				if err != nil {
					return nil, err
				}
				defer restore()
			}
			e.Product(*dst, x, p)
			return *dst, nil
		}
		float, err := product(&r.local.float, nil, decode.Weights{})
		if err != nil {
			return err
		}
		whole, err := product(&r.local.whole, r.cfg.Quantized, r.cfg.Weights)
		if err != nil {
			return err
		}
		weights, clipped := whole, float
		if !r.cfg.Weights.Float {
			if weights, err = product(&r.local.weights, r.cfg.Quantized, decode.Weights{Float: true}); err != nil {
				return err
			}
		}
		if c := r.clipped(p); c != nil {
			if clipped, err = product(&r.local.clipped, c, decode.Weights{Float: true}); err != nil {
				return err
			}
		}
		r.add(&r.damage[i].local, float, clipped, weights, whole, n)
	}
	return nil
}

// clipped is the model with the weights of a matrix in what the codes of their groups reach; nil where they are there.
func (r *layersRun) clipped(p checkpoint.Part) *checkpoint.Model {
	t := r.cfg.Source.Of(p)
	x := t.All()
	if !r.clip(p, x, 0) {
		return nil
	}
	data := make([]byte, 0, 4*len(x))
	data, _ = binary.Append(data, binary.LittleEndian, x) // no error: float32 has a size
	return r.cfg.Source.With(map[checkpoint.Part]*checkpoint.Tensor{
		p: checkpoint.NewTensor(t.Part, t.Name, t.Rows, t.Cols, checkpoint.F32, data, nil, 0)})
}

// clip brings elements of a matrix, the first being element from, into what the codes of their groups reach, and reports whether that
// changes any.
func (r *layersRun) clip(p checkpoint.Part, x []float32, from int) (changed bool) {
	q := r.cfg.Quantized.Of(p)
	size := q.GroupSize()
	lo, hi := r.cfg.Weights.Ends()
	first := from / size * size
	codes := make([]int8, (from+len(x)-first+size-1)/size*size)
	scales := make([]float32, len(codes)/size)
	q.Codes(codes, scales, first)
	for g, s := range scales {
		at, end := max(first+g*size, from), min(first+(g+1)*size, from+len(x))
		if decode.Clip(x[at-from:end-from], s, lo, hi) {
			changed = true
		}
	}
	return changed
}

// rows adds the error of the rows of an embedding that texts read.
func (r *layersRun) rows(l *local, p checkpoint.Part, texts [][]int) {
	if !r.coded(p) {
		return
	}
	s, q := r.cfg.Source.Of(p), r.cfg.Quantized.Of(p)
	float, clipped, whole := make([]float32, s.Cols), make([]float32, s.Cols), make([]float32, s.Cols)
	for _, ids := range texts {
		for _, id := range ids {
			s.Row(float, id)
			q.Row(whole, id)
			r.clip(p, clipped[:copy(clipped, float)], id*s.Cols)
			r.add(l, float, clipped, whole, whole, 1)
		}
	}
}

// attended adds the error of what attention hands on where a part of the cache is rounded.
func (r *layersRun) attended(l *local, p *decode.Pass, c *decode.Rounding) {
	float := append(r.local.float[:0], p.Attended(nil)...)
	clip := *c
	clip.Clip = true
	clipped := append(r.local.clipped[:0], p.Attended(&clip)...)
	r.local.float, r.local.clipped = float, clipped
	whole := p.Attended(c)
	r.add(l, float, clipped, whole, whole, len(whole)/r.cfg.Model.QueryDim())
}
