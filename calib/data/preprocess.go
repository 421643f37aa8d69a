package data

import (
	"fmt"
	"io/fs"
	"strings"

	"qwb/calib/data/imaging"
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
	src, err := files{fsys: fsys}.readAll(arg, 1<<20)
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
		return nil, fmt.Errorf("the picture of %s (height x width) is %dx%d after preprocessing, input %s takes %s", from, m.H, m.W,
			p.in, p.size())
	}
	t, err := Convert(p.arrange(m), p.in.DType)
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
