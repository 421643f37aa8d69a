package program

import (
	"context"
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
	"qwb/quantizer/tqc"
)

func newMaxPool(p *lower.Program, s *lower.Step, op *lower.MaxPool, par workers) Kernel {
	out, node := output(p, s, 0), p.Graph.Node(s.Node)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0]
		if len(x.Shape) < 3 {
			return nil, fmt.Errorf("%s has no spatial axes", x.Type())
		}
		src := x.Integers()
		planes := x.Shape[0] * x.Shape[1]
		if op.Global {
			shape := append([]int(nil), x.Shape[:2]...)
			for range x.Shape[2:] {
				shape = append(shape, 1)
			}
			codes := make([]int32, planes)
			size := len(src) / max(planes, 1)
			for i := range codes {
				codes[i] = op.Lowest
				for _, q := range src[i*size:][:size] {
					codes[i] = max(codes[i], q)
				}
			}
			return one(tqc.Narrow(out.DType, shape, codes))
		}
		w, geo, err := poolWindow(node, x)
		if err != nil {
			return nil, err
		}
		codes := make([]int32, planes*w.outSize())
		par.each(planes, func(plane int) {
			from, to := src[plane*w.inSize():][:w.inSize()], codes[plane*w.outSize():][:w.outSize()]
			w.positions(func(z, y, x, at int) {
				best := op.Lowest
				w.each(z, y, x, func(i int, _ bool) {
					if i >= 0 {
						best = max(best, from[i])
					}
				})
				to[at] = best
			})
		})
		return one(tqc.Narrow(out.DType, steps.SpatialShape(x.Shape[0], x.Shape[1], geo), codes))
	}
}

func newAverage(p *lower.Program, s *lower.Step, op *lower.Average, par workers) Kernel {
	out := output(p, s, 0)
	if op.Axes != nil {
		return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			codes, shape, err := meanOver(p.Profile, op, in[0])
			if err != nil {
				return nil, err
			}
			return one(tqc.Narrow(out.DType, shape, codes))
		}
	}
	node := p.Graph.Node(s.Node)
	padding := node.Pool().CountPadding
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0]
		w, geo, err := poolWindow(node, x)
		if err != nil {
			return nil, err
		}
		src := x.Integers()
		planes := x.Shape[0] * x.Shape[1]
		codes := make([]int32, planes*w.outSize())
		failed := make([]error, planes)
		par.each(planes, func(plane int) {
			from, to := src[plane*w.inSize():][:w.inSize()], codes[plane*w.outSize():][:w.outSize()]
			members := make([]int32, 0, w.taps())
			w.positions(func(z, y, x, at int) {
				members, count := members[:0], 0
				w.each(z, y, x, func(i int, pad bool) {
					switch {
					case i >= 0:
						members, count = append(members, from[i]), count+1
					case pad && padding:
						members, count = append(members, op.X.ZeroPoint), count+1
					}
				})
				code, err := mean(p.Profile, op, members, count)
				if err != nil {
					failed[plane] = err
				}
				to[at] = code
			})
		})
		for _, err := range failed {
			if err != nil {
				return nil, err
			}
		}
		return one(tqc.Narrow(out.DType, steps.SpatialShape(x.Shape[0], x.Shape[1], geo), codes))
	}
}

// mean returns the code of the mean of codes.
func mean(profile qmath.Profile, op *lower.Average, codes []int32, count int) (int32, error) {
	if count == 0 {
		return op.Empty(), nil
	}
	a, err := op.For(profile, count)
	if err != nil {
		return 0, err
	}
	if a.Float() {
		sum := float32(0)
		for _, q := range codes {
			sum += float32(a.AverageTerm(q)) // rounded before it is added, on every processor
		}
		return a.AtFloat(sum), nil
	}
	sum := int32(0)
	for _, q := range codes {
		sum += a.Term(q)
	}
	return a.At(sum), nil
}

// meanOver averages over whole axes.
func meanOver(profile qmath.Profile, op *lower.Average, t *tensor.Tensor) ([]int32, []int, error) {
	reduced := make([]bool, len(t.Shape))
	for _, a := range op.Axes {
		if a >= len(t.Shape) {
			return nil, nil, fmt.Errorf("axis %d of %s", a, t.Type())
		}
		reduced[a] = true
	}
	kept, shape, count := make([]int, len(t.Shape)), []int{}, 1
	for a, n := range t.Shape {
		switch {
		case !reduced[a]:
			kept[a], shape = n, append(shape, n)
		case op.Keep:
			kept[a], shape = 1, append(shape, 1)
		default:
			kept[a] = 1
		}
		if reduced[a] {
			count *= n
		}
	}
	groups := make([][]int32, tensor.Count(kept))
	src := t.Integers()
	for i, g := range tensor.BroadcastIndex(t.Shape, kept) {
		groups[g] = append(groups[g], src[i])
	}
	codes := make([]int32, len(groups))
	for g, members := range groups {
		var err error
		if codes[g], err = mean(profile, op, members, count); err != nil {
			return nil, nil, err
		}
	}
	return codes, shape, nil
}
