package advise

import (
	"cmp"
	"fmt"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/kernels/elementary"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Softmax is about what a Softmax reads and writes: scores whose step is too coarse, because some are far below all others, and
// probabilities below half a step.
var Softmax = &Cause{Name: "softmax-tails",
	Doc: "the scores in front of a Softmax, or the probabilities behind it, span more than their grid can tell apart", find: softmax}

// coarseScore is a step of scores that moves probabilities by an eighth or more (half of it, e^0.125), and lostMass the part of the
// probabilities that may lie below half a step.
const (
	coarseScore = 0.25
	lostMass    = 0.05
)

func softmax(f *Facts) []Finding {
	type tail struct {
		id       graph.NodeID
		step     float64 // of the scores
		lost     float64 // mass of the probabilities
		how      float64 // times the bound
		in       *tqc.Slot
		evidence string
	}
	var list []tail
	for _, id := range f.Graph.Nodes() {
		n := f.Graph.Node(id)
		if n.Op != "Softmax" && n.Op != "LogSoftmax" || !n.IsONNX() {
			continue
		}
		t := tail{id: id}
		if slot, root := f.input(id); slot != nil {
			g := f.Set.Grid(root.ID, 0)
			t.step, t.in = float64(g.Scale), root
			if t.how = t.step / coarseScore; t.how >= 1 {
				t.evidence = fmt.Sprintf("one step of the scores that %s reads is %.3g: it multiplies a probability by %.2g", n.Name, t.step,
					min(1e9, elementary.Exp(t.step)))
			}
		}
		if out := f.Set.Output(id, 0); n.Op == "Softmax" && out != tqc.NoSlot && f.Set.Slot(out).State().Quantizes() &&
			f.Set.Params(out).Ready() && f.Set.Slot(out).Config.Integer() {
			g := f.Set.Grid(out, 0)
			if st := f.Value(n.Outputs[0]); st != nil && st.HasBins() {
				if t.lost = below(st, float64(g.Scale)/2); t.lost/lostMass > t.how {
					t.how = t.lost / lostMass
					t.evidence = fmt.Sprintf("%.0f %% of the probabilities that %s computes lie below half a step (%.2g) and become 0", 100*t.lost,
						n.Name, g.Scale/2)
				}
			}
		}
		if t.how >= 1 {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil
	}
	arrange.Stable(list, func(a, b tail) int { return cmp.Compare(b.how, a.how) })
	list = list[:min(len(list), mostNodes)]
	out := Finding{Evidence: list[0].evidence}
	var nodes []graph.NodeID
	var slots []tqc.SlotID
	for _, t := range list {
		out.Nodes, nodes = append(out.Nodes, f.Graph.Node(t.id).Name), append(nodes, t.id)
		if t.in != nil && t.step >= coarseScore && t.in.Config.Observer != tqc.ObserverFixed && t.in.Observer != tqc.ObserverFixed {
			slots = append(slots, t.in.ID)
		}
	}
	if len(slots) > 0 {
		for _, o := range []string{"kl", "percentile(0.99)"} {
			out.Cures = append(out.Cures, Cure{Slots: slots, Words: []string{"observer=" + o}})
		}
	}
	out.Cures = append(out.Cures, Cure{Nodes: nodes, Words: []string{"domain=fp32"}})
	return []Finding{out}
}

// below is the part of the sum of a tensor's positive values that values up to a bound make.
func below(st *observers.State, bound float64) float64 {
	var all, under float64
	for b := range st.Bins() {
		x := (b.Lo + b.Hi) / 2 * float64(b.Count)
		if x <= 0 {
			continue
		}
		if all += x; (b.Lo+b.Hi)/2 < bound {
			under += x
		}
	}
	if all == 0 {
		return 0
	}
	return under / all
}
