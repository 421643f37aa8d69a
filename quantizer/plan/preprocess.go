package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"qwb/graph"
	"qwb/internal/strictyaml"
)

// Preprocess says how a decoded image becomes an input of the model. It is plain data: the plan keeps its content and
// calib/data carries it out. The steps, in this order (EXIF orientation is ignored):
//
//	resize -> centre crop -> channel order -> (pixel*scale - mean) / std
//
// pixel is 0..255; mean and std are per channel in the model's channel order (after ChannelOrder has been applied). The
// last step is computed in float32, each operation rounded once: (float32(pixel)*scale - mean) / std with scale, mean and
// std rounded to float32 beforehand. The zero value decodes and converts, and does nothing else.
type Preprocess struct {
	Resize       *Resize  `json:"resize,omitempty" yaml:"resize,omitempty"`               // nil: the image keeps its size
	CenterCrop   *Size    `json:"center_crop,omitempty" yaml:"center_crop,omitempty"`     // nil: no crop; the offset is rounded down
	ChannelOrder string   `json:"channel_order,omitempty" yaml:"channel_order,omitempty"` // rgb (also "") or bgr
	Layout       string   `json:"layout,omitempty" yaml:"layout,omitempty"`               // nchw, nhwc, or "": that of the model's input
	Scale        float64  `json:"scale,omitempty" yaml:"scale,omitempty"`                 // 0 means 1
	Mean         Channels `json:"mean,omitempty" yaml:"mean,omitempty"`                   // empty: 0
	Std          Channels `json:"std,omitempty" yaml:"std,omitempty"`                     // empty: 1
	// Hop is by how many samples the frames of a wave are apart; 0: by as many as they have, so that they lie side by side.
	Hop int `json:"hop,omitempty" yaml:"hop,omitempty"`
	// Tokenizer is the file that texts were cut into tokens with, relative to the plan where possible. Empty: the model's own.
	Tokenizer string `json:"tokenizer,omitempty" yaml:"-"`
	// States are inputs that a network gets back from its run before: a sample is then a step of a sequence.
	States []graph.State `json:"states,omitempty" yaml:"-"`
	// Mask is the input that says which positions of a sample are real: the others are in no range and no measure. Empty: all count.
	Mask string `json:"mask,omitempty" yaml:"-"`
}

// Resize scales an image. Exactly one of Shorter and Size is set.
type Resize struct {
	Shorter int    `json:"shorter,omitempty" yaml:"shorter,omitempty"` // pixels of the shorter side; the other one is rounded, halves to even
	Size    *Size  `json:"size,omitempty" yaml:"size,omitempty"`       // both sides, whatever the proportions
	Filter  string `json:"filter,omitempty" yaml:"filter,omitempty"`   // one of Filters, "" is bilinear
}

// Size is height and width in pixels. In files it is [height, width], or one number for a square.
type Size [2]int

// Channels is one number per channel, or a single one for all. In files it is a list or a number.
type Channels []float64

var filters = []string{"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"}

// maxSide bounds the sides that a preprocessing may ask for.
const maxSide = 1 << 14

// presets by name, for a model with an input of 224 x 224 (resize and crop are set by Preset).
var presets = map[string]Preprocess{
	"none": {},
	// torchvision's reference preprocessing.
	"imagenet-torch": {ChannelOrder: "rgb", Scale: 1.0 / 255, Mean: Channels{0.485, 0.456, 0.406}, Std: Channels{0.229, 0.224, 0.225}},
	// x/127.5 - 1 as (x - 127.5)/127.5, whose subtraction is exact.
	"imagenet-inception": {ChannelOrder: "rgb", Scale: 1, Mean: Channels{127.5}, Std: Channels{127.5}},
	// The Caffe model zoo: BGR minus the mean of the training images.
	"imagenet-caffe": {ChannelOrder: "bgr", Scale: 1, Mean: Channels{103.939, 116.779, 123.68}},
}

// Presets returns the names that Preset knows, sorted.
func Presets() []string {
	names := make([]string, 0, len(presets))
	for n := range presets {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Preset returns a preprocessing by name for a model whose input is side x side pixels (0 or less: 224). But for none, the
// shorter side is scaled to side*256/224, rounded, by the bilinear filter and the centre side x side is cut out.
func Preset(name string, side int) (Preprocess, error) {
	p, ok := presets[name]
	if !ok {
		return Preprocess{}, fmt.Errorf("unknown preprocessing %q (known: %s, or a YAML file)", name, strings.Join(Presets(), ", "))
	}
	if name == "none" {
		return p, nil
	}
	if side <= 0 {
		side = 224
	}
	p.Resize = &Resize{Shorter: (side*256*2 + 224) / (224 * 2), Filter: "bilinear"}
	p.CenterCrop = &Size{side, side}
	p.Mean, p.Std = append(Channels(nil), p.Mean...), append(Channels(nil), p.Std...)
	return p, p.Validate()
}

// ParsePreprocess reads the YAML form, whose keys are those of the struct. Reading is strict: an unknown or repeated key, or
// a value of the wrong type, is an error that names file and line. The result is valid.
func ParsePreprocess(file string, src []byte) (Preprocess, error) {
	limits := strictyaml.Limits{What: "a description of preprocessing", Bytes: 1 << 16}
	var p Preprocess
	if err := strictyaml.Decode(src, &p, limits); err != nil {
		return Preprocess{}, yamlError(file, err)
	}
	if p.Scale == 0 { // left out, or 0 in the file
		var given map[string]any
		if err := strictyaml.Decode(src, &given, limits); err == nil && given["scale"] != nil {
			return Preprocess{}, fmt.Errorf("%s: scale is 0", file)
		}
		p.Scale = 1
	}
	if err := p.Validate(); err != nil {
		return Preprocess{}, &graph.FileError{File: file, Err: err}
	}
	return p, nil
}

// yamlError is an error of a file, with its line where that is known.
func yamlError(file string, err error) error {
	line, message := strictyaml.Line(err)
	if line == 0 {
		return &graph.FileError{File: file, Err: err}
	}
	return fmt.Errorf("%s:%d: %s", file, line, message)
}

// Validate reports the first setting that cannot be carried out, nil if there is none.
func (p Preprocess) Validate() error {
	if r := p.Resize; r != nil {
		switch {
		case r.Shorter != 0 && r.Size != nil, r.Shorter == 0 && r.Size == nil:
			return errors.New("resize: needs one of shorter and size")
		case r.Size != nil:
			if err := r.Size.check("resize: size"); err != nil {
				return err
			}
		case r.Shorter < 1 || r.Shorter > maxSide:
			return fmt.Errorf("resize: shorter is %d, not in 1..%d", r.Shorter, maxSide)
		}
		if !oneOf(r.Filter, filters) {
			return fmt.Errorf("resize: unknown filter %q (known: %s)", r.Filter, strings.Join(filters, ", "))
		}
	}
	if p.Hop < 0 {
		return fmt.Errorf("hop is %d: from 1 to the length of a frame", p.Hop)
	}
	if p.CenterCrop != nil {
		if err := p.CenterCrop.check("center_crop"); err != nil {
			return err
		}
	}
	if !oneOf(p.ChannelOrder, []string{"rgb", "bgr"}) {
		return fmt.Errorf("channel_order: %q is neither rgb nor bgr", p.ChannelOrder)
	}
	if !oneOf(p.Layout, []string{"nchw", "nhwc"}) {
		return fmt.Errorf("layout: %q is neither nchw nor nhwc", p.Layout)
	}
	if err := (Channels{p.Scale}).check("scale", false); err != nil {
		return err
	}
	if err := p.Mean.check("mean", false); err != nil {
		return err
	}
	if err := p.Std.check("std", true); err != nil {
		return err
	}
	if len(p.Mean) > 1 && len(p.Std) > 1 && len(p.Mean) != len(p.Std) {
		return fmt.Errorf("mean has %d values, std has %d", len(p.Mean), len(p.Std))
	}
	return nil
}

func (s Size) check(what string) error {
	for _, n := range s {
		if n < 1 || n > maxSide {
			return fmt.Errorf("%s: %d is not in 1..%d", what, n, maxSide)
		}
	}
	return nil
}

// check holds the values to what float32 can represent; divisors must not become zero or infinite either way.
func (c Channels) check(what string, divisor bool) error {
	if len(c) > 4 {
		return fmt.Errorf("%s: %d values, an image has at most 4 channels", what, len(c))
	}
	for _, v := range c {
		f := float64(float32(v))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s: %g is not a finite float32", what, v)
		}
		if divisor && math.Abs(f) < 0x1p-126 {
			return fmt.Errorf("%s: %g cannot be divided by", what, v)
		}
	}
	return nil
}

func oneOf(s string, list []string) bool {
	if s == "" {
		return true
	}
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}

// UnmarshalJSON reads [height, width] or one number.
func (s *Size) UnmarshalJSON(b []byte) error {
	return s.decode(func(v any) error { return json.Unmarshal(b, v) })
}

// UnmarshalYAML reads [height, width] or one number.
func (s *Size) UnmarshalYAML(unmarshal func(any) error) error { return s.decode(unmarshal) }

func (s *Size) decode(unmarshal func(any) error) error {
	var n int
	if unmarshal(&n) == nil {
		*s = Size{n, n}
		return nil
	}
	var l []int
	if err := unmarshal(&l); err != nil {
		return err
	}
	if len(l) != 2 {
		return fmt.Errorf("a size is one number or [height, width], not %d numbers", len(l))
	}
	*s = Size{l[0], l[1]}
	return nil
}

// UnmarshalJSON reads a list or one number.
func (c *Channels) UnmarshalJSON(b []byte) error {
	return c.decode(func(v any) error { return json.Unmarshal(b, v) })
}

// UnmarshalYAML reads a list or one number.
func (c *Channels) UnmarshalYAML(unmarshal func(any) error) error { return c.decode(unmarshal) }

func (c *Channels) decode(unmarshal func(any) error) error {
	var f float64
	if unmarshal(&f) == nil {
		*c = Channels{f}
		return nil
	}
	var l []float64
	if err := unmarshal(&l); err != nil {
		return err
	}
	*c = l
	return nil
}
