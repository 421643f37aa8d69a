package qdq

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// grain is how far, relatively for a factor and in integers for a zero point, arithmetic may be off a grid, which comes of constants that
// were rounded.
const grain = 1e-3

// vector is one number, or several along an axis counted from the end of a tensor's shape (0: one number).
type vector struct {
	x       []float64
	fromEnd int
}

func number(x float64) vector { return vector{x: []float64{x}} }

// with combines two vectors number by number; ok is false where they lie along different axes.
func (a vector) with(b vector, op func(x, y float64) float64) (out vector, ok bool) {
	if a.fromEnd != 0 && b.fromEnd != 0 && (a.fromEnd != b.fromEnd || len(a.x) != len(b.x)) {
		return out, false
	}
	out.fromEnd = min(a.fromEnd, b.fromEnd)
	out.x = make([]float64, max(len(a.x), len(b.x)))
	for i := range out.x {
		out.x[i] = op(a.x[i%len(a.x)], b.x[i%len(b.x)])
	}
	return out, true
}

func (a vector) all(ok func(float64) bool) bool {
	return !slices.ContainsFunc(a.x, func(x float64) bool { return !ok(x) })
}

func plus(x, y float64) float64   { return x + y }
func minus(x, y float64) float64  { return x - y }
func times(x, y float64) float64  { return x * y }
func divide(x, y float64) float64 { return x / y }

// operand splits an elementwise operation on a computed tensor and a constant. reversed is constant - tensor or constant / tensor.
func (f *faker) operand(n *graph.Node) (x graph.ValueID, k vector, reversed, ok bool) {
	switch n.Op {
	case "Add", "Sub", "Mul", "Div":
	default:
		return
	}
	if !standard(n.Domain) || len(n.Inputs) != 2 || f.g.Opset("") < 7 {
		return
	}
	for i, other := range []int{1, 0} {
		if f.constant(n.Inputs[other]) == nil {
			continue
		}
		numbers, shape := f.numbers(n.Inputs[other])
		tensorRank := 0
		if t := f.constant(n.Inputs[i]); t != nil {
			tensorRank = len(t.Shape)
			if tensor.Count(t.Shape) < len(numbers) {
				continue
			}
		}
		axis, one := channelAxis(shape)
		if len(numbers) == 0 || !one || tensorRank > 0 && -axis > tensorRank {
			continue
		}
		return n.Inputs[i], vector{numbers, axis}, i == 1, true
	}
	return
}

// arithmetic writes the fake quantization around a Round, if there is one. With Floor it rounds halves up.
func (f *faker) arithmetic(id graph.NodeID) (bool, error) {
	n := f.g.Node(id)
	if len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return false, nil
	}
	w := &back{y: n.Outputs[0], low: math.Inf(-1), high: math.Inf(1), before: number(0), behind: number(0)}
	for w.scale.x == nil {
		if !f.walk(w) {
			return false, nil
		}
	}
	r := rounding{v: n.Inputs[0]}
	if n.Op == "Floor" {
		r.half = 0.5
	}
	m := f.at(r, w)
	if m == nil && f.walk(w) {
		m = f.at(r, w)
	}
	if m == nil || f.g.Value(w.y).DType == tensor.Float64 {
		return false, nil
	}
	return f.pair(f.g.Value(w.y).Name, m.x, w.y, m.rank, m.grid, m.codes)
}

// back is what stands behind a Round: of r it makes y = scale * (r + before) + behind, and r is clipped to low and high.
type back struct {
	y                     graph.ValueID
	low, high             float64
	scale, before, behind vector // scale has no numbers until it is found
}

// walk takes in the operator behind y; false where it is none of those.
func (f *faker) walk(w *back) bool {
	u, sole := f.g.SoleUse(w.y)
	if !sole || f.g.IsOutput(w.y) {
		return false
	}
	n := f.g.Node(u.Node)
	if n.Op == "Clip" && standard(n.Domain) && u.Index == 0 && w.scale.x == nil {
		lo, hi, ok := f.bounds(n)
		if !ok || w.before.fromEnd != 0 {
			return false
		}
		w.low, w.high, w.y = max(w.low, lo-w.before.x[0]), min(w.high, hi-w.before.x[0]), n.Outputs[0]
		return true
	}
	x, k, reversed, ok := f.operand(n)
	if !ok || x != w.y || reversed && (n.Op == "Sub" || n.Op == "Div") {
		return false
	}
	sum := &w.before
	if w.scale.x != nil {
		sum = &w.behind
	}
	switch {
	case n.Op == "Add":
		*sum, ok = sum.with(k, plus)
	case n.Op == "Sub":
		*sum, ok = sum.with(k, minus)
	case w.scale.x != nil:
		return false
	case n.Op == "Mul":
		w.scale = k
	default:
		w.scale, ok = number(1).with(k, divide)
	}
	w.y = n.Outputs[0]
	return ok
}

// rounding is what a Round reads, with what is added there to make of a Floor a rounding.
type rounding struct {
	v    graph.ValueID
	half float64
}

// fakeMatch is fake quantization that was found.
type fakeMatch struct {
	x     graph.ValueID
	rank  int
	grid  *fakeGrid
	codes *tensor.Tensor
}

// at looks for the tensor that is quantized, from the rounding upwards: u = factor * x + offset is what is rounded,
// and scale * factor is 1.
func (f *faker) at(r rounding, w *back) *fakeMatch {
	low, high, scale := w.low, w.high, w.scale
	factor, offset := number(1), number(-r.half)
	zero, ok := w.behind.with(scale, divide)
	if ok {
		zero, ok = zero.with(w.before, func(e, d float64) float64 { return -(d + e) })
	}
	if !ok || !scale.all(func(s float64) bool { return s > 0 }) || !zero.all(func(z float64) bool { return math.Abs(z-whole(z)) < grain }) {
		return nil
	}
	x := r.v
	for range 7 {
		if m := f.complete(x, low, high, scale, zero, factor, offset); m != nil {
			return m
		}
		p := f.g.Producer(x)
		if p == graph.NoNode {
			break
		}
		n := f.g.Node(p)
		if n.Op == "Clip" && standard(n.Domain) {
			lo, hi, ok := f.bounds(n)
			if !ok || factor.fromEnd != 0 || offset.fromEnd != 0 || factor.x[0] <= 0 {
				break
			}
			to := func(b float64) float64 { return factor.x[0]*b + offset.x[0] }
			low, high, x = max(low, nearest(to(lo))), min(high, nearest(to(hi))), n.Inputs[0]
			continue
		}
		before, k, reversed, ok := f.operand(n)
		if !ok || reversed && (n.Op == "Sub" || n.Op == "Div") {
			break
		}
		switch n.Op {
		case "Add", "Sub":
			var move vector
			if move, ok = factor.with(k, times); ok {
				op := plus
				if n.Op == "Sub" {
					op = minus
				}
				offset, ok = offset.with(move, op)
			}
		case "Mul":
			factor, ok = factor.with(k, times)
		case "Div":
			factor, ok = factor.with(k, divide)
		}
		if !ok {
			break
		}
		x = before
	}
	return f.divided(r, low, high, scale, zero)
}

// nearest rounds a bound that is an integer but for the rounding of constants.
func nearest(x float64) float64 {
	if i := whole(x); math.Abs(x-i) < grain {
		return i
	}
	return x
}

// whole is the integer nearest to a constant.
func whole(x float64) float64 { return math.Trunc(x + math.Copysign(0.5, x)) }

// complete reports whether factor and offset are those of a grid, and its range is known.
func (f *faker) complete(x graph.ValueID, low, high float64, scale, zero, factor, offset vector) *fakeMatch {
	one, ok := factor.with(scale, times)
	off, ok2 := offset.with(zero, minus)
	if !ok || !ok2 || !one.all(func(v float64) bool { return math.Abs(v-1) < 1e-5 }) ||
		!off.all(func(v float64) bool { return math.Abs(v) < grain }) {
		return nil
	}
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		return nil
	}
	m := &fakeMatch{x: x, grid: gridFrom(scale, zero, low, high)}
	if m.grid == nil {
		return nil
	}
	m.rank = f.rank(x)
	return m
}

func (f *faker) rank(x graph.ValueID) int {
	if t := f.constant(x); t != nil {
		return len(t.Shape)
	}
	return len(f.g.Value(x).Shape)
}

func gridFrom(scale, zero vector, low, high float64) *fakeGrid {
	both, ok := scale.with(zero, func(s, _ float64) float64 { return s })
	if !ok {
		return nil
	}
	q := &fakeGrid{scale: both.x, fromEnd: both.fromEnd, low: nearest(low), high: nearest(high)}
	for i := range both.x {
		q.zero = append(q.zero, whole(zero.x[i%len(zero.x)]))
	}
	return q
}

// divided is for a constant that the exporter has divided by its scale already: its integers are what the Round gives.
func (f *faker) divided(r rounding, low, high float64, scale, zero vector) *fakeMatch {
	p := f.g.Producer(r.v)
	x := r.v
	for p != graph.NoNode && f.g.Node(p).Op == "Clip" {
		x = f.g.Node(p).Inputs[0]
		p = f.g.Producer(x)
	}
	t := f.constant(x)
	if t == nil || t.DType != tensor.Float32 {
		return nil
	}
	for _, b := range []float64{low, high} {
		if math.IsInf(b, 0) {
			return nil
		}
	}
	m := &fakeMatch{x: x, rank: len(t.Shape), grid: gridFrom(scale, zero, low, high), codes: t.ToRowMajor().Clone()}
	if m.grid == nil || integersFor(m.grid) == tensor.Undefined {
		return nil
	}
	float, same := m.codes.Clone(), true
	channel := func(int) int { return 0 }
	if axis := m.rank + m.grid.fromEnd; m.grid.fromEnd < 0 && axis >= 0 && t.Shape[axis] == len(m.grid.scale) {
		inner := tensor.Count(t.Shape[axis+1:])
		channel = func(i int) int { return i / inner % t.Shape[axis] }
	} else if m.grid.fromEnd < 0 {
		return nil
	}
	one := qmath.Grid{Scale: 1, QMin: int32(m.grid.low), QMax: int32(m.grid.high)}
	for i, v := range m.codes.F32() {
		c := channel(i)
		q := one.Quantize(v - float32(r.half))
		g := qmath.Grid{Scale: float32(m.grid.scale[c]), ZeroPoint: int32(m.grid.zero[c]), QMin: one.QMin, QMax: one.QMax}
		float.F32()[i] = float32((float64(v) - r.half - m.grid.zero[c]) * m.grid.scale[c])
		m.codes.F32()[i], same = float32(q), same && g.Quantize(float.F32()[i]) == q
	}
	if same { // the numbers that were divided, as far as they can be known
		m.x, m.codes = f.g.AddConst(f.g.Value(x).Name+"_real", float), nil
	}
	return m
}
