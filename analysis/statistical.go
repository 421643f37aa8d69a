package analysis

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/elementary"
	"qwb/observers"
)

// moments are count, mean and the sums of the second to fourth power of the distance to the mean, joined by the formulas of Chan, Golub and
// LeVeque (1979) and Pebay (2008).
type moments struct {
	n, mean, m2, m3, m4 float64
}

// momentsOf leaves out infinities, as the ranges do. The mean is found first, then the sums of powers, both in two lanes of which each has
// every second element: so sums do not wait for each other, and are the same on every processor.
func momentsOf(x []float32) (m moments) {
	infinite := func(v float32) bool { return math.IsInf(float64(v), 0) }
	if slices.ContainsFunc(x, infinite) {
		x = slices.DeleteFunc(slices.Clone(x), infinite)
	}
	if len(x) == 0 {
		return m
	}
	pairs := x[:len(x)&^1]
	rest := x[len(pairs):]
	var a, b float64
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i : i+2 : i+2]
		a, b = a+float64(v[0]), b+float64(v[1])
	}
	for _, v := range rest {
		a += float64(v)
	}
	m.n = float64(len(x))
	mean := (a + b) / m.n
	var p, q powers
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i : i+2 : i+2]
		p, q = p.and(float64(v[0])-mean), q.and(float64(v[1])-mean)
	}
	for _, v := range rest {
		p = p.and(float64(v) - mean)
	}
	// The mean was rounded: what the sum of distances is beside zero moves it.
	m1, m2, m3, m4 := p.d+q.d, p.d2+q.d2, p.d3+q.d3, p.d4+q.d4
	off := m1 / m.n
	m.mean = mean + off
	m.m2 = max(m2-float64(off*m1), 0)
	m.m3 = m3 - float64(3*off*m2)
	m.m4 = m4 - float64(4*off*m3)
	return m
}

// powers are the sums of the first to fourth powers of distances.
type powers struct{ d, d2, d3, d4 float64 }

func (p powers) and(d float64) powers {
	dd := float64(d * d)
	return powers{p.d + d, p.d2 + dd, p.d3 + float64(dd*d), p.d4 + float64(dd*dd)}
}

// join adds o, the moments of later values.
func (m moments) join(o moments) moments {
	if m.n == 0 {
		return o
	}
	if o.n == 0 {
		return m
	}
	n := m.n + o.n
	d := o.mean - m.mean
	d2 := d * d
	return moments{
		n:    n,
		mean: m.mean + d*o.n/n,
		m2:   m.m2 + o.m2 + d2*m.n*o.n/n,
		m3:   m.m3 + o.m3 + d2*d*m.n*o.n*(m.n-o.n)/(n*n) + 3*d*(m.n*o.m2-o.n*m.m2)/n,
		m4: m.m4 + o.m4 + d2*d2*m.n*o.n*(m.n*m.n-m.n*o.n+o.n*o.n)/(n*n*n) +
			6*d2*(m.n*m.n*o.m2+o.n*o.n*m.m2)/(n*n) + 4*d*(m.n*o.m3-o.n*m.m3)/n,
	}
}

func (m moments) std() float64 {
	if m.n == 0 {
		return 0
	}
	return math.Sqrt(m.m2 / m.n)
}

func (m moments) skewness() float64 {
	if m.m2 == 0 {
		return 0
	}
	return math.Sqrt(m.n) * m.m3 / elementary.Pow(m.m2, 1.5)
}

// kurtosis is the excess over a normal distribution's.
func (m moments) kurtosis() float64 {
	if m.m2 == 0 {
		return 0
	}
	return m.n*m.m4/(m.m2*m.m2) - 3
}

// tensorState is what one worker saw of a tensor: a histogram and ranges whose merge does not depend on order.
type tensorState struct {
	*observers.State
}

const channelAxis = 1

// observe returns hooks that gather the statistics of every float32 activation of one sample.
func (w *worker) observe(res *sampleResult) *exec.Hooks {
	see := func(v graph.ValueID, t *tensor.Tensor) error {
		if t.DType != tensor.Float32 || w.g.Const(v) != nil {
			return nil
		}
		if _, seen := res.moments[v]; seen {
			return nil
		}
		axis := -1
		if len(t.Shape) > channelAxis {
			axis = channelAxis
		}
		st := w.states[v]
		if st == nil {
			st = &tensorState{observers.New()}
			w.states[v] = st
		}
		if _, err := st.Observe(t, axis); err != nil {
			return err
		}
		// Row-major order, so that the sums do not depend on the layout the executor chose.
		res.moments[v] = momentsOf(t.ToRowMajor().F32())
		return nil
	}
	return &exec.Hooks{
		Input: func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			if v := n.Inputs[i]; w.g.IsInput(v) {
				return t, see(v, t)
			}
			return t, nil
		},
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error { return see(n.Outputs[i], t) },
	}
}

func (w *worker) mergeStates(into map[graph.ValueID]*tensorState) {
	for v, st := range w.states {
		if all := into[v]; all != nil {
			all.Merge(st.State)
		} else {
			into[v] = st
		}
	}
}

const histogramBins = 128

// statistics describes the activations in graph order, inputs first, then the float parameters of the operators.
func (a *analyzer) statistics(results []*sampleResult) []TensorStatistics {
	out := []TensorStatistics{}
	add := func(v graph.ValueID, kind, node string) {
		st := a.states[v]
		if st == nil || st.Count() == 0 {
			return
		}
		var m moments
		for _, r := range results {
			m = m.join(r.moments[v])
		}
		s := describe(a.g.Value(v).Name, kind, node, st.State, m)
		if a.cfg.Thresholds != nil {
			s.Thresholds = a.cfg.Thresholds(v)
		}
		out = append(out, s)
	}
	for _, v := range a.g.Inputs {
		add(v, "input", "")
	}
	for _, id := range a.order {
		n := a.g.Node(id)
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				add(v, "activation", n.Name)
			}
		}
	}
	seen := map[graph.ValueID]bool{}
	for i := range a.groups {
		for _, v := range a.g.Node(a.groups[i].node).Inputs {
			t := a.g.Const(v)
			if t == nil || t.DType != tensor.Float32 || seen[v] || t.Len() == 0 {
				continue
			}
			seen[v] = true
			st := observers.New()
			if _, err := st.Observe(t, 0); err != nil {
				continue // a parameter with NaN is reported where it is quantized
			}
			out = append(out, describe(a.g.Value(v).Name, "parameter", "", st, momentsOf(t.F32())))
		}
	}
	return out
}

// Calibrated describes the tensors of a network as calibration saw them, without moments, which it does not keep, and without parameters.
// state is what it knows of a tensor, nil for one that it did not see.
func Calibrated(g *graph.Graph, state func(name string) *observers.State) ([]TensorStatistics, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	out := []TensorStatistics{}
	add := func(v graph.ValueID, kind, node string) {
		if v == graph.NoValue {
			return
		}
		if st := state(g.Value(v).Name); st != nil && st.Count() > 0 {
			out = append(out, describe(g.Value(v).Name, kind, node, st, moments{}))
		}
	}
	for _, v := range g.Inputs {
		add(v, "input", "")
	}
	for _, id := range order {
		for _, v := range g.Node(id).Outputs {
			add(v, "activation", g.Node(id).Name)
		}
	}
	return out, nil
}

func describe(name, kind, node string, st *observers.State, m moments) TensorStatistics {
	x := st.Extent()
	s := TensorStatistics{Tensor: name, Kind: kind, Node: node, Count: int64(st.Count()), Min: float64(x.Min), Max: float64(x.Max),
		Mean: m.mean, Std: m.std(), Skewness: m.skewness(), Kurtosis: m.kurtosis(), Zeros: float64(st.Zeros()) / float64(st.Count())}
	channels := st.Channels()
	for c, r := range channels {
		if r.Min == r.Max && st.Count() > uint64(len(channels)) { // one element per channel, as in a bias, says nothing
			s.Dead = append(s.Dead, c)
		}
	}
	s.Channels = len(channels)
	if s.Max > s.Min {
		s.Histogram = equalBins(st, s.Min, s.Max)
	}
	return s
}

// equalBins redistributes the observer's bins, which are fine near zero, over equal ones; a bin goes where its middle lies.
func equalBins(st *observers.State, lo, hi float64) []int64 {
	bins := make([]int64, histogramBins)
	for b := range st.Bins() {
		mid := min(max((b.Lo+b.Hi)/2, lo), hi)
		bins[min(int((mid-lo)/(hi-lo)*histogramBins), histogramBins-1)] += int64(b.Count)
	}
	return bins
}
