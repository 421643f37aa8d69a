package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// VerificationText writes the verdict with its counts, the first divergence, the tensors that differ, the drift and the safety of
// the sums. Tensors without a difference are counted only.
func VerificationText(w io.Writer, v *analysis.Verification) error {
	t := &tables{w: w}
	if n := len(v.Missing); n > 0 {
		t.printf("%d of %s of integers not recorded: what differs behind those is not held against the engine.\n", n,
			plain.Count(n+v.Recorded, "tensor"))
	}
	t.printf("%s\n(verdict %s, profile %s, backend %s, %s)\n\n", outcome(v), v.Verdict, v.Profile, v.Backend, plain.Count(v.Samples, "sample"))
	t.begin("Compared", "what", "compared", "different", "ties")
	t.row("constants of the program, derived again from the plan", fmt.Sprint(v.Static.Values), fmt.Sprint(len(v.Static.Faults)), "")
	if v.Backends.Compared > 0 || v.Backends.Different > 0 {
		t.row("integers of "+v.Backend+" and of the reference", fmt.Sprint(v.Backends.Compared), fmt.Sprint(v.Backends.Different), "")
	}
	t.row("integers and exact real arithmetic", fmt.Sprint(v.Simulation.Compared), fmt.Sprint(v.Simulation.Different),
		fmt.Sprint(v.Simulation.Ties))
	t.end()
	if v.Measured {
		t.printf("This profile saturates: differences from real arithmetic are counted and are no failure.\n\n")
	}
	if v.Verdict == analysis.VerdictNothing {
		if v.BitExact != nil {
			t.printf("No integers were recorded together with what they are computed from, so nothing was compared.\n\n")
		} else {
			t.printf("No operator of the plan runs on integers, so nothing was compared.\n\n")
		}
	}
	simulatedTable(t, v)
	if v.First != nil {
		t.printf("%s\n\n", Divergence(v.First))
	}
	for _, f := range v.EngineFaults {
		if f.On == "" {
			t.printf("the file is right, the engine is wrong: %s\n  cure: %s\n\n", f.String(), f.Cure)
		} else {
			t.printf("if the engine ran on %s, the file is right and the engine is wrong: %s\n  cure: %s\n\n", f.On, f.String(), f.Cure)
		}
	}
	for i, d := range v.Static.Faults {
		if i > 0 && i < 20 {
			t.printf("%s\n", Divergence(&d))
		}
	}
	verificationTensors(t, v)
	if len(v.Fits) > 0 {
		t.begin("Profiles, best match first", "profile", "integers", "different", "largest", "")
		for _, f := range v.Fits {
			t.row(f.Profile, fmt.Sprint(f.Compared), fmt.Sprint(f.Different), fmt.Sprint(f.Max), shorten(f.Why, 80))
		}
		t.end()
	}
	bitExact(t, v)
	if len(v.Missing) > 0 {
		t.printf("%s not recorded: %s\n\n", plain.Count(len(v.Missing), "tensor"), shorten(strings.Join(v.Missing, ", "), 200))
	}
	if len(v.Drift) > 0 {
		t.begin("Difference between the integer program and the simulation, both run freely", "output", "NSR", "cosine", "largest difference")
		for _, d := range v.Drift {
			t.row(shorten(d.Output, 48), small(d.NSR), cosine(d.Cosine), small(d.MaxDifference))
		}
		t.end()
	}
	safetyTable(t, v)
	crossingTable(t, v)
	placedTable(t, v.Placed)
	if v.IntegerShare != nil {
		t.printf("%s\n", IntegerShare(v.IntegerShare))
	}
	return t.err
}

// outcome says a verdict in words: whether it holds, and the counts behind it.
func outcome(v *analysis.Verification) string {
	compared := int64(v.Simulation.Compared)
	integers := fmt.Sprintf("0 of %d integers differ", compared)
	if ties := v.Simulation.Ties; ties > 0 {
		integers += fmt.Sprintf(", %d rounding %s", ties, plain.Plural(int(ties), "tie"))
	}
	switch v.Verdict {
	case analysis.VerdictEqual, analysis.VerdictTies:
		return "OK: " + integers
	case analysis.VerdictPartial:
		if len(v.OffGrid) > 0 {
			return "PARTLY VERIFIED: " + integers + ", " + plain.Count(len(v.OffGrid), "tensor") + " recorded in float"
		}
		return "PARTLY VERIFIED: " + integers + " in what has an integer form"
	case analysis.VerdictNothing:
		return "NOT VERIFIED: nothing runs on integers"
	case analysis.VerdictNotFinite:
		return "FAILED: there are numbers that are NaN or infinite and are not in float"
	case analysis.VerdictOther:
		return "FAILED: the integers follow another arithmetic profile"
	}
	different := int64(v.Simulation.Different) + int64(v.Backends.Different)
	return fmt.Sprintf("FAILED: %d of %d integers and %s of the program differ", different, compared+int64(v.Backends.Compared),
		plain.Count(len(v.Static.Faults), "constant"))
}

// bitExact says whether a recorded engine is the profile, and which tensors it recorded in float.
func bitExact(t *tables, v *analysis.Verification) {
	if b := v.BitExact; b != nil && b.Compared > 0 {
		said := "yes"
		if !b.Holds {
			said = "no"
		}
		t.printf("Bit-exact with profile %s: %s (%d of %d integers differ", b.Profile, said, b.Different, b.Compared)
		if b.Different > 0 {
			t.printf(", by up to %d", b.Max)
		}
		t.printf(").\n")
		if b.Open {
			t.printf("The profile leaves integers near a rounding boundary to the engine: the verdict does not ask for them.\n")
		}
		t.printf("\n")
	}
	if len(v.OffGrid) == 0 {
		return
	}
	t.begin("Recorded in float: these numbers are no integers of the plan and were not compared", "tensor", "numbers", "off the grid",
		"farthest, in steps")
	for i, o := range v.OffGrid {
		if i == 20 {
			t.row(fmt.Sprintf("and %d more", len(v.OffGrid)-i), "", "", "")
			break
		}
		t.row(shorten(o.Tensor, 48), fmt.Sprint(o.Compared), fmt.Sprint(o.Off), small(float64(o.Far)))
	}
	t.end()
}

// simulatedTable lists what has no integer form, and says how much work was verified.
func simulatedTable(t *tables, v *analysis.Verification) {
	if len(v.Simulated) == 0 {
		return
	}
	t.printf("Verified: %s. The rest has no integer form; it was simulated and not compared.\n\n", ShareText(v.Share))
	t.begin("Simulated, not compared", "node", "op", "MACs", "why")
	for _, s := range v.Simulated {
		t.row(shorten(s.Node, 48), s.Op, fmt.Sprint(s.MACs), shorten(s.Why, 100))
	}
	t.end()
}

// ShareText says a share in words: 93.12 % of the multiply-accumulates.
func ShareText(s *analysis.Share) string {
	if s == nil {
		return "all"
	}
	what := "the multiply-accumulates"
	if s.Of != "macs" {
		what = fmt.Sprintf("the operators (%d of %d)", s.Verified, s.All)
	}
	return fmt.Sprintf("%.2f %% of %s", 100*s.Part(), what)
}

// PlacedText writes where the steps of integer programs ran, as the text of a verification has it; nothing for nil.
func PlacedText(w io.Writer, p *analysis.Placed) error {
	t := &tables{w: w}
	placedTable(t, p)
	return t.err
}

// placedTable says which steps ran on a device, and lists those that did not by operator and reason.
func placedTable(t *tables, p *analysis.Placed) {
	if p == nil {
		return
	}
	if p.Device == "" {
		t.printf("%s\n\n", byReference(p))
		return
	}
	t.printf("%d of %d steps ran on %s, %d on the CPU", p.OnDevice, p.Steps, p.Device, len(p.OnHost))
	if p.OnShapes > 0 {
		t.printf(", %d only compute shapes", p.OnShapes)
	}
	t.printf("\n\n")
	if len(p.OnHost) == 0 {
		return
	}
	type kind struct{ op, reason string }
	var kinds []kind
	nodes := map[kind][]string{}
	for _, h := range p.OnHost {
		k := kind{h.Op, h.Reason}
		if nodes[k] == nil {
			kinds = append(kinds, k)
		}
		nodes[k] = append(nodes[k], h.Node)
	}
	t.begin("Steps on the CPU", "op", "steps", "reason", "first")
	for _, k := range kinds {
		t.row(k.op, fmt.Sprint(len(nodes[k])), shorten(k.reason, 80), shorten(nodes[k][0], 48))
	}
	t.end()
}

// namedSteps is how many steps a line names.
const namedSteps = 8

// byReference names the steps that the processor has no fast kernel for: "3 of 40 steps by the reference: conv1 (int16 activations), ...".
func byReference(p *analysis.Placed) string {
	var names []string
	for i, h := range p.OnHost {
		if i == namedSteps {
			names = append(names, fmt.Sprintf("and %d more", len(p.OnHost)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s)", shorten(h.Node, 48), h.Reason))
	}
	return fmt.Sprintf("%d of %s by the reference: %s", len(p.OnHost), plain.Count(p.Steps, "step"), strings.Join(names, ", "))
}

// verificationTensors writes the tensors with a difference or a tie, at most 40.
func verificationTensors(t *tables, v *analysis.Verification) {
	some := 0
	bound := 0.0
	for _, c := range v.PerTensor {
		bound = max(bound, c.Bound)
		if c.Different+c.Ties+c.Backend > 0 {
			some++
		}
	}
	t.printf("%s compared, %d with a difference or a tie. Largest bound for a tie: %s quantization steps.\n\n",
		plain.Count(v.Tensors, "tensor"), some, small(bound))
	if some == 0 {
		return
	}
	t.begin("Tensors with a difference or a tie, in graph order", "tensor", "op", "integers", "different", "ties", "backend", "bound",
		"distance", "histogram")
	shown := 0
	for _, c := range v.PerTensor {
		if c.Different+c.Ties+c.Backend == 0 {
			continue
		}
		if shown++; shown > 40 {
			break
		}
		t.row(shorten(c.Tensor, 40), c.Op, fmt.Sprint(c.Compared), fmt.Sprint(c.Different), fmt.Sprint(c.Ties), fmt.Sprint(c.Backend),
			Number(c.Bound), Number(c.Distance), Histogram(c.Histogram))
	}
	t.end()
}

// safetyTable says how many sums of products are safe for every input. It lists the steps whose sums saturated on the data
// or leave int32 for some input, those that saturated most first, at most 20.
func safetyTable(t *tables, v *analysis.Verification) {
	if len(v.Safety) == 0 {
		return
	}
	safe, wide, bits, saturating := 0, 0, 0, 0
	bias, pairs := int64(0), int64(0)
	var worst []analysis.SafetyRow
	for _, s := range v.Safety {
		bits = max(bits, s.Bits)
		bias = max(bias, s.Bias)
		pairs += s.AtRisk
		if s.Saturated > 0 {
			saturating++
		}
		if !s.Fits {
			wide++
		}
		if s.AtRisk == 0 {
			safe++
		}
		if s.Saturated > 0 || !s.Fits {
			worst = append(worst, s)
		}
	}
	t.printf("Accumulators: %d of %d steps fit into int32 for every input (widest sum: %d bits, largest bias: %d).\n",
		len(v.Safety)-wide, len(v.Safety), bits, bias)
	t.printf("On x86 without VNNI, int16 saturation is possible in %d of %d steps (%s weight pairs); on this data it happened in %d.\n\n",
		len(v.Safety)-safe, len(v.Safety), count(pairs), saturating)
	if len(worst) == 0 {
		return
	}
	arrange.Stable(worst, func(a, b analysis.SafetyRow) int { return cmp.Compare(b.Saturated, a.Saturated) })
	t.begin("Steps that can overflow or saturate", "node", "op", "bits", "pairs", "at risk", "saturated on data", "sums affected", "fix")
	for _, s := range worst[:min(len(worst), 20)] {
		t.row(shorten(s.Node, 36), s.Op, fmt.Sprint(s.Bits), count(s.Pairs), count(s.AtRisk), fmt.Sprintf("%d of %s", s.Saturated, count(s.Sums)),
			count(s.Affected), s.Cure)
	}
	t.end()
}

// Divergence describes one place where a number is not what it should be.
func Divergence(d *analysis.Divergence) string {
	kind := "different"
	if d.Tie {
		kind = "tie"
	}
	s := fmt.Sprintf("%s: node %s (%s), tensor %s, %s %d: %s, expected %s by the %s", kind, d.Node, d.Op, d.Tensor, d.What,
		d.Index, whole(d.Got), whole(d.Expected), d.ExpectedBy)
	if d.Exact != nil {
		s += fmt.Sprintf("; exactly %s", strconv.FormatFloat(*d.Exact, 'g', 10, 64))
	}
	if d.Accumulator != nil {
		s += fmt.Sprintf("; accumulator %d", *d.Accumulator)
	}
	if d.Multiplier != "" {
		s += ", multiplier " + d.Multiplier
	}
	return s
}

// whole writes whole numbers without an exponent.
func whole(n analysis.Number) string {
	x := float64(n)
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// Histogram writes differences and their counts.
func Histogram(list []analysis.StepCount) string {
	var parts []string
	for i, h := range list {
		if i == 6 {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%+d: %d", h.Difference, h.Count))
	}
	return strings.Join(parts, ", ")
}
