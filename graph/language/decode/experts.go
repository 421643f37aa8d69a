package decode

import "qwb/graph/language/checkpoint"

// routing is the memory of a layer with experts.
type routing struct {
	scores []float32
	lists  []routed // by expert
	in     rows     // what an expert reads
	out    []float32
	shares []float32
}

// routed is which rows an expert is given, and what its results are weighted with.
type routed struct {
	rows    []int
	weights []float32
}

// expert packs the matrices of one.
func (p *packer) expert(layer, x int) mlp {
	of := func(r checkpoint.Role) *linear { return p.of(checkpoint.Part{Role: r, Layer: layer, Expert: x}) }
	return mlp{of(checkpoint.ExpertGate), of(checkpoint.ExpertUp), of(checkpoint.ExpertDown)}
}

// route chooses the experts of the rows of s.norm: those with the largest probabilities, of equal ones the first.
func (e *Engine) route(l *layer, n int) []routed {
	c, r := &e.Config, &e.s.routing
	scores := grow(&r.scores, n*c.Experts)
	e.multiply(&e.s.norm, n, output{l.router, scores})
	e.table.Softmax(e.par, scores, scores, c.Experts)
	lists := grow(&r.lists, c.Experts)
	for x := range lists {
		lists[x].rows, lists[x].weights = lists[x].rows[:0], lists[x].weights[:0]
	}
	chosen := make([]int, c.ExpertsUsed)
	for row := range n {
		p := scores[row*c.Experts:][:c.Experts]
		sum := float32(0)
		for i := range chosen {
			best := 0
			for x, v := range p {
				if v > p[best] {
					best = x
				}
			}
			chosen[i] = best
			lists[best].rows, lists[best].weights = append(lists[best].rows, row), append(lists[best].weights, p[best])
			sum += p[best]
			p[best] = -1
		}
		for _, x := range chosen {
			if w := lists[x].weights; c.NormTopK {
				w[len(w)-1] /= sum
			}
		}
	}
	return lists
}

// gather makes rows of s.norm the input of an expert.
func (e *Engine) gather(list []int) *rows {
	in := &e.s.routing.in
	x := in.reset(len(list), e.Dim)
	for i, row := range list {
		copy(x[i*e.Dim:], e.s.norm.x[row*e.Dim:][:e.Dim])
	}
	return in
}

// mix writes to s.q what the experts of a layer make of s.norm. Each row gets them in the order of their numbers, then the one for all.
func (e *Engine) mix(l *layer, n int) {
	s, r := &e.s, &e.s.routing
	sum := grow(&s.q, n*e.Dim)
	clear(sum)
	for x, list := range e.route(l, n) {
		m := len(list.rows)
		if m == 0 {
			continue
		}
		e.between(&l.experts[x], e.gather(list.rows), m)
		out := grow(&r.out, m*e.Dim)
		e.multiply(&s.hidden, m, output{l.experts[x].down, out})
		for i, row := range list.rows {
			to := sum[row*e.Dim:][:e.Dim]
			for k, v := range out[i*e.Dim:][:e.Dim] {
				to[k] += float32(v * list.weights[i])
			}
		}
	}
	if l.shared.gate == nil {
		return
	}
	e.between(&l.shared, &s.norm, n)
	out, shares := grow(&r.out, n*e.Dim), grow(&r.shares, n)
	e.multiply(&s.hidden, n, output{l.shared.down, out})
	for row := range shares {
		shares[row] = 0
		for k, v := range s.norm.x[row*e.Dim:][:e.Dim] {
			shares[row] += float32(v * l.sharedRouter[k])
		}
	}
	e.table.Sigmoid(shares, shares)
	for row, w := range shares {
		e.table.MulScalar(out[row*e.Dim:][:e.Dim], out[row*e.Dim:][:e.Dim], w)
	}
	e.table.Add(sum, sum, out)
}
