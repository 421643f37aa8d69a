package tune

import (
	"context"
	"fmt"

	"qwb/calib/tune/round"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// rounding rounds the weight of one operator by the moments of what it reads.
type rounding struct {
	l       *LayerBench
	m       matrix
	cfg     *tqc.Config
	threads int // of one group
	across  kernels.Parallel
	gram    *observers.Gram
	centred bool // moments are of inputs less their means: the operator has a bias that takes the mean error off
	groups  []rowGroup
}

// rowGroup are the rows of the weight that read the same inputs.
type rowGroup struct {
	w, h   []float64
	shift  []float64 // what makes up for errors of the inputs, added to w; nil until it is asked for
	factor *round.Factor
}

// rounding returns what rounds the weight of the operator; nil where there is no memory for moments.
func (l *LayerBench) rounding(ctx context.Context) (*rounding, error) {
	if l.rounds != nil {
		return l.rounds, nil
	}
	n := l.Graph.Node(l.Node)
	m, ok := matrixOf(n, l.Weight)
	// h, the factor, and either cross moments or the factor turned round. Asked first: moments that nobody can use take as much.
	if ok && 3*8*int64(m.Groups)*int64(m.K())*int64(m.K()) > l.memory()/2 {
		return nil, nil
	}
	g, err := l.Gram(ctx)
	if err != nil || g == nil {
		return nil, err
	}
	if !ok || m.Groups != g.Groups || m.K() != g.K {
		return nil, fmt.Errorf("moments of %d groups of %d inputs for a weight of shape %v", g.Groups, g.K, l.Weight.Shape)
	}
	x := &rounding{l: l, m: m, cfg: &l.Set.Slot(l.Slot).Config, threads: 1, across: exec.Parallel(l.Threads), gram: g,
		centred: tunableBias(l.Graph, l.Set, l.Node) > 0, groups: make([]rowGroup, m.Groups)}
	if m.Groups == 1 {
		x.threads = max(l.Threads, 1)
	}
	w := l.Weight.ToRowMajor().F32()
	err = x.each(func(i int) (err error) {
		r := &x.groups[i]
		if r.w, r.h = m.take(w, i), g.H(i); x.centred {
			centre(r.h, g.Mean(i), g.Mean(i), float64(g.Count[i]))
			for c := range m.K() {
				r.h[c*m.K()+c] = max(r.h[c*m.K()+c], 0) // an input that never changes
			}
		}
		r.factor, err = round.NewFactor(r.h, m.K(), round.Damping, round.Falling, x.threads)
		return err
	})
	if err != nil {
		return nil, err
	}
	k := float64(m.K())
	l.Spend(float64(m.Groups) * k * k * k / 2)
	l.rounds = x
	return x, nil
}

// importance is LayerBench.importance.
func (x *rounding) importance() []float64 {
	var sums []float64
	for _, r := range x.groups {
		for k := range x.m.K() {
			sums = append(sums, r.h[k*x.m.K()+k])
		}
	}
	return x.m.spread(sums, x.l.Weight.Shape)
}

// centre turns sums of products of a and b into those of a and b less their means, over n pairs.
func centre(sums, a, b []float64, n float64) {
	for i, u := range a {
		for j, v := range b {
			sums[i*len(b)+j] -= float64(float64(n*u) * v)
		}
	}
}

// each calls f for every group and returns the first error.
func (x *rounding) each(f func(group int) error) error {
	errs := make([]error, len(x.groups))
	x.across.Run(len(x.groups), func(i int) { errs[i] = f(i) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// targets are by group the weights to round: those of the reference, shifted by alpha of what makes up for errors of the inputs.
func (x *rounding) targets(alpha float64) ([][]float64, error) {
	out := make([][]float64, len(x.groups))
	return out, x.each(func(i int) error {
		g := &x.groups[i]
		if out[i] = g.w; alpha == 0 {
			return nil
		}
		if err := x.findShift(i); err != nil || g.shift == nil {
			return err
		}
		out[i] = make([]float64, len(g.w))
		for k, w := range g.w {
			out[i][k] = w + float64(alpha*g.shift[k])
		}
		return nil
	})
}

// findShift finds the whole shift of a group, where the moments have a float lane.
func (x *rounding) findShift(group int) (err error) {
	g := &x.groups[group]
	cross := x.gram.Cross(group)
	if g.shift != nil || cross == nil {
		return nil
	}
	if x.centred {
		mean, d := x.gram.Mean(group), x.gram.FloatMean(group)
		for i, m := range mean {
			d[i] -= m
		}
		centre(cross, d, mean, float64(x.gram.Count[group]))
	}
	g.shift, err = g.factor.Shift(g.w, cross, x.threads)
	return err
}

// problem is that of a group with the given weights and grids.
func (x *rounding) problem(group int, w []float64, list []qmath.Grid) *round.Problem {
	return &round.Problem{W: w, K: x.m.K(), H: x.groups[group].h, Grids: x.m.grids(group, x.l.Weight.Shape, x.cfg, list), Threads: x.threads}
}

// exactNodes bounds the exact search of a short row: one of 9 weights rarely takes more than some hundreds.
const exactNodes = 1 << 14

// codes rounds the rows of a group, and returns the form of each under the damped moments. A row is not searched for more than a form below
// its limit; nil: there are no limits.
func (x *rounding) codes(group int, p *round.Problem, limits []float64) (codes []int32, loss []float64) {
	f := x.groups[group].factor
	codes, loss = f.Round(p)
	if p.K > round.ExactLength {
		return codes, loss
	}
	f.Exact(p, codes, exactNodes, limits)
	return codes, f.Loss(p, codes)
}

// weight rounds all of the weight on scales p.
func (x *rounding) weight(targets [][]float64, p *tqc.Params) (*tensor.Tensor, error) {
	k := float64(x.m.K())
	x.l.Spend(float64(x.m.Groups*x.m.Rows()) * k * k)
	out, list := tensor.New(tensor.Float32, x.l.Weight.Shape...), gridsOf(x.cfg, p)
	return out, x.each(func(i int) error {
		problem := x.problem(i, targets[i], list)
		if err := problem.Check(); err != nil {
			return err
		}
		codes, _ := x.codes(i, problem, nil)
		if problem.K > round.ExactLength {
			problem.Descend(codes, round.Sweeps)
		}
		for r := range x.m.Rows() {
			for c := range x.m.K() {
				out.F32()[x.m.At(i, r, c)] = float32(problem.Value(codes, r, c))
			}
		}
		return nil
	})
}
