package analysis

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"qwb/analysis/task"
	"qwb/internal/arrange"
)

// Comparison is what CompareRuns found, in figures.
type Comparison struct {
	Samples int `json:"samples"`
	// LayerSamples is on how many of them, the first, the error at every operator was measured; 0 where it was not.
	LayerSamples int `json:"layer_samples,omitempty"`
	// Metric is what scores and drops are of; empty where nothing scores the answers.
	Metric string `json:"metric,omitempty"`
	// Agreement says that there are no labels: what float answers counts as right.
	Agreement bool `json:"agreement,omitempty"`
	Percent   bool `json:"percent,omitempty"` // drops are in percentage points
	Centred   bool `json:"centred"`           // NSRs are centred where outputs have classes; see Judge
	// Mismatches says that no output is float: NSRs are shares of elements that differ.
	Mismatches bool `json:"mismatches,omitempty"`
	// At are tensors that are compared in place of outputs whose size depends on the numbers: of a plan in its simulation, whatever the mode.
	At    []string     `json:"at,omitempty"`
	Runs  []RunFigures `json:"runs"`
	Pairs []PairOfRuns `json:"pairs"`
}

// RunFigures is one run against float.
type RunFigures struct {
	Name  string   `json:"name"`
	Score *float64 `json:"score,omitempty"`
	Float *float64 `json:"float,omitempty"` // score of the float network
	// Drop is how much worse the score is than that of float, with its standard error from the pairs; percentage points for a share.
	Drop      *float64 `json:"drop,omitempty"`
	DropError *float64 `json:"drop_error,omitempty"`
	Flips     *int     `json:"flips,omitempty"` // classes other than float's
	NSR
	// Worst is the part of an output that the NSR is of; empty where it is of a whole output. Slices are all parts.
	Worst  string       `json:"worst_slice,omitempty"`
	Slices []SliceError `json:"slices,omitempty"`
	// Headlines say what counts more than the figures, see the function.
	Headlines []string `json:"headlines,omitempty"`
}

// PairOfRuns is how b differs from a on the same samples.
type PairOfRuns struct {
	A string `json:"a"`
	B string `json:"b"`
	// Drop is how much worse b scores than a; see RunFigures. P is the probability of a difference at least as large if there were none
	// (two-sided), PAdjusted the same for all pairs together (Holm).
	Drop      *float64 `json:"drop"`
	DropError *float64 `json:"drop_error"`
	P         *float64 `json:"p,omitempty"`
	PAdjusted *float64 `json:"p_adjusted,omitempty"`
	// Significant says that the difference in the score is no chance at 5 %, all pairs together; without a metric, that in the NSR.
	Significant bool `json:"significant"`
	Flips       *int `json:"flips,omitempty"` // classes that differ
	// NSRChange is how much larger the error of b is, against float.
	NSRChange      float64      `json:"nsr_change"`
	NSRChangeError *float64     `json:"nsr_change_error"`
	NSRP           *float64     `json:"nsr_p,omitempty"`
	NSRPAdjusted   *float64     `json:"nsr_p_adjusted,omitempty"`
	NSRSignificant bool         `json:"nsr_significant"`
	Apart          float64      `json:"apart"` // plain NSR of the outputs of b with those of a as the signal
	Layers         []LayerDrift `json:"layers,omitempty"`
	// Different says why operators are not compared: two plans are of networks that have too little in common.
	Different string `json:"different,omitempty"`
	// Settings counts in what two plans, or quantized files, differ; nil for other runs.
	Settings *DiffResult `json:"settings,omitempty"`
}

// LayerDrift is how the error accumulated up to one operator differs.
type LayerDrift struct {
	Node        string   `json:"node"`
	Op          string   `json:"op"`
	A           float64  `json:"a"` // NSR
	B           float64  `json:"b"`
	Change      float64  `json:"change"`
	ChangeError *float64 `json:"change_error"`
	Significant bool     `json:"significant"` // all operators together
}

// SignificanceLevel is the probability, at most, with which a comparison calls any difference significant that is none.
const SignificanceLevel = 0.05

// PValue is the probability that paired differences have a mean at least as far from zero if their true mean is zero. Where all that are
// not zero have one size, as answers that become right or wrong have, it is the exact test of their signs (McNemar, 1947), else Student's
// t. NaN for fewer than two differences, and for NaN in them.
func PValue(differences []float64) float64 {
	size, up, down, one := 0.0, 0, 0, true
	for _, d := range differences {
		if d == 0 {
			continue
		}
		if size == 0 {
			size = math.Abs(d)
		}
		one = one && math.Abs(d) == size
		if d > 0 {
			up++
		} else {
			down++
		}
	}
	e := NewEstimate(differences)
	switch {
	case e.N < 2 || math.IsNaN(e.Mean) || math.IsNaN(e.Error):
		return math.NaN()
	case up+down == 0:
		return 1
	case one:
		return min(1, 2*SignTest(max(up, down), min(up, down)))
	case e.Error == 0:
		return 0
	}
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.N - 1)}.CDF(-math.Abs(e.Mean)/e.Error)
}

// Holm adjusts the p-values of several tests so that calling those below a level significant errs anywhere with at most that probability
// (Holm, A simple sequentially rejective multiple test procedure, 1979). NaN, which is no test, stays and does not count.
func Holm(p []float64) []float64 {
	order, out := []int{}, slices.Clone(p)
	for i, x := range p {
		if !math.IsNaN(x) {
			order = append(order, i)
		}
	}
	arrange.Stable(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	most := 0.0
	for k, i := range order {
		most = max(most, min(1, float64(len(order)-k)*p[i]))
		out[i] = most
	}
	return out
}

// Drops returns how much worse b is than a, one value for each sample; nil without a metric.
func Drops(a, b *Answered, m *task.Metric, s task.Scorer) []float64 {
	if m == nil {
		return nil
	}
	return task.Difference(s, a.Records, b.Records, m)
}

// Flips counts samples to which two runs give other classes; nil where one of them gives none.
func Flips(a, b *Answered) *int {
	n := 0
	for i := range a.Classes {
		if a.Classes[i] < 0 || b.Classes[i] < 0 {
			return nil
		}
		if a.Classes[i] != b.Classes[i] {
			n++
		}
	}
	return &n
}

// Figures tests all pairs of runs.
func (r *Runs) Figures(m *task.Metric, s task.Scorer) *Comparison {
	c := &Comparison{Samples: len(r.Samples), Centred: r.Centred, Mismatches: r.Mismatches, At: r.At, Pairs: []PairOfRuns{}}
	if m != nil {
		c.Metric, c.Percent = m.Name, m.Percent
	}
	for i, a := range r.All {
		f := RunFigures{Name: r.Names[i], Flips: Flips(r.Float[i], a), NSR: NewNSR(r.Blocks.Estimate(a.Losses)), Worst: a.Worst, Slices: a.Slices,
			Headlines: a.Headlines}
		if m != nil {
			f.Score, f.Float = figure(s.Score(a.Records)), figure(s.Score(r.Float[i].Records))
			f.Drop, f.DropError = figures(r.Blocks.Estimate(Drops(r.Float[i], a, m, s)))
		}
		c.Runs = append(c.Runs, f)
	}
	var p, q []float64
	for k, pair := range Pairs(len(r.All)) {
		a, b := r.All[pair[0]], r.All[pair[1]]
		f := PairOfRuns{A: r.Names[pair[0]], B: r.Names[pair[1]], Flips: Flips(a, b), Apart: NewEstimate(r.Apart[k]).Mean,
			Layers: drifts(a.Layers, b.Layers, r.Blocks)}
		change := r.Blocks.differences(a.Losses, b.Losses)
		e := NewEstimate(change)
		f.NSRChange, f.NSRChangeError, f.NSRP = e.Mean, figure(e.Error), figure(PValue(change))
		q = append(q, PValue(change))
		if m != nil {
			drops := r.Blocks.Of(Drops(a, b, m, s))
			f.Drop, f.DropError = figures(NewEstimate(drops))
			f.P = figure(PValue(drops))
			p = append(p, PValue(drops))
		}
		c.Pairs = append(c.Pairs, f)
	}
	p, q = Holm(p), Holm(q)
	for k := range c.Pairs {
		f := &c.Pairs[k]
		f.NSRPAdjusted, f.NSRSignificant = figure(q[k]), q[k] < SignificanceLevel
		f.Significant = f.NSRSignificant
		if m != nil {
			f.PAdjusted, f.Significant = figure(p[k]), p[k] < SignificanceLevel
		}
	}
	return c
}

// figures is an estimate as JSON has it.
func figures(e Estimate) (mean, err *float64) { return figure(e.Mean), figure(e.Error) }

// less is x - y.
func less(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range out {
		out[i] = x[i] - y[i]
	}
	return out
}

// drifts compares the errors at the operators that both runs have, in the order of a.
func drifts(a, b []LayerLosses, of Blocks) (list []LayerDrift) {
	by := map[string]*LayerLosses{}
	for i := range b {
		by[b[i].Node] = &b[i]
	}
	var p []float64
	for i := range a {
		o := by[a[i].Node]
		if o == nil || o.Op != a[i].Op {
			continue
		}
		change := of[:min(len(of), len(o.NSR))].differences(a[i].NSR, o.NSR)
		e := NewEstimate(change)
		list = append(list, LayerDrift{Node: o.Node, Op: o.Op, A: NewEstimate(a[i].NSR).Mean, B: NewEstimate(o.NSR).Mean, Change: e.Mean,
			ChangeError: figure(e.Error)})
		p = append(p, PValue(change))
	}
	for i, x := range Holm(p) {
		list[i].Significant = x < SignificanceLevel
	}
	return list
}
