package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// sampleEvals read a tensor at points that lie between its elements.
var sampleEvals = []evaluator{
	{op: "GridSample", build: buildGridSample},
	{op: "AffineGrid", build: buildAffineGrid},
	{op: "RoiAlign", build: buildRoiAlign},
	{op: "MaxRoiPool", build: buildMaxRoiPool},
	{op: "DeformConv", build: buildDeformConv},
}

// gridSampler says how GridSample reads an axis.
type gridSampler struct {
	mode    string // "nearest", "linear" or "cubic"
	padding string // "zeros", "border" or "reflection"
	align   bool   // -1 and 1 are the centres of the outermost elements, not their outer edges
}

func buildGridSample(n *graph.Node, version int64) (evalFunc, error) {
	s := gridSampler{n.AttrStr("mode", "linear"), n.AttrStr("padding_mode", "zeros"), n.AttrInt("align_corners", 0) != 0}
	if version < 20 {
		switch s.mode {
		case "bilinear":
			s.mode = "linear"
		case "bicubic":
			s.mode = "cubic"
		}
	}
	switch s.mode {
	case "nearest", "linear", "cubic":
	default:
		return nil, fmt.Errorf("mode %q is not supported", s.mode)
	}
	switch s.padding {
	case "zeros", "border", "reflection":
	default:
		return nil, fmt.Errorf("padding_mode %q is not supported", s.padding)
	}
	return func(c *call) error { return gridSample(c, s) }, nil
}

func gridSample(c *call, s gridSampler) error {
	x, grid := c.in(0), c.in(1)
	r := len(x.Shape) - 2
	if len(grid.Shape) != r+2 || grid.Shape[r+1] != r || grid.Shape[0] != x.Shape[0] {
		return fmt.Errorf("grid %s does not fit %s", grid.Type(), x.Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	if out.Len() > 0 && tensor.Count(x.Shape[2:]) == 0 {
		return fmt.Errorf("%s has nothing to sample", x.Type())
	}
	var points func(t *taps, n, lo, hi int)
	switch g := grid.Data.(type) {
	case []float32:
		points = gridPoints(s, x.Shape, g, out.Len()/max(1, x.Shape[0]*x.Shape[1]))
	case []float64:
		points = gridPoints(s, x.Shape, g, out.Len()/max(1, x.Shape[0]*x.Shape[1]))
	default:
		return badType(1, grid.DType)
	}
	switch d := x.Data.(type) {
	case []float32:
		return sampleChannels(c, out, d, points)
	case []float64:
		return sampleChannels(c, out, d, points)
	}
	if s.mode != "nearest" {
		return badType(0, x.DType)
	}
	switch d := x.Data.(type) {
	case []int8:
		return sampleChannels(c, out, d, points)
	case []int16:
		return sampleChannels(c, out, d, points)
	case []int32:
		return sampleChannels(c, out, d, points)
	case []int64:
		return sampleChannels(c, out, d, points)
	case []uint8:
		return sampleChannels(c, out, d, points)
	case []uint16:
		return sampleChannels(c, out, d, points)
	case []uint32:
		return sampleChannels(c, out, d, points)
	case []uint64:
		return sampleChannels(c, out, d, points)
	}
	return badType(0, x.DType)
}

// gridPoints returns a function that collects points lo to hi of sample n of a tensor of the given shape; a sample has count
// points. A point's coordinates are listed from the last axis to the first.
func gridPoints[G float](s gridSampler, shape []int, grid []G, count int) func(t *taps, n, lo, hi int) {
	spatial := shape[2:]
	r := len(spatial)
	strides := rowStrides(spatial)
	return func(t *taps, n, lo, hi int) {
		axes := make([]axisTap, r)
		for p := lo; p < hi; p++ {
			at := grid[(n*count+p)*r:][:r]
			for a, length := range spatial {
				s.axis(&axes[a], denormalize(at[r-1-a], length, s.align), length)
			}
			t.add(axes, strides)
		}
	}
}

// denormalize maps [-1, 1] to the elements of an axis, in the grid's own precision: which element is nearest depends on it.
func denormalize[G float](g G, length int, align bool) float64 {
	if align {
		return float64(G((g+1)/2) * G(length-1))
	}
	return float64((G((g+1)*G(length)) - 1) / 2)
}

// sampleBlock is how many points are collected before they are read in every channel.
const sampleBlock = 128

// sampleChannels reads the points of every sample in each of its channels. Integers are taken over, not interpolated.
func sampleChannels[T number](c *call, out *tensor.Tensor, src []T, points func(t *taps, n, lo, hi int)) error {
	dst := tensor.Of[T](out)
	batch, channels := out.Shape[0], out.Shape[1]
	if len(dst) == 0 {
		return nil
	}
	count, size := len(dst)/(batch*channels), len(src)/(batch*channels)
	blocks := (count + sampleBlock - 1) / sampleBlock
	c.parallel(batch*blocks, sampleBlock*channels*8, func(lo, hi int) {
		var t taps
		for i := lo; i < hi; i++ {
			n, from := i/blocks, i%blocks*sampleBlock
			to := min(from+sampleBlock, count)
			t.reset()
			points(&t, n, from, to)
			for k := n * channels; k < (n+1)*channels; k++ {
				sample(&t, dst[k*count+from:k*count+to], src[k*size:][:size])
			}
		}
	})
	return nil
}

// axis fills t for the point v of an axis of n elements. A point outside is brought inside as the padding says, and so is an
// element that its interpolation needs. A cubic point stays outside of a border, as in PyTorch and ONNX Runtime (the reference of
// ONNX moves it): elements inside still count there.
func (s gridSampler) axis(t *axisTap, v float64, n int) {
	if s.mode == "nearest" {
		v = math.RoundToEven(v)
	}
	lo, hi := -0.5, float64(n)-0.5
	if s.align {
		lo, hi = 0, float64(n-1)
	}
	switch {
	case s.padding == "zeros" || s.padding == "border" && s.mode == "cubic": // beyond, all elements are outside
		v = min(max(v, -3), float64(n)+3)
	case s.padding == "border" && (v < lo || v > hi):
		v = min(max(v, 0), float64(n-1))
	case s.padding == "reflection":
		v = reflect(v, lo, hi)
	}
	if math.IsNaN(v) {
		t.n, t.at[0], t.weight[0] = 1, 0, 1
		if s.padding == "zeros" {
			t.at[0] = -1
		}
		return
	}
	below := math.Floor(v)
	f, first := v-below, int(below)
	switch s.mode {
	case "nearest":
		t.n, t.weight[0] = 1, 1
	case "linear":
		t.n, t.weight[0], t.weight[1] = 2, 1-f, f
	case "cubic":
		t.n, first = 4, first-1
		t.weight = [4]float64{keysOuter(f + 1), keysInner(f), keysInner(1 - f), keysOuter(2 - f)}
	}
	for k := range t.n {
		i := first + k
		switch {
		case s.padding == "zeros" && (i < 0 || i >= n):
			i = -1
		case s.padding == "border":
			i = min(max(i, 0), n-1)
		case s.padding == "reflection":
			i = min(max(int(reflect(float64(i), lo, hi)), 0), n-1)
		}
		t.at[k] = i
	}
}

// reflect mirrors v at lo and hi until it lies between them.
func reflect(v, lo, hi float64) float64 {
	if v >= lo && v <= hi {
		return v
	}
	if hi <= lo {
		return lo
	}
	away := math.Mod(math.Abs(v-lo), 2*(hi-lo))
	if away > hi-lo {
		away = 2*(hi-lo) - away
	}
	return lo + away
}

// keysInner and keysOuter are Keys' cubic convolution with a = -3/4 at distances below 1, and from 1 to 2.
func keysInner(d float64) float64 { return (1.25*d-2.25)*d*d + 1 }
func keysOuter(d float64) float64 { return ((-0.75*d+3.75)*d-6)*d + 3 }

// buildAffineGrid maps the centres of an evenly spaced grid over [-1, 1] by one affine map per sample. The outermost centres
// are -1 and 1 with align_corners, else half a step inside.
func buildAffineGrid(n *graph.Node, _ int64) (evalFunc, error) {
	align := n.AttrInt("align_corners", 0) != 0
	return func(c *call) error {
		return c.inFloat(1, func() error { return affineGrid[float32](c, align) }, func() error { return affineGrid[float64](c, align) })
	}, nil
}

func affineGrid[T float](c *call, align bool) error {
	size, err := ints(c.in(1))
	if err != nil {
		return err
	}
	theta := c.in(0)
	r := len(size) - 2
	if len(theta.Shape) != 3 || theta.Shape[0] != size[0] || theta.Shape[1] != r || theta.Shape[2] != r+1 {
		return fmt.Errorf("maps %s for size %v", theta.Type(), size)
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	centres := make([][]float64, r)
	for a := range centres {
		n := size[2+a]
		centres[a] = make([]float64, n)
		for i := range n {
			switch {
			case !align:
				centres[a][i] = float64(2*i+1)/float64(n) - 1
			case i == 0:
				centres[a][i] = -1
			default:
				centres[a][i] = 2*float64(i)/float64(n-1) - 1
			}
		}
	}
	m, dst, count := tensor.Of[T](theta), tensor.Of[T](out), tensor.Count(size[2:])
	c.parallel(size[0]*count, r*r, func(lo, hi int) {
		at := newCounter(append([]int{size[0]}, size[2:]...), lo)
		for i := lo; i < hi; i++ {
			rows := m[i/count*r*(r+1):]
			for k := range r {
				row := rows[k*(r+1):][:r+1]
				sum := float64(row[r])
				for j := range r {
					sum += float64(row[j]) * centres[r-1-j][at.index[r-j]]
				}
				dst[i*r+k] = T(sum)
			}
			at.next()
		}
	})
	return nil
}
