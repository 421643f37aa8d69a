package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// reduceEvals are the reductions over axes. Sums run in float64 (floats, with the lanes of ref.Sum) or int64 (integers), in
// row-major order of the reduced axes, and are rounded once.
var reduceEvals = []evaluator{
	{"ReduceSum", reduce(13, sumOf)},
	{"ReduceMean", reduce(18, meanOf)},
	{"ReduceMax", reduce(18, maxOf)},
	{"ReduceMin", reduce(18, minOf)},
	{"ReduceProd", reduce(18, prodOf)},
	{"ReduceL1", reduce(18, l1Of)},
	{"ReduceL2", reduce(18, l2Of)},
	{"ReduceSumSquare", reduce(18, squaresOf)},
	{"ReduceLogSum", reduce(18, logSumOf)},
	{"ReduceLogSumExp", reduce(18, logSumExpOf)},
}

// groups splits the elements of a tensor into those that are reduced together: element k of group g is at
// starts[g] + within[k].
type groups struct{ starts, within []int }

// grouping groups by axes; groups and elements are in row-major order whatever the layout of t.
func grouping(t *tensor.Tensor, axes []int) (groups, error) {
	reduced := make([]bool, len(t.Shape))
	for _, a := range axes {
		a, err := axisIn(a, len(t.Shape))
		if err != nil {
			return groups{}, err
		}
		reduced[a] = true
	}
	step := strides(t)
	pick := func(want bool) []int {
		offsets := []int{0}
		for a, n := range t.Shape {
			if reduced[a] != want {
				continue
			}
			next := make([]int, 0, len(offsets)*n)
			for _, o := range offsets {
				for i := range n {
					next = append(next, o+i*step[a])
				}
			}
			offsets = next
		}
		return offsets
	}
	return groups{pick(false), pick(true)}, nil
}

// reducer computes one group. Integers keep their own sums so that nothing above 2^53 is lost; int is nil where the result
// is that of float converted.
type reducer struct {
	float func(x func(i int) float64, n int) float64
	int   func(x func(i int) int64, n int) int64
	uint  func(x func(i int) uint64, n int) uint64
	rows  rowsFunc // for float32 where the reduced elements are neighbours, may be nil; len(dst) rows
}

// trailing reports whether axes are the last of a row-major tensor, and how many elements they have.
func trailing(x *tensor.Tensor, axes []int) (n int, ok bool) {
	rank := len(x.Shape)
	n = 1
	for _, a := range axes {
		a, ok := graph.Axis(a, rank)
		if !ok || a < rank-len(axes) {
			return 0, false
		}
		n *= x.Shape[a]
	}
	return n, x.Layout == tensor.RowMajor
}

// reduce builds a reduction whose axes are an input since the given opset, an attribute before.
func reduce(since int64, f reducer) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		axes := attrInts(n, "axes")
		noop := n.AttrInt("noop_with_empty_axes", 0) != 0
		return func(c *call) error {
			axes := axes
			if version >= since && c.has(1) {
				var err error
				if axes, err = ints(c.in(1)); err != nil {
					return err
				}
			}
			x := c.raw(0)
			if len(axes) == 0 {
				if noop {
					axes = []int{}
				} else {
					axes = make([]int, len(x.Shape))
					for i := range axes {
						axes[i] = i
					}
				}
			}
			out, err := c.out(0)
			if err != nil {
				return err
			}
			if f.rows != nil && x.DType == tensor.Float32 {
				if n, ok := trailing(x, axes); ok && n*out.Len() == x.Len() {
					f.rows(c.run.s.table, c.run.s.par, out.F32(), x.F32(), n)
					return nil
				}
			}
			g, err := grouping(x, axes)
			if err != nil {
				return err
			}
			return f.run(c, out, x, g)
		}, nil
	}
}

func (f reducer) run(c *call, out, x *tensor.Tensor, g groups) error {
	switch d := out.Data.(type) {
	case []float32:
		reduceFloats(c, d, x.F32(), g, f)
	case []float64:
		reduceFloats(c, d, tensor.Of[float64](x), g, f)
	case []int32:
		reduceInts(d, tensor.Of[int32](x), g, f)
	case []int64:
		reduceInts(d, x.I64(), g, f)
	case []int8:
		reduceInts(d, tensor.Of[int8](x), g, f)
	case []uint8:
		reduceInts(d, tensor.Of[uint8](x), g, f)
	case []int16:
		reduceInts(d, tensor.Of[int16](x), g, f)
	case []uint16:
		if x.DType != tensor.Uint16 { // codes of half floats
			return badType(0, x.DType)
		}
		reduceInts(d, tensor.Of[uint16](x), g, f)
	case []uint32:
		reduceInts(d, tensor.Of[uint32](x), g, f)
	case []uint64:
		reduceUints(d, tensor.Of[uint64](x), g, f)
	case []bool:
		return reduceBools(d, tensor.Of[bool](x), g, f)
	default:
		return badType(0, x.DType)
	}
	return nil
}

func reduceFloats[T float32 | float64](c *call, dst, src []T, g groups, f reducer) {
	c.parallel(len(g.starts), len(g.within)*2, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			base := src[min(g.starts[i], len(src)):]
			dst[i] = T(f.float(func(k int) float64 { return float64(base[g.within[k]]) }, len(g.within)))
		}
	})
}

func reduceInts[T integer](dst, src []T, g groups, f reducer) {
	for i := range dst {
		base := src[min(g.starts[i], len(src)):]
		if f.int != nil {
			v := f.int(func(k int) int64 { return int64(base[g.within[k]]) }, len(g.within))
			if len(g.within) == 0 { // the bounds of int64 are those of T
				lo, hi := intRange[T]()
				v = max(lo, min(hi, v))
			}
			dst[i] = T(v)
		} else {
			dst[i] = T(f.float(func(k int) float64 { return float64(base[g.within[k]]) }, len(g.within)))
		}
	}
}

// intRange returns the smallest and largest number of an integer type, those of int64 at most.
func intRange[T integer]() (lo, hi int64) {
	hi = math.MaxInt64
	for int64(T(hi)) != hi || T(hi) < 0 {
		hi >>= 1
	}
	if lo = -hi - 1; T(lo) > 0 {
		lo = 0
	}
	return lo, hi
}

// reduceUints is reduceInts for numbers that int64 does not hold.
func reduceUints(dst, src []uint64, g groups, f reducer) {
	for i := range dst {
		at := func(k int) uint64 { return src[g.starts[i]+g.within[k]] }
		if f.uint != nil {
			dst[i] = f.uint(at, len(g.within))
		} else {
			dst[i] = uint64(f.float(func(k int) float64 { return float64(at(k)) }, len(g.within)))
		}
	}
}

// reduceBools serves the maximum (or) and minimum (and) of truth values.
func reduceBools(dst, src []bool, g groups, f reducer) error {
	if f.int == nil {
		return badType(0, tensor.Bool)
	}
	for i := range dst {
		dst[i] = f.int(func(k int) int64 {
			if src[g.starts[i]+g.within[k]] {
				return 1
			}
			return 0
		}, len(g.within)) > 0
	}
	return nil
}

// sums makes a reducer of the sum of a term, the result passed through last (nil: unchanged). The sum has the shape of
// ref.Sum.
func sums(term func(float64) float64, last func(sum float64, n int) float64) func(x func(int) float64, n int) float64 {
	return func(x func(int) float64, n int) float64 {
		var lanes [ref.Lanes]float64
		for i := range n {
			lanes[i%ref.Lanes] += term(x(i))
		}
		sum := ref.FoldLanes(&lanes)
		if last != nil {
			return last(sum, n)
		}
		return sum
	}
}

func identity(v float64) float64 { return v }
func square(v float64) float64   { return float64(v * v) }

// fold makes a reducer of a function of what is folded so far and the next number.
func fold[T number](start T, f func(acc, v T) T) func(x func(int) T, n int) T {
	return func(x func(int) T, n int) T {
		acc := start
		for i := range n {
			acc = f(acc, x(i))
		}
		return acc
	}
}

func plus[T number](a, b T) T    { return a + b }
func times[T number](a, b T) T   { return a * b }
func larger[T integer](a, b T) T { return max(a, b) }
func lesser[T integer](a, b T) T { return min(a, b) }

func absInt(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

var (
	sumOf = reducer{sums(identity, nil), fold(0, plus[int64]), fold(0, plus[uint64]),
		func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) { t.Sums(par, dst, src, n, 1) }}
	meanOf = reducer{sums(identity, func(s float64, n int) float64 { return s / float64(n) }),
		func(x func(int) int64, n int) int64 { return sumOf.int(x, n) / int64(max(n, 1)) },
		func(x func(int) uint64, n int) uint64 { return sumOf.uint(x, n) / uint64(max(n, 1)) },
		func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) {
			t.Sums(par, dst, src, n, float64(n))
		}}
	maxOf     = reducer{fold(math.Inf(-1), math.Max), fold(math.MinInt64, larger[int64]), fold(0, larger[uint64]), (*kernels.Table).Maxima}
	minOf     = reducer{fold(math.Inf(1), math.Min), fold(math.MaxInt64, lesser[int64]), fold(math.MaxUint64, lesser[uint64]), nil}
	prodOf    = reducer{fold(1, times[float64]), fold(1, times[int64]), fold(1, times[uint64]), nil}
	l1Of      = reducer{sums(math.Abs, nil), fold(0, func(a, v int64) int64 { return a + absInt(v) }), fold(0, plus[uint64]), nil}
	squaresOf = reducer{sums(square, nil), fold(0, func(a, v int64) int64 { return a + v*v }),
		fold(0, func(a, v uint64) uint64 { return a + v*v }), (*kernels.Table).SquareSums}
	l2Of     = reducer{float: sums(square, func(s float64, _ int) float64 { return math.Sqrt(s) })}
	logSumOf = reducer{float: sums(identity, func(s float64, _ int) float64 { return math.Log(s) })}
	// The largest exponent is taken out so that nothing overflows.
	logSumExpOf = reducer{float: func(x func(int) float64, n int) float64 {
		top := maxOf.float(x, n)
		if math.IsInf(top, 0) {
			return top
		}
		return top + math.Log(sums(func(v float64) float64 { return elementary.Exp(v - top) }, nil)(x, n))
	}}
)
