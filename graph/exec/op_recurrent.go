package exec

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// recurrentEvals run along a sequence. Products are accumulated as in MatMul, what a cell does with them in float64; the state
// is float32.
var recurrentEvals = []evaluator{
	{"LSTM", buildLSTM},
	{"GRU", buildGRU},
	{"RNN", buildRNN},
}

// recurrence is what LSTM, GRU and RNN have in common. Per direction, units and step t:
//
//	gates = X[t]*W' + Wb + H[t-1]*R' + Rb
//	H[t]  = cell(gates)
type recurrence struct {
	gates     int
	reverse   []bool // by direction
	acts      [][]func(float64) float64
	clip      float64
	batchLast bool // layout 0: [steps, batch, ...]
	cell      func(d *direction, reset *kernels.GemmF32) error
	// late is how many of the last gates take their recurrent part from the cell instead (GRU resets the state before it).
	late int
}

// direction is one pass over the sequence: slices of one step of all samples.
type direction struct {
	c             *call
	acts          []func(float64) float64
	clip          float64
	batch, hidden int
	live          []bool    // by sample: the sequence has not ended
	x, r          []float32 // [batch, gates*hidden], X*W' + Wb and H*R' + Rb; row n of x starts at at[n]
	at            []int
	h, state      []float32 // [batch, hidden]: H and C
	peephole      []float32 // [3*hidden] of LSTM: input, output, forget; nil for none
	lateBias      []float32 // [hidden] recurrent bias of the late gate
	tmp           []float32 // [batch, 2*hidden]
}

func buildRecurrence(n *graph.Node, gates int, defaults []string) (*recurrence, error) {
	r := &recurrence{gates: gates, clip: float64(n.AttrFloat("clip", 0)), batchLast: n.AttrInt("layout", 0) == 0}
	switch d := n.AttrStr("direction", "forward"); d {
	case "forward":
		r.reverse = []bool{false}
	case "reverse":
		r.reverse = []bool{true}
	case "bidirectional":
		r.reverse = []bool{false, true}
	default:
		return nil, fmt.Errorf("direction %q is not supported", d)
	}
	if r.clip == 0 {
		r.clip = math.Inf(1)
	}
	names := defaults
	if a := n.Attr("activations"); a != nil && len(a.Strings) > 0 {
		names = a.Strings
	}
	if n.Attr("activation_alpha") != nil || n.Attr("activation_beta") != nil {
		return nil, errors.New("activation_alpha and activation_beta are not supported")
	}
	for d := range r.reverse {
		list := names
		if len(names) > len(defaults) {
			list = names[d*len(names)/len(r.reverse):]
		}
		if len(list) < len(defaults) {
			return nil, fmt.Errorf("%d activations, wanted %d per direction", len(names), len(defaults))
		}
		var acts []func(float64) float64
		for _, name := range list[:len(defaults)] {
			f := recurrentActs[name]
			if f == nil {
				return nil, fmt.Errorf("activation %q is not supported", name)
			}
			acts = append(acts, f)
		}
		r.acts = append(r.acts, acts)
	}
	return r, nil
}

var recurrentActs = map[string]func(float64) float64{
	"Sigmoid": ref.Sigmoid64, "Tanh": math.Tanh, "Softplus": softplus,
	"Relu":     func(x float64) float64 { return max(x, 0) },
	"Softsign": func(x float64) float64 { return x / (1 + math.Abs(x)) },
}

// input packs W by direction.
func (r *recurrence) input(c *call, in, hidden int) []*kernels.GemmF32 {
	p, ok := derived[[]*kernels.GemmF32](c, 1)
	if ok {
		return p
	}
	rows := r.gates * hidden
	for d := range r.reverse {
		p = append(p, c.run.s.table.PackGemmF32(c.in(1).F32()[d*rows*in:], in, rows, in, true))
	}
	return derive(c, 1, p)
}

// state packs R by direction: the gates but the late ones, then those.
func (r *recurrence) state(c *call, hidden int) [][2]*kernels.GemmF32 {
	p, ok := derived[[][2]*kernels.GemmF32](c, 2)
	if ok {
		return p
	}
	t, early, late := c.run.s.table, (r.gates-r.late)*hidden, r.late*hidden
	for d := range r.reverse {
		w := c.in(2).F32()[d*(early+late)*hidden:]
		p = append(p, [2]*kernels.GemmF32{t.PackGemmF32(w, hidden, early, hidden, true), t.PackGemmF32(w[early*hidden:], hidden, late, hidden, true)})
	}
	return derive(c, 2, p)
}

func (r *recurrence) run(c *call) error {
	for i := range 8 {
		if t := c.raw(i); t != nil && i != 4 && t.DType != tensor.Float32 {
			return badType(i, t.DType)
		}
	}
	x := c.in(0)
	dirs, hidden, in := len(r.reverse), c.in(2).Shape[2], x.Shape[2]
	steps, batch := x.Shape[0], x.Shape[1]
	if !r.batchLast {
		steps, batch = batch, steps
	}
	lens, err := sequenceLengths(c.in(4), steps, batch)
	if err != nil {
		return err
	}
	rows := r.gates * hidden
	proj, err := c.scratch(steps * batch * rows)
	if err != nil {
		return err
	}
	work, err := c.scratch(batch * (rows + 4*hidden))
	if err != nil {
		return err
	}
	y, err := r.outputs(c)
	if err != nil {
		return err
	}
	wx, wh := r.input(c, in, hidden), r.state(c, hidden)
	for k := range dirs {
		d := &direction{c: c, acts: r.acts[k], clip: r.clip, batch: batch, hidden: hidden, live: make([]bool, batch), at: make([]int, batch),
			x: proj, r: work[:batch*rows], h: work[batch*rows:][:batch*hidden], state: work[batch*(rows+hidden):][:batch*hidden],
			tmp: work[batch*(rows+2*hidden):][:2*batch*hidden]}
		wb, rb := make([]float32, rows), make([]float32, rows)
		if c.has(3) {
			b := c.in(3).F32()[k*2*rows:][:2*rows]
			wb, rb = b[:rows], b[rows:]
		}
		d.lateBias = rb[rows-r.late*hidden:]
		if c.has(7) {
			d.peephole = c.in(7).F32()[k*3*hidden:][:3*hidden]
		}
		if err := r.initial(c.in(5), d.h, k, batch, hidden); err != nil {
			return err
		}
		if err := r.initial(c.in(6), d.state, k, batch, hidden); err != nil {
			return err
		}
		wx[k].Run(c.run.s.par, proj, rows, x.F32(), in, steps*batch, kernels.Epilogue{Bias: wb})
		early := rows - r.late*hidden
		for t := range steps {
			for n := range batch {
				pos := t
				if d.live[n] = t < lens[n]; d.live[n] && r.reverse[k] {
					pos = lens[n] - 1 - t
				}
				d.at[n] = r.row(pos, n, steps, batch)
			}
			wh[k][0].Run(c.run.s.par, d.r, rows, d.h, hidden, batch, kernels.Epilogue{Bias: rb[:early]})
			if err := r.cell(d, wh[k][1]); err != nil {
				return err
			}
			for n := range batch {
				if y[0] != nil && d.live[n] {
					copy(y[0][r.place(d.at[n], k, dirs, batch, hidden):], d.h[n*hidden:][:hidden])
				}
			}
		}
		for n := range batch {
			at := (k*batch + n) * hidden
			if !r.batchLast {
				at = (n*dirs + k) * hidden
			}
			for i, s := range [][]float32{d.h, d.state} {
				if y[i+1] != nil {
					copy(y[i+1][at:], s[n*hidden:][:hidden])
				}
			}
		}
	}
	return nil
}

// outputs allocates Y, Y_h and Y_c, nil where nobody reads them; Y starts as zeros, which it keeps behind the end of a sequence.
func (r *recurrence) outputs(c *call) (y [3][]float32, err error) {
	for i := range y {
		if c.wants(i) {
			t, err := c.out(i)
			if err != nil {
				return y, err
			}
			y[i] = t.F32()
			clear(y[i])
		}
	}
	return y, nil
}

// row is where step t of sample n lies in X.
func (r *recurrence) row(t, n, steps, batch int) int {
	if r.batchLast {
		return t*batch + n
	}
	return n*steps + t
}

// place is where direction k of that row of X lies in Y: [steps, dirs, batch, hidden], or [batch, steps, dirs, hidden].
func (r *recurrence) place(row, k, dirs, batch, hidden int) int {
	if r.batchLast {
		return ((row/batch*dirs+k)*batch + row%batch) * hidden
	}
	return (row*dirs + k) * hidden
}

// initial copies direction k of an initial state, zeros where there is none.
func (r *recurrence) initial(t *tensor.Tensor, dst []float32, k, batch, hidden int) error {
	if t == nil {
		clear(dst)
		return nil
	}
	dirs := len(r.reverse)
	if t.Len() != dirs*batch*hidden {
		return fmt.Errorf("initial state %s for %d directions, %d samples and %d units", t.Type(), dirs, batch, hidden)
	}
	for n := range batch {
		at := (k*batch + n) * hidden
		if !r.batchLast {
			at = (n*dirs + k) * hidden
		}
		copy(dst[n*hidden:][:hidden], t.F32()[at:])
	}
	return nil
}

// sequenceLengths are the lengths by sample, the number of steps where the input is absent.
func sequenceLengths(t *tensor.Tensor, steps, batch int) ([]int, error) {
	lens := make([]int, batch)
	if t == nil {
		for i := range lens {
			lens[i] = steps
		}
		return lens, nil
	}
	v, err := ints(t)
	if err != nil {
		return nil, err
	}
	if len(v) != batch {
		return nil, fmt.Errorf("%d sequence lengths for %d samples", len(v), batch)
	}
	for i, l := range v {
		if l < 0 || l > steps {
			return nil, fmt.Errorf("sequence length %d of %d steps", l, steps)
		}
		lens[i] = l
	}
	return lens, nil
}
