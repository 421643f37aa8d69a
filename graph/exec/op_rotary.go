package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// rotary turns pairs of features of a head by the angle of their position: (a, b) becomes (a*cos - b*sin, a*sin + b*cos). A
// pair are neighbours where interleaved, else a feature and the one half of the rotated features after it.
type rotary struct {
	interleaved bool
	rotated     int // features of a head that are rotated, 0 for all
	heads       int // of an input of rank 3
}

func buildRotary(n *graph.Node, _ int64) (evalFunc, error) {
	r := rotary{n.AttrInt("interleaved", 0) != 0, int(n.AttrInt("rotary_embedding_dim", 0)), int(n.AttrInt("num_heads", 0))}
	if r.rotated < 0 || r.rotated%2 != 0 {
		return nil, fmt.Errorf("rotary_embedding_dim %d", r.rotated)
	}
	return func(c *call) error {
		return c.inFloat(3, func() error { return rotate[float32](c, r) }, func() error { return rotate[float64](c, r) })
	}, nil
}

func rotate[T float](c *call, r rotary) error {
	x := c.in(0)
	if len(x.Shape) == 4 {
		r.heads = x.Shape[1]
	} else if len(x.Shape) != 3 || r.heads < 1 || x.Shape[2]%r.heads != 0 {
		return fmt.Errorf("%s for num_heads %d", x.Type(), r.heads)
	}
	src, length, size := headsOf[T](x, r.heads)
	if r.rotated == 0 {
		r.rotated = size
	}
	if size%2 != 0 || r.rotated > size {
		return fmt.Errorf("%d of %d features cannot be rotated in pairs", r.rotated, size)
	}
	angles, err := c.angles(x.Shape[0], length, r.rotated/2)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	dst, _, _ := headsOf[T](out, r.heads)
	turnHeads(c, r, dst, src, x.Shape[0], length, size, tensor.Of[T](c.in(1)), tensor.Of[T](c.in(2)), angles)
	return nil
}

// turnHeads rotates all heads; angles says which row of the tables belongs to a position of all samples.
func turnHeads[T float](c *call, r rotary, dst, src headRows[T], batch, length, size int, cos, sin []T, angles func(i int) int) {
	half := r.rotated / 2
	c.parallel(batch*length, r.heads*size*2, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := angles(i) * half
			for h := range r.heads {
				y, x := dst.at(i/length, h, i%length)[:size], src.at(i/length, h, i%length)[:size]
				turnPairs(r, y, x, cos[from:][:half], sin[from:][:half])
				copy(y[r.rotated:], x[r.rotated:])
			}
		}
	})
}

// angles returns which row of the tables belongs to position i of all samples.
func (c *call) angles(batch, length, half int) (func(i int) int, error) {
	cos, sin := c.in(1), c.in(2)
	if !slices.Equal(cos.Shape, sin.Shape) {
		return nil, fmt.Errorf("cosines %s and sines %s differ", cos.Type(), sin.Type())
	}
	if !c.has(3) {
		if !slices.Equal(cos.Shape, []int{batch, length, half}) {
			return nil, fmt.Errorf("cosines %s, should be [%d,%d,%d]", cos.Type(), batch, length, half)
		}
		return func(i int) int { return i }, nil
	}
	at, err := ints(c.in(3))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(c.in(3).Shape, []int{batch, length}) || len(cos.Shape) != 2 || cos.Shape[1] != half {
		return nil, fmt.Errorf("position_ids %s and cosines %s, should be [%d,%d] and [positions,%d]", c.in(3).Type(), cos.Type(),
			batch, length, half)
	}
	for _, p := range at {
		if p < 0 || p >= cos.Shape[0] {
			return nil, fmt.Errorf("position %d is outside of the %d in the tables", p, cos.Shape[0])
		}
	}
	return func(i int) int { return at[i] }, nil
}

// turnPairs rotates the pairs of one head.
func turnPairs[T float](r rotary, dst, src, cos, sin []T) {
	apart, step := len(cos), 1
	if r.interleaved {
		apart, step = 1, 2
	}
	for i, c := range cos {
		a, b, s := float64(src[i*step]), float64(src[i*step+apart]), float64(sin[i])
		dst[i*step] = T(a*float64(c) - b*s)
		dst[i*step+apart] = T(a*s + b*float64(c))
	}
}
