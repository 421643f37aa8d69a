package grad

import (
	"math"
	"slices"

	"qwb/graph"
)

// pools reduce windows, or the whole of a channel.
var pools = map[string]rule{
	"AveragePool": averagePool,
	"MaxPool":     maxPool,
	"LpPool":      lpPool,
	"GlobalLpPool": unary(func(t *tape, _, _, dy graph.ValueID) graph.ValueID {
		return t.norm(func(d graph.ValueID) graph.ValueID { return d }, dy)
	}),
	"GlobalAveragePool": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		n := 1
		for _, d := range t.shape(x)[2:] {
			n *= d
		}
		return t.op("Expand", t.scale(dy, 1/float64(n)), t.integers(t.shape(x)...))
	}),
	"GlobalMaxPool": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		s := t.shape(x)
		n := 1
		for _, d := range s[2:] {
			n *= d
		}
		first := t.with("ArgMax", []graph.Attr{graph.Int("axis", 2), graph.Int("keepdims", 1)}, t.reshape(x, []int{s[0], s[1], n}))
		places := make([]int, n)
		for i := range places {
			places[i] = i
		}
		it := t.op("Equal", t.integers(places...), first)
		return t.reshape(t.where(it, t.reshape(dy, []int{s[0], s[1], 1}), t.scalar(0)), s)
	}),
}

// averagePool divides what arrives by the number of elements of each window, and spreads it.
func averagePool(t *tape, dy []graph.ValueID) []graph.ValueID {
	geo, err := graph.PoolGeometry(&t.n, t.G.Value(t.x(0)).Shape)
	if err != nil {
		t.fail(err)
		return nil
	}
	share := []float64{1}
	for d, out := range geo.Out {
		low, high := 0, geo.In[d]
		if t.n.Pool().CountPadding {
			low, high = -geo.PadBegin[d], geo.In[d]+geo.PadEnd[d]
		}
		var next []float64
		for _, s := range share {
			for o := range out {
				count := 0.0
				for k := range geo.Kernel[d] {
					if at := o*geo.Stride[d] - geo.PadBegin[d] + k*geo.Dilation[d]; at >= low && at < high {
						count++
					}
				}
				next = append(next, s/count)
			}
		}
		share = next
	}
	arrived := t.mul(dy[0], t.constant(append([]int{1, 1}, geo.Out...), share))
	return []graph.ValueID{t.spreadOnes(arrived, geo)}
}

// spreadOnes gives what arrives at a window to all that it reads.
func (t *tape) spreadOnes(dy graph.ValueID, geo *graph.Geometry) graph.ValueID {
	c, taps := t.shape(t.x(0))[1], 1
	for _, k := range geo.Kernel {
		taps *= k
	}
	geo.Group = c
	return t.spread(dy, t.constant(append([]int{c, 1}, geo.Kernel...), slices.Repeat([]float64{1}, c*taps)), geo)
}

func lpPool(t *tape, dy []graph.ValueID) []graph.ValueID {
	geo, err := graph.PoolGeometry(&t.n, t.G.Value(t.x(0)).Shape)
	if err != nil {
		t.fail(err)
		return nil
	}
	return t.only(0, t.norm(func(d graph.ValueID) graph.ValueID { return t.spreadOnes(d, geo) }, dy[0]))
}

// norm differentiates y = (sum |x|^p)^(1/p); spread gives what arrives at a sum to all that it adds. Where y is 0 there is none.
func (t *tape) norm(spread func(d graph.ValueID) graph.ValueID, dy graph.ValueID) graph.ValueID {
	x, y, p := t.x(0), t.y(), float64(t.n.AttrInt("p", 2))
	zero := t.scalar(0)
	arrived := t.where(t.op("Equal", y, zero), zero, t.mul(dy, t.op("Pow", y, t.scalar(1-p))))
	return t.mul(spread(arrived), t.mul(t.op("Sign", x), t.op("Pow", t.op("Abs", x), t.scalar(p-1))))
}

// maxPool gives what arrives at a window to the first of its elements that is the largest.
func maxPool(t *tape, dy []graph.ValueID) []graph.ValueID {
	geo, err := graph.PoolGeometry(&t.n, t.G.Value(t.x(0)).Shape)
	if err != nil {
		t.fail(err)
		return nil
	}
	x := t.shape(t.x(0))
	left, zero := dy[0], t.scalar(0)
	list := t.taps(t.x(0), geo, math.Inf(-1))
	one := append([]int{x[0], x[1], 1}, geo.Out...)
	for i, read := range list {
		it := t.op("Equal", read, t.y())
		list[i] = t.reshape(t.where(it, left, zero), one)
		left = t.where(it, zero, left)
	}
	// Each tap is a channel of a window that has it alone.
	taps := len(list)
	stacked := list[0]
	if taps > 1 {
		stacked = t.with("Concat", []graph.Attr{graph.Int("axis", 2)}, list...)
	}
	stacked = t.reshape(stacked, append([]int{x[0], x[1] * taps}, geo.Out...))
	place := make([]float64, x[1]*taps*taps)
	for i := range x[1] * taps {
		place[i*taps+i%taps] = 1
	}
	geo.Group = x[1]
	return []graph.ValueID{t.spread(stacked, t.constant(append([]int{x[1] * taps, 1}, geo.Kernel...), place), geo)}
}
