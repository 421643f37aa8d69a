package analysis

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/target"
)

// report averages the samples' results, in their order.
func (a *analyzer) report(results []*sampleResult) (*Report, error) {
	places := placesOf(results, func(s *sampleResult) placeOf { return s.place })
	a.blocks = blocksIn(places)
	a.tally.blocks = a.blocks
	r := &Report{Samples: len(results), Forwards: a.extra / float64(len(results))}
	for _, s := range results {
		r.Forwards += (float64(s.forwards) + a.work.share(s.work)) / float64(len(results))
	}
	if results[0].outputs != nil {
		r.Outputs = a.outputs(results)
		r.Headlines = Headlines(r.Outputs)
		r.Steps = a.steps(results, places)
	}
	if a.cfg.Graphwise {
		r.Graphwise = a.graphwisePoints(results)
	}
	if a.cfg.Layerwise {
		r.Layerwise = a.layers(results)
	}
	if a.cfg.Statistical {
		r.Statistical = a.statistics(results)
	}
	r.Warnings = append(r.Warnings, a.warnings(r)...)
	var err error
	r.Settings, err = Settings(a.g, a.sim.Set())
	return r, err
}

func (a *analyzer) outputs(results []*sampleResult) []OutputError {
	out := make([]OutputError, len(a.judge.logits))
	parts, signal := a.judge.verdicts(&a.tally)
	weights := a.judge.weigh(&a.floats)
	for i, v := range a.g.Outputs[:len(out)] {
		m := meter{blocks: a.blocks}
		mismatch := 0.0
		none := weights.empty[i]
		for k, s := range results {
			m.addUnless(none.has(k), s.outputs[i].Error)
			out[i].Rows, out[i].ClassesChanged = out[i].Rows+s.outputs[i].rows, out[i].ClassesChanged+s.outputs[i].changed
			mismatch += s.outputs[i].mismatch / float64(len(results))
		}
		out[i] = OutputError{Output: a.g.Value(v).Name, Error: m.mean(), Spread: m.spread(), Integer: results[0].outputs[i].integer,
			Mismatch: mismatch,
			For:      a.judge.standsFor(i), Rows: out[i].Rows, ClassesChanged: out[i].ClassesChanged, Slices: parts[i], NoSignal: !signal[i],
			EmptySamples: none.count(), Samples: len(results)}
		if a.judge.logits[i].node != graph.NoNode {
			losses := make([]float64, len(results))
			for k, s := range results {
				losses[k] = s.losses[i] * none.weight(k)
			}
			centred := NewNSR(a.blocks.Estimate(losses))
			out[i].Centred = &centred
		}
	}
	return out
}

func (a *analyzer) steps(results []*sampleResult, places []placeOf) []Steps {
	names := make([]string, len(a.judge.logits))
	for i, v := range a.g.Outputs[:len(names)] {
		names[i] = a.g.Value(v).Name
	}
	return stepsOf(names, places, func(i int) []float64 { return results[i].losses })
}

func (a *analyzer) graphwisePoints(results []*sampleResult) []GraphwisePoint {
	points := make([]GraphwisePoint, len(a.groups))
	for i := range a.groups {
		g := &a.groups[i]
		m := meter{blocks: a.blocks}
		none := emptyAt(results, i)
		for k, s := range results {
			m.addUnless(none.has(k), s.graph[i])
		}
		n := a.g.Node(g.node)
		points[i] = GraphwisePoint{Node: n.Name, Op: n.Op, Tensor: a.g.Value(g.output).Name, Error: m.mean(), Spread: m.spread()}
	}
	return points
}

func (a *analyzer) layers(results []*sampleResult) []LayerError {
	out := make([]LayerError, len(a.groups))
	nsr := make([][]float64, len(a.groups)) // by sample, of the output that loses most
	n := float64(len(results))
	weights := a.judge.weigh(&a.floats)
	special := !weights.plain(len(a.judge.logits))
	for i := range a.groups {
		g := &a.groups[i]
		node := a.g.Node(g.node)
		l := LayerError{Node: node.Name, Op: node.Op}
		if g.products {
			l.WeightRange = a.weightRange(g.node)
		}
		l.MACs, _ = a.g.MACsAtLeast(g.node)
		var weight, activation, read float64
		none := emptyAt(results, i)
		views := none.views(len(results))
		if views == 0 {
			none, views = nil, empty(nil).views(len(results))
		}
		clipped := a.clipping(i, results, none)
		meters := slices.Repeat([]meter{{blocks: a.blocks}}, len(a.judge.logits))
		losses := make(Losses, len(results))
		for k, s := range results {
			layer := &s.layers[i]
			losses[k] = make([]float64, len(meters))
			for o, e := range layer.outputs {
				meters[o].addUnless(weights.empty[o].has(k), e.Error)
				losses[k][o] = e.loss
			}
			losses[k] = weights.row(k, losses[k], a.judge.noiseOf(layer.outputs))
			l.Clip += clipped[k] * none.weight(k) / n
			l.Round += (layer.round - (clipped[k] - layer.clip)) * none.weight(k) / n
			if !layer.unsplit && !none.has(k) {
				weight, activation, read = weight+layer.weight/views, activation+layer.activation/views, read+layer.read/views
			}
			if layer.bounded {
				l.Bounded++
			}
		}
		l.Local = l.Clip + l.Round
		if a.cfg.Split {
			if views < n {
				weight = min(weight, l.Local)
				activation = l.Local - weight
			}
			l.Weight, l.Activation = &weight, &activation
			if g.reads != nil {
				l.Read = &read
			}
		}
		l.Error, l.Spread = worst(meters, results[0].layers[i].outputs)
		l.parts = losses.Means()
		l.blocks = a.blocks
		if l.losses = losses.PerSample(); a.judge.Classes() {
			centred := NewNSR(losses.EstimateBy(a.blocks))
			l.Centred = &centred
		}
		if special {
			verdict := NewNSR(losses.EstimateBy(a.blocks))
			l.Verdict = &verdict
		}
		out[i] = l
		for k := range meters {
			if nsr[i] == nil || meters[k].sum.NSR > NewEstimate(nsr[i]).Mean*n {
				nsr[i] = meters[k].nsr
			}
		}
	}
	giveRanks(out, nsr, a.blocks, a.judge.Classes() || special)
	return out
}

// giveRanks gives rows their ranks by nsr, and those by what counts where that is something else.
func giveRanks(out []LayerError, nsr [][]float64, b Blocks, special bool) {
	ranks := rank(nsr, b)
	var centred [][2]int
	if special {
		for i := range out {
			nsr[i] = out[i].losses
		}
		centred = rank(nsr, b)
	}
	for i := range out {
		out[i].Ranks = ranks[i]
		if centred != nil {
			out[i].CentredRanks = &centred[i]
		}
	}
}

// clipping is what clipping makes of the local error of row i on each sample: where that was not measured, the same of what it takes away
// from tensors as where it was.
func (a *analyzer) clipping(i int, results []*sampleResult, none empty) []float64 {
	var known, of float64
	for k, s := range results {
		if l := &s.layers[i]; !none.has(k) && !l.unclipped && !math.IsInf(l.clipped, 1) {
			known, of = known+l.clip, of+l.clipped
		}
	}
	out := make([]float64, len(results))
	for k, s := range results {
		l := &s.layers[i]
		if out[k] = l.clip; l.unclipped {
			out[k] = min(known/of*l.clipped, l.round)
		}
	}
	return out
}

// worst is the largest NSR and MSE and the smallest cosine over the float outputs; over all outputs where none is float.
// The spread is that of the largest NSR.
func worst(meters []meter, outputs []outputError) (Error, Spread) {
	anyFloat := false
	for _, o := range outputs {
		anyFloat = anyFloat || !o.integer
	}
	w, spread := Error{Cosine: math.Inf(1)}, Spread{}
	for i := range meters {
		if outputs[i].integer && anyFloat {
			continue
		}
		e := meters[i].mean()
		if e.NSR > w.NSR || spread.NSRError == nil {
			spread = meters[i].spread()
		}
		w.NSR, w.MSE, w.Cosine = max(w.NSR, e.NSR), max(w.MSE, e.MSE), min(w.Cosine, e.Cosine)
	}
	return w, spread
}

// Worst is the error of a whole quantized graph as one value: the largest NSR and MSE and the smallest cosine over its
// outputs; an integer output counts with its share of mismatches, where no other is there.
func (r *Report) Worst() Error {
	w, judged := Error{Cosine: 1}, r.Judged()
	for _, o := range r.Outputs {
		if o.Integer != judged.Integer {
			continue
		}
		w.NSR, w.MSE, w.Cosine = max(w.NSR, o.NSR), max(w.MSE, o.MSE), min(w.Cosine, o.Cosine)
	}
	return w
}

// weightRange returns the smallest and largest weight of each output channel of a node with a constant float weight.
func (a *analyzer) weightRange(id graph.NodeID) [][2]float32 {
	n := a.g.Node(id)
	w := a.g.Const(n.Input(1))
	axis, ok := target.OutputAxis(a.g, n, 1)
	if w == nil || !ok || w.DType != tensor.Float32 || axis >= len(w.Shape) || w.Len() == 0 {
		return nil
	}
	outer, channels, inner := w.Blocks(axis)
	ranges := make([][2]float32, channels)
	x := w.F32()
	for c := range ranges {
		ranges[c] = [2]float32{x[c*inner], x[c*inner]}
		for o := range outer {
			for _, v := range x[(o*channels+c)*inner:][:inner] {
				if v < ranges[c][0] {
					ranges[c][0] = v
				}
				if v > ranges[c][1] {
					ranges[c][1] = v
				}
			}
		}
	}
	return ranges
}

// warnings points at what a user should look at in the numbers.
func (a *analyzer) warnings(r *Report) []Warning {
	var worst *TensorStatistics
	dead, tensors := 0, 0
	var list []Warning
	if cut := a.sim.CutCells(); cut > 0 {
		list = []Warning{{Value: cut, Text: fmt.Sprintf("%.2g %% of the states of LSTM's cells lie beyond %g and are cut off: the hybrid form "+
			"has no such limit (int8-sym-dynamic-token)", 100*cut, -target.CellConfig.FixedScale*float32(target.CellConfig.QMin))}}
	}
	for i := range r.Statistical {
		s := &r.Statistical[i]
		if s.Kind != "activation" || s.Channels < 2 || 4*len(s.Dead) < s.Channels {
			continue
		}
		dead, tensors = dead+len(s.Dead), tensors+1
		if worst == nil || len(s.Dead)*worst.Channels > len(worst.Dead)*s.Channels {
			worst = s
		}
	}
	if worst == nil {
		return list
	}
	text := fmt.Sprintf("%d of the %d channels of %s never change on these samples", len(worst.Dead), worst.Channels, worst.Tensor)
	if tensors > 1 {
		text = fmt.Sprintf("%d channels never change on these samples: %d of the %d of %s, and %d of %s", dead, len(worst.Dead), worst.Channels,
			worst.Tensor, dead-len(worst.Dead), plain.Count(tensors-1, "other tensor"))
	}
	return append(list, Warning{Node: worst.Node, Value: float64(len(worst.Dead)), Text: text})
}
