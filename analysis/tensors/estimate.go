package tensors

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// Estimate is what a decision is expected to do, without running anything.
type Estimate struct {
	Before *analysis.NSR `json:"before"` // of the outputs, as the last analysis measured it; null without one
	After  *analysis.NSR `json:"after"`  // null where nothing is known of an operator that would run on integers then
	// MACs are the shares of the multiply-accumulates on integers, Bytes those of constants.
	MACs  Pair `json:"macs_int8"`
	Bytes Pair `json:"bytes"`
	// Along are operators that change where they run though they were not selected, Changed all whose precision or numbers change.
	Along   []string `json:"taken_along"`
	Changed []string `json:"changed"`
	Unknown []string `json:"unknown"` // that no analysis has figures of
	Command string   `json:"command"`
	Basis   string   `json:"basis"` // what the estimate rests on, in words
	Stale   bool     `json:"stale"` // the analysis is of other decisions
}

// Pair is a figure of two plans.
type Pair struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Serves reports whether estimates can rest on an analysis: it has the error of the outputs, and that of every operator alone.
func Serves(r *analysis.Report) bool { return len(r.Outputs) > 0 && len(r.Layerwise) > 0 }

// EstimateOf is what makes the plan is of the plan was, by a decision about what a selector means. r is an analysis that Serves, and stale
// says that it is of other decisions; without one, nil, only the operators and their work are compared.
func EstimateOf(was, is *Plan, selector string, r *analysis.Report, stale bool) (*Estimate, error) {
	e := &Estimate{Changed: plan.Changed(was.Plan, is.Plan), Along: []string{}, Unknown: []string{}, Stale: stale}
	var err error
	if e.MACs.Before, e.Bytes.Before, err = was.cost(); err == nil {
		e.MACs.After, e.Bytes.After, err = is.cost()
	}
	if err != nil {
		return nil, err
	}
	selected, _ := decision.Nodes(was.Graph, selector) // tensors are no operators that are taken along
	for _, name := range e.Changed {
		a, ok := was.Graph.LookupNode(name)
		z, ok2 := is.Graph.LookupNode(name)
		if ok && ok2 && was.Set.Domains[a] != is.Set.Domains[z] && !slices.Contains(selected, a) {
			e.Along = append(e.Along, name)
		}
	}
	if r == nil {
		e.Basis = "no analysis yet: analyze measures the error of each operator alone, on which estimates rest"
		return e, nil
	}
	e.errors(was, is, r)
	return e, nil
}

// cost is the share of the work that runs on integers, and the bytes of constants.
func (p *Plan) cost() (share, bytes float64, err error) {
	c, err := analysis.CostOf(p.Graph, p.Set, p.Target, nil)
	return c.Integer(), float64(c.TotalBytes()), err
}

// Said gives an estimate the command line that puts its decision into the plan; said are the words after those of the command and the plan.
// Where r is of the plan as it is, and its advice ran that line on samples, what it found counts more than what is added up.
func (e *Estimate) Said(command, said string, r *analysis.Report) {
	if e.Command = command; r == nil || e.Stale {
		return
	}
	for _, a := range r.Advice {
		if a.Predicted != nil && strings.HasPrefix(a.Command, "qwb set ") && strings.HasSuffix(a.Command, " "+said) {
			n := analysis.NewNSR(analysis.Estimate{Mean: *a.Predicted, Error: math.NaN()})
			e.After, e.Basis = &n, "the whole network was run with it for the advice, on at most 8 calibration samples"
		}
	}
}

// sums are what the errors of operators alone add up to.
type sums struct {
	measured float64            // of the plan as it is
	scale    float64            // by which that is the error that was measured of the whole
	after    [len(felt)]float64 // of the other plan, scaled
	moved    float64            // how far other scales move it
	rough    bool               // something rests on the error of tensors
	heads    map[string]bool    // the operators
}

// errors estimates the error of the outputs: errors of operators alone are added up, and the sum is scaled so that it is what was measured
// of the plan as it is. How far that is from the plain sum counts as uncertainty, beside that of the measurement, and so does all that
// other scales are estimated to do: outputs often feel less of a value that is clipped than the tensor does.
func (e *Estimate) errors(was, is *Plan, r *analysis.Report) {
	before := r.Judged().Judged()
	e.Before = &before
	s := e.add(was, is, r, before.NSR)
	for _, name := range e.Changed {
		a, ok := was.Graph.LookupNode(name)
		z, ok2 := is.Graph.LookupNode(name)
		if ok && ok2 && was.Set.Domains[a] != tqc.DomainInt && is.Set.Domains[z] == tqc.DomainInt && is.Set.Fused[z] == graph.NoNode &&
			!s.heads[name] {
			e.Unknown = append(e.Unknown, name)
		}
	}
	e.Basis = fmt.Sprintf("errors of %s alone, measured on %s, added up", plain.Count(len(r.Layerwise), "operator"),
		plain.Count(r.Samples, "sample"))
	if s.rough {
		e.Basis += "; with other scales, in proportion to the error of their tensors, which is rough: measure it"
	}
	if len(e.Unknown) > 0 {
		e.Basis += "; of " + plain.Count(len(e.Unknown), "operator") + " that would run on integers nothing is known"
		return
	}
	e.After = s.whole(before)
}

// add adds up what the errors of operators become.
func (e *Estimate) add(was, is *Plan, r *analysis.Report, before float64) sums {
	changed := map[string]bool{}
	for _, name := range e.Changed {
		changed[name] = true
	}
	s := sums{scale: 1, heads: map[string]bool{}}
	for i := range r.Layerwise {
		s.measured += r.Layerwise[i].Judged().NSR
	}
	if s.measured > 0 {
		s.scale = before / s.measured
	}
	for i := range r.Layerwise {
		l := &r.Layerwise[i]
		s.heads[l.Node] = true
		share := l.Judged().NSR * s.scale
		for k, factor := range factorsOf(was, is, l, changed) {
			then := share * factor
			if factor > 1 { // one operator can lose little more than all: its error goes to 1
				then /= 1 + share*(factor-1)
			}
			if s.after[k] += then; k == 0 && factor > 0 && factor != 1 {
				s.moved, s.rough = s.moved+math.Abs(then-share), true
			}
		}
	}
	for _, other := range s.after {
		s.moved = max(s.moved, math.Abs(other-s.after[0]))
	}
	return s
}

// whole is the error of the outputs, with how far it may be off.
func (s *sums) whole(before analysis.NSR) *analysis.NSR {
	n := analysis.NSR{NSR: s.after[0]}
	off := 0.0
	if s.measured > 0 { // errors that were not scaled would leave another rest
		off = n.NSR - max(before.NSR+(n.NSR-before.NSR)/s.scale, 0)
	}
	measured := 0.0
	if before.NSRError != nil && before.NSR > 0 {
		measured = *before.NSRError * n.NSR / before.NSR
	}
	spread := math.Hypot(math.Hypot(measured, off), s.moved)
	n.NSRError = &spread
	if n.NSR > 0 {
		db := -10 * math.Log10(n.NSR)
		n.SQNR = &db
	}
	return &n
}

// felt are how much of what is clipped of an activation outputs may feel, of what the tensor does: values far away are few, and networks
// seldom hang on how far. Nobody knows the number without running it; the first was the best on the networks that it was tried on, the
// others say how far it may be off.
var felt = [...]float64{1.0 / 32, 0, 1}

// factorsOf is by how much the error of one operator alone changes, for each number of felt: nothing is left where it runs in float; else
// its parts, of the weights and of the activations, change as the error of these tensors does.
func factorsOf(was, is *Plan, l *analysis.LayerError, changed map[string]bool) (list [len(felt)]float64) {
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
	x, y := was.groupError(was, group), is.groupError(was, group)
	for k, f := range felt {
		list[k] = weight*ratio(x.weights, y.weights) + activation*ratio(x.round+f*x.clip, y.round+f*y.clip)
	}
	return list
}

func ratio(before, after float64) float64 {
	if before == 0 {
		return 1
	}
	return after / before
}

// groupError is the error of the tensors of some operators: of their weights, and of activations that are rounded and clipped.
type groupError struct{ weights, round, clip float64 }

// groupError adds up what quantizing makes of the tensors of operators. stats is the plan whose statistics count.
func (p *Plan) groupError(stats *Plan, group []string) (e groupError) {
	for _, name := range group {
		id, ok := p.Graph.LookupNode(name)
		if !ok {
			continue
		}
		for _, slot := range slices.Concat(p.Set.Inputs(id), p.Set.Outputs(id)) {
			if slot == tqc.NoSlot || !p.Set.Slot(slot).State().Quantizes() {
				continue
			}
			round, clip, constant, err := p.slotError(stats, slot)
			switch {
			case err != nil: // nothing is known of it: as it was
			case constant:
				e.weights += round + clip
			default:
				e.round, e.clip = e.round+round, e.clip+clip
			}
		}
	}
	return e
}

// slotError is the error that quantizing makes at a slot, and whether that is of a constant that is multiplied by. The statistics are those
// of another plan of the same model.
func (p *Plan) slotError(stats *Plan, slot tqc.SlotID) (round, clip float64, isConstant bool, err error) {
	sl, params := p.Set.Slot(slot), p.Set.Params(slot)
	if t := p.Graph.Const(sl.Value); t != nil {
		if !sl.Weight {
			return 0, 0, true, nil // a bias
		}
		if w, err := p.Weights(sl.Node, slot); err == nil && w != nil && len(w.Channels) > 0 {
			for _, c := range w.Channels { // channels matter alike: what reads them was trained for their scale
				round += min(c.NSR, 1) / float64(len(w.Channels))
			}
			return round, 0, true, nil
		}
		f, err := OfConstant(t, &sl.Config, params)
		return f.Round, f.Clip, true, err
	}
	if !params.Ready() || len(params.Scale) != 1 {
		return 0, 0, false, refuse("no single scale")
	}
	seen, err := stats.Observed()
	if err != nil {
		return 0, 0, false, err
	}
	st := seen.State(p.Graph.Value(sl.Value).Name)
	if st == nil {
		return 0, 0, false, refuse("no statistics")
	}
	f, err := OfState(st, sl.Config, params.Scale[0], params.ZeroPoint[0])
	return f.Round, f.Clip, false, err
}
