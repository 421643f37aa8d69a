package analysis

import (
	"context"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Rows of operators that sum no products are many, and running what follows each of them costs as much as for one that does. So on the
// first sample all rows are run to the outputs, but for those that are small beside the next row (see beside). After that, a row whose
// error at the outputs is small beside the largest of all rows is measured at its own output alone, and its error at the outputs is
// estimated: what the same local error gave on that sample. This is no bound in the strict sense, since another sample may carry more of
// it. Where a sample's local error is larger than on that one, or what follows is not small, the row is run.
const (
	smallShare = 0.75 // of the largest row's error at the outputs, at most, for a row to be bounded
	beyond     = 2    // times the local error seen, at most
)

// findGains finds, for rows of operators that sum no products, what an error at their own output becomes at the graph outputs, by the
// results of the first sample. In a gain NSR, MSE, loss and mismatch are factors of the local NSR, Cosine is that of 1 - cosine.
func (a *analyzer) findGains(s *sampleResult) {
	if len(a.groups) == 0 {
		return
	}
	a.gains = make([][]outputError, len(a.groups))
	a.reach = make([]float64, len(a.groups))
	a.clips = make([]float64, len(a.groups))
	a.large = make([]outputError, len(s.layers[0].outputs))
	a.counts = a.judge.counting(a.floats.total, a.floats.samples)
	for i := range a.groups {
		layer := &s.layers[i]
		for k := range a.large {
			l, o := &a.large[k], &layer.outputs[k]
			l.NSR, l.loss = max(l.NSR, o.NSR), max(l.loss, o.loss)
			l.noise = most(l.noise, o.noise)
		}
		if a.clips[i] = beyond * layer.clipped; math.IsInf(a.clips[i], 1) {
			a.clips[i] = 0
		}
		if local := layer.clip + layer.round; !a.groups[i].products && local > 0 { // else there may be an error at the outputs without one
			a.gains[i], a.reach[i] = scaled(layer.outputs, 1/local), beyond*local
		}
	}
}

// scaled are errors at the outputs times a factor; what is scaled of a cosine is how far it is from 1.
func scaled(list []outputError, factor float64) []outputError {
	out := slices.Clone(list)
	for k := range out {
		o := &out[k]
		o.NSR, o.MSE, o.Cosine = o.NSR*factor, o.MSE*factor, 1-(1-o.Cosine)*factor
		o.mismatch, o.loss = o.mismatch*factor, o.loss*factor
		o.noise = slices.Clone(o.noise)
		for i := range o.noise {
			o.noise[i] *= factor
		}
	}
	return out
}

// estimated is scaled, as far as there is so much error.
func estimated(list []outputError, factor float64) []outputError {
	out := scaled(list, factor)
	for k := range out {
		out[k].Cosine, out[k].mismatch = max(out[k].Cosine, -1), min(out[k].mismatch, 1)
	}
	return out
}

// bound estimates what row i makes of a local error at the graph outputs; false where it has to be run.
func (a *analyzer) bound(i int, local float64) (out []outputError, small bool) {
	if !(local <= a.reach[i]) {
		return nil, false
	}
	out = estimated(a.gains[i], local)
	for k := range out {
		if !out[k].smallBeside(&a.large[k], a.counts[k]) {
			return nil, false
		}
	}
	return out, true
}

// next is the row behind another one, where all that this one changes reaches it through operators that sum no products, and in the same
// shape; row is -1 where there is none.
type next struct {
	row   int
	nodes []graph.NodeID // as far as there, those of the row among them
}

func (n *next) contains(id graph.NodeID) bool { return slices.Contains(n.nodes, id) }

// findNext finds the row behind each that sums no products. shapes are those of a sample, by value.
func (a *analyzer) findNext(shapes [][]int) {
	a.next = make([]next, len(a.groups))
	for i := range a.groups {
		n := next{row: -1, nodes: slices.Clone(a.groups[i].nodes)}
		for v := a.groups[i].output; n.row < 0 && !a.groups[i].products; {
			u, sole := a.g.SoleUse(v)
			if !sole {
				break
			}
			reader := a.g.Node(u.Node)
			spec := reader.Spec()
			if spec == nil || spec.Kind == graph.KindComputing || len(reader.Outputs) != 1 || !slices.Equal(shapes[v], shapes[reader.Outputs[0]]) {
				break
			}
			v, n.nodes = reader.Outputs[0], append(n.nodes, reader.ID)
			n.row = slices.IndexFunc(a.groups, func(g group) bool { return g.output == v })
		}
		a.next[i] = n
	}
}

// beside returns the row behind row i, on the first of several samples, where its error and what that makes of the outputs is known.
func (w *worker) beside(i int, res *sampleResult) *next {
	n := &w.next[i]
	if w.gains != nil || len(w.probed) < 2 || n.row < 0 || res.layers[n.row].outputs == nil || w.kept.values[w.groups[n.row].output] == nil {
		return nil
	}
	return n
}

// below estimates what row i makes of the graph outputs where its error, at the output of the next row, is small beside that row's own:
// the same share. Otherwise it returns false.
func (w *worker) below(ctx context.Context, i int, n *next, res *sampleResult) ([]outputError, bool, error) {
	row := &res.layers[n.row]
	float := w.kept.values[w.groups[n.row].output]
	q, err := w.upTo(ctx, &w.groups[i], w.groups[n.row].output, n.contains, rounded, float, w.hooks(i, everything), res)
	if err != nil {
		return nil, false, err
	}
	_, e, err := local(float, float, q)
	share := e / (row.clip + row.round)
	if err != nil || !(share <= smallShare) {
		return nil, false, err
	}
	return estimated(row.outputs, share), true, nil
}

// counting says by output which of its parts count, as far as the first sample tells: what does not is in no figure of a row.
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

// most is the larger of each two numbers; a nil list is one of zeros.
func most(list, others []float64) []float64 {
	if list == nil {
		return slices.Clone(others)
	}
	for i, x := range others {
		list[i] = max(list[i], x)
	}
	return list
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
