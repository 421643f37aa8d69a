package tune

import (
	"context"
	"slices"
	"sync"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Fixed points of the float lane beside a quantized input: what the grid covers stands as at most 8191, and 4 times that is the limit, so
// that floats beyond the grid are not cut off. A step is at most 1/16 of a grid's of 8 bits.
const floatWithin = 8191

// Gram returns the second moments of what the operator reads on the fitting samples: quantized behind the tuned prefix, and, where a
// proposer that is asked about the operator wants it (Proposer.Float), as the float lane, in float; where the bench has Gram statistics,
// those. It is computed once per operator. Where the grid of the input has at most 12 bits its codes are summed, nothing being rounded;
// else the fixed point follows from the largest magnitude over the samples. It is nil where moments take more than half of the bench's
// memory: with the float lane if they fit, else without.
func (l *LayerBench) Gram(ctx context.Context) (*observers.Gram, error) {
	if l.gram != nil {
		return l.gram, nil
	}
	if l.Grams != nil {
		return l.Grams(l.Graph.Node(l.Node).Name)
	}
	u, err := calib.NewUnfold(l.Graph, l.Node)
	if err != nil {
		return nil, err
	}
	float := l.float
	if room := l.memory() / 2; observers.GramBytes(u.Groups, u.K, float) > room {
		if float = false; observers.GramBytes(u.Groups, u.K, float) > room {
			return nil, nil
		}
	}
	x, f, err := l.fixed(ctx)
	if err != nil {
		return nil, err
	}
	if !float {
		f = qmath.Fixed{}
	}
	g, err := observers.NewGram(u.Groups, u.K, x, f)
	if err != nil {
		return nil, err
	}
	if err := l.sum(ctx, g); err != nil {
		return nil, err
	}
	work := 0.0
	for _, n := range g.Count {
		work += float64(n) * float64(g.K*g.K) / 2
	}
	if float {
		work *= 3
	}
	l.Spend(work)
	l.gram = g
	return g, nil
}

// sumsApart is how many bytes moments may take for every thread to have its own: those of small operators, which are of one panel and
// cannot be shared otherwise.
const sumsApart = 1 << 22

// sum adds what the operator reads on the fitting samples to g. Sums are exact: whose they were first does not matter.
func (l *LayerBench) sum(ctx context.Context, g *observers.Gram) error {
	float := g.F != qmath.Fixed{}
	lanes, par := []*gramLane{{gram: g}}, exec.Parallel(l.Threads)
	if bytes := observers.GramBytes(g.Groups, g.K, float); bytes <= min(sumsApart, l.memory()/2/int64(l.places())) {
		par = nil
		for len(lanes) < l.places() {
			own, err := observers.NewGram(g.Groups, g.K, g.X, g.F)
			if err != nil {
				return err
			}
			lanes = append(lanes, &gramLane{gram: own})
		}
	}
	for _, lane := range lanes {
		u, err := calib.NewUnfold(l.Graph, l.Node)
		if err != nil {
			return err
		}
		lane.unfold, lane.adder, lane.par = u, lane.gram.Add(rows(), par), par
		lane.output = l.Graph.Node(l.Node).Outputs[0]
	}
	var one sync.Mutex // for the lane that all share
	err := l.inputs(ctx, func(place int, s *state, xq, xf *tensor.Tensor) error {
		if len(lanes) == 1 {
			one.Lock()
			defer one.Unlock()
			place = 0
		}
		return lanes[place].add(s, xq, xf)
	}, nil)
	for _, lane := range lanes {
		lane.adder.Close()
		if lane.gram != g && err == nil {
			err = g.Merge(lane.gram)
		}
	}
	return err
}

// gramLane is moments that one goroutine at a time adds to.
type gramLane struct {
	gram   *observers.Gram
	adder  *observers.GramAdder
	unfold *calib.Unfold
	par    kernels.Parallel
	output graph.ValueID // of the operator
}

func (k *gramLane) add(s *state, xq, xf *tensor.Tensor) (err error) {
	var rows [2]*observers.GramRows
	if rows[0], err = k.unfold.Rows(xq, k.gram.X, k.par); err != nil {
		return err
	}
	k.unfold.Real(rows[0], s.padded, k.output)
	if k.gram.F != (qmath.Fixed{}) {
		if rows[1], err = k.unfold.Rows(xf, k.gram.F, k.par); err != nil {
			return err
		}
		k.unfold.Real(rows[1], s.padded, k.output)
	}
	if !k.adder.Rows(rows[0], rows[1]) {
		return calib.ErrGramRows
	}
	return nil
}

// fixed returns the fixed points of the operator's input in both lanes.
func (l *LayerBench) fixed(ctx context.Context) (x, f qmath.Fixed, err error) {
	id := l.Set.Input(l.Node, 0)
	if id != tqc.NoSlot && l.Set.Slot(id).State() != tqc.FP32 && len(l.Set.Params(id).Scale) == 1 { // quantized here, or where it comes from
		g := l.Set.Grid(l.Set.Root(id), 0)
		if c := &l.Set.Slot(l.Set.Root(id)).Config; !c.Integer() || c.RunTime() {
			g = qmath.Grid{} // no fixed points
		}
		if n := max(int64(g.QMax)-int64(g.ZeroPoint), int64(g.ZeroPoint)-int64(g.QMin)); n > 0 && n <= observers.GramLimit {
			return qmath.Fixed{Step: float64(g.Scale), Limit: int32(n)}, qmath.FixedFor(float32(n)*g.Scale, floatWithin, qmath.MaxFixed), nil
		}
	}
	of := make([]float32, l.places())
	err = l.inputs(ctx, func(place int, _ *state, xq, xf *tensor.Tensor) error {
		meter := rows().NewMeter()
		for _, t := range []*tensor.Tensor{xq, xf} {
			if lo, hi, _ := meter.MinMax(t.F32()); lo <= hi {
				of[place] = max(of[place], hi, -lo)
			}
		}
		return nil
	}, nil)
	largest := slices.Max(of)
	x = qmath.FixedFor(largest, observers.GramWithin, observers.GramLimit)
	return x, x, err
}
