package program

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
	"qwb/quantizer/tqc"
)

// linear executes sums of products: accumulate fills accumulators, finish makes the outputs of them.
type linear struct {
	p    *lower.Program
	s    *lower.Step
	op   *lower.Linear
	node *graph.Node
	x    lower.Encoding
	par  workers
	// weights are the codes less their zero points, by output channel; columns the same by group, for what multiplies rows with them.
	weights  [][]int32
	columns  []*columns
	function Kernel // behind the sum, nil for none
}

// sums are accumulators, summed in 64 bits and then wrapped to 32 unless the step is wide: for o in [0,outer), c in [0,channels), i in
// [0,inner) that of channel c at (o*channels+c)*inner+i.
type sums struct {
	acc             []int64
	channels, inner int
	shape           []int // of the output
}

func newLinear(p *lower.Program, s *lower.Step, op *lower.Linear, par workers) (Kernel, error) {
	l := &linear{p: p, s: s, op: op, node: p.Graph.Node(s.Node), x: *p.Tensors[s.Inputs[0]].Encoding, par: par}
	if w := op.Weights; w != nil {
		l.weights = byChannel(w)
	}
	if op.Func != nil {
		var err error
		if l.function, err = newGraph(op.Func, int(par)); err != nil {
			return nil, err
		}
	}
	accumulate := l.matrices
	switch groups := l.node.Conv().Group; {
	case op.Kind == "ConvTranspose":
		accumulate = l.convTranspose
	case p.Profile.Saturates && steps.Pairs(p, s, op):
		if op.Kind == "Conv" {
			accumulate = l.convSaturating
		}
	case op.Kind == "Conv" && len(l.weights) < 2*groups: // nothing to put beside each other
		accumulate = l.conv
	case op.Kind == "Conv":
		l.pack(groups)
		accumulate = l.convRows
	case op.Weights != nil:
		l.pack(1)
	}
	return func(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a, err := accumulate(in)
		if err != nil {
			return nil, err
		}
		if op.Bias != nil {
			for i := range a.acc {
				a.acc[i] += op.Bias[i/a.inner%a.channels%len(op.Bias)]
			}
		}
		if !op.Wide {
			for i, acc := range a.acc {
				a.acc[i] = int64(int32(acc))
			}
		}
		return l.finish(ctx, a, in)
	}, nil
}

// byChannel returns the codes of weights less their zero points, by output channel.
func byChannel(w *lower.Weights) [][]int32 {
	list := make([][]int32, w.Channels)
	if outer, n, inner := w.Codes.Blocks(w.Axis); outer == 1 && n == w.Channels { // they lie so
		codes := w.Codes.Integers()
		for c := range list {
			list[c] = codes[c*inner:][:inner]
			for i := range list[c] {
				list[c][i] -= w.ZeroPoint[c]
			}
		}
		return list
	}
	own := w.Codes.Len() / max(w.Channels, 1)
	for c := range list {
		list[c] = make([]int32, 0, own)
	}
	w.Runs(func(c int, codes []int32) {
		for _, q := range codes {
			list[c] = append(list[c], q-w.ZeroPoint[c])
		}
	})
	return list
}

// pack makes columns of the weights of every group, which take their place.
func (l *linear) pack(groups int) {
	for g := range groups {
		l.columns = append(l.columns, newColumns(l.weights[len(l.weights)*g/groups:len(l.weights)*(g+1)/groups], reach(&l.x)))
	}
	l.weights = nil
}

// centered returns the codes of a tensor less the zero point of its encoding.
func centered(t *tensor.Tensor, e *lower.Encoding) []int32 {
	codes := t.Integers()
	for i := range codes {
		codes[i] -= e.ZeroPoint
	}
	return codes
}

// finish makes the step's outputs of accumulators, bias included.
func (l *linear) finish(ctx context.Context, a sums, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var residual []int32
	var skip *lower.Encoding
	if l.op.Residual {
		last := len(l.s.Inputs) - 1
		skip = l.p.Tensors[l.s.Inputs[last]].Encoding
		if residual = in[last].Integers(); len(residual) != len(a.acc) {
			return nil, fmt.Errorf("residual of %s for an output of shape %v", in[last].Type(), a.shape)
		}
	}
	var real *tensor.Tensor
	if l.op.Real != nil {
		var err error
		if real, err = l.real(ctx, a, residual, skip); err != nil {
			return nil, err
		}
	}
	outs := make([]*tensor.Tensor, len(l.s.Outputs))
	for k, id := range l.s.Outputs {
		t := &l.p.Tensors[id]
		if !t.Quantized() {
			outs[k] = real
			continue
		}
		codes := make([]int32, len(a.acc))
		if l.op.Func != nil {
			q := l.p.Profile.Quantizer(t.Encoding.Grid())
			for i, v := range real.F32() {
				codes[i] = q.At(v)
			}
		} else {
			l.scale(codes, a, residual, &l.op.Scales[k])
		}
		var err error
		if outs[k], err = tqc.Narrow(t.DType, a.shape, codes); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// scale makes codes of accumulators.
func (l *linear) scale(codes []int32, a sums, residual []int32, r *lower.Requantization) {
	scaling := l.p.Profile.Scaling
	var part []int32
	for from := 0; from < len(codes); from += a.inner {
		to := from + a.inner
		m := r.Multipliers[from/a.inner%a.channels%len(r.Multipliers)]
		if residual != nil {
			part = residual[from:to]
		}
		switch {
		case residual == nil && !l.op.Wide && !scaling.Float():
			for i, v := range a.acc[from:to] {
				codes[from+i] = scaling.Requantize(int32(v), m, r.ZeroPoint, r.Lo, r.Hi)
			}
		default:
			scaling.RequantizeSlice(codes[from:to], a.acc[from:to], m, part, r.Skip, r.ZeroPoint, r.Lo, r.Hi)
		}
	}
}

// real makes real numbers of accumulators: scaled, residual added, limited, the function applied.
func (l *linear) real(ctx context.Context, a sums, residual []int32, skip *lower.Encoding) (*tensor.Tensor, error) {
	out := tensor.New(tensor.Float32, a.shape...)
	var grid qmath.Grid
	if skip != nil {
		grid = skip.Grid()
	}
	for i, acc := range a.acc {
		v := l.op.Real[i/a.inner%a.channels%len(l.op.Real)].Accumulated64(acc)
		if residual != nil {
			v += float32(grid.Dequantize(residual[i])) // rounded before it is added, on every processor
		}
		out.F32()[i] = min(max(v, l.op.Lo), l.op.Hi)
	}
	if l.function == nil {
		return out, nil
	}
	y, err := l.function(ctx, []*tensor.Tensor{out})
	if err != nil {
		return nil, err
	}
	return y[0], nil
}
