package data

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"qwb/graph"
	"qwb/graph/tensor"
)

// maxSynthetic bounds how many samples may be made up.
const maxSynthetic = 1 << 20

// syntheticSource makes inputs up: floats of zero mean and unit variance (a sum of twelve uniform numbers), integers and
// booleans of 0 or 1. They show that a model runs; ranges and accuracy measured on them mean nothing.
type syntheticSource struct {
	spec   InputSpec
	shapes [][]int
	n      int
	seed   uint64
}

func (o *opener) openSynthetic(count string) (source, error) {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxSynthetic {
		return nil, fmt.Errorf("synthetic:N needs a number of samples from 1 to %d, not %q", maxSynthetic, count)
	}
	s := &syntheticSource{spec: o.spec, n: n, seed: o.seed}
	for _, in := range o.spec {
		shape, err := in.anyShape()
		if err != nil {
			return nil, err
		}
		if f := in.DType; !f.IsFloat() && f != tensor.Bool && (!f.IsInteger() || f.Bits() < 8) {
			return nil, fmt.Errorf("input %s cannot be made up", in)
		}
		s.shapes = append(s.shapes, shape)
	}
	o.warn(float64(n), "%d samples are synthetic noise: ranges and accuracy measured on them say nothing about real data", n)
	return s, nil
}

// anyShape fills in open dimensions: height and width of a picture become 224, all others 1.
func (in Input) anyShape() ([]int, error) {
	if in.Shape == nil {
		return nil, fmt.Errorf("input %s has no shape", in)
	}
	shape := append(graph.Shape(nil), in.Shape...)
	var sides [2]int
	if p, err := newPicture(in, nil); err == nil && len(shape) == 4 {
		sides = [2]int{2, 3}
		if p.nhwc {
			sides = [2]int{1, 2}
		}
	}
	for i, d := range shape {
		switch {
		case d.Known():
		case sides[1] > 0 && (i == sides[0] || i == sides[1]):
			shape[i].N = 224
		default:
			shape[i].N = 1
		}
	}
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = d.N
	}
	if _, err := tensor.CheckedCount(dims, maxIdx); err != nil {
		return nil, fmt.Errorf("input %s: %w", in, err)
	}
	ints, _ := shape.Ints()
	return ints, nil
}

func (s *syntheticSource) len() int          { return s.n }
func (s *syntheticSource) name(i int) string { return fmt.Sprintf("synthetic#%06d", i) }
func (s *syntheticSource) label(int) int     { return -1 }

func (s *syntheticSource) load(i int) (map[string]*tensor.Tensor, error) {
	feeds := map[string]*tensor.Tensor{}
	for k, in := range s.spec {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s#%d", in.Name, i)
		g := rand.NewPCG(s.seed, h.Sum64())
		t := tensor.New(tensor.Float32, s.shapes[k]...)
		for j := range t.F32() {
			t.F32()[j] = noise(g, in.DType.IsFloat())
		}
		out, err := makeUp(t, in.DType)
		if err != nil {
			return nil, err
		}
		feeds[in.Name] = out
	}
	return feeds, nil
}

// noise draws one number. Sums of integers are exact, so the numbers are the same on every machine.
func noise(g *rand.PCG, float bool) float32 {
	if !float {
		return float32(g.Uint64() >> 63)
	}
	sum := int64(0)
	for range 6 {
		x := g.Uint64()
		sum += int64(x>>32>>12) + int64(x&0xffffffff>>12)
	}
	return float32(sum-6<<20) / (1 << 20)
}

// makeUp converts the numbers, booleans included.
func makeUp(t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if d != tensor.Bool {
		return Convert(t, d)
	}
	out := tensor.New(d, t.Shape...)
	for i, v := range t.F32() {
		tensor.Of[bool](out)[i] = v != 0
	}
	return out, nil
}
