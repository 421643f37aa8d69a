package graph

// Linear is the weight of a Conv, ConvTranspose, Gemm or MatMul seen as matrices, one per group, for each position of the kernel:
// y[o] = sum over i of w[o,i] x[i].
type Linear struct {
	Groups   int
	Out, In  int  // channels of all groups
	Taps     int  // positions of the kernel, 1 without one
	OutFirst bool // the first axis of the weight is the output's
	Stack    int  // MatMul: matrices on leading axes, 1 for the others
}

// LinearOf returns how the weight of a node multiplies; it stands at input at, 0 for a MatMul whose left operand is the weight. False for
// other operators, ranks that do not fit, and numbers of groups that do not divide the channels.
func LinearOf(n *Node, at int, shape []int) (l Linear, ok bool) {
	if !n.IsONNX() || len(shape) < 2 {
		return l, false
	}
	rank := len(shape)
	switch l = (Linear{Groups: 1, Taps: 1, Stack: 1}); n.Op {
	case "Conv", "ConvTranspose":
		c := n.Conv()
		l.Groups, l.OutFirst = c.Group, !c.Transposed
		if l.Groups < 1 || shape[0]%l.Groups != 0 {
			return l, false
		}
		for _, k := range shape[2:] {
			l.Taps *= k
		}
		l.Out, l.In = shape[0], shape[1]*l.Groups
	case "Gemm":
		if rank != 2 {
			return l, false
		}
		l.OutFirst, l.Out, l.In = n.Gemm().TransB, shape[0], shape[1]
	case "MatMul":
		for _, d := range shape[:rank-2] {
			l.Stack *= d
		}
		l.OutFirst, l.Out, l.In = at == 0, shape[rank-2], shape[rank-1]
	default:
		return l, false
	}
	if !l.OutFirst {
		l.Out, l.In = l.In, l.Out
	}
	return l, true
}

// Rows is the number of output channels of a group, and K the number of elements that are summed for each:
// input channels of the group times Taps.
func (l *Linear) Rows() int { return l.Out / l.Groups }

// K is described at Rows.
func (l *Linear) K() int { return l.In / l.Groups * l.Taps }

// Depthwise reports whether every output channel reads one input channel of several groups.
func (l *Linear) Depthwise() bool { return l.Groups > 1 && l.In == l.Groups }

// At is where element k of a row of a group lies in the row-major weight, K counting by input channel, then kernel position; of the first
// matrix of a stack.
func (l *Linear) At(group, row, k int) int {
	rows, in := l.Rows(), l.In/l.Groups
	if i, tap := k/l.Taps, k%l.Taps; l.OutFirst {
		return ((group*rows+row)*in+i)*l.Taps + tap
	} else {
		return ((group*in+i)*rows+row)*l.Taps + tap
	}
}

// Each calls f for the runs of elements [lo,hi) of the row-major weight that share output channel o and input channel i of all groups,
// in order.
func (l *Linear) Each(f func(lo, hi, o, i int)) {
	first, second := l.Out, l.In/l.Groups
	if !l.OutFirst {
		first, second = l.In, l.Out/l.Groups
	}
	lo := 0
	for range l.Stack {
		for a := range first {
			for b := range second {
				other := a/(first/l.Groups)*second + b
				if l.OutFirst {
					f(lo, lo+l.Taps, a, other)
				} else {
					f(lo, lo+l.Taps, other, a)
				}
				lo += l.Taps
			}
		}
	}
}
