// Package networktest makes small networks of all operators for tests: by chance (Random), and of each operator, of two in a row and of
// operators around those that move elements (Listed). Shapes have dimensions of 0, 1, odd ones and such around powers of two; constants
// and tensors are shared, tensors inside are outputs too, types of inputs and outputs and names are odd. The same number gives the same
// network.
//
// Unstable: it may change without notice.
package networktest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// builder is a network in the making.
type builder struct {
	*rand.Rand
	g    *graph.Graph
	live []graph.ValueID // float32 tensors that may be read
}

// refused ends a row that does not fit what is there.
type refused struct{ err error }

func (b *builder) refuse(format string, args ...any) { panic(refused{fmt.Errorf(format, args...)}) }

// try adds what a row makes; false: it does not fit x, and nothing was added.
func (b *builder) try(row *row, x graph.ValueID) (done bool) {
	before, live := b.g.Clone(), slices.Clone(b.live)
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(refused); !ok {
				panic(p)
			}
			b.g, b.live = before, live
		}
	}()
	for _, v := range row.make(b, x) {
		if n := tensor.Count(b.shape(v)); n > mostElements {
			b.refuse("%d elements", n)
		}
		if b.g.Value(v).DType == tensor.Float32 {
			b.live = append(b.live, v)
		}
	}
	return true
}

// mostElements is how large a tensor may become.
const mostElements = 1 << 13

// node adds an operator of one output.
func (b *builder) node(op string, attrs []graph.Attr, in ...graph.ValueID) graph.ValueID {
	return b.nodes(1, op, attrs, in...)[0]
}

func (b *builder) nodes(outputs int, op string, attrs []graph.Attr, in ...graph.ValueID) []graph.ValueID {
	n := graph.Node{Name: b.g.FreshName("n"), Op: op, Attrs: attrs, Inputs: in}
	for range outputs {
		v, err := b.g.AddValue(graph.Value{Name: b.g.FreshName("t")})
		b.must(err)
		n.Outputs = append(n.Outputs, v)
	}
	_, err := b.g.AddNode(n)
	b.must(err)
	for _, err := range graph.InferShapes(b.g) {
		b.must(err)
	}
	for _, v := range n.Outputs {
		b.shape(v)
	}
	return n.Outputs
}

func (b *builder) must(err error) {
	if err != nil {
		panic(refused{err})
	}
}

// shape is the shape of a value, which has to be known.
func (b *builder) shape(v graph.ValueID) []int {
	s := b.g.Value(v).Shape
	if s == nil {
		b.refuse("unknown shape")
	}
	shape, ok := s.Ints()
	if !ok {
		b.refuse("open shape")
	}
	return shape
}

func (b *builder) rank(v graph.ValueID) int { return len(b.shape(v)) }

// one draws one of several.
func one[T any](b *builder, of ...T) T { return of[b.IntN(len(of))] }

// chance is true once in n times.
func (b *builder) chance(n int) bool { return b.IntN(n) == 0 }

// weights is a constant of numbers around 0, one in five times one that is there already.
func (b *builder) weights(shape ...int) graph.ValueID {
	fan := 1
	if len(shape) > 1 {
		fan = max(1, tensor.Count(shape[1:]))
	}
	return b.constant(1/math.Sqrt(float64(fan)), 0, shape...)
}

// constant is one of numbers around mean.
func (b *builder) constant(std, mean float64, shape ...int) graph.ValueID {
	if b.chance(5) {
		for _, v := range b.g.Values() {
			if c := b.g.Const(v); c != nil && c.DType == tensor.Float32 && slices.Equal(c.Shape, shape) {
				return v
			}
		}
	}
	if tensor.Count(shape) > mostElements {
		b.refuse("a large constant")
	}
	x := tensor.New(tensor.Float32, shape...)
	for i := range x.F32() {
		x.F32()[i] = float32(mean + std*b.NormFloat64())
	}
	return b.g.AddConst(b.g.FreshName("c"), x)
}

// operand is a constant that broadcasts to x from some side, of some size.
func (b *builder) operand(x graph.ValueID) graph.ValueID {
	shape := slices.Clone(b.shape(x))
	shape = shape[b.IntN(len(shape)+1):]
	for i := range shape {
		if b.chance(2) {
			shape[i] = 1
		}
	}
	std := one(b, 1, 1, 1, 1, 0.01, 30)
	return b.constant(std, one[float64](b, 0, 0, 2, -3)*std, shape...)
}

// second is another tensor of the shape of x or one that broadcasts with it, or x itself.
func (b *builder) second(x graph.ValueID) graph.ValueID {
	for range 4 {
		v := b.live[b.IntN(len(b.live))]
		if _, err := graph.Broadcast(b.g.Value(x).Shape, b.g.Value(v).Shape); err == nil {
			return v
		}
	}
	return x
}

func (b *builder) scalar(v float64) graph.ValueID {
	return b.g.AddConst(b.g.FreshName("s"), tensor.FromF32([]float32{float32(v)}))
}

func (b *builder) ints(v ...int) graph.ValueID {
	list := make([]int64, len(v))
	for i := range v {
		list[i] = int64(v[i])
	}
	return b.g.AddConst(b.g.FreshName("i"), tensor.FromI64(list, len(list)))
}

// axis draws an axis of x, counted from either end.
func (b *builder) axis(x graph.ValueID) int {
	n := b.rank(x)
	if n == 0 {
		b.refuse("no axis")
	}
	return b.IntN(n) - n*b.IntN(2)
}

func at(axis, rank int) int { return (axis + rank) % rank }

func ints(v ...int) []int64 {
	list := make([]int64, len(v))
	for i := range v {
		list[i] = int64(v[i])
	}
	return list
}

func i64(v []int64, shape ...int) *tensor.Tensor   { return tensor.FromI64(v, shape...) }
func f32(v []float32, shape ...int) *tensor.Tensor { return tensor.FromF32(v, shape...) }

// mask is that of causal attention over t tokens, by one of the numbers that exporters write.
func (b *builder) mask(t int) value {
	low := one(b, float32(-1e4), -1e9, -math.MaxFloat32, float32(math.Inf(-1)))
	x := tensor.New(tensor.Float32, t, t)
	for i := range t {
		for k := i + 1; k < t; k++ {
			x.F32()[i*t+k] = low
		}
	}
	return b.g.AddConst(b.g.FreshName("m"), x)
}
