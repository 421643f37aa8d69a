package tune

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/grad"
	"qwb/graph/tensor"
)

// Losses of learning. SquaredLoss is the squared error, of several outputs each as a share of the float output's squares. ClassLoss is,
// where an output is class scores, the Kullback-Leibler divergence of the probabilities from the float network's (Hinton et al. 2015,
// "Distilling the Knowledge in a Neural Network", at temperature 1), the squared error elsewhere.
const (
	SquaredLoss = "squared"
	ClassLoss   = "kl"
)

// loss makes the outputs: by exit its error over the batch and what that is a share of, then the gradients of what is learnt: weights and
// biases, normalizations, scales.
func (w *lessonWriter) loss() {
	if w.Err != nil {
		return
	}
	if len(w.weights) != len(w.k.layers) {
		w.fail(fmt.Errorf("%d of %d weights can be learnt", len(w.weights), len(w.k.layers)))
		return
	}
	exits, seeds := w.G.Outputs, map[graph.ValueID]graph.ValueID{}
	w.G.Outputs = nil
	for i, y := range exits {
		shape := w.G.Value(y).Shape
		size, ok := shape.Ints()
		if !ok {
			w.fail(fmt.Errorf("%s is %s", w.G.Value(y).Name, shape))
			return
		}
		name := fmt.Sprint(fedTarget, i)
		w.shapes[name] = size
		seeds[y] = w.error(i, y, w.fed(name, tensor.Float32, shape), w.fed(fmt.Sprint(fedFactor, i), tensor.Float32, graph.Static()))
	}
	gradients, err := grad.Add(w.G, seeds, append(append(w.asked, w.rest...), w.moved...))
	if err != nil {
		w.fail(err)
		return
	}
	for i, v := range gradients {
		if v == graph.NoValue {
			w.fail(fmt.Errorf("no exit depends on %d of %d that are learnt", i+1, len(gradients)))
			return
		}
	}
	w.G.Outputs = append(w.G.Outputs, gradients...)
}

// error adds the two outputs of exit i, and returns the gradient of its error times a factor. The error of scores is the sum over their
// rows of p log(p/q), p being the float network's probabilities: its gradient with respect to the scores is q - p.
func (w *lessonWriter) error(i int, y, target, factor graph.ValueID) graph.ValueID {
	shape := w.G.Value(y).Shape
	of := func(op string, in ...graph.ValueID) graph.ValueID { return w.op(op, tensor.Float32, shape, in...) }
	var e, energy, slope graph.ValueID
	if n := w.k.scores; n == nil || n[i] == nil {
		slope = of("Sub", y, target)
		e, energy = w.op("ReduceSumSquare", tensor.Float32, nil, slope), w.op("ReduceSumSquare", tensor.Float32, nil, target)
	} else {
		if a := n[i].Attr("axis"); a != nil {
			w.Attrs = []graph.Attr{*a}
		}
		logs, targets := of("LogSoftmax", y), of("LogSoftmax", target)
		w.Attrs = nil
		p := of("Exp", targets)
		slope = of("Sub", of("Exp", logs), p)
		e = w.op("ReduceSum", tensor.Float32, nil, of("Mul", p, of("Sub", targets, logs)))
		energy = w.op("ReduceSum", tensor.Float32, nil, p) // the number of rows
	}
	w.G.Outputs = append(w.G.Outputs, e, energy)
	return of("Mul", slope, factor)
}

// slope is what the gradient of the error of an exit is beside what error multiplies with its factor.
func (k *block) slope(exit int) float64 {
	if k.scores != nil && k.scores[exit] != nil {
		return 1
	}
	return 2
}

// measure are the errors of the exits with rounded weights and all activations quantized, over the samples, and what they are shares of; a
// last batch that is not full is left out.
func (l *lesson) measure(ctx context.Context, r *exec.Runner, feeds map[string]*tensor.Tensor, samples []*traveller) (errors,
	energies []float64, err error) {
	for _, name := range l.masks {
		mask := feeds[name].Data.([]bool)
		for i := range mask {
			mask[i] = true
		}
	}
	l.feed(feeds, true)
	errors, energies = make([]float64, len(l.k.exits)), make([]float64, len(l.k.exits))
	n := 0
	for from := 0; from+l.batch <= len(samples); from += l.batch {
		for at, t := range samples[from : from+l.batch] {
			l.put(feeds, t, at, nil)
		}
		out, err := r.Run(ctx, feeds, nil)
		if err != nil {
			return nil, nil, err
		}
		n += l.batch
		for i := range errors {
			errors[i] += float64(out[2*i].F32()[0])
			energies[i] += float64(out[2*i+1].F32()[0])
		}
	}
	for i := range errors {
		errors[i] *= float64(len(samples)) / float64(n)
		energies[i] *= float64(len(samples)) / float64(n)
	}
	return errors, energies, nil
}

// error is the error of all exits together, by sample. Of several exits each counts as a share of what it is a share of.
func (l *lesson) error(ctx context.Context, r *exec.Runner, feeds map[string]*tensor.Tensor, samples []*traveller) (sum float64,
	err error) {
	errors, energies, err := l.measure(ctx, r, feeds, samples)
	if err != nil {
		return 0, err
	}
	if l.weigh == nil {
		l.weigh = []float64{1}
		if len(errors) > 1 {
			l.weigh = make([]float64, len(errors))
			for i, e := range energies {
				l.weigh[i] = float64(len(samples)) / max(e, tiny)
			}
		}
	}
	for i, e := range errors {
		sum += float64(l.weigh[i] * e)
	}
	return sum / float64(len(samples)), nil
}
