package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// recurrentEvals run along a sequence. Products are accumulated as in MatMul, what a cell does with them in float64; the state
// has the type of the input.
var recurrentEvals = []evaluator{
	{"LSTM", buildLSTM[float32]},
	{"GRU", buildGRU[float32]},
	{"RNN", buildRNN[float32]},
}

var plainRecurrentEvals = []evaluator{
	{"LSTM", buildLSTM[float64]},
	{"GRU", buildGRU[float64]},
	{"RNN", buildRNN[float64]},
}

type float interface{ float32 | float64 }

// recurrence is what LSTM, GRU and RNN have in common. Per direction, units and step t:
//
//	gates = X[t]*W' + Wb + H[t-1]*R' + Rb
//	H[t]  = cell(gates)
type recurrence[T float] struct {
	gates     int
	reverse   []bool // by direction
	acts      [][]func(float64) float64
	names     [][]string // of acts
	clip      float64
	batchLast bool // layout 0: [steps, batch, ...]
	cell      func(d *direction[T], reset product[T])
	// late is how many of the last gates take their recurrent part from the cell instead (GRU resets the state before it).
	late int
}

// direction is one pass over the sequence: slices of one step of all samples.
type direction[T float] struct {
	c             *call
	acts          []func(float64) float64
	clip          float64
	batch, hidden int
	live          []bool // by sample: the sequence has not ended
	x, r          []T    // [batch, gates*hidden], X*W' + Wb and H*R' + Rb; row n of x starts at at[n]
	at            []int
	h, state      []T // [batch, hidden]: H and C
	peephole      []T // [3*hidden] of LSTM: input, output, forget; nil for none
	lateBias      []T // [hidden] recurrent bias of the late gate
	tmp           []T // [batch, 2*hidden]
}

func buildRecurrence[T float](n *graph.Node, gates int, defaults []string) (*recurrence[T], error) {
	r := &recurrence[T]{gates: gates, clip: float64(n.AttrFloat("clip", 0)), batchLast: n.AttrInt("layout", 0) == 0}
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
	params := actParams{attrFloats(n, "activation_alpha"), attrFloats(n, "activation_beta")}
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
			f, err := params.activation(name)
			if err != nil {
				return nil, err
			}
			acts = append(acts, f)
		}
		r.acts, r.names = append(r.acts, acts), append(r.names, list[:len(defaults)])
	}
	return r, nil
}

// product is rows of a times a matrix, plus bias, which has one element per column.
type product[T float] func(dst []T, apart int, a []T, lda, rows int, bias []T)

// productOf packs the transpose of row-major w, which has n rows of k elements.
func productOf[T float](c *call, w []T, k, n int) product[T] {
	if w, ok := any(w).([]float32); ok {
		g, par := c.run.s.table.PackGemmF32(w, k, n, k, true), c.run.s.par
		return any(product[float32](func(dst []float32, apart int, a []float32, lda, rows int, bias []float32) {
			g.Run(par, dst, apart, a, lda, rows, kernels.Epilogue{Bias: bias})
		})).(product[T])
	}
	return func(dst []T, apart int, a []T, lda, rows int, bias []T) {
		for r := range rows {
			for j := range n {
				acc := bias[j]
				for p, v := range a[r*lda:][:k] {
					acc += T(v * w[j*k+p])
				}
				dst[r*apart+j] = acc
			}
		}
	}
}

// input packs W by direction.
func (r *recurrence[T]) input(c *call, in, hidden int) []product[T] {
	p, ok := derived[[]product[T]](c, 1)
	if ok {
		return p
	}
	rows := r.gates * hidden
	for d := range r.reverse {
		p = append(p, productOf(c, tensor.Of[T](c.in(1))[d*rows*in:], in, rows))
	}
	return derive(c, 1, p)
}

// state packs R by direction: the gates but the late ones, then those.
func (r *recurrence[T]) state(c *call, hidden int) [][2]product[T] {
	p, ok := derived[[][2]product[T]](c, 2)
	if ok {
		return p
	}
	early, late := (r.gates-r.late)*hidden, r.late*hidden
	for d := range r.reverse {
		w := tensor.Of[T](c.in(2))[d*(early+late)*hidden:]
		p = append(p, [2]product[T]{productOf(c, w, hidden, early), productOf(c, w[early*hidden:], hidden, late)})
	}
	return derive(c, 2, p)
}

func (r *recurrence[T]) run(c *call) error {
	for i := range 8 {
		if t := c.raw(i); t != nil && i != 4 && tensor.Of[T](t) == nil {
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
	proj, err := scratchOf[T](c, steps*batch*rows)
	if err != nil {
		return err
	}
	work, err := scratchOf[T](c, batch*(rows+4*hidden))
	if err != nil {
		return err
	}
	y, err := r.outputs(c)
	if err != nil {
		return err
	}
	wx, wh := r.input(c, in, hidden), r.state(c, hidden)
	for k := range dirs {
		d := &direction[T]{c: c, acts: r.acts[k], clip: r.clip, batch: batch, hidden: hidden, live: make([]bool, batch), at: make([]int, batch),
			x: proj, r: work[:batch*rows], h: work[batch*rows:][:batch*hidden], state: work[batch*(rows+hidden):][:batch*hidden],
			tmp: work[batch*(rows+2*hidden):][:2*batch*hidden]}
		wb, rb := make([]T, rows), make([]T, rows)
		if c.has(3) {
			b := tensor.Of[T](c.in(3))[k*2*rows:][:2*rows]
			wb, rb = b[:rows], b[rows:]
		}
		d.lateBias = rb[rows-r.late*hidden:]
		if c.has(7) {
			d.peephole = tensor.Of[T](c.in(7))[k*3*hidden:][:3*hidden]
		}
		if err := r.initial(c.in(5), d.h, k, batch, hidden); err != nil {
			return err
		}
		if err := r.initial(c.in(6), d.state, k, batch, hidden); err != nil {
			return err
		}
		wx[k](proj, rows, tensor.Of[T](x), in, steps*batch, wb)
		early := rows - r.late*hidden
		for t := range steps {
			for n := range batch {
				pos := t
				if d.live[n] = t < lens[n]; d.live[n] && r.reverse[k] {
					pos = lens[n] - 1 - t
				}
				d.at[n] = r.row(pos, n, steps, batch)
			}
			state, err := d.seen()
			if err != nil {
				return err
			}
			wh[k][0](d.r, rows, state, hidden, batch, rb[:early])
			r.cell(d, wh[k][1])
			for n := range batch {
				if y[0] != nil && d.live[n] {
					copy(y[0][r.place(d.at[n], k, dirs, batch, hidden):], d.h[n*hidden:][:hidden])
				}
			}
		}
		r.last(d, k, dirs, y)
	}
	return nil
}

// seen is the state as a hook leaves it.
func (d *direction[T]) seen() ([]T, error) {
	h := d.c.run.hooks
	if h == nil || h.State == nil {
		return d.h, nil
	}
	x, ok := any(d.tmp[:d.batch*d.hidden]).([]float32)
	if !ok {
		return d.h, nil
	}
	copy(d.tmp, d.h)
	return d.tmp[:d.batch*d.hidden], h.State(d.c.node, x)
}

// last writes the last states of a direction.
func (r *recurrence[T]) last(d *direction[T], k, dirs int, y [3][]T) {
	for n := range d.batch {
		at := (k*d.batch + n) * d.hidden
		if !r.batchLast {
			at = (n*dirs + k) * d.hidden
		}
		for i, s := range [][]T{d.h, d.state} {
			if y[i+1] != nil {
				copy(y[i+1][at:], s[n*d.hidden:][:d.hidden])
			}
		}
	}
}

// outputs allocates Y, Y_h and Y_c, nil where nobody reads them; Y starts as zeros, which it keeps behind the end of a sequence.
func (r *recurrence[T]) outputs(c *call) (y [3][]T, err error) {
	for i := range y {
		if c.wants(i) {
			t, err := c.out(i)
			if err != nil {
				return y, err
			}
			y[i] = tensor.Of[T](t)
			clear(y[i])
		}
	}
	return y, nil
}

// row is where step t of sample n lies in X.
func (r *recurrence[T]) row(t, n, steps, batch int) int {
	if r.batchLast {
		return t*batch + n
	}
	return n*steps + t
}

// place is where direction k of that row of X lies in Y: [steps, dirs, batch, hidden], or [batch, steps, dirs, hidden].
func (r *recurrence[T]) place(row, k, dirs, batch, hidden int) int {
	if r.batchLast {
		return ((row/batch*dirs+k)*batch + row%batch) * hidden
	}
	return (row*dirs + k) * hidden
}

// initial copies direction k of an initial state, zeros where there is none.
func (r *recurrence[T]) initial(t *tensor.Tensor, dst []T, k, batch, hidden int) error {
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
		copy(dst[n*hidden:][:hidden], tensor.Of[T](t)[at:])
	}
	return nil
}

// scratchOf is scratch of type T.
func scratchOf[T float](c *call, n int) ([]T, error) {
	d := tensor.Float64
	if _, ok := any([]T(nil)).([]float32); ok {
		d = tensor.Float32
	}
	t, _, err := c.run.mem.alloc(d, []int{n}, tensor.RowMajor)
	if err != nil {
		return nil, err
	}
	return tensor.Of[T](t), nil
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
