package tune

import (
	"math"

	"qwb/calib/tune/round"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// The scales that are tried with rounded weights, as factors of the present one: with few bits it pays to clip a few large weights for
// finer steps of all others. First each of a coarse list, then steps up and down from the best, by scale. Where scales were tuned before,
// the steps are enough.
var (
	coarseFactors = []float64{0.87, 0.75, 0.63, 0.5}
	fineSteps     = []float64{1.07, 1.03}
	// eightBits are for more than fewBits and many scales: one scale for all has to please channels of very different ranges.
	eightBits = []float64{0.95, 0.9, 0.8}
	// powers are for scales that are powers of two.
	powers = []float64{2, 0.5, 0.25}
)

// fewBits are so many that scales are always worth a search.
const fewBits = 5

// worthSearch reports whether another scale can be better by much: not that of one channel of many weights with fine steps.
func (x *rounding) worthSearch() bool {
	return x.cfg.Bits <= fewBits || x.cfg.Policy.Has(tqc.PerTensor) || x.cfg.Policy.Has(tqc.PowerOf2) || x.m.K() <= round.ExactLength
}

// scaleSearch looks for the scales with which the rounded weights have the least form: for each scale by itself, with all rows that use it;
// the scales of a row of groups together.
type scaleSearch struct {
	x       *rounding
	targets [][]float64
	from    *tqc.Params
	unit    []int     // by scale: the one that stands for all that change together
	rows    []int     // by scale that stands for others: how many rows use them
	factor  []float64 // by scale, the best so far
	loss    []float64
}

// search chooses scales for the targets, starting from those given.
func (x *rounding) search(targets [][]float64, from *tqc.Params) (*tqc.Params, error) {
	s := &scaleSearch{x: x, targets: targets, from: from, unit: make([]int, len(from.Scale)), factor: make([]float64, len(from.Scale)),
		rows: make([]int, len(from.Scale))}
	for i := range s.factor {
		s.unit[i], s.factor[i] = i, 1
	}
	list := gridsOf(x.cfg, from)
	var rows []int // their scales, in all groups
	for i := range x.groups {
		g := x.m.grids(i, x.l.Weight.Shape, x.cfg, list)
		rows = append(rows, g.Row...)
		for _, r := range g.Row {
			for _, c := range g.Column {
				s.unit[r+c] = s.unit[r]
			}
		}
	}
	for _, r := range rows {
		s.rows[s.unit[r]]++
	}
	var err error
	if s.loss, err = s.losses(s.factor); err != nil {
		return nil, err
	}
	coarse, fine := coarseFactors, fineSteps
	switch tuned := x.l.Frozen[x.l.Node]; {
	case x.cfg.Policy.Has(tqc.PowerOf2):
		coarse, fine = powers, nil
	case tuned:
		coarse = nil
	case x.cfg.Bits > fewBits && len(from.Scale) > 1:
		coarse, fine = eightBits, fineSteps[1:]
	}
	for _, f := range coarse {
		if err := s.try(func(int) float64 { return f }); err != nil {
			return nil, err
		}
	}
	for _, step := range fine {
		best := append([]float64(nil), s.factor...)
		for _, f := range []float64{step, 1 / step} {
			if err := s.try(func(i int) float64 { return best[i] * f }); err != nil {
				return nil, err
			}
		}
	}
	return s.params(s.factor), nil
}

// try tries a factor for each scale, and takes those that are better.
func (s *scaleSearch) try(f func(scale int) float64) error {
	now := make([]float64, len(s.factor))
	for i := range now {
		now[i] = f(s.unit[i])
	}
	loss, err := s.losses(now)
	if err != nil {
		return err
	}
	for i, u := range s.unit {
		if loss[u] < s.loss[u] {
			s.factor[i] = now[i]
		}
	}
	for i, l := range loss {
		s.loss[i] = min(s.loss[i], l)
	}
	return nil
}

// losses are the forms of all rows, added up at the scale that stands for theirs.
func (s *scaleSearch) losses(factor []float64) ([]float64, error) {
	k := float64(s.x.m.K())
	s.x.l.Spend(float64(s.x.m.Groups*s.x.m.Rows()) * k * k)
	list := gridsOf(s.x.cfg, s.params(factor))
	rows, first := make([][]float64, len(s.x.groups)), make([][]int, len(s.x.groups))
	err := s.x.each(func(i int) error {
		problem := s.x.problem(i, s.targets[i], list)
		if err := problem.Check(); err != nil {
			return err
		}
		first[i] = problem.Grids.Row
		_, rows[i] = s.x.codes(i, problem, s.limits(first[i]))
		return nil
	})
	loss := make([]float64, len(factor))
	for i := range rows {
		for r, l := range rows[i] {
			loss[s.unit[first[i][r]]] += l
		}
	}
	return loss, err
}

// limits are the forms that rows have to be below to be of use: those so far, of rows whose scales no other row has. first are their
// scales.
func (s *scaleSearch) limits(first []int) []float64 {
	if s.loss == nil {
		return nil
	}
	list := make([]float64, len(first))
	for r, i := range first {
		if list[r] = math.Inf(1); s.rows[s.unit[i]] == 1 {
			list[r] = s.loss[s.unit[i]]
		}
	}
	return list
}

// params are the scales with which the search began, times factor; a scale that cannot be, or with which a bias would not fit into its
// integers, stays.
func (s *scaleSearch) params(factor []float64) *tqc.Params {
	p := &tqc.Params{Scale: make([]float32, len(factor)), ZeroPoint: s.from.ZeroPoint}
	for i, f := range factor {
		p.Scale[i] = float32(float64(s.from.Scale[i]) * f)
		if !qmath.Representable(p.Scale[i]) || f < 1 && !s.x.l.biasFits(i, p.Scale[i]) {
			p.Scale[i] = s.from.Scale[i]
		}
	}
	return p
}

// biasFits reports whether the biases that scale number i of the weight reaches fit into integers when it is changed; see passes.SolveBias.
func (l *LayerBench) biasFits(i int, scale float32) bool {
	id, in := l.Set.Input(l.Node, graph.BiasInput), l.Set.Input(l.Node, 0)
	if id == tqc.NoSlot || !l.Set.Slot(id).State().Quantizes() || in == tqc.NoSlot || !l.Set.Params(in).Ready() {
		return true
	}
	b := l.Graph.Const(l.Graph.Node(l.Node).Inputs[graph.BiasInput]).F32()
	if n := len(l.Set.Params(l.Slot).Scale); n > 1 {
		if n != len(b) {
			return true
		}
		b = b[i : i+1]
	}
	step := qmath.BiasScale(l.Set.Params(in).Scale[0], scale)
	for _, v := range b {
		if _, fits := qmath.QuantizeBias(v, step); !fits {
			return false
		}
	}
	return true
}
