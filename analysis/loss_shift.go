package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// shift is what rounded weights do to the mean of each output channel of a step, sample by sample. All are sums over the elements of
// a channel.
type shift struct {
	own, head []sums // of the step's output, and of the operator's, in front of what is fused to it
	whole     []sums // of the whole error at the step's output, over the signal
}

// sums are totals by channel, each over count elements.
type sums struct {
	total []float64
	count float64
}

// add keeps the sums of one sample.
func (s *shift) add(own, head, whole sums) {
	s.own, s.head, s.whole = append(s.own, own), append(s.head, head), append(s.whole, whole)
}

// byChannel sums the differences of two tensors by the index along axis.
func byChannel(a, b *tensor.Tensor, axis int, scale float64) (sums, error) {
	a, b = a.ToRowMajor(), b.ToRowMajor()
	x, _, err := aligned(a, b)
	if err != nil {
		return sums{}, err
	}
	axis, ok := graph.Axis(axis, len(b.Shape))
	if !ok {
		return sums{}, fmt.Errorf("channels along axis %d of %s", axis, b.Type())
	}
	outer, n, inner := b.Blocks(axis)
	s := sums{total: make([]float64, n), count: float64(outer * inner)}
	y := b.F32()
	for o := range outer {
		for c := range n {
			at := (o*n + c) * inner
			for i := at; i < at+inner; i++ {
				s.total[c] += (float64(x[i]) - float64(y[i])) * scale
			}
		}
	}
	return s, nil
}

// without returns the mean by channel over all samples but one, so that no sample is corrected by what it showed itself.
func without(list []sums, i int) []float64 {
	mean := make([]float64, len(list[i].total))
	count := 0.0
	for k, s := range list {
		if k == i {
			continue
		}
		count += s.count
		for c, v := range s.total {
			mean[c] += v
		}
	}
	for c := range mean {
		mean[c] /= max(count, 1)
	}
	return mean
}

// part is what of a step's weights' part a shift of the mean makes, mean over samples: its projection on the whole error, with the
// means of the other samples.
func (s *shift) part() float64 {
	sum := 0.0
	for i := range s.own {
		for c, m := range without(s.own, i) {
			sum += m * s.whole[i].total[c]
		}
	}
	return sum / max(float64(len(s.own)), 1)
}

// splittable returns the axis of the output channels of a step with rounded weights, and false for others.
func splittable(s *lower.Step) (axis int, ok bool) {
	op, linear := s.Op.(*lower.Linear)
	if !linear || op.Weights == nil {
		return 0, false
	}
	if graph.Slides(op.Kind) {
		return 1, true
	}
	return -1, true
}

// repaired runs the samples a second time, with rounded weights and every step's output channels brought back by the mean shift that
// the other samples show: what is left of the weights' error is their noise.
func (e *explainer) repaired(ctx context.Context, samples exec.Iterator, r *Explanation) error {
	meters := make([]float64, len(e.outputs))
	for i := range r.Samples {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("explain: %d samples of %d the second time", i, r.Samples)
		}
		if err != nil {
			return err
		}
		first, err := e.runner.Run(ctx, s.Feeds, nil)
		if err != nil {
			return err
		}
		y, err := e.tuned.Run(ctx, s.Feeds, chained(e.hooks[stageWeights], e.correction(i)))
		if err != nil {
			return err
		}
		for k := range e.outputs {
			if e.isFloat[k] {
				part, _, err := energy(y[k], first[k], first[k])
				if err != nil {
					return err
				}
				meters[k] += part
			}
		}
	}
	at := 0
	for k := range e.outputs {
		if e.isFloat[k] {
			noise := meters[k] / float64(r.Samples)
			moved := r.Outputs[at].Weights - noise
			r.Outputs[at].WeightsNoise, r.Outputs[at].WeightsShift = &noise, &moved
			at++
		}
	}
	return nil
}

// correction returns hooks that take the shift of the means off, behind every operator with rounded weights.
func (e *explainer) correction(sample int) *exec.Hooks {
	means := map[graph.NodeID][]float64{}
	axes := map[graph.NodeID]int{}
	wants := map[graph.ValueID]bool{}
	for i := range e.layers {
		if l := &e.layers[i]; len(l.shift.head) > sample {
			means[l.step.Node], axes[l.step.Node] = without(l.shift.head, sample), l.axis
			wants[e.g.Node(l.step.Node).Outputs[0]] = true
		}
	}
	return &exec.Hooks{
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			mean := means[n.ID]
			if mean == nil || i != 0 || !e.own(n) {
				return nil
			}
			axis, _ := graph.Axis(axes[n.ID], len(t.Shape))
			return addAlong(t, mean, axis, -1)
		},
		Wants: func(v graph.ValueID) bool { return wants[v] },
	}
}

// addAlong adds a number for each index along axis, in whatever layout t has.
func addAlong(t *tensor.Tensor, numbers []float64, axis int, factor float64) error {
	if axis < 0 || axis >= len(t.Shape) || t.Shape[axis] != len(numbers) {
		return fmt.Errorf("%d channels for axis %d of %s", len(numbers), axis, t.Type())
	}
	inner := 1
	switch {
	case t.Layout != tensor.ChannelsLast:
		for _, d := range t.Shape[axis+1:] {
			inner *= d
		}
	case axis != 1:
		r := t.ToRowMajor()
		if err := addAlong(r, numbers, axis, factor); err != nil {
			return err
		}
		copy(t.F32(), r.ToChannelsLast().F32())
		return nil
	}
	x := t.F32()
	for i := range x {
		x[i] += float32(factor * numbers[i/inner%len(numbers)])
	}
	return nil
}
