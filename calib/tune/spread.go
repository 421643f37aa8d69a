package tune

import (
	"context"
	"math"
	"slices"

	"qwb/quantizer/rewrite"
)

// Spread multiplies the channels that only depthwise convolutions read, until each fills the range of their tensor, and divides the weights
// behind. Where weights have a scale for each channel, all codes of weights stay as they are, so that each channel of the activation has a
// range of its own at no cost: what a target with one scale for the tensor cannot have otherwise (OpenVINO takes a range for each channel
// there, which NNCF gives it). A channel clips what is larger than headroom times all that the fitting samples show of it.
var Spread = Method{Name: "spread", Doc: "gives each channel in front of a depthwise convolution a range of its own, by its weights",
	Changes: []string{"structure", "biases"}, Needs: []string{"data"}, Run: spread}

// headroom is how far a channel may grow: where channels got exactly what 52 samples show of them, the float outputs of MobileNet v1
// changed by an NSR of 0.005 on other samples, with 1.5 times of it by 0.0002, and with twice by nothing.
const headroom = 2

func spread(ctx context.Context, b *Bench) (*Report, error) {
	ways, err := b.ways()
	if err != nil {
		return nil, err
	}
	e := newEqualizer(b, ways)
	e.ways = slices.DeleteFunc(e.ways, func(w *rewrite.Way) bool { return !e.alone(w) })
	if len(e.ways) == 0 {
		return &Report{Layers: []Layer{}, Note: "no channels are read by depthwise convolutions alone"}, nil
	}
	if err := e.observe(ctx); err != nil {
		return nil, err
	}
	s := structural{By: "own ranges"}
	for _, w := range e.ways {
		if f := e.fill(w); slices.Max(f) > 1+settled {
			e.add(&s, &rewrite.Spread, w, f)
		}
	}
	if len(s.Steps) == 0 {
		return &Report{Layers: []Layer{}, Note: "the channels have equal ranges already"}, nil
	}
	return b.restructure(ctx, []structural{s})
}

// alone reports whether nobody on either side of a way has one scale for several of its channels.
func (e *equalizer) alone(w *rewrite.Way) bool {
	for _, p := range w.Producers {
		if r := e.of(p.Node); r != nil && r.outputs() != nil {
			return false
		}
	}
	for _, c := range w.Consumers {
		if r := e.of(c.Node); r == nil || r.inputs() != nil {
			return false
		}
	}
	return true
}

// fill are the factors with which the largest values of the channels of a way are half of those of the largest channel, or more.
func (e *equalizer) fill(w *rewrite.Way) []float32 {
	largest, most := make([]float64, w.Channels), 0.0
	for _, c := range w.Consumers {
		gather(largest, e.seen[c.Node], c.Channel)
	}
	for _, x := range largest {
		most = max(most, x)
	}
	factors := make([]float32, w.Channels)
	for c, x := range largest {
		if factors[c] = 1; x > 0 && !math.IsInf(most, 0) {
			factors[c] = float32(max(1, min(most/x/headroom, maxFactor)))
		}
	}
	return factors
}
