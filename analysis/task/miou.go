package task

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"qwb/graph/tensor"
)

// miou is the mean over classes of intersection over union, both summed over all samples (Everingham et al., The Pascal Visual Object
// Classes Challenge, 2015, section 3.3). Classes that stand in no mask and no answer do not count.
var miou = &Metric{Name: "miou", Percent: true,
	Doc: "mean over classes of intersection over union of a map of classes; labels: a folder with a mask for each sample (png), " +
		"255 is ignored",
	Open: func(l Labels) (Scorer, error) {
		if !l.Float && (l.FS == nil || l.Path == "") {
			return nil, errors.New("needs --labels: a folder of masks")
		}
		return &miouScorer{l}, nil
	}}

// ignored is the class of pixels that no mask says anything of.
const ignored = 255

type miouScorer struct{ labels Labels }

// overlap counts the pixels of a class.
type overlap struct{ Class, Both, Either int }

// classMap is a map of classes.
type classMap struct {
	height, width int
	class         []int32
}

func (m *miouScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	answer, classes, err := readMap(outputs)
	if err != nil {
		return nil, err
	}
	var right *classMap
	if m.labels.Float {
		right, _, err = readMap(s.Float)
	} else {
		right, err = m.mask(s)
	}
	if err != nil {
		return nil, err
	}
	if right.height != answer.height || right.width != answer.width {
		return nil, fmt.Errorf("the output is a map of %dx%d and the mask one of %dx%d: masks have to be scaled to the output", answer.height,
			answer.width, right.height, right.width)
	}
	return overlaps(answer.class, right.class, classes)
}

// overlaps are those of the classes that occur, in their order.
func overlaps(answer, right []int32, classes int) ([]overlap, error) {
	found := map[int]*overlap{}
	of := func(class int32) *overlap {
		o := found[int(class)]
		if o == nil {
			o = &overlap{Class: int(class)}
			found[o.Class] = o
		}
		return o
	}
	for i, a := range answer {
		r := right[i]
		switch {
		case r == ignored:
		case r < 0 || int(r) >= classes:
			return nil, fmt.Errorf("the mask has class %d, the output %d classes", r, classes)
		case a == r:
			o := of(r)
			o.Both, o.Either = o.Both+1, o.Either+1
		default:
			of(a).Either++
			of(r).Either++
		}
	}
	var out []overlap
	for _, class := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[class])
	}
	return out, nil
}

func (*miouScorer) Score(records []Record) float64 {
	both, either := map[int]int{}, map[int]int{}
	for _, r := range records {
		for _, o := range r.([]overlap) {
			both[o.Class] += o.Both
			either[o.Class] += o.Either
		}
	}
	var sum float64
	for _, class := range slices.Sorted(maps.Keys(either)) {
		sum += float64(both[class]) / float64(either[class])
	}
	return sum / float64(len(either))
}

// readMap reads the first output: scores [classes, height, width] or [height, width, classes], which is what it is where the last
// dimension is smaller than the first, or whole numbers [height, width]. Dimensions of 1 before that are nothing.
func readMap(outputs []*tensor.Tensor) (m *classMap, classes int, err error) {
	if len(outputs) == 0 {
		return nil, 0, errors.New("the network has no output")
	}
	t := outputs[0].ToRowMajor()
	shape := t.Shape
	axes := 3
	if t.DType != tensor.Float32 {
		axes = 2
	}
	for len(shape) > axes && shape[0] == 1 {
		shape = shape[1:]
	}
	if len(shape) == axes {
		switch t.DType {
		case tensor.Float32:
			return scoredMap(outputs, shape)
		case tensor.Int64:
			class, err := ids(t.I64())
			return &classMap{shape[0], shape[1], class}, math.MaxInt32, err
		case tensor.Int32:
			class, err := ids(tensor.Of[int32](t))
			return &classMap{shape[0], shape[1], class}, math.MaxInt32, err
		}
	}
	return nil, 0, fmt.Errorf("the first output is %s; a map of classes is float32 [classes, height, width] or [height, width, classes], or "+
		"int32 or int64 [height, width]", t.Type())
}

func scoredMap(outputs []*tensor.Tensor, shape []int) (*classMap, int, error) {
	x, err := floats(outputs, 0)
	if err != nil {
		return nil, 0, err
	}
	n, h, w := shape[0], shape[1], shape[2]
	pixel, class := 1, h*w // steps
	if shape[2] < shape[0] {
		h, w, n = shape[0], shape[1], shape[2]
		pixel, class = n, 1
	}
	if n < 2 {
		return nil, 0, fmt.Errorf("the first output has scores of %d class; a map of classes needs two", n)
	}
	m := &classMap{h, w, make([]int32, h*w)}
	for p := range m.class {
		best := x[p*pixel]
		for c := 1; c < n; c++ {
			if v := x[p*pixel+c*class]; v > best {
				best, m.class[p] = v, int32(c)
			}
		}
	}
	return m, n, nil
}

// mask reads the mask of a sample: the file of its name with .png in place of its extension.
func (m *miouScorer) mask(s Sample) (*classMap, error) {
	name := strings.TrimSuffix(s.Name, path.Ext(s.Name)) + ".png"
	for _, name := range []string{name, path.Base(name)} {
		file := path.Join(m.labels.Path, name)
		src, err := fs.ReadFile(m.labels.FS, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c *classMap
		if err == nil {
			c, err = readPNG(src)
		}
		if err != nil {
			return nil, fmt.Errorf("mask %s: %w", file, err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("no mask %s in %s", path.Base(name), m.labels.Path)
}

// mostPixels is the size of a mask at most.
const mostPixels = 1 << 26

// readPNG reads a picture whose pixels are classes: by a palette, or 8-bit grey.
func readPNG(src []byte) (*classMap, error) {
	size, err := png.DecodeConfig(bytes.NewReader(src))
	if err == nil && size.Width*size.Height > mostPixels {
		err = fmt.Errorf("%dx%d pixels are too many for a mask", size.Width, size.Height)
	}
	if err != nil {
		return nil, err
	}
	picture, err := png.Decode(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	b := picture.Bounds()
	m := &classMap{b.Dy(), b.Dx(), make([]int32, 0, b.Dy()*b.Dx())}
	var pixels []uint8
	var stride int
	switch p := picture.(type) {
	case *image.Paletted:
		pixels, stride = p.Pix, p.Stride
	case *image.Gray:
		pixels, stride = p.Pix, p.Stride
	default:
		return nil, errors.New("has colours; the pixels of a mask are classes: a palette, or 8-bit grey")
	}
	for y := range m.height {
		for _, v := range pixels[y*stride : y*stride+m.width] {
			m.class = append(m.class, int32(v))
		}
	}
	return m, nil
}
