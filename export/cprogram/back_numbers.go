package cprogram

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// Kinds of numbers that stand in the code: literals by their names in it, and what is not compared.
const (
	literals export.ItemKind = "numbers in the code"
	lines    export.ItemKind = "codes of lines"
	terms    export.ItemKind = "exponentials"
	uncalled export.ItemKind = "code"
	gains    export.ItemKind = "gains"
	offsets  export.ItemKind = "offsets"

	leftsBegin  export.ItemKind = "where the left matrices begin"
	rightsBegin export.ItemKind = "where the right matrices begin"
)

// stated collects what the code of a step has to say.
type stated struct {
	p    *lower.Program
	s    *lower.Step
	list []string
}

func (t *stated) add(name string, x any) { t.list = append(t.list, name+"="+said(x)) }

func (t *stated) limits(name string, y qmath.Grid) {
	t.add(name+".lo", y.QMin)
	t.add(name+".hi", y.QMax)
}

func (t *stated) zeroed(name string, y qmath.Grid) {
	t.add(name+".zero", y.ZeroPoint)
	t.limits(name, y)
}

func (t *stated) grid(name string, y qmath.Grid) {
	t.add(name+".scale", y.Scale)
	t.zeroed(name, y)
}

func (t *stated) quantizer(name string, q qmath.Quantizer) {
	y := q.Grid
	if q.Reciprocal != 0 {
		y.Scale = q.Reciprocal
	}
	t.grid(name, y)
}

func (t *stated) multiplier(name string, s qmath.Scaling, m qmath.Multiplier) {
	if s.Float() {
		t.add(name+".scale", m.Scale)
		t.add(name+".bias", m.Bias)
		t.add(name+".out", m.Out)
		return
	}
	t.add(name+".m", m.M)
	t.add(name+".shift", m.Shift)
}

// rescale is the way from one grid to another, nil to the same.
func (t *stated) rescale(name string, r *qmath.Rescale, lo, hi int32) {
	switch {
	case r == nil:
		t.limits(name, qmath.Grid{QMin: lo, QMax: hi})
		return
	case r.Float:
		t.grid(name+".x", r.X)
		t.quantizer(name+".y", r.Quantizer)
		return
	case r.Eighth != 0:
		t.add(name+".factor", r.Eighth)
	default:
		t.multiplier(name+".m", r.Scaling, r.M)
	}
	t.add(name+".zero", r.X.ZeroPoint)
	t.add(name+".y_zero", r.Y.ZeroPoint)
	t.limits(name, r.Y)
}

// walk is a struct layout.
func (t *stated) walk(name string, l walk) {
	t.add(name+".rank", len(l.axes))
	t.add(name+".size", l.axes)
	t.add(name+".steps", l.operands)
}

// broadcast is the walk over the inputs of a step.
func (t *stated) broadcast() error {
	shapes := make([][]int, len(t.s.Inputs))
	for i, id := range t.s.Inputs {
		shapes[i], _ = t.p.Tensors[id].Shape.Ints()
	}
	l, err := broadcastLayout(shapes...)
	t.walk("walk", l)
	return err
}

// matrices are a struct product, of matrices, and where they begin.
func (t *stated) matrices(op *lower.Linear) ([]*export.Item, error) {
	a, _ := t.p.Tensors[t.s.Inputs[0]].Shape.Ints()
	b, zeros := []int(nil), 0
	if o := op.Weights; o == nil {
		b, _ = t.p.Tensors[t.s.Inputs[1]].Shape.Ints()
		zeros = bit(t.p.Tensors[t.s.Inputs[1]].Encoding.ZeroPoint != 0)
	} else if b = o.Codes.Shape; slices.ContainsFunc(o.ZeroPoint, func(z int32) bool { return z != 0 }) {
		zeros = len(o.ZeroPoint)
	}
	gemm := t.p.Graph.Node(t.s.Node).Gemm()
	m, err := productOf(a, b, gemm.TransA, gemm.TransB)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		field string
		n     int
	}{{"stack", m.stack}, {"rows", m.x.rows}, {"depth", m.x.cols}, {"columns", m.y.cols}, {"x_row", m.x.byRow}, {"x_column", m.x.byCol},
		{"w_row", m.y.byRow}, {"w_column", m.y.byCol}, {"zeros", zeros}} {
		t.add("shape."+of.field, of.n)
	}
	at := export.StepName(t.p, t.s)
	if m.stack == 1 {
		return nil, nil
	}
	return []*export.Item{{At: at, Kind: leftsBegin, Ints: ints32(m.lefts)}, {At: at, Kind: rightsBegin, Ints: ints32(m.rights)}}, nil
}

func ints32(list []int) []int32 {
	out := make([]int32, len(list))
	for i, n := range list {
		out[i] = int32(n)
	}
	return out
}

// inFloat are the grids of two operands and what makes codes of the result.
func (t *stated) inFloat(a, b qmath.Grid, y qmath.Quantizer) {
	t.grid("how.a", a)
	t.grid("how.b", b)
	t.quantizer("how.y", y)
}

func (t *stated) sum(o *qmath.Sum) {
	if o.Form == qmath.SumFused {
		t.add("how.a", o.RA)
		t.add("how.b", o.RB)
		t.add("how.k", o.K)
		t.limits("how", o.Y)
		return
	}
	if t.add("how.subtract", bit(o.Subtract)); o.Form == qmath.SumFloat {
		t.inFloat(o.A, o.B, o.Quantizer)
		return
	}
	t.add("how.a_zero", o.A.ZeroPoint)
	t.add("how.b_zero", o.B.ZeroPoint)
	t.zeroed("how", o.Y)
	switch o.Form {
	case qmath.SumAligned:
		t.add("how.right", o.Right)
		t.add("how.a", o.MA.M)
		t.add("how.b", o.MB.M)
		return
	case qmath.SumShifted:
		t.add("how.left", o.Left)
		t.multiplier("how.y", o.Scaling, o.MY)
	}
	t.multiplier("how.a", o.Scaling, o.MA)
	t.multiplier("how.b", o.Scaling, o.MB)
}

func (t *stated) product(o *qmath.Product) {
	if o.Float {
		t.inFloat(o.A, o.B, o.Quantizer)
		return
	}
	t.add("how.a_zero", o.A.ZeroPoint)
	t.add("how.b_zero", o.B.ZeroPoint)
	t.multiplier("how.m", o.Scaling, o.M)
	t.zeroed("how", o.Y)
}

func (t *stated) average(op *lower.Average) error {
	x, _ := t.p.Tensors[t.s.Inputs[0]].Shape.Ints()
	if op.Axes != nil {
		n := 1
		for _, a := range op.Axes {
			n *= x[a]
		}
		of, over, err := reductionLayouts(x, op.Axes)
		if err != nil {
			return err
		}
		t.walk("of", of)
		t.walk("over", over)
		return t.way("way", op, n)
	}
	node := t.p.Graph.Node(t.s.Node)
	first, most := 1, 1
	for _, k := range node.Pool().Kernel {
		most *= int(k)
	}
	if len(op.ByCount) == 1 {
		first = most
	}
	for n := first; n <= most; n++ {
		if err := t.way(fmt.Sprintf("ways[%d]", n-first), op, n); err != nil {
			return err
		}
	}
	t.add("first", first)
	t.add("padded", bit(node.Pool().CountPadding))
	t.add("empty", op.Empty())
	return t.pool(x, false)
}

// way is the mean of n codes.
func (t *stated) way(name string, op *lower.Average, n int) error {
	a, err := op.For(t.p.Profile, n)
	if err != nil {
		return err
	}
	if t.add(name+".x_zero", a.X.ZeroPoint); a.Form != qmath.AverageScaled {
		t.add(name+".n", a.N)
	}
	switch a.Form {
	case qmath.AverageFloat:
		t.add(name+".scale", a.X.Scale)
		t.quantizer(name+".y", a.Quantizer)
	case qmath.AverageSame:
		t.limits(name, a.Y)
	case qmath.AverageTerms:
		t.grid(name+".x", a.X)
		t.grid(name+".y", a.Y)
	case qmath.AverageExact:
		t.add(name+".shift", a.Shift)
		t.zeroed(name, a.Y)
	case qmath.AverageEach:
		t.multiplier(name+".m", a.Each.Scaling, a.Each.M)
		t.zeroed(name, a.Y)
	default:
		t.multiplier(name+".m", a.Scaling, a.M)
		t.zeroed(name, a.Y)
	}
	return nil
}

// pool is the window of a pool that is not global.
func (t *stated) pool(x []int, global bool) error {
	if global {
		return nil
	}
	geo, err := graph.PoolGeometry(t.p.Graph.Node(t.s.Node), graph.Static(x...))
	if err == nil {
		t.window("window", geo)
	}
	return err
}

// window has three axes; those that are missing have the size 1.
func (t *stated) window(name string, geo *graph.Geometry) {
	for _, of := range []struct {
		field   string
		list    []int
		missing int
	}{{"in", geo.In, 1}, {"out", geo.Out, 1}, {"kernel", geo.Kernel, 1}, {"stride", geo.Stride, 1}, {"dilation", geo.Dilation, 1},
		{"begin", geo.PadBegin, 0}, {"end", geo.PadEnd, 0}} {
		list := []int{of.missing, of.missing, of.missing}
		copy(list[max(3-len(of.list), 0):], of.list)
		t.add(name+"."+of.field, list)
	}
}

func (t *stated) softmax(op *lower.Softmax) (*export.Item, error) {
	x, _ := t.p.Tensors[t.s.Inputs[0]].Shape.Ints()
	m, err := op.For(t.p.Profile, x[op.Axis])
	if err != nil {
		return nil, err
	}
	at := export.StepName(t.p, t.s)
	switch t.zeroed("how", m.Y); m.Form {
	case qmath.SoftmaxGemmlowp:
		t.multiplier("how.m", m.Scaling, m.M)
		t.add("how.radius", m.Radius)
		return nil, nil
	case qmath.SoftmaxMLAS:
		t.add("how.per_output", m.PerOutput)
		return &export.Item{At: at, Kind: terms, Floats: m.Terms}, nil
	}
	t.add("how.inverse", m.Inverse)
	return &export.Item{At: at, Kind: terms, Ints: m.E}, nil
}

func (t *stated) linear(op *lower.Linear) error {
	p, s := t.p, t.s
	t.add("zx", p.Tensors[s.Inputs[0]].Encoding.ZeroPoint)
	residual := s.Inputs[len(s.Inputs)-1]
	for k, id := range s.Outputs {
		quantized, r := p.Tensors[id].Quantized(), &op.Scales[k]
		name := fmt.Sprintf("to%d", id)
		switch {
		case op.Func != nil && quantized:
			t.quantizer(fmt.Sprintf("grid_%d", id), p.Profile.Quantizer(p.Tensors[id].Encoding.Grid()))
		case !quantized:
		case op.Residual:
			t.add(name+".skip.scale", r.Skip.Scale)
			t.add(name+".skip.zero", r.Skip.ZeroPoint)
			t.codes(name+".to", r)
		default:
			t.codes(name, r)
		}
	}
	if real := "real"; realOf(p, s, op) {
		if op.Residual {
			real = "real.to"
			t.grid("real.grid", p.Tensors[residual].Encoding.Grid())
		}
		t.add(real+".count", len(op.Real))
		t.add(real+".lo", op.Lo)
		t.add(real+".hi", op.Hi)
	}
	if !graph.Slides(op.Kind) {
		return nil
	}
	geo, err := graph.WindowGeometry(p.Graph.Node(s.Node), p.Tensors[s.Inputs[0]].Shape, graph.Static(op.Weights.Codes.Shape...))
	if err == nil {
		t.window("shape.window", geo)
		x, _ := p.Tensors[s.Inputs[0]].Shape.Ints()
		t.add("shape.images", x[0])
		t.add("shape.groups", geo.Group)
		t.add("shape.depth", x[1]/geo.Group)
		t.add("shape.channels", op.Weights.Channels)
	}
	return err
}

// codes is what makes codes of sums: multipliers that are all the same stand once.
func (t *stated) codes(name string, r *lower.Requantization) {
	t.zeroed(name, qmath.Grid{ZeroPoint: r.ZeroPoint, QMin: r.Lo, QMax: r.Hi})
	count := len(r.Multipliers)
	if len(slices.Compact(slices.Clone(r.Multipliers))) == 1 {
		count = 1
	}
	t.add(name+".count", count)
}

// numbersOf are the numbers that the code of a step has, which p has with the sizes of the file, and arrays that are not of the plan but
// made of it.
func numbersOf(p *lower.Program, s *lower.Step) ([]*export.Item, error) {
	at := export.StepName(p, s)
	t, list, err := &stated{p: p, s: s}, []*export.Item(nil), error(nil)
	switch op := s.Op.(type) {
	case *lower.Linear:
		if err = t.linear(op); op.Weights == nil {
			if z := p.Tensors[s.Inputs[1]].Encoding.ZeroPoint; z != 0 {
				list = append(list, &export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{z}})
			}
		}
		if err == nil && !graph.Slides(op.Kind) {
			var begin []*export.Item
			begin, err = t.matrices(op)
			list = append(list, begin...)
		}
	case *lower.Sum:
		t.sum(&op.Sum)
		err = t.broadcast()
	case *lower.Product:
		t.product(&op.Product)
		err = t.broadcast()
	case *lower.Select:
		err = t.broadcast()
		t.rescale("first", op.Rescale[0], op.Lo, op.Hi)
		t.rescale("second", op.Rescale[1], op.Lo, op.Hi)
	case *lower.Concat:
		for i, r := range op.Rescale {
			t.rescale(fmt.Sprintf("how%d", i), r, op.Lo, op.Hi)
		}
	case *lower.Requantize:
		t.rescale("how", &op.Rescale, 0, 0)
	case *lower.Clamp:
		t.rescale("how", nil, op.Lo, op.Hi)
	case *lower.Table:
		if e := p.Tensors[s.Outputs[0]].Encoding; op.Lines != nil {
			t.add("lo", e.QMin)
			t.add("hi", e.QMax)
			it := &export.Item{At: at, Kind: lines}
			for _, x := range op.Lines {
				it.Ints = append(it.Ints, int32(x))
			}
			list = append(list, it)
		}
	case *lower.Quantize:
		t.quantizer(fmt.Sprintf("grid_%d", s.Outputs[0]), op.Quantizer)
	case *lower.Dequantize:
		t.grid("grid", p.Tensors[s.Inputs[0]].Encoding.Grid())
	case *lower.Softmax:
		var it *export.Item
		if it, err = t.softmax(op); it != nil {
			list = append(list, it)
		}
	case *lower.LayerNorm:
		m := &op.Norm
		t.zeroed("how", m.Y)
		t.add("how.epsilon", m.Epsilon)
		t.add("how.least", m.X.QMin)
		t.add("how.fraction", m.Fraction)
		t.add("how.shift", m.Shift)
		list = append(list, &export.Item{At: at, Kind: gains, Ints: m.Gain}, &export.Item{At: at, Kind: offsets, Wide: m.Offset})
	case *lower.MaxPool:
		x, _ := p.Tensors[s.Inputs[0]].Shape.Ints()
		t.add("lowest", op.Lowest)
		err = t.pool(x, op.Global)
	case *lower.Average:
		err = t.average(op)
	default: // of steps that move elements, and of operators in float
		list = append(list, &export.Item{At: at, Kind: uncalled, Texts: []string{s.Op.Name()}})
	}
	if t.list != nil {
		list = append(list, &export.Item{At: at, Kind: literals, Texts: t.list})
	}
	return list, err
}
