package tune

import (
	"context"
	"fmt"

	"qwb/calib/tune/round"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
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
	groups  []rowGroup
}

// rowGroup are the rows of the weight that read the same inputs.
type rowGroup struct {
	w      []float64
	h      []float64
	cross  []float64 // nil where it is not known
	factor *round.Factor
}

// rounding returns what rounds the weight of the operator; nil where there is no memory for moments.
func (l *LayerBench) rounding(ctx context.Context) (*rounding, error) {
	if l.rounds != nil {
		return l.rounds, nil
	}
	g, err := l.Gram(ctx)
	if err != nil || g == nil {
		return nil, err
	}
	n := l.Graph.Node(l.Node)
	m, ok := matrixOf(n, l.Weight)
	if !ok || m.groups != g.Groups || m.k != g.K {
		return nil, fmt.Errorf("moments of %d groups of %d inputs for a weight of shape %v", g.Groups, g.K, l.Weight.Shape)
	}
	x := &rounding{l: l, m: m, cfg: &l.Set.Slot(l.Slot).Config, threads: 1, across: exec.Parallel(l.Threads), groups: make([]rowGroup, m.groups)}
	if m.groups == 1 {
		x.threads = max(l.Threads, 1)
	}
	w := l.Weight.ToRowMajor().F32()
	centred := tunableBias(l.Graph, l.Set, l.Node) > 0
	err = x.each(func(i int) (err error) {
		r := &x.groups[i]
		r.w, r.h, r.cross = m.take(w, i), g.H(i), g.Cross(i)
		if centred {
			centre(g, i, r.h, r.cross)
		}
		r.factor, err = round.NewFactor(r.h, m.k, round.Damping, round.Falling, x.threads)
		return err
	})
	if err != nil {
		return nil, err
	}
	k := float64(m.k)
	l.Spend(float64(m.groups) * k * k * k / 2)
	l.rounds = x
	return x, nil
}

// centre turns moments of x into those of x less its mean: what is left of the error where the bias takes its mean off.
func centre(g *observers.Gram, group int, h, cross []float64) {
	n, mean := float64(g.Count[group]), g.Mean(group)
	for i, a := range mean {
		for j, b := range mean {
			h[i*g.K+j] -= float64(float64(n*a) * b)
		}
		h[i*g.K+i] = max(h[i*g.K+i], 0) // rounding of an input that never changes
	}
	if cross == nil {
		return
	}
	for i, f := range g.FloatMean(group) {
		for j, b := range mean {
			cross[i*g.K+j] -= float64(float64(n*(f-mean[i])) * b)
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
	return out, x.each(func(i int) (err error) {
		g := &x.groups[i]
		if out[i] = g.w; alpha != 0 && g.cross != nil {
			out[i], err = g.factor.Target(g.w, g.cross, alpha, x.threads)
		}
		return err
	})
}

// problem is that of a group with the given weights and scales.
func (x *rounding) problem(group int, w []float64, p *tqc.Params) *round.Problem {
	return &round.Problem{W: w, K: x.m.k, H: x.groups[group].h, Grids: x.m.grids(group, x.l.Weight.Shape, x.cfg, p), Threads: x.threads}
}

// exactNodes bounds the exact search of a short row: one of 9 weights rarely takes more than some hundreds.
const exactNodes = 1 << 14

// codes rounds the rows of a group, and returns the form of each under the damped moments.
func (x *rounding) codes(group int, p *round.Problem) (codes []int32, loss []float64) {
	f := x.groups[group].factor
	codes, loss = f.Round(p)
	if p.K > round.ExactLength {
		return codes, loss
	}
	f.Exact(p, codes, exactNodes)
	return codes, f.Loss(p, codes)
}

// weight rounds all of the weight on scales p.
func (x *rounding) weight(targets [][]float64, p *tqc.Params) (*tensor.Tensor, error) {
	k := float64(x.m.k)
	x.l.Spend(float64(x.m.groups*x.m.rows) * k * k)
	out := tensor.New(tensor.Float32, x.l.Weight.Shape...)
	return out, x.each(func(i int) error {
		problem := x.problem(i, targets[i], p)
		if err := problem.Check(); err != nil {
			return err
		}
		codes, _ := x.codes(i, problem)
		if problem.K > round.ExactLength {
			problem.Descend(codes, round.Sweeps)
		}
		for r := range x.m.rows {
			for c := range x.m.k {
				out.F32()[x.m.at(i, r, c)] = float32(problem.Value(codes, r, c))
			}
		}
		return nil
	})
}
