package data

import (
	"fmt"
	"io/fs"
	"math"
	"strings"

	"qwb/calib/data/imaging"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// Preprocessing returns what arg names: a preset, made to fit the model's input, or else a YAML file. fsys may be nil for
// the operating system's files.
func Preprocessing(arg string, spec InputSpec, fsys fs.FS) (plan.Preprocess, error) {
	for _, p := range plan.Presets() {
		if p == arg {
			return plan.Preset(arg, spec.squareSide())
		}
	}
	src, err := files{fsys}.readAll(arg, 1<<20)
	if err != nil {
		if !strings.ContainsAny(arg, "./\\") {
			_, err = plan.Preset(arg, 0)
			return plan.Preprocess{}, err
		}
		return plan.Preprocess{}, fmt.Errorf("preprocessing %s: %w", arg, err)
	}
	return plan.ParsePreprocess(arg, src)
}

// squareSide returns the side of the first input that is an image of fixed square size, 0 if there is none.
func (s InputSpec) squareSide() int {
	for _, in := range s {
		if p, err := newPicture(in, nil); err == nil && p.h == p.w && p.h > 0 {
			return p.h
		}
	}
	return 0
}

// picture turns images into one input of the model.
type picture struct {
	in     Input
	pre    plan.Preprocess
	filter imaging.Filter
	nhwc   bool
	flat   bool            // the input has rank 1 or 2 and as many elements as the picture
	c      int             // channels, 1 or 3
	h, w   int             // what the input takes, 0: anything
	table  [3][256]float32 // result by channel of the model and pixel value
}

// newPicture works out how the input takes pictures. pre may be nil.
func newPicture(in Input, pre *plan.Preprocess) (*picture, error) {
	p := &picture{in: in}
	if pre != nil {
		p.pre = *pre
	}
	if err := p.pre.Validate(); err != nil {
		return nil, fmt.Errorf("preprocessing: %w", err)
	}
	if r := p.pre.Resize; r != nil {
		p.filter, _ = imaging.FilterByName(r.Filter) // known: Validate has looked
	}
	if err := p.findAxes(); err != nil {
		return nil, err
	}
	if err := p.checkSize(); err != nil {
		return nil, err
	}
	return p, p.fillTable()
}

// findAxes reads channels, height and width off the input's shape. Where the layout is not given, channels are the axis
// that says 1 or 3; a model that says neither is taken to have three channels, first.
func (p *picture) findAxes() error {
	s := p.in.Shape
	if s == nil {
		s = graph.Shape{{N: -1}, {N: -1}, {N: -1}, {N: -1}}
	}
	if len(s) == 1 || len(s) == 2 {
		return p.findFlat(s)
	}
	if len(s) == 4 {
		if s[0].Known() && s[0].N != 1 {
			return fmt.Errorf("input %s has a fixed batch of %d; pictures are fed one at a time", p.in, s[0].N)
		}
		s = s[1:]
	}
	if len(s) != 3 {
		return fmt.Errorf("input %s takes no pictures", p.in)
	}
	channels := func(d graph.Dim) bool { return d.N == 1 || d.N == 3 }
	switch p.pre.Layout {
	case "nchw":
	case "nhwc":
		p.nhwc = true
	default:
		p.nhwc = !channels(s[0]) && channels(s[2])
	}
	c, h, w := s[0], s[1], s[2]
	if p.nhwc {
		c, h, w = s[2], s[0], s[1]
	}
	if c.Known() && !channels(c) {
		return fmt.Errorf("input %s has %d channels; pictures have 1 or 3", p.in, c.N)
	}
	p.c = 3
	if c.Known() {
		p.c = int(c.N)
	}
	p.h, p.w = int(max(h.N, 0)), int(max(w.N, 0))
	return nil
}

// findFlat takes an input of rank 1 or 2 for a square picture, row by row: grey if the number of elements is a square, in
// colour if a third of it is.
func (p *picture) findFlat(s graph.Shape) error {
	last := s[len(s)-1].N
	if len(s) == 1 || !s[0].Known() || s[0].N == 1 {
		for _, c := range []int64{1, 3} {
			if side := int64(math.Sqrt(float64(last / c))); side > 0 && side*side*c == last {
				p.flat, p.c, p.h, p.w = true, int(c), int(side), int(side)
				return nil
			}
		}
	}
	return fmt.Errorf("input %s takes no pictures", p.in)
}

// checkSize compares the size that preprocessing leaves, where that is known beforehand, with what the input takes.
func (p *picture) checkSize() error {
	size := p.pre.CenterCrop
	if size == nil && p.pre.Resize != nil {
		size = p.pre.Resize.Size
	}
	if size != nil && !p.fits(size[0], size[1]) {
		return fmt.Errorf("preprocessing leaves pictures of %dx%d (height x width), input %s takes %s", size[0], size[1], p.in, p.size())
	}
	return nil
}

func (p *picture) fits(h, w int) bool {
	return (p.h == 0 || p.h == h) && (p.w == 0 || p.w == w)
}

func (p *picture) size() string {
	side := func(n int) string {
		if n == 0 {
			return "any"
		}
		return fmt.Sprint(n)
	}
	return side(p.h) + "x" + side(p.w)
}

// fillTable computes (pixel*scale - mean) / std in float32 for every value of a pixel.
func (p *picture) fillTable() error {
	scale := float32(1)
	if p.pre.Scale != 0 {
		scale = float32(p.pre.Scale)
	}
	for c := range p.c {
		mean, err := perChannel(p.pre.Mean, c, p.c, 0, "mean")
		if err != nil {
			return err
		}
		std, err := perChannel(p.pre.Std, c, p.c, 1, "std")
		if err != nil {
			return err
		}
		for v := range p.table[c] {
			scaled := float32(float32(v) * scale)
			p.table[c][v] = (scaled - mean) / std
		}
	}
	return nil
}

func perChannel(list plan.Channels, c, n int, otherwise float32, what string) (float32, error) {
	switch len(list) {
	case 0:
		return otherwise, nil
	case 1:
		return float32(list[0]), nil
	case n:
		return float32(list[c]), nil
	}
	return 0, fmt.Errorf("preprocessing: %s has %d values, the model's input has %d channels", what, len(list), n)
}

// feed carries out the preprocessing.
func (p *picture) feed(m *imaging.Image) (map[string]*tensor.Tensor, error) {
	from := fmt.Sprintf("%dx%d", m.H, m.W)
	if p.c == 1 {
		m = m.Grey()
	} else {
		m = m.RGB()
	}
	if r := p.pre.Resize; r != nil {
		h, w := resized(m.H, m.W, *r)
		if h > maxSide || w > maxSide {
			return nil, fmt.Errorf("resizing %s gives %dx%d (height x width), more than %d", from, h, w, maxSide)
		}
		m = m.Resize(w, h, p.filter)
	}
	if c := p.pre.CenterCrop; c != nil {
		var err error
		if m, err = m.CenterCrop(c[0], c[1]); err != nil {
			return nil, err
		}
	}
	if !p.fits(m.H, m.W) {
		return nil, fmt.Errorf("the picture of %s (height x width) is %dx%d after preprocessing, input %s takes %s", from, m.H, m.W, p.in, p.size())
	}
	t, err := convert(p.arrange(m), p.in.DType)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", p.in, err)
	}
	return map[string]*tensor.Tensor{p.in.Name: t}, nil
}

// maxSide bounds the sides of a resized picture: an extreme proportion must not exhaust memory.
const maxSide = 1 << 14

// resized returns the size of an image after r. The longer side is rounded, halves to even.
func resized(h, w int, r plan.Resize) (int, int) {
	switch {
	case r.Size != nil:
		return r.Size[0], r.Size[1]
	case h < w:
		return r.Shorter, roundRatio(w*r.Shorter, h)
	}
	return roundRatio(h*r.Shorter, w), r.Shorter
}

// roundRatio is a/b rounded to the nearest integer, halves to even, for positive numbers.
func roundRatio(a, b int) int {
	q, rest := a/b, a%b*2
	if rest > b || rest == b && q%2 == 1 {
		q++
	}
	return q
}

// arrange looks the pixels up and lays them out as the input has them.
func (p *picture) arrange(m *imaging.Image) *tensor.Tensor {
	n := m.H * m.W
	out := make([]float32, p.c*n)
	for c := range p.c {
		from := c
		if p.pre.ChannelOrder == "bgr" {
			from = p.c - 1 - c
		}
		at, step := c*n, 1
		if p.nhwc {
			at, step = c, p.c
		}
		table := &p.table[c]
		for i := range n {
			out[at+i*step] = table[m.Pix[i*p.c+from]]
		}
	}
	shape := []int{p.c, m.H, m.W}
	if p.nhwc {
		shape = []int{m.H, m.W, p.c}
	}
	switch {
	case p.flat:
		shape = []int{len(out)}
		if len(p.in.Shape) == 2 {
			shape = []int{1, len(out)}
		}
	case len(p.in.Shape) != 3:
		shape = append([]int{1}, shape...)
	}
	return tensor.FromF32(out, shape...)
}
