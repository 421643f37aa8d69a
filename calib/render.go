package calib

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/passes"
	"qwb/quantizer/tqc"
)

// RenderConfig says how Render works. The zero value is usable.
type RenderConfig struct {
	// Observer, if set, replaces the method that the configuration of activations names, prescribed scales excepted.
	Observer tqc.Observer
	// Own are methods beside observers.All. They are used where a configuration names them; automatic choice does not try them.
	Own     []*observers.Method
	Memo    *Memo // ranges of earlier calls for the same graph and statistics; nil remembers nothing
	Threads int   // how many tensors are worked on at a time, 0 for one; the result does not depend on it
	// Progress, if not nil, is called after each activation with how many have their ranges and how many there are. Calls do not overlap.
	Progress func(done, total int)
	// Frozen, if not nil, is asked of every constant that waits for a scale; see Frozen.
	Frozen func(sl *tqc.Slot) Frozen
}

// Frozen says of a constant that was tuned where its scales come from: they are Params, where those are there; else they are observed on
// Base, of the same shape; where that is nil too, on the graph's own constant.
type Frozen struct {
	Params tqc.Params
	Base   *tensor.Tensor
}

// Choice records how one scale came about.
type Choice struct {
	Slot     tqc.SlotID   // the root whose scale it is
	Tensor   string       // the tensor of the root
	Asked    tqc.Observer // what the configuration asked for
	Observer tqc.Observer // what was used: a method, or fixed
	Range    observers.Range
	// Errors holds, where the choice was automatic, the squared error at the outputs of the consuming operators as a share of the
	// squared outputs, summed over the consumers, in the order of the methods that could be tried.
	Errors []MethodError
}

// MethodError is how one method did in an automatic choice.
type MethodError struct {
	Method tqc.Observer
	Error  float64
}

// Outcome is what Render did beside filling in the scales.
type Outcome struct {
	Choices  []Choice // activations, in order of slots
	Warnings []tqc.Warning
}

// Render gives every root slot in state INITIAL its scale: parameters from their values, activations from the statistics by
// the method of their configuration (auto: by trial on the kept samples), prescribed ones as prescribed; those whose scales are computed at
// run time need none and become ACTIVATED without. Slots that borrow become
// PASSIVE with them, and the integer biases follow (passes.SolveBias). The statistics must be of g; on an error set is
// left half rendered and should be dropped.
func Render(ctx context.Context, g *graph.Graph, set *tqc.Set, stats *Stats, cfg RenderConfig) (*Outcome, error) {
	if err := cfg.Observer.Valid(); err != nil {
		return nil, fmt.Errorf("calibrate: %w; there are auto and %v", err, tqc.Observers)
	}
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	rd := &renderer{g: g, set: set, order: order, stats: stats, cfg: cfg, out: &Outcome{}}
	rd.masks, rd.scores = cfg.Memo.maskedBy(rd.findMasks), findScores(g)
	var activations []*activation
	for i := range set.NumSlots() {
		id := tqc.SlotID(i)
		sl := set.Slot(id)
		if sl.State() != tqc.Initial || set.Root(id) != id {
			continue
		}
		if !sl.Config.NeedsScale() {
			if err := set.Render(id, tqc.Params{}); err != nil {
				return nil, rd.at(sl, err)
			}
			continue
		}
		if sl.Config.Observer == tqc.ObserverFixed {
			if err := rd.fixed(sl); err != nil {
				return nil, rd.at(sl, err)
			}
			continue
		}
		if g.Const(sl.Value) != nil {
			if err := rd.parameter(ctx, sl); err != nil {
				return nil, rd.at(sl, err)
			}
			continue
		}
		activations = append(activations, rd.activation(sl))
	}
	if err := rd.activations(ctx, activations); err != nil {
		return nil, err
	}
	if err := rd.addends(); err != nil {
		return nil, err
	}
	biases, err := passes.SolveBias(g, set)
	if err != nil {
		return nil, err
	}
	rd.out.Warnings = append(rd.out.Warnings, biases...)
	rd.grids()
	rd.tiny()
	return rd.out, nil
}

type renderer struct {
	g       *graph.Graph
	set     *tqc.Set
	order   []graph.NodeID
	stats   *Stats
	cfg     RenderConfig
	out     *Outcome
	onGrids []*tqc.Slot // weights that were rounded before
	masks   *masks
	scores  scores
}

// at names the place of an error.
func (r *renderer) at(sl *tqc.Slot, err error) error {
	if errors.Is(err, observers.ErrEmpty) {
		err = fmt.Errorf("%w: add samples that have some there, or keep in float what reads it (a step set of a "+
			"--recipe)", err)
	}
	return r.g.ErrorAt("calibrate", sl.Node, fmt.Errorf("tensor %q: %w", r.g.Value(sl.Value).Name, err))
}

func (r *renderer) warn(sl *tqc.Slot, value float64, format string, args ...any) {
	r.out.Warnings = append(r.out.Warnings, tqc.Warning{Node: r.g.Node(sl.Node).Name, Value: value,
		Text: fmt.Sprintf("tensor %q: ", r.g.Value(sl.Value).Name) + fmt.Sprintf(format, args...)})
}

// fixed takes scale and zero point from the target; a scale that may be finer by the largest numbers, as mse keeps them.
func (r *renderer) fixed(sl *tqc.Slot) error {
	c := sl.Config
	scale := c.FixedScale
	if c.FinestScale != 0 {
		st, err := r.seen(sl.Value)
		if err != nil {
			return err
		}
		found, err := try(st, observers.MSE, c, 0)
		if err != nil {
			return err
		}
		scale = c.Whole(found.ranges[0].Hi)
	}
	g := qmath.Grid{Scale: scale, ZeroPoint: c.FixedZeroPoint, QMin: c.QMin, QMax: c.QMax}
	r.out.Choices = append(r.out.Choices, Choice{Slot: sl.ID, Tensor: r.g.Value(sl.Value).Name, Asked: c.Observer, Observer: c.Observer,
		Range: observers.Range{Lo: float64(g.Dequantize(c.QMin)), Hi: float64(g.Dequantize(c.QMax))}})
	return r.set.Render(sl.ID, tqc.Params{Scale: []float32{scale}, ZeroPoint: []int32{c.FixedZeroPoint}})
}

// scales turns ranges into scales and zero points. global is the float32 of a constant in NV blocks, else 0. outcomes counts what qmath had
// to mend, by qmath.Outcome.
func scales(ranges []observers.Range, c tqc.Config, global float32) (p tqc.Params, outcomes map[qmath.Outcome]int, err error) {
	p = tqc.Params{Scale: make([]float32, len(ranges)), ZeroPoint: make([]int32, len(ranges)), Global: global}
	outcomes = map[qmath.Outcome]int{}
	for i, r := range ranges {
		var out qmath.Outcome
		if p.Scale[i], p.ZeroPoint[i], out, err = c.ScaleFor(r.Lo, r.Hi, global); err != nil {
			return p, nil, err
		}
		outcomes[out]++
	}
	return p, outcomes, nil
}

// mended warns of ranges that qmath had to mend.
func (r *renderer) mended(sl *tqc.Slot, outcomes map[qmath.Outcome]int, total int) {
	for _, o := range []qmath.Outcome{qmath.ZeroRange, qmath.Denormal, qmath.Infinite} {
		n := outcomes[o]
		switch {
		case n == 0:
		case total > 1:
			r.warn(sl, float64(n), "%s in %d of %d channels", o, n, total)
		default:
			r.warn(sl, float64(n), "%s", o)
		}
	}
}

// tiny warns of scales that are next to nothing: most are of channels that do nothing, and an engine that computes with fewer digits than
// float32 makes 0 or infinity of them.
func (r *renderer) tiny() {
	const limit = 1e-12
	var least *tqc.Slot
	smallest, scales, tensors := float32(limit), 0, 0
	for i := range r.set.NumSlots() {
		sl := r.set.Slot(tqc.SlotID(i))
		if r.set.Root(sl.ID) != sl.ID || sl.Config.Observer == tqc.ObserverNone {
			continue // a bias has the product of two scales
		}
		before := scales
		for _, s := range r.set.Params(sl.ID).Scale {
			if s >= limit {
				continue
			}
			if scales++; s < smallest {
				smallest, least = s, sl
			}
		}
		if scales > before {
			tensors++
		}
	}
	if least != nil {
		r.warn(least, float64(smallest), "%s in %s below %g, the smallest (%.2g) here: such channels hold next to nothing, but engines that "+
			"compute scales in half floats turn them into 0 or infinity",
			plain.Count(scales, "scale"), plain.Count(tensors, "tensor"), limit, smallest)
	}
}

// parallel calls f for 0..n-1 on several goroutines and returns the error of the smallest index that failed, or why ctx ended.
func parallel(ctx context.Context, n, threads int, f func(i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(min(threads, n), 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				errs[i] = graph.Try(func() error { return f(i) })
			}
		}()
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
