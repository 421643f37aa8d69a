package exec

import (
	"qwb/graph"
)

// sum is gate g of unit j of sample n before its activation, clipped.
func (d *direction[T]) sum(gates, n, g, j int) float64 {
	i := g*d.hidden + j
	return d.bounded(float64(d.x[d.at[n]*gates*d.hidden+i]) + float64(d.r[n*gates*d.hidden+i]))
}

func (d *direction[T]) bounded(x float64) float64 { return max(-d.clip, min(d.clip, x)) }

// each calls f for every unit of every sample whose sequence goes on; k is the unit's place in [batch, hidden].
func (d *direction[T]) each(f func(n, j, k int)) {
	d.c.parallel(d.batch, 32*d.hidden, func(lo, hi int) {
		for n := lo; n < hi; n++ {
			for j := 0; d.live[n] && j < d.hidden; j++ {
				f(n, j, n*d.hidden+j)
			}
		}
	})
}

// buildRNN is H = f(gate).
func buildRNN[T float](n *graph.Node, _ int64) (evalFunc, error) {
	r, err := buildRecurrence[T](n, 1, []string{"Tanh"})
	if err != nil {
		return nil, err
	}
	r.cell = func(d *direction[T], _ product[T]) {
		d.each(func(n, j, k int) { d.h[k] = T(d.acts[0](d.sum(1, n, 0, j))) })
	}
	return r.run, nil
}

// buildLSTM is, with gates in the order input, output, forget, cell and peepholes P:
//
//	i = f(gate_i + Pi*C), e = f(gate_f + Pf*C), C = e*C + i*g(gate_c), o = f(gate_o + Po*C), H = o*h(C)
//
// With input_forget e is 1 - i.
func buildLSTM[T float](n *graph.Node, _ int64) (evalFunc, error) {
	coupled := n.AttrInt("input_forget", 0) != 0
	r, err := buildRecurrence[T](n, 4, []string{"Sigmoid", "Tanh", "Tanh"})
	if err != nil {
		return nil, err
	}
	r.cell = func(d *direction[T], _ product[T]) {
		gate := func(n, g, j, peep int, state float64) float64 {
			i := g*d.hidden + j
			x := float64(d.x[d.at[n]*4*d.hidden+i]) + float64(d.r[n*4*d.hidden+i])
			if d.peephole != nil {
				x += float64(d.peephole[peep*d.hidden+j]) * state
			}
			return d.acts[0](d.bounded(x))
		}
		result := func(n, j, k int, c float64) { d.h[k] = T(gate(n, 1, j, 1, c) * d.acts[2](c)) }
		var hook func(*graph.Node, []float32)
		x, single := any(d.state).([]float32)
		if h := d.c.run.hooks; h != nil && single {
			hook = h.Cell
		}
		d.each(func(n, j, k int) {
			c := float64(d.state[k])
			in := gate(n, 0, j, 0, c)
			forget := 1 - in
			if !coupled {
				forget = gate(n, 2, j, 2, c)
			}
			c = forget*c + in*d.acts[1](d.sum(4, n, 3, j))
			if d.state[k] = T(c); hook == nil {
				result(n, j, k, c)
			}
		})
		if hook != nil {
			hook(d.c.node, x)
			d.each(func(n, j, k int) { result(n, j, k, float64(d.state[k])) })
		}
	}
	return r.run, nil
}

// buildGRU is, with gates in the order update, reset, hidden:
//
//	z = f(gate_z), r = f(gate_r), h = g(X*Wh' + Wbh + (r.H)*Rh' + Rbh), H = (1-z)*h + z*H
//
// With linear_before_reset the reset applies to the product: r.(H*Rh' + Rbh).
func buildGRU[T float](n *graph.Node, _ int64) (evalFunc, error) {
	r, err := buildRecurrence[T](n, 3, []string{"Sigmoid", "Tanh"})
	if err != nil {
		return nil, err
	}
	r.late = 1
	after := n.AttrInt("linear_before_reset", 0) != 0
	r.cell = func(d *direction[T], late product[T]) {
		reset, part := d.tmp[:d.batch*d.hidden], d.tmp[d.batch*d.hidden:]
		copy(reset, d.h)
		if !after {
			d.each(func(n, j, k int) { reset[k] = T(d.acts[0](d.sum(3, n, 1, j)) * float64(d.h[k])) })
		}
		late(part, d.hidden, reset, d.hidden, d.batch, d.lateBias)
		d.each(func(n, j, k int) {
			state := float64(part[k])
			if after {
				state *= d.acts[0](d.sum(3, n, 1, j))
			}
			z := d.acts[0](d.sum(3, n, 0, j))
			h := d.acts[1](d.bounded(float64(d.x[d.at[n]*3*d.hidden+2*d.hidden+j]) + state))
			d.h[k] = T((1-z)*h + z*float64(d.h[k]))
		})
	}
	return r.run, nil
}
