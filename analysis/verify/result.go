package verify

import (
	"qwb/analysis"
	"qwb/quantizer/program"
)

// result puts together what all samples showed.
func (r *runner) result(samples int) *analysis.Verification {
	v := &analysis.Verification{Profile: r.profile.Name, Backend: program.Reference.Name, Samples: samples, Static: r.static,
		Measured: r.profile.Saturates, Safety: r.safety(),
		Float: r.program.Float.String(), Crossings: crossings(r.program), Digest: r.digest.result()}
	if r.compares() {
		v.Backend = r.cfg.Backend.Name
	}
	if r.backend != nil {
		v.Placed = Placed(r.backend.Placement())
	}
	for k := range r.drift {
		v.Drift = append(v.Drift, r.drift[k].result(r.g.Value(r.g.Outputs[k]).Name))
	}
	r.count(v)
	v.First = r.firstDivergence(v)
	return v
}

// Placed brings a placement into the form of the report; nil stays nil.
func Placed(p *program.Placement) *analysis.Placed {
	if p == nil {
		return nil
	}
	out := &analysis.Placed{Device: p.Device, Steps: p.Steps, OnDevice: p.OnDevice, OnShapes: p.OnShapes, OnHost: []analysis.HostStep{}}
	for _, h := range p.Host {
		out.OnHost = append(out.OnHost, analysis.HostStep{Node: h.Name, Op: h.Op, Reason: h.Reason})
	}
	return out
}

// sum adds up the tensors and gives the verdict.
func (c *checked) sum(v *analysis.Verification, tallies [][]*tally) {
	for i, list := range tallies {
		for _, t := range list {
			if t == nil {
				continue
			}
			v.Simulation.Compared += t.compared
			v.Simulation.Different += t.different
			v.Simulation.Ties += t.ties
			v.Backends.Compared += t.held
			v.Backends.Different += t.backend
			v.MaxDifference = max(v.MaxDifference, t.most)
			if id := c.program.Steps[i].Outputs[t.output]; c.program.Tensors[id].Counts() {
				v.Tensors++
			}
			if t.compared > 0 || t.backend > 0 || t.different > 0 {
				v.PerTensor = append(v.PerTensor, t.result())
			}
		}
	}
	v.IntegersCompared = v.Simulation.Compared + v.Backends.Compared
	v.IntegersDifferent = v.Backends.Different
	v.Ties = v.Simulation.Ties
	if !v.Measured {
		v.IntegersDifferent += v.Simulation.Different
	}
	integer := c.regions(v)
	switch {
	case v.IntegersDifferent > 0 || len(v.Static.Faults) > 0:
		v.Verdict = analysis.VerdictDifferent
	case integer == 0 || v.IntegersCompared == 0:
		v.Verdict = analysis.VerdictNothing
	case len(v.Simulated) > 0:
		v.Verdict = analysis.VerdictPartial
	case v.Ties > 0 || v.Simulation.Different > 0:
		v.Verdict = analysis.VerdictTies
	default:
		v.Verdict = analysis.VerdictEqual
	}
}

func (r *runner) count(v *analysis.Verification) { r.sum(v, r.tallies) }

// firstDivergence is the first in graph order: of one step, a number that is not the plan's comes before what it does to integers.
func (r *runner) firstDivergence(v *analysis.Verification) *analysis.Divergence {
	return r.earliest(r.tallies, v.Verdict == analysis.VerdictDifferent)
}

// earliest returns the first divergence; where none counts as a difference, the first tie.
func (c *checked) earliest(tallies [][]*tally, differences bool) *analysis.Divergence {
	at := 0
	for i := range tallies {
		for at < len(c.first) && c.first[at] < i {
			at++
		}
		if at < len(c.first) && c.first[at] == i {
			return &c.static.Faults[at]
		}
		for _, t := range tallies[i] {
			switch {
			case t == nil:
			case !differences && t.first != nil:
				return t.first
			case !differences && t.firstTie != nil:
				return t.firstTie
			case differences && t.firstBackend != nil:
				return t.firstBackend
			case differences && t.first != nil && !c.profile.Saturates:
				return t.first
			}
		}
	}
	return nil
}
