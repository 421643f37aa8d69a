package tune

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// alphas are the shares of the ranges of activations that are tried: 1 makes all channels equally wide, as the re-parametrization of
// RepQ-ViT does, 0.5 is SmoothQuant's.
var alphas = []float64{0.25, 0.5, 0.75, 1}

const (
	// maxRatio bounds the factor of one channel against another's: one that is narrower yet is below a step of the widest.
	maxRatio = 256
	// worthScale is the least share of the predicted error that factors take off.
	worthScale = 0.3
)

// start is where factors begin: at a node, or at a copy of it that is made first.
type start struct {
	at     string
	way    *rewrite.Way
	copied *rewrite.Step // nil: none is needed
	shifts bool          // its zero can be moved too
}

// migrated lists the ways on which factors, and where a way allows it a shift, lower what quantizing is predicted to cost its readers.
//
// The prediction for one reader: with f_c on its input channels, input step d = (widest range) / levels and weight steps e_o, the squared
// error of its output is
//
//	d²/12 sum |w_c|²/f_c²  +  sum over o of e_o²/12 sum f_c² E[x_c²]
//
// relative to the same without factors; of several readers, and of a producer with one step for all channels, the mean.
// f_c = (max |w_c|)^(1-alpha) / (range_c)^alpha for the best alpha (Xiao et al. 2023, "SmoothQuant", equation 4; Li et al. 2023,
// "RepQ-ViT", section 3.3, is alpha = 1 with a shift).
func migrated(ctx context.Context, b *Bench) ([]*candidate, error) {
	ways, axes, err := waysOf(b.Reference, b.Set)
	if err != nil || len(ways) == 0 {
		return nil, err
	}
	seen, err := b.observeChannels(ctx, axes)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for _, from := range ways {
		if c := b.factors(from, seen); c != nil {
			list = append(list, c)
		}
	}
	return list, nil
}

// Normalizes reports whether a configured network has normalizations, or products with constants, into which Migrate could move factors of
// readers on integers, as transformers have; whether any is worth a trial only samples tell.
func Normalizes(g *graph.Graph, set *tqc.Set) bool {
	ways, _, err := waysOf(g, set)
	return err == nil && slices.ContainsFunc(ways, func(s start) bool { return rewrite.ReaderOf(g, s.way.At) == nil })
}

// waysOf are the ways whose readers all are on integers, with the axis of channels of what these read.
func waysOf(g *graph.Graph, set *tqc.Set) (ways []start, axes map[graph.ValueID]int, err error) {
	order, err := g.Order()
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]bool{}
	axes = map[graph.ValueID]int{}
	for _, id := range order {
		from := start{at: g.Node(id).Name}
		if from.way, _ = rewrite.CanScale(g, id); from.way != nil {
			from.shifts = rewrite.CanShift(g, id)
		} else if from.copied, from.way, from.shifts = rewrite.CanCopy(g, id); from.way != nil {
			from.at = rewrite.CopyOf(from.at)
		}
		way := from.way
		if way == nil || len(way.Consumers) == 0 {
			continue
		}
		key := ""
		fits := true
		for _, e := range way.Consumers {
			r := rewrite.ReaderOf(g, e.Node)
			fits = fits && r != nil && set.Domains[e.Node] == tqc.DomainInt
			if r != nil {
				axes[r.Value] = r.Axis
			}
			key += fmt.Sprint(e.Node, " ")
		}
		if !fits || taken[key] {
			continue // two ways to the same readers do the same for them
		}
		taken[key] = true
		ways = append(ways, from)
	}
	return ways, axes, nil
}

// factors finds the best factors for a way; nil where none are worth it.
func (b *Bench) factors(from start, seen map[graph.ValueID]*channelStats) *candidate {
	p := b.predictor(from.way, seen)
	if p == nil {
		return nil
	}
	best := &candidate{node: b.Reference.Node(from.way.At).Name, predicted: 1}
	for _, shifted := range []bool{false, true} {
		if shifted && !from.shifts {
			continue
		}
		for _, alpha := range alphas {
			f := p.choose(alpha, shifted)
			e := p.error(f, shifted)
			if !(e < best.predicted) {
				continue
			}
			best.predicted, best.by = e, fmt.Sprintf("%s, alpha %g", rewrite.Scale.Name, alpha)
			best.steps = nil
			if from.copied != nil {
				best.by = "copy, " + best.by
				best.steps = append(best.steps, *from.copied)
			}
			if shifted {
				best.by = "shift and " + best.by
				best.steps = append(best.steps, rewrite.Step{Kind: rewrite.Shift.Name, At: from.at, Vectors: map[string][]float32{"shift": p.center()}})
			}
			best.steps = append(best.steps, rewrite.Step{Kind: rewrite.Scale.Name, At: from.at, Vectors: map[string][]float32{"scale": f}})
		}
	}
	if best.predicted > 1-worthScale {
		return nil
	}
	return best
}
