package data

import (
	"math"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// Thumbnails finds samples that are nearly equal: the same picture compressed again, made a little brighter, scaled. It keeps a small
// picture of the first floating-point input of each sample. The zero value cannot be used.
type Thumbnails struct {
	in   Input // no name: no input is floating-point
	list []thumbnail
	left int // samples beyond MaxThumbnails
}

// MaxThumbnails is how many samples are compared with each other; those beyond are counted in Left.
const MaxThumbnails = 4096

// thumbSide is the side of a thumbnail of a picture, coarseSide that of the smaller one that is compared first; of other inputs as many
// elements are kept, each the mean of elements that follow each other.
const (
	thumbSide  = 32
	coarseSide = 8
)

// NearEnough is the correlation from which two thumbnails count as the same.
const NearEnough = 0.99

type thumbnail struct {
	name         string
	hash         [32]byte
	label        int
	coarse, fine []float32 // mean 0, sum of squares 1; nil where all elements are equal
}

// NewThumbnails makes ready for samples of these inputs.
func NewThumbnails(spec InputSpec) *Thumbnails {
	t := &Thumbnails{}
	for _, in := range spec {
		if in.DType == tensor.Float32 {
			t.in = in
			break
		}
	}
	return t
}

// Left is how many samples were not compared, because there were too many.
func (t *Thumbnails) Left() int { return t.left }

// Observe takes a sample.
func (t *Thumbnails) Observe(s *exec.Sample) {
	x := s.Feeds[t.in.Name]
	if x == nil || x.DType != tensor.Float32 || x.Len() < 2 {
		return
	}
	if len(t.list) == MaxThumbnails {
		t.left++
		return
	}
	n := thumbnail{name: s.Name, hash: s.Hash, label: s.Label}
	n.coarse, n.fine = standard(shrunk(x, coarseSide)), standard(shrunk(x, thumbSide))
	t.list = append(t.list, n)
}

// Pair is two samples that are nearly equal; what is equal in every bit is not among them.
type Pair struct {
	A, B        string
	Correlation float64
	Labels      [2]int // -1: none
}

// Pairs lists the pairs within the samples, the most similar first.
func (t *Thumbnails) Pairs() []Pair {
	var list []Pair
	for i := range t.list {
		list = append(list, t.list[i].near(t.list[i+1:])...)
	}
	return sorted(list)
}

// Across lists for each sample its nearest one of o, where it is near enough: A is of t, B of o.
func (t *Thumbnails) Across(o *Thumbnails) []Pair {
	var list []Pair
	for i := range t.list {
		if near := sorted(t.list[i].near(o.list)); len(near) > 0 {
			list = append(list, near[0])
		}
	}
	return sorted(list)
}

func sorted(list []Pair) []Pair {
	arrange.Stable(list, func(a, b Pair) int {
		switch {
		case a.Correlation > b.Correlation:
			return -1
		case a.Correlation < b.Correlation:
			return 1
		}
		return 0
	})
	return list
}

// near lists the pairs of a thumbnail with others. The coarse ones lose what recompression changes, so that a lower bound serves there.
func (t *thumbnail) near(others []thumbnail) (list []Pair) {
	const coarseEnough = NearEnough - 0.04
	for i := range others {
		o := &others[i]
		if t.fine == nil || len(o.fine) != len(t.fine) || t.hash == o.hash || dot(t.coarse, o.coarse) < coarseEnough {
			continue
		}
		if c := dot(t.fine, o.fine); c >= NearEnough {
			list = append(list, Pair{t.name, o.name, float64(c), [2]int{t.label, o.label}})
		}
	}
	return list
}

func dot(a, b []float32) (sum float32) {
	if len(a) != len(b) {
		return 0
	}
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// standard takes the mean off and divides by the length; nil where nothing is left.
func standard(x []float64) []float32 {
	mean, length := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		length += float64((v - mean) * (v - mean))
	}
	if length = math.Sqrt(length); !(length > 1e-9*math.Abs(mean)) || math.IsInf(length, 0) {
		return nil
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32((v - mean) / length)
	}
	return out
}

// shrunk is a picture of at most side x side, the mean of its channels; of other tensors at most side*side means of elements that follow
// each other.
func shrunk(t *tensor.Tensor, side int) []float64 {
	t = t.ToRowMajor()
	x, s := t.F32(), t.Shape
	if len(s) == 4 && s[0] == 1 {
		s = s[1:]
	}
	h, w, c, step, pixel := 1, len(x), 1, 0, 1
	if len(s) == 3 && (s[0] == 1 || s[0] == 3) {
		h, w, c, step = s[1], s[2], s[0], s[1]*s[2]
	} else if len(s) == 3 && (s[2] == 1 || s[2] == 3) {
		h, w, c, step, pixel = s[0], s[1], s[2], 1, s[2]
	}
	rows, columns := min(h, side), min(w, side)
	if h == 1 {
		columns = min(w, side*side)
	}
	out, n := make([]float64, rows*columns), make([]float64, rows*columns)
	for y := range h {
		for xx := range w {
			at := y*rows/h*columns + xx*columns/w
			for ch := range c {
				out[at] += float64(x[ch*step+(y*w+xx)*pixel])
				n[at]++
			}
		}
	}
	for i := range out {
		out[i] /= n[i]
	}
	return out
}
