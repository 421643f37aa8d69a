package reports

import (
	"fmt"
	"io"

	"qwb/analysis"
	"qwb/internal/plain"
)

// VerificationHTML writes a verification as one file that needs nothing else. The whole of it stands in the file as JSON too, in
// the element with id "verification". Names are escaped.
func VerificationHTML(w io.Writer, title string, v *analysis.Verification) error {
	p := newPage(title+": verification", title)
	p.put(`<p class="soft">Verification · profile <b>%s</b> · backend <b>%s</b> · %s`, v.Profile, v.Backend, plain.Count(v.Samples, "sample"))
	if d := v.Placed; d != nil {
		p.put(" · %d of %d steps on %s, %d on the CPU", d.OnDevice, d.Steps, d.Device, len(d.OnHost))
	}
	p.put("</p>\n<div class=\"tiles\">\n")
	p.tile("verdict", string(v.Verdict), fmt.Sprintf("largest difference %d steps", v.MaxDifference))
	p.tile("numbers against the plan", fmt.Sprint(len(v.Static.Faults)), fmt.Sprintf("different of %s, %d steps", count(v.Static.Values), v.Static.Steps))
	p.tile("integers against real arithmetic", fmt.Sprint(v.Simulation.Different), fmt.Sprintf("different of %s, %d ties", count(v.Simulation.Compared), v.Simulation.Ties))
	if v.Backends.Compared > 0 {
		p.tile("integers against the reference", fmt.Sprint(v.Backends.Different), fmt.Sprintf("different of %s", count(v.Backends.Compared)))
	}
	p.put("</div>\n")
	warn := func(text string) { p.put(`<p class="warn">%s</p>`+"\n", text) }
	if v.Measured {
		warn("The profile saturates: what differs from real arithmetic is measured, not held against it.")
	}
	if v.Verdict == "nothing" {
		warn("No operator of the plan runs on integers: nothing was compared.")
	}
	if v.First != nil {
		warn(Divergence(v.First))
	}
	if len(v.Simulated) > 0 {
		p.section("Simulated, not compared", fill("%s verified; these have no integer form and were simulated.", ShareText(v.Share)))
		p.table("sortable", "<node", "op", "MACs", "<why")
		for _, s := range v.Simulated {
			p.row(shortName(s.Node, 40), s.Op, cell(s.MACs, count(s.MACs)), name(s.Why))
		}
		p.endTable()
	}
	if len(v.Static.Faults) > 0 {
		p.put("<h2>Numbers that are not the plan's</h2>\n")
		p.table("sortable", "<node", "op", "<tensor", "<what", "index", "expected", "got")
		for _, f := range v.Static.Faults {
			p.row(shortName(f.Node, 40), f.Op, name(shorten(f.Tensor, 40)), name(f.What), f.Index, whole(f.Expected), whole(f.Got))
		}
		p.endTable()
	}
	if len(v.Fits) > 0 {
		p.section("Arithmetic profiles", "Every step computed from the recorded tensors under each profile.")
		p.table("sortable", "<profile", "integers", "different", "largest", "<why not")
		for _, f := range v.Fits {
			p.row(name(f.Profile), f.Compared, f.Different, f.Max, name(f.Why))
		}
		p.endTable()
	}
	p.section("Tensors", `Every step is computed again from the integers that it read. A difference is a <b>tie</b> where the exact value lies within the <b>bound</b> of a
rounding boundary; <b>distance</b> is the largest one of an integer that differs, in steps.`)
	p.table("sortable", "<tensor", "<node", "op", "integers", "different", "ties", "backend", "bound", "distance", "<differences")
	for i := range v.PerTensor {
		c := &v.PerTensor[i]
		p.row(shortName(c.Tensor, 40), shortName(c.Node, 32), c.Op, c.Compared, c.Different, c.Ties, c.Backend, figure(c.Bound),
			figure(c.Distance), name(Histogram(c.Histogram)))
	}
	p.endTable()
	if len(v.Drift) > 0 {
		p.section("Drift", "The whole program against the whole simulation, each running on its own numbers.")
		p.table("sortable", "<output", "NSR", "MSE", "cosine", "largest difference")
		for i := range v.Drift {
			d := &v.Drift[i]
			p.row(name(d.Output), figure(d.NSR), figure(d.MSE), cell(exact(d.Cosine), cosine(d.Cosine)), figure(d.MaxDifference))
		}
		p.endTable()
	}
	if len(v.Safety) > 0 {
		p.section("Sums of products", `Bounds hold for every input. Processors without VNNI add <b>pairs</b> of neighbouring products in 16 bits: those <b>at risk</b> saturate for some input,
the <b>saturated</b> ones did on the data.`)
		p.table("sortable", "<node", "op", "least", "most", "bits", "largest bias", "pairs", "at risk", "sums of pairs", "saturated", "accumulators affected", "<cure")
		for i := range v.Safety {
			s := &v.Safety[i]
			p.row(shortName(s.Node, 40), s.Op, s.Min, s.Max, s.Bits, s.Bias, s.Pairs, s.AtRisk, s.Sums,
				s.Saturated, s.Affected, name(s.Cure))
		}
		p.endTable()
	}
	return p.end(w, "verification", v)
}
