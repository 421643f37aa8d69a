package data

import (
	"fmt"
	"math"
	"slices"

	"qwb/calib/data/imaging"
	"qwb/graph"
	"qwb/quantizer/plan"
)

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
	px, err := p.pixels()
	if err != nil {
		return err
	}
	for c := range p.c {
		for v := range p.table[c] {
			p.table[c][v] = px.Of(uint8(v), c)
		}
	}
	return nil
}

// pixels are what the table is made of, with a mean and a deviation for each channel.
func (p *picture) pixels() (*plan.Pixels, error) {
	px := &plan.Pixels{Input: p.in.Name, Axis: len(p.in.Shape) - 3, Scale: 1}
	if p.pre.Scale != 0 {
		px.Scale = float32(p.pre.Scale)
	}
	if p.nhwc {
		px.Axis = len(p.in.Shape) - 1
	}
	for c := range p.c {
		mean, err := perChannel(p.pre.Mean, c, p.c, 0, "mean")
		if err != nil {
			return nil, err
		}
		std, err := perChannel(p.pre.Std, c, p.c, 1, "std")
		if err != nil {
			return nil, err
		}
		px.Mean, px.Std = append(px.Mean, mean), append(px.Std, std)
	}
	return px, nil
}

// Pixels says how pictures become numbers of the one input of a model.
func (s InputSpec) Pixels(pre *plan.Preprocess) (*plan.Pixels, error) {
	in, err := s.only("pictures")
	if err != nil {
		return nil, err
	}
	p, err := newPicture(in, pre)
	if err != nil {
		return nil, err
	}
	px, err := p.pixels()
	if err != nil {
		return nil, err
	}
	if one := slices.Compact(slices.Clone(px.Mean)); len(one) == 1 && len(slices.Compact(slices.Clone(px.Std))) == 1 {
		px.Axis, px.Mean, px.Std = -1, one, px.Std[:1]
	}
	if len(px.Mean) > 1 && (p.flat || in.Shape == nil) {
		return nil, fmt.Errorf("input %s has no axis for the channels, whose mean or std differ", in)
	}
	return px, nil
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
