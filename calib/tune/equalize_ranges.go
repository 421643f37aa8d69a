package tune

import (
	"math"

	"qwb/graph"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// ranges are the largest weights of an operator by output and input channel, and the factors that they have so far.
type ranges struct {
	reader  *rewrite.Reader
	largest []float64 // out x in; 0 where they do not meet
	out, in []float64
	// perChannel: every output channel has a scale of its own, so that its range does not matter to the others.
	perChannel bool
}

// of are the ranges of an operator.
func (e *equalizer) of(id graph.NodeID) *ranges {
	if r, ok := e.ranges[id]; ok {
		return r
	}
	e.ranges[id] = nil
	w := rewrite.ReaderOf(e.b.Reference, id)
	if w == nil || e.b.Set.Domains[id] != tqc.DomainInt {
		return nil
	}
	r := &ranges{reader: w, largest: make([]float64, w.Out*w.In), out: make([]float64, w.Out), in: make([]float64, w.In)}
	w.Each(func(o, i int, weights []float32) {
		at := &r.largest[o*w.In+i]
		for _, x := range weights {
			*at = max(*at, math.Abs(float64(x)))
		}
	})
	for i := range r.out {
		r.out[i] = 1
	}
	for i := range r.in {
		r.in[i] = 1
	}
	for _, s := range e.b.Set.Inputs(id) {
		if s != tqc.NoSlot && e.b.Reference.Const(e.b.Set.Slot(s).Value) != nil && e.b.Set.Slot(s).State().Quantizes() {
			r.perChannel = r.perChannel || len(e.b.Set.Params(s).Scale) > 1
		}
	}
	e.ranges[id] = r
	return r
}

// outputs are the ranges of the output channels relative to that of the tensor; nil where each has a scale of its own.
func (r *ranges) outputs() []float64 {
	if r.perChannel {
		return nil
	}
	out, most := make([]float64, r.reader.Out), 0.0
	for o := range out {
		for i, f := range r.in {
			out[o] = max(out[o], r.out[o]*f*r.largest[o*r.reader.In+i])
		}
		most = max(most, out[o])
	}
	return relative(out, most)
}

// inputs are the ranges of the input channels relative to what has one scale: the tensor, or an output channel. Nil where every input
// channel has scales of its own, as those of a depthwise convolution with one for each channel.
func (r *ranges) inputs() []float64 {
	in, most := make([]float64, r.reader.In), 0.0
	shared := false
	for o, g := range r.out {
		row := r.largest[o*r.reader.In : (o+1)*r.reader.In]
		top, meet := 0.0, 0
		for i, x := range row {
			if x > 0 {
				top, meet = max(top, g*r.in[i]*x), meet+1
			}
		}
		shared = shared || meet > 1
		for i, x := range row {
			switch {
			case r.perChannel && top > 0:
				in[i] = max(in[i], g*r.in[i]*x/top)
			case !r.perChannel:
				in[i] = max(in[i], g*r.in[i]*x)
			}
		}
		most = max(most, top)
	}
	if r.perChannel {
		if !shared {
			return nil
		}
		return in
	}
	return relative(in, most)
}

func relative(x []float64, most float64) []float64 {
	for i := range x {
		if x[i] /= most; most == 0 {
			x[i] = 0
		}
	}
	return x
}
