package tune

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Proposal is another value for the constants of one operator. Fields that are nil stay as they are.
type Proposal struct {
	By string // the method, or the variant of it that reports name
	// Weight has the shape of the weight, float32, row-major, finite.
	Weight *tensor.Tensor
	// Params are scales and zero points of the weight that Weight was made for, as many as its config asks for.
	Params *tqc.Params
	// Bias is added to the bias, one number per channel, before it is quantized; nil: the mean error that is left over the fitting samples
	// is taken off. Operators without a bias ignore it.
	Bias []float64
}

// Proposer makes proposals for one operator; it is called in graph order, everything in front tuned already.
type Proposer struct {
	Name   string
	Trials int // proposals at most per operator, for the correction of the error bar
	// Biases: it proposes for the bias alone and is asked only where there is one; others are asked only where there is a weight that is
	// quantized by scales of its own.
	Biases bool
	// Float: it wants the float lane of LayerBench.Gram, which takes twice the time again.
	Float bool
	// Propose returns at most Trials proposals; none where it has nothing to say of the operator.
	Propose func(ctx context.Context, l *LayerBench) ([]Proposal, error)
}

// asks reports whether a proposer has something to say of a layer.
func (p *Proposer) asks(l layer) bool {
	if p.Biases {
		return l.channels > 0
	}
	return l.weight != tqc.NoSlot
}

// LayerBench is one operator (Conv, ConvTranspose, Gemm, or MatMul with a constant weight) behind its tuned prefix.
type LayerBench struct {
	*Bench
	Node   graph.NodeID
	Weight *tensor.Tensor // of the reference; Graph has what it is tuned to so far
	Slot   tqc.SlotID     // of the weight in Set, which has its scales as they are so far; NoSlot where only the bias can be tuned

	walk   *walk
	float  bool            // the moments have a float lane
	gram   *observers.Gram // once it was asked for
	rounds *rounding       // likewise
}

// Inputs calls f for every fitting sample in order: xq is what the operator reads behind the quantized prefix, quantized as it reads it, xf
// the same in float; both are row-major float32 and valid during the call only. An error of f ends it.
func (l *LayerBench) Inputs(ctx context.Context, f func(xq, xf *tensor.Tensor) error) error {
	seen := make([][2]*tensor.Tensor, l.places())
	return l.inputs(ctx, func(place int, _ *state, xq, xf *tensor.Tensor) error {
		seen[place] = [2]*tensor.Tensor{xq.ToRowMajor(), xf.ToRowMajor()}
		return nil
	}, func(place int) error { return f(seen[place][0], seen[place][1]) })
}

// places is how many samples inputs looks at together.
func (l *LayerBench) places() int { return max(l.walk.Threads, 1) }

// inputs calls look for every fitting sample, several at a time, each with its place among these and tensors in the layout that they have;
// and when all have been looked at, then for each of them in order. then may be nil.
func (l *LayerBench) inputs(ctx context.Context, look func(place int, s *state, xq, xf *tensor.Tensor) error,
	then func(place int) error) error {
	w := l.walk
	read := make([][2]*tensor.Tensor, l.places()) // what the operator reads, and that without codes
	for from := 0; from < w.fitting; {
		part := w.states[from:min(from+l.places(), w.fitting)]
		err := w.each(ctx, part, func(r *exec.Runner, i int, s *state) error {
			seen, err := w.look(ctx, r, s)
			if err != nil {
				return err
			}
			read[i] = [2]*tensor.Tensor{seen.xq, w.open(s, seen.xq)}
			return look(i, s, read[i][1], seen.xf)
		})
		for place := 0; place < len(part) && then != nil && err == nil; place++ {
			err = then(place)
		}
		for _, x := range read[:len(part)] {
			w.shut(x[0], x[1])
		}
		clear(read)
		if err != nil {
			return err
		}
		from += len(part)
	}
	return nil
}
