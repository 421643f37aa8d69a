package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// averageKinds are the operators that take means.
var averageKinds = map[string]qmath.AverageKind{"AveragePool": qmath.WindowMean, "GlobalAveragePool": qmath.GlobalMean,
	"ReduceMean": qmath.AxesMean}

// average is AveragePool, GlobalAveragePool or ReduceMean.
type average struct {
	*layer
	got  *lower.Average
	x, y qmath.Grid
	axes []int // nil for windows
	keep bool
	most int // positions of a window or of the axes, 0 where that is not known
	all  bool
}

func (l *layer) deriveAverage(op *lower.Average) (operation, error) {
	if err := l.wants("AveragePool", "GlobalAveragePool", "ReduceMean"); err != nil {
		return nil, err
	}
	x, y, err := l.single()
	if err != nil {
		return nil, err
	}
	a := &average{layer: l, got: op, x: x}
	if a.y, err = l.limited(y); err != nil {
		return nil, err
	}
	shape := l.g.Value(l.node.Inputs[0]).Shape
	if l.node.Op == "AveragePool" {
		geo, err := graph.PoolGeometry(l.node, shape)
		if err != nil {
			return nil, err
		}
		a.most = 1
		for i, k := range geo.Kernel {
			a.most *= k
			a.all = a.all || geo.PadBegin[i] != 0 || geo.PadEnd[i] != 0
		}
		a.all = a.all || l.node.Pool().Ceil
		return a, nil
	}
	return a, a.deriveAxes(shape)
}

func (a *average) deriveAxes(shape graph.Shape) error {
	a.keep = true
	var list []int64
	if a.node.Op == "ReduceMean" {
		a.keep, list = a.node.KeepDims(), a.node.AttrInts("axes")
		if v := a.node.Input(1); v != graph.NoValue && a.g.Const(v) != nil {
			list = a.g.Const(v).I64()
		}
	}
	first := 0
	if a.node.Op == "GlobalAveragePool" {
		first = 2
	}
	if len(list) == 0 {
		for i := first; i < len(shape); i++ {
			list = append(list, int64(i))
		}
	}
	a.most = 1
	for _, axis := range list {
		i, ok := graph.Axis(int(axis), len(shape))
		if !ok {
			return fmt.Errorf("axis %d of %s", axis, shape)
		}
		a.axes = append(a.axes, i)
		if !shape[i].Known() {
			a.most = 0
		}
		a.most *= int(max(shape[i].N, 0))
	}
	return nil
}

func (a *average) compare(f *faults) {
	flag(f, "operator", true, a.got.Kind == a.node.Op)
	f.grid("input ", a.x, a.got.X)
	f.grid("", a.y, a.got.Y)
	numbers(f, "axis", a.axes, a.got.Axes)
	if a.axes != nil {
		flag(f, "kept axes", a.keep, a.got.Keep)
	}
	from := a.most
	if a.all {
		from = 1
	}
	for n := from; n > 0 && n <= a.most; n++ {
		var got *qmath.Average
		for _, g := range a.got.ByCount {
			if g != nil && g.N == n {
				got = g
			}
		}
		want, err := a.profile.PrepareAverage(a.x, a.y, n, averageKinds[a.node.Op])
		flag(f, "arithmetic", err == nil, got != nil)
		if err != nil || got == nil {
			continue
		}
		a.compareCount(f, n, &want, got)
	}
}

func (a *average) compareCount(f *faults, n int, want, got *qmath.Average) {
	number(f, "form", n, want.Form, got.Form)
	f.grid("input ", want.X, got.X)
	f.grid("", want.Y, got.Y)
	f.scaling(want.Scaling, got.Scaling)
	f.multiplier("", n, want.M, got.M)
	if want.Form == qmath.AverageEach {
		f.rescale(n, &want.Each, &got.Each)
	}
	number(f, "shift", n, want.Shift, got.Shift)
	number(f, "rounding", n, want.Rounding, got.Rounding)
	f.quantizer(want.Quantizer, got.Quantizer)
}

// exact runs the node on the integers less their zero point, with sums in float64.
func (a *average) exact(c *computer, in []*tensor.Tensor) ([]*exact, error) {
	out, err := a.runAlone(c, in, a.x.ZeroPoint, true)
	if err != nil {
		return nil, err
	}
	x := out[0].F32()
	values := make([]float64, len(x))
	for i, v := range x {
		values[i] = float64(v) * float64(a.x.Scale)
	}
	bound, y := 0.0, a.y
	from, to := a.most, a.most
	if a.all {
		from = 1
	}
	if to == 0 {
		from = in[0].Len() / max(len(x), 1)
		to = from
	}
	for n := from; n <= to; n++ {
		p, err := a.profile.PrepareAverage(a.x, a.y, n, averageKinds[a.node.Op])
		if err != nil {
			return nil, err
		}
		bound = max(bound, p.Deviation())
		if p.Form == qmath.AverageFloat {
			y = p.Quantizer.Grid
		}
	}
	e := a.steps(values, y, 0)
	e.bound = func(i int) float64 { return bound + float32Error*math.Abs(e.value[i]) } // the executor rounds the mean once
	return []*exact{e}, nil
}

// runAlone runs the step's node on its inputs; input 0 holds integers, which it reads less zero.
func (l *layer) runAlone(c *computer, in []*tensor.Tensor, zero int32, wide bool) ([]*tensor.Tensor, error) {
	inputs := make([]*tensor.Tensor, len(l.node.Inputs))
	constant := make([]bool, len(inputs))
	feeds := map[string]*tensor.Tensor{}
	at := 0
	for i, v := range l.node.Inputs {
		switch t := l.g.Const(v); {
		case v == graph.NoValue:
			continue
		case t != nil && i > 0:
			inputs[i], constant[i] = t, true
			continue
		}
		if at >= len(in) {
			return nil, fmt.Errorf("input %d is missing", i)
		}
		if inputs[i] = in[at]; i == 0 {
			inputs[i] = centered(in[at], zero)
		}
		feeds[fmt.Sprint(i)] = inputs[i]
		at++
	}
	g, err := alone(l.g, l.node, inputs, constant, nil)
	if err != nil {
		return nil, err
	}
	run, err := c.runner(g, wide)
	if err != nil {
		return nil, err
	}
	return run.Run(c.ctx, feeds, nil)
}
