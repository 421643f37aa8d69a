package main

import (
	"flag"
	"fmt"
	"os"

	"qwb/calib/data/imaging"
	"qwb/graph/tensor"
)

// startPage gives whole pictures to a text detector: blue, green, red, the sides scaled to multiples of 32 such that the longer one
// has at most -side pixels, ImageNet's mean and deviation.
func startPage(f *flag.FlagSet) maker {
	side := f.Int("side", 960, "most pixels of the longer side")
	return func(files []string, out *sink) error {
		return pictures(files, func(name string, m *imaging.Image) error {
			return out.array(name, page(m, *side), -1)
		})
	}
}

func page(m *imaging.Image, side int) *tensor.Tensor {
	shrink := min(1, float64(side)/float64(max(m.W, m.H)))
	round := func(n int) int { return max(1, int(float64(n)*shrink/32+0.5)) * 32 }
	return planes(m.Resize(round(m.W), round(m.H), bilinear()), [3]float32{0.406, 0.456, 0.485}, [3]float32{0.225, 0.224, 0.229})
}

// startLine gives lines of text to a recogniser: blue, green, red, 48 pixels high and as wide as that makes them, from -1 to 1.
// The lines are whole pictures, or what the detector finds in them.
func startLine(f *flag.FlagSet) maker {
	height := f.Int("height", 48, "pixels of a line's height")
	model := f.String("detector", "", "the text detector that finds the lines; without one, each picture is a line")
	return func(files []string, out *sink) error {
		find := func(m *imaging.Image) ([]*imaging.Image, error) { return []*imaging.Image{m}, nil }
		if *model != "" {
			d, err := openDetector(*model)
			if err != nil {
				return fmt.Errorf("-detector: %w", err)
			}
			defer d.close()
			find = d.lines
		}
		return pictures(files, func(name string, m *imaging.Image) error {
			lines, err := find(m)
			if err != nil {
				return err
			}
			for _, l := range lines {
				l = l.Resize(max(8, (l.W**height+l.H/2)/l.H), *height, bilinear())
				if err := out.array(name, planes(l, [3]float32{0.5, 0.5, 0.5}, [3]float32{0.5, 0.5, 0.5}), -1); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// pictures decodes files one after the other.
func pictures(files []string, each func(name string, m *imaging.Image) error) error {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		m, err := imaging.Decode(b)
		if err == nil {
			err = each(base(file), m.RGB())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// planes is the picture as (pixel/255 - mean) / std in f32[1,3,H,W], blue first.
func planes(m *imaging.Image, mean, std [3]float32) *tensor.Tensor {
	t := tensor.New(tensor.Float32, 1, 3, m.H, m.W)
	for c := range 3 {
		for i := range m.H * m.W {
			t.F32()[c*m.H*m.W+i] = (float32(m.Pix[3*i+2-c])/255 - mean[c]) / std[c]
		}
	}
	return t
}

func bilinear() imaging.Filter {
	f, _ := imaging.FilterByName("bilinear")
	return f
}
