package data

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// Candidate is a preprocessing that pictures may want.
type Candidate struct {
	Name string // of a preset, or what it does
	Flag string // what --preprocess takes for it: a preset, or the content of a YAML file
	Pre  plan.Preprocess
}

// Candidates lists what the pixels of pictures may have to become for an input: the presets, and the usual ways to scale, each with both
// orders of colours. Size and crop are those of geometry. Those that the input cannot take are left out; equal ones stand once.
func Candidates(spec InputSpec, geometry plan.Preprocess) []Candidate {
	if len(spec) == 0 {
		return nil
	}
	ways := []struct {
		name string
		pre  plan.Preprocess
	}{
		{"pixels 0 to 1", plan.Preprocess{Scale: 1.0 / 255}},
		{"MNIST", plan.Preprocess{Scale: 1.0 / 255, Mean: plan.Channels{0.1307}, Std: plan.Channels{0.3081}}},
		{"pixels 1 to 0", plan.Preprocess{Mean: plan.Channels{255}, Std: plan.Channels{-255}}},
	}
	for _, name := range plan.Presets() {
		p, _ := plan.Preset(name, 0) // the names are known
		ways = append(ways, struct {
			name string
			pre  plan.Preprocess
		}{name, p})
	}
	var list []Candidate
	add := func(name string, p plan.Preprocess) {
		p.Resize, p.CenterCrop, p.Layout = geometry.Resize, geometry.CenterCrop, geometry.Layout
		into, err := newPicture(spec[0], &p)
		if err != nil || into.c == 1 && p.ChannelOrder == "bgr" ||
			slices.ContainsFunc(list, func(c Candidate) bool { return SamePixels(spec, c.Pre, p) }) {
			return
		}
		c := Candidate{name, yamlOf(p), p}
		if preset, err := plan.Preset(name, spec.squareSide()); err == nil && SamePixels(spec, preset, p) && sameSize(preset, p) {
			c.Flag = name
		}
		list = append(list, c)
	}
	for _, w := range slices.Backward(ways) { // the presets before what looks like one
		add(w.name, w.pre)
	}
	for _, w := range slices.Backward(ways) {
		p := w.pre
		p.Mean, p.Std = slices.Clone(p.Mean), slices.Clone(p.Std)
		slices.Reverse(p.Mean)
		slices.Reverse(p.Std)
		other := "bgr"
		if p.ChannelOrder == "bgr" {
			other = "rgb"
		}
		p.ChannelOrder = other
		add(w.name+", "+other, p)
	}
	return list
}

// SamePixels reports whether two preprocessings make the same numbers of the same pixels, whatever their sizes.
func SamePixels(spec InputSpec, a, b plan.Preprocess) bool {
	if len(spec) == 0 {
		return false
	}
	a.Resize, a.CenterCrop, b.Resize, b.CenterCrop = nil, nil, nil, nil
	x, err := newPicture(spec[0], &a)
	y, err2 := newPicture(spec[0], &b)
	return err == nil && err2 == nil && x.table == y.table && x.nhwc == y.nhwc &&
		(x.c == 1 || (a.ChannelOrder == "bgr") == (b.ChannelOrder == "bgr"))
}

func sameSize(a, b plan.Preprocess) bool { return yamlSize(a) == yamlSize(b) }

func yamlSize(p plan.Preprocess) string {
	var parts []string
	if r := p.Resize; r != nil {
		filter := r.Filter
		if filter == "" {
			filter = "bilinear"
		}
		size := fmt.Sprintf("shorter: %d", r.Shorter)
		if r.Size != nil {
			size = fmt.Sprintf("size: [%d, %d]", r.Size[0], r.Size[1])
		}
		parts = append(parts, fmt.Sprintf("resize: {%s, filter: %s}", size, filter))
	}
	if c := p.CenterCrop; c != nil {
		parts = append(parts, fmt.Sprintf("center_crop: [%d, %d]", c[0], c[1]))
	}
	return strings.Join(parts, ", ")
}

// yamlOf is the content of a file for --preprocess, in one line.
func yamlOf(p plan.Preprocess) string {
	var parts []string
	if size := yamlSize(p); size != "" {
		parts = append(parts, size)
	}
	for _, f := range []struct{ key, value string }{{"channel_order", p.ChannelOrder}, {"layout", p.Layout}} {
		if f.value != "" {
			parts = append(parts, f.key+": "+f.value)
		}
	}
	if p.Scale != 0 {
		parts = append(parts, fmt.Sprintf("scale: %v", p.Scale))
	}
	for _, f := range []struct {
		key  string
		list plan.Channels
	}{{"mean", p.Mean}, {"std", p.Std}} {
		if len(f.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", f.key, strings.ReplaceAll(fmt.Sprint([]float64(f.list)), " ", ", ")))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Pixels is p without what it does to the values of pixels: samples that are read by it can be shown to Repaint.
func Pixels(p plan.Preprocess) plan.Preprocess {
	return plan.Preprocess{Resize: p.Resize, CenterCrop: p.CenterCrop, Layout: p.Layout}
}

// Repaint makes of a sample that was read by Pixels(p) what p would have made of it, to the bit.
func Repaint(spec InputSpec, s *exec.Sample, p plan.Preprocess) (*exec.Sample, error) {
	into, err := newPicture(spec[0], &p)
	if err != nil {
		return nil, err
	}
	x := s.Feeds[spec[0].Name]
	if x == nil || x.DType != tensor.Float32 {
		return nil, fmt.Errorf("input %s holds no pixels", spec[0])
	}
	from := x.ToRowMajor().F32()
	out := make([]float32, len(from))
	n := len(from) / into.c
	for c := range into.c {
		source := c
		if p.ChannelOrder == "bgr" {
			source = into.c - 1 - c
		}
		for i := range n {
			at, old := c*n+i, source*n+i
			if into.nhwc {
				at, old = i*into.c+c, i*into.c+source
			}
			v := from[old]
			if !(v >= 0 && v <= 255) {
				return nil, fmt.Errorf("input %s holds no pixels", spec[0])
			}
			out[at] = into.table[c][int(v)]
		}
	}
	feeds := map[string]*tensor.Tensor{spec[0].Name: tensor.FromF32(out, x.Shape...)}
	return &exec.Sample{Name: s.Name, Label: s.Label, Feeds: feeds, Hash: Hash(feeds), Mask: s.Mask}, nil
}

// Pictures reports whether all samples are pictures, which preprocessing applies to.
func (s *Set) Pictures() bool {
	for _, it := range s.items {
		switch it.src.(type) {
		case *imageSource, *cifarSource, *mnistSource:
		default:
			return false
		}
	}
	return len(s.items) > 0
}
