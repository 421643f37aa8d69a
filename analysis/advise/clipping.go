package advise

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"qwb/internal/arrange"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Clipping is about ranges that are narrower than what tensors hold.
var Clipping = &Cause{Name: "clipping", Doc: "the range of a tensor is narrower than its values: what lies outside is cut off",
	find: func(f *Facts) []Finding { return f.misfits(true) }}

// misfit is a tensor whose range another observer chooses better.
type misfit struct {
	root        *tqc.Slot
	clip, round float64            // mean squared errors
	power       float64            // mean square of the tensor
	outside     float64            // the part of its values that reach further than a quarter of its grid
	values      [2]float64         // what it holds, at least and at most
	grid        [2]float64         // what its grid covers
	others      map[string]float64 // mean squared error under other observers
	params      map[string]tqc.Params
}

func (m *misfit) now() float64 { return m.clip + m.round }

// best is the smallest error that another observer makes.
func (m *misfit) best() float64 {
	b := m.now()
	for _, e := range m.others {
		b = min(b, e)
	}
	return b
}

// worthwhile is by how much the squared error of a tensor has to fall before its range counts as badly chosen, and leastNSR how large its
// NSR has to be.
const (
	worthwhile = 0.5
	leastNSR   = 5e-4
	mostRanges = 32    // of so many tensors at most, those with the largest error, other ranges are looked at: finding them takes time
	fewOutside = 0.005 // at most so many values beyond a quarter of the grid: these are outliers
)

// misfits lists the tensors whose error is made by clipping, or by rounding although a narrower range would do, and cures that give all of
// them the observer that is best for them together.
func (f *Facts) misfits(clipped bool) []Finding {
	var list []*misfit
	for id := range tqc.SlotID(f.Set.NumSlots()) {
		if m := f.misfit(id); m != nil && (m.clip > m.round) == clipped {
			list = append(list, m)
		}
	}
	arrange.Stable(list, func(a, b *misfit) int { return cmp.Compare(b.now()/b.power, a.now()/a.power) })
	list = list[:min(len(list), mostRanges)]
	for _, m := range list {
		f.alternatives(m)
	}
	list = slices.DeleteFunc(list, func(m *misfit) bool { return m.best() > worthwhile*m.now() && (clipped || m.outside > fewOutside) })
	arrange.Stable(list, func(a, b *misfit) int {
		return cmp.Compare((b.now()-b.best())/b.power, (a.now()-a.best())/a.power)
	})
	var out []Finding
	var free []*misfit
	for _, m := range list {
		switch {
		case m.root.Config.Observer == tqc.ObserverFixed: // the target prescribes it
		case m.root.Observer == tqc.ObserverFixed: // decided: only another decision about the numbers changes it
			out = append(out, f.rescaled(m))
		case len(free) < mostNodes:
			free = append(free, m)
		}
	}
	if len(free) == 0 {
		return out
	}
	return append(out, f.reobserved(free))
}

// misfit measures one root slot; nil where its range is not the observer's to choose, or nothing is known.
func (f *Facts) misfit(id tqc.SlotID) *misfit {
	root := f.Set.Slot(id)
	if f.Set.Root(id) != id || root.Weight || !root.State().Quantizes() || f.Graph.Const(root.Value) != nil || !root.Config.Integer() ||
		!root.Config.Policy.Has(tqc.PerTensor) || root.Config.RunTime() || !f.Set.Params(id).Ready() {
		return nil
	}
	st := f.State(id)
	if st == nil || !st.HasBins() || st.Count() == 0 {
		return nil
	}
	x, g := st.Extent(), f.Set.Grid(id, 0)
	m := &misfit{root: root, values: [2]float64{float64(x.Min), float64(x.Max)},
		grid:   [2]float64{float64(g.Dequantize(g.QMin)), float64(g.Dequantize(g.QMax))},
		others: map[string]float64{}, params: map[string]tqc.Params{}}
	m.clip, m.round, m.power = squared(st, m.grid, float64(g.Scale))
	m.outside = beyond(st, max(-m.grid[0], m.grid[1])/4)
	if !(m.power > 0) || m.now() < leastNSR*m.power {
		return nil
	}
	return m
}

// alternatives measures what other observers would make of a tensor.
func (f *Facts) alternatives(m *misfit) {
	st := f.State(m.root.ID)
	for _, r := range f.Ranges(m.root.ID) {
		if name, _, _ := r.Observer.Split(); name == tqc.ObserverIsotone {
			continue // is about the order in a row, not about the numbers
		}
		o := r.Params.Grid(&m.root.Config, 0)
		clip, round, _ := squared(st, [2]float64{float64(o.Dequantize(o.QMin)), float64(o.Dequantize(o.QMax))}, float64(o.Scale))
		m.others[string(r.Observer)], m.params[string(r.Observer)] = clip+round, r.Params
	}
}

// squared are the mean squares of what clipping to a range and rounding with a step do to the values of a tensor, and of the values. A bin
// counts with its middle; rounding loses step²/12, near zero the value itself.
func squared(st *observers.State, in [2]float64, step float64) (clip, round, power float64) {
	var n float64
	for b := range st.Bins() {
		x, c := (b.Lo+b.Hi)/2, float64(b.Count)
		n += c
		power += c * x * x
		switch {
		case x < in[0]:
			clip += c * (x - in[0]) * (x - in[0])
		case x > in[1]:
			clip += c * (x - in[1]) * (x - in[1])
		default:
			round += c * min(step*step/12, x*x)
		}
	}
	return clip / n, round / n, power / n
}

// beyond is the part of the values whose magnitude is larger than a bound.
func beyond(st *observers.State, bound float64) float64 {
	var out, all float64
	for b := range st.Bins() {
		if all += float64(b.Count); math.Abs(b.Lo+b.Hi)/2 > bound {
			out += float64(b.Count)
		}
	}
	return out / all
}

// evidence is the figures of the worst of some misfits.
func (f *Facts) evidence(list []*misfit) string {
	m := list[0]
	covers := fmt.Sprintf("%s holds %.3g to %.3g and its %d bits cover %.3g to %.3g", f.name(m.root), m.values[0], m.values[1],
		m.root.Config.Bits, m.grid[0], m.grid[1])
	if m.clip <= m.round {
		covers += fmt.Sprintf(", one step is %.2g", (m.grid[1]-m.grid[0])/float64(m.root.Config.QMax-m.root.Config.QMin))
	}
	part := "rounding"
	if m.clip > m.round {
		part = "clipping"
	}
	text := fmt.Sprintf("%s: its NSR is %.2g, %.0f %% of it by %s", covers, m.now()/m.power, 100*max(m.clip, m.round)/m.now(), part)
	if m.outside <= fewOutside && m.clip <= m.round {
		text += fmt.Sprintf("; rare values set the range: %.2g %% lie beyond a quarter of it, and steps are too coarse", 100*m.outside)
	} else {
		text += fmt.Sprintf("; another range leaves %.2g", m.best()/m.power)
	}
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf("; the same at %d more", n)
	}
	return text
}

// reobserved is the finding whose cure is another observer.
func (f *Facts) reobserved(list []*misfit) Finding {
	sums := map[string]float64{}
	for _, m := range list {
		for _, o := range m.observers() {
			sums[o] = 0
		}
	}
	var by []string
	for o := range sums {
		by = append(by, o)
	}
	slices.Sort(by)
	for _, m := range list {
		for _, o := range by {
			e, ok := m.others[o]
			if !ok {
				e = m.now() // as it is, or equal to another one
			}
			sums[o] += e / m.now()
		}
	}
	arrange.Stable(by, func(a, b string) int { return cmp.Compare(sums[a], sums[b]) })
	out := Finding{Evidence: f.evidence(list)}
	var slots []tqc.SlotID
	for _, m := range list {
		slots = append(slots, m.root.ID)
		out.Nodes = append(out.Nodes, f.Graph.Node(m.root.Node).Name)
	}
	out.Nodes = unique(out.Nodes)
	// The squared error counts a value far out for what it is; the network may not. What cuts more off is tried too.
	by = by[:min(2, len(by))]
	if list[0].clip <= list[0].round {
		by = unique(append(by, "kl", "percentile(0.999)"))
	}
	for _, o := range by {
		out.Cures = append(out.Cures, Cure{Slots: slots, Words: []string{"observer=" + o}})
	}
	return out
}

func (m *misfit) observers() (list []string) {
	for o := range m.others {
		list = append(list, o)
	}
	slices.Sort(list)
	return list
}

// rescaled is the finding about a scale that somebody decided.
func (f *Facts) rescaled(m *misfit) Finding {
	best := ""
	for _, o := range m.observers() {
		if best == "" || m.others[o] < m.others[best] {
			best = o
		}
	}
	p := m.params[best]
	words := []string{fmt.Sprintf("scale=%v", p.Scale[0]), fmt.Sprintf("zero_point=%d", p.ZeroPoint[0])}
	return Finding{Nodes: []string{f.Graph.Node(m.root.Node).Name}, Evidence: f.evidence([]*misfit{m}) +
		" (the scale was decided by hand or by an import)",
		Cures: []Cure{{Slots: []tqc.SlotID{m.root.ID}, Words: words}}}
}

// unique keeps the first of equal names.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Power is the mean square of a tensor.
func Power(st *observers.State) float64 {
	_, _, power := squared(st, [2]float64{math.Inf(-1), math.Inf(1)}, 0)
	return power
}
