package analysis

import (
	"context"
	"math"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Rows of operators that sum no products are many, and running what follows each of them costs as much as for one that does. So on the
// first samples all rows are run to the outputs; after that, a row whose error at the outputs is small beside the largest of all rows is
// measured at its own output alone, and its error at the outputs is estimated: the most that the same local error gave on those samples.
// This is no bound in the strict sense, since another sample may carry more of it. Where a sample's local error is larger than on any of
// those, or what follows is not small, the row is run.
const (
	probes     = 2   // samples on which every row is run
	smallShare = 0.5 // of the largest row's error at the outputs, at most, for a row to be bounded
	beyond     = 2   // times the largest local error seen, at most
)

// findGains finds, for rows of operators that sum no products, what an error at their own output becomes at the graph outputs, at most, by
// the results of the first samples. In a gain NSR, MSE, loss and mismatch are factors of the local NSR, Cosine is that of 1 - cosine.
func (a *analyzer) findGains(results []*sampleResult) {
	if len(a.groups) == 0 {
		return
	}
	a.gains = make([][]outputError, len(a.groups))
	a.reach = make([]float64, len(a.groups))
	a.large = make([]outputError, len(results[0].layers[0].outputs))
	a.counts = a.judge.counting(a.floats.total, a.floats.samples)
	for i := range a.groups {
		for k := range a.large {
			l := &a.large[k]
			for _, s := range results {
				o := &s.layers[i].outputs[k]
				l.NSR, l.loss = max(l.NSR, o.NSR), max(l.loss, o.loss)
				l.noise = most(l.noise, o.noise, 1)
			}
		}
		if !a.groups[i].products {
			a.gains[i] = a.gain(i, results)
		}
	}
}

// gain is nil where no local error was seen, or an error at the outputs without one.
func (a *analyzer) gain(i int, results []*sampleResult) []outputError {
	g := make([]outputError, len(results[0].layers[i].outputs))
	for _, s := range results {
		l := &s.layers[i]
		e := l.clip + l.round
		if !(e > 0) {
			return nil
		}
		a.reach[i] = max(a.reach[i], beyond*e)
		for k, o := range l.outputs {
			g[k].integer = o.integer
			g[k].NSR, g[k].MSE, g[k].Cosine = max(g[k].NSR, o.NSR/e), max(g[k].MSE, o.MSE/e), max(g[k].Cosine, (1-o.Cosine)/e)
			g[k].mismatch, g[k].loss = max(g[k].mismatch, o.mismatch/e), max(g[k].loss, o.loss/e)
			g[k].noise = most(g[k].noise, o.noise, 1/e)
		}
	}
	return g
}

// bound estimates what row i makes of a local error at the graph outputs; false where it has to be run.
func (a *analyzer) bound(i int, local float64) (out []outputError, small bool) {
	if !(local <= a.reach[i]) {
		return nil, false
	}
	out = make([]outputError, len(a.gains[i]))
	for k, g := range a.gains[i] {
		o := &out[k]
		o.integer = g.integer
		o.NSR, o.MSE, o.Cosine = g.NSR*local, g.MSE*local, max(1-g.Cosine*local, -1)
		o.mismatch, o.loss = min(g.mismatch*local, 1), g.loss*local
		if o.noise = most(nil, g.noise, local); !o.smallBeside(&a.large[k], a.counts[k]) {
			return nil, false
		}
	}
	return out, true
}

// counting says by output which of its parts count, as far as the first samples tell: what does not is in no figure of a row.
func (j *Judge) counting(total []sum, samples int) [][]bool {
	out := make([][]bool, len(j.logits))
	for i, counts := range j.judged(total, samples)[len(j.logits):] {
		k := j.slices[i].Output
		out[k] = append(out[k], counts)
	}
	return out
}

// smallBeside reports whether an error at an output, and at each of its parts that count, is small beside the largest of any row.
func (o *outputError) smallBeside(large *outputError, counts []bool) bool {
	for i, x := range o.noise {
		if counts[i] && !(x <= smallShare*large.noise[i]) {
			return false
		}
	}
	return o.NSR <= smallShare*large.NSR && o.loss <= smallShare*large.loss
}

// most is the larger of each number and another one times a factor; a nil list is one of zeros.
func most(list, others []float64, factor float64) []float64 {
	if list == nil && others != nil {
		list = make([]float64, len(others))
	}
	for i, x := range others {
		list[i] = max(list[i], x*factor)
	}
	return list
}

// recording is limited, and remembers the samples.
type recording struct {
	limited
	seen []*exec.Sample
}

func (r *recording) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := r.limited.Next(ctx)
	if err == nil {
		r.seen = append(r.seen, s)
	}
	return s, err
}

// local is parts at an operator's own output, where masks may have put infinities, which are no part of it;
// of integers the share that differs.
func local(f, middle, q *tensor.Tensor) (first, second float64, err error) {
	if f.DType != tensor.Float32 {
		return 0, Mismatch(q, f), nil
	}
	if first, second, err = parts(f, middle, q); err == nil || !infinite(f) {
		return first, second, err
	}
	m := finitely(f, middle)
	if middle == f {
		return parts(m, m, finitely(f, q))
	}
	return parts(finitely(f, f), m, finitely(f, q))
}

// inside is Compare of what an operator computes inside a network: infinities of float are no part of it;
// of integers the share that differs.
func inside(q, f *tensor.Tensor) (Error, error) {
	if f.DType != tensor.Float32 {
		m := Mismatch(q, f)
		return Error{NSR: m, Cosine: 1 - m}, nil
	}
	e, err := Compare(q, f)
	if err != nil && infinite(f) {
		return Compare(finitely(f, q), finitely(f, f))
	}
	return e, err
}

func infinite(t *tensor.Tensor) bool {
	for _, x := range t.F32() {
		if math.IsInf(float64(x), 0) {
			return true
		}
	}
	return false
}

// finitely is a copy of t, row-major, with 0 where f is infinite. The shapes are the same.
func finitely(f, t *tensor.Tensor) *tensor.Tensor {
	f = f.ToRowMajor()
	out := t.ToRowMajor().Clone()
	for i, x := range f.F32() {
		if math.IsInf(float64(x), 0) && i < out.Len() {
			out.F32()[i] = 0
		}
	}
	return out
}
