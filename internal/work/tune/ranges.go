package tune

import (
	"slices"

	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// ranges returns what lists the scales that an activation might have. Those that the target prescribes, and those that somebody decided,
// have no choice. It is nil for a plan without statistics.
func (t *tuning) ranges(stats *calib.Stats, table *decision.Table) func(*graph.Graph, *tqc.Set, tqc.SlotID) ([]calib.Candidate, error) {
	if stats == nil || !stats.HasBins() {
		return nil
	}
	list := t.Planned.Plan.Decisions
	return func(g *graph.Graph, set *tqc.Set, root tqc.SlotID) ([]calib.Candidate, error) {
		if set.Slot(root).Config.Observer == tqc.ObserverFixed {
			return nil, nil
		}
		for _, s := range set.Group(root) {
			cell := &table.Slots[s]
			if cell.Selected("scale") || cell.Selected("observer") && slices.Contains(people, list[cell.By("observer")-1].By) {
				return nil, nil
			}
		}
		return calib.Candidates(g, set, stats, root)
	}
}

// people are those whose decisions tuning does not change.
var people = []decision.By{decision.ByUser, decision.ByRecipe}

// chosenRanges are the scales of activations that tuning chose, as decisions.
func chosenRanges(b *tune.Bench) []decision.Decision {
	var list []decision.Decision
	for _, c := range b.Chosen {
		p := decision.Properties{Observer: c.Method}
		if c.Method == "" { // it was learnt
			p.Scale, p.ZeroPoint = c.Params.Scale, c.Params.ZeroPoint
		}
		list = append(list, decision.Decision{By: decision.ByTune, Select: decision.Select{planning.SlotSelector(b.Graph, b.Set, c.Slot)},
			Properties: p})
	}
	return list
}
