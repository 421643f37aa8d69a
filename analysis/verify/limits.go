package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// limits returns the bounds of a chain of Relu and Clip, and false where another operator is among the nodes.
func (p *premises) limits(nodes []graph.NodeID) (lo, hi float32, ok bool, err error) {
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	for _, id := range nodes {
		n := p.g.Node(id)
		l, h := float32(math.Inf(-1)), float32(math.Inf(1))
		switch {
		case n.Op == "Relu" && n.Domain == "":
			l = 0
		case n.Op == "Clip" && n.Domain == "" && p.g.Opset("") < 11:
			l, h = n.Limits()
		case n.Op == "Clip" && n.Domain == "":
			for i, bound := range []*float32{&l, &h} {
				v := n.Input(1 + i)
				if v == graph.NoValue {
					continue
				}
				t := p.g.Const(v)
				if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
					return 0, 0, false, fmt.Errorf("bound %d of %q is not a constant", i, n.Name)
				}
				*bound = t.F32()[0]
			}
		default:
			return 0, 0, false, nil
		}
		l = min(l, h)
		lo, hi = min(max(lo, l), h), min(max(hi, l), h)
	}
	return lo, hi, true, nil
}

// limited narrows a grid to what the activations behind a step leave over; every one of them must be a limit.
func (l *layer) limited(y qmath.Grid) (qmath.Grid, error) {
	lo, hi, ok, err := l.limits(l.acts)
	if err == nil && !ok {
		err = fmt.Errorf("%s behind %s is not a limit", l.g.Node(l.acts[0]).Op, l.node.Op)
	}
	if err != nil {
		return y, err
	}
	narrow := y
	narrow.QMin, narrow.QMax = y.Quantize(lo), y.Quantize(hi)
	return narrow, nil
}
