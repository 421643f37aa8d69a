package workbench

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb"
	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Estimate is what a decision is expected to do, without running anything.
type Estimate struct {
	Before *analysis.NSR `json:"before"` // of the outputs, as the last analysis measured it; null without one
	After  *analysis.NSR `json:"after"`  // null where nothing is known of an operator that would run on integers then
	// MACs are the shares of the multiply-accumulates on integers, Bytes those of constants.
	MACs  pair `json:"macs_int8"`
	Bytes pair `json:"bytes"`
	// Along are operators that change where they run though they were not selected, Changed all whose precision or numbers change.
	Along   []string `json:"taken_along"`
	Changed []string `json:"changed"`
	Unknown []string `json:"unknown"` // that no analysis has figures of
	Command string   `json:"command"`
	Basis   string   `json:"basis"` // what the estimate rests on, in words
	Stale   bool     `json:"stale"` // the analysis is of other decisions
}

type pair struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

func (b *Bench) estimate(ctx context.Context, q struct {
	selection
	Properties []string `json:"properties"`
}) (*Estimate, error) {
	sel, err := q.selector()
	if err != nil {
		return nil, err
	}
	was, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	p := b.project()
	is, err := b.preview(ctx, sel, q.Properties)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	e := &Estimate{Command: command(append([]string{"set", p.Plan, sel}, q.Properties...)...), Changed: changedNodes(was.Plan, is.Plan), Along: []string{}, Unknown: []string{}}
	if e.MACs.Before, e.Bytes.Before, err = was.cost(); err == nil {
		e.MACs.After, e.Bytes.After, err = is.cost()
	}
	if err != nil {
		return nil, err
	}
	selected, _ := decision.Nodes(was.Graph, sel) // tensors are no operators that are taken along
	for _, name := range e.Changed {
		a, ok := was.Graph.LookupNode(name)
		z, ok2 := is.Graph.LookupNode(name)
		if ok && ok2 && was.Set.Domains[a] != is.Set.Domains[z] && !slices.Contains(selected, a) {
			e.Along = append(e.Along, name)
		}
	}
	r, stale := b.analysis(p.Plan, was.hash, func(r *analysis.Report) bool { return len(r.Outputs) > 0 && len(r.Layerwise) > 0 })
	if e.Stale = stale; r == nil {
		e.Basis = "no analysis yet: analyze measures the error of each operator alone, on which estimates rest"
		return e, nil
	}
	return e, e.errors(b, was, is, r)
}

// cost is the share of the work that runs on integers, and the bytes of constants.
func (o *opened) cost() (share, bytes float64, err error) {
	c, err := analysis.CostOf(o.Graph, o.Set, nil)
	return c.Integer(), float64(c.TotalBytes()), err
}

// errors estimates the error of the outputs: errors of operators alone are added up, and the sum is scaled so that it is what was measured of
// the plan as it is. How far that is from the plain sum counts as uncertainty, beside that of the measurement, and so does all that other
// scales are estimated to do: outputs often feel less of a value that is clipped than the tensor does.
func (e *Estimate) errors(b *Bench, was, is *opened, r *analysis.Report) error {
	before := r.Judged().Judged()
	e.Before = &before
	changed := map[string]bool{}
	for _, name := range e.Changed {
		changed[name] = true
	}
	heads := map[string]bool{}
	sum := 0.0
	for i := range r.Layerwise {
		sum += r.Layerwise[i].Judged().NSR
	}
	scale := 1.0
	if sum > 0 {
		scale = before.NSR / sum
	}
	var sums [len(felt)]float64
	after, moved, rough := 0.0, 0.0, false
	for i := range r.Layerwise {
		l := &r.Layerwise[i]
		heads[l.Node] = true
		share := l.Judged().NSR * scale
		for k, factor := range factorsOf(b, was, is, l, changed) {
			then := share * factor
			if factor > 1 { // one operator can lose little more than all: its error goes to 1
				then /= 1 + share*(factor-1)
			}
			if sums[k] += then; k == 0 && factor > 0 && factor != 1 {
				moved, rough = moved+math.Abs(then-share), true
			}
		}
	}
	after = sums[0]
	for _, other := range sums {
		moved = max(moved, math.Abs(other-after))
	}
	for _, name := range e.Changed {
		a, ok := was.Graph.LookupNode(name)
		z, ok2 := is.Graph.LookupNode(name)
		if ok && ok2 && was.Set.Domains[a] != tqc.DomainInt && is.Set.Domains[z] == tqc.DomainInt && is.Set.Fused[z] == graph.NoNode && !heads[name] {
			e.Unknown = append(e.Unknown, name)
		}
	}
	e.Basis = fmt.Sprintf("errors of %s alone, measured on %s, added up", plain.Count(len(r.Layerwise), "operator"), plain.Count(r.Samples, "sample"))
	if rough {
		e.Basis += "; with other scales, in proportion to the error of their tensors, which is rough: measure it"
	}
	if len(e.Unknown) > 0 {
		e.Basis += "; of " + plain.Count(len(e.Unknown), "operator") + " that would run on integers nothing is known"
		return nil
	}
	n := analysis.NSR{NSR: after}
	off := 0.0
	if sum > 0 { // errors that were not scaled would leave another rest
		off = after - max(before.NSR+(after-before.NSR)/scale, 0)
	}
	measured := 0.0
	if before.NSRError != nil && before.NSR > 0 {
		measured = *before.NSRError * n.NSR / before.NSR
	}
	spread := math.Hypot(math.Hypot(measured, off), moved)
	n.NSRError = &spread
	if n.NSR > 0 {
		db := -10 * math.Log10(n.NSR)
		n.SQNR = &db
	}
	e.After = &n
	return nil
}

// felt are how much of what is clipped of an activation outputs may feel, of what the tensor does: values far away are few, and networks seldom
// hang on how far. Nobody knows the number without running it; the first was the best on the networks that it was tried on, the others say how
// far it may be off.
var felt = [...]float64{1.0 / 32, 0, 1}

// factorsOf is by how much the error of one operator alone changes, for each number of felt: nothing is left where it runs in float; else its
// parts, of the weights and of the activations, change as the error of these tensors does.
func factorsOf(b *Bench, was, is *opened, l *analysis.LayerError, changed map[string]bool) (list [len(felt)]float64) {
	for k := range list {
		list[k] = 1
	}
	a, ok := was.Graph.LookupNode(l.Node)
	z, ok2 := is.Graph.LookupNode(l.Node)
	if !ok || !ok2 {
		return list
	}
	group := []string{l.Node}
	for _, id := range was.Graph.Nodes() {
		if was.Set.Fused[id] == a {
			group = append(group, was.Graph.Node(id).Name)
		}
	}
	if !slices.ContainsFunc(group, func(name string) bool { return changed[name] }) {
		return list
	}
	weight, activation := 0.5, 0.5
	if l.Weight != nil && l.Activation != nil && max(*l.Weight, 0)+max(*l.Activation, 0) > 0 {
		weight, activation = max(*l.Weight, 0), max(*l.Activation, 0)
		weight, activation = weight/(weight+activation), activation/(weight+activation)
	}
	switch d := is.Set.Domains[z]; {
	case d == tqc.DomainWeights:
		activation = 0
	case d != tqc.DomainInt:
		return [len(felt)]float64{}
	}
	var w, round, clip [2]float64
	for i, o := range []*opened{was, is} {
		for _, name := range group {
			id, ok := o.Graph.LookupNode(name)
			if !ok {
				continue
			}
			for _, slot := range slices.Concat(o.Set.Inputs(id), o.Set.Outputs(id)) {
				if slot == tqc.NoSlot || !o.Set.Slot(slot).State().Quantizes() {
					continue
				}
				r, c, constant, err := o.slotError(b, was, slot)
				switch {
				case err != nil: // nothing is known of it: as it was
				case constant:
					w[i] += r + c
				default:
					round[i], clip[i] = round[i]+r, clip[i]+c
				}
			}
		}
	}
	ratio := func(before, after float64) float64 {
		if before == 0 {
			return 1
		}
		return after / before
	}
	for k, f := range felt {
		list[k] = weight*ratio(w[0], w[1]) + activation*ratio(round[0]+f*clip[0], round[1]+f*clip[1])
	}
	return list
}

// slotError is the error that quantizing makes at a slot, and whether that is of a constant that is multiplied by. The statistics are those of
// another plan of the same model.
func (o *opened) slotError(b *Bench, stats *opened, slot tqc.SlotID) (round, clip float64, isConstant bool, err error) {
	sl, p := o.Set.Slot(slot), o.Set.Params(slot)
	if t := o.Graph.Const(sl.Value); t != nil {
		if !sl.Weight {
			return 0, 0, true, nil // a bias
		}
		if w, err := o.weights(sl.Node, slot); err == nil && w != nil && len(w.Channels) > 0 { // channels matter alike: what reads them was trained for their scale
			for _, c := range w.Channels {
				round += min(c.NSR, 1) / float64(len(w.Channels))
			}
			return round, 0, true, nil
		}
		f, err := constant(t, &sl.Config, p)
		return f.Round, f.Clip, true, err
	}
	if !p.Ready() || len(p.Scale) != 1 {
		return 0, 0, false, qwb.Usagef("no single scale")
	}
	known, err := stats.stats()
	if err != nil {
		return 0, 0, false, err
	}
	t := known.Tensor(o.Graph.Value(sl.Value).Name)
	if t == nil {
		return 0, 0, false, qwb.Usagef("no statistics")
	}
	f, _, err := figures(t.State, sl.Config, p.Scale[0], p.ZeroPoint[0])
	return f.Round, f.Clip, false, err
}
