package main

import (
	"context"
	"sort"

	"qwb/calib/data/imaging"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// detector runs a text detector of the kind that gives each pixel the probability of being inside a (shrunken) line.
type detector struct {
	model  *onnx.Model
	runner *exec.Runner
}

func openDetector(path string) (*detector, error) {
	m, _, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	graph.InferShapes(m.Graph)
	s, err := exec.New(m.Graph, exec.Options{})
	if err != nil {
		m.Close()
		return nil, err
	}
	return &detector{m, s.NewRunner()}, nil
}

func (d *detector) close() { d.model.Close() }

// lines cuts the upright rectangles around the detected regions out of the picture, in the order of reading.
func (d *detector) lines(m *imaging.Image) ([]*imaging.Image, error) {
	x := page(m, 960)
	g := d.model.Graph
	out, err := d.runner.Run(context.Background(), map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: x}, nil)
	if err != nil {
		return nil, err
	}
	h, w := x.Shape[2], x.Shape[3]
	var list []*imaging.Image
	for _, r := range regions(out[0].F32(), w, h, 0.3) {
		// Detected regions are shrunken by about 0.4 of the line's height on every side.
		margin := (r.bottom - r.top) * 2 / 3
		left, right := max(0, r.left-margin)*m.W/w, min(w, r.right+margin)*m.W/w
		top, bottom := max(0, r.top-margin)*m.H/h, min(h, r.bottom+margin)*m.H/h
		if right-left >= 8 && bottom-top >= 8 && right-left >= bottom-top {
			list = append(list, cut(m, left, top, right, bottom))
		}
	}
	return list, nil
}

// region is a rectangle, right and bottom excluded.
type region struct{ left, top, right, bottom int }

// regions finds the connected sets of pixels above the threshold that are at least 3 pixels high and wide.
func regions(p []float32, w, h int, threshold float32) []region {
	seen := make([]bool, w*h)
	var list []region
	for start := range p {
		if seen[start] || p[start] < threshold {
			continue
		}
		seen[start] = true
		r := region{w, h, 0, 0}
		for todo := []int{start}; len(todo) > 0; {
			i := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			x, y := i%w, i/w
			r = region{min(r.left, x), min(r.top, y), max(r.right, x+1), max(r.bottom, y+1)}
			for _, n := range [][2]int{{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}} {
				k := n[1]*w + n[0]
				if n[0] >= 0 && n[0] < w && n[1] >= 0 && n[1] < h && !seen[k] && p[k] >= threshold {
					seen[k] = true
					todo = append(todo, k)
				}
			}
		}
		if r.right-r.left >= 3 && r.bottom-r.top >= 3 {
			list = append(list, r)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.top < b.top || a.top == b.top && a.left < b.left
	})
	return list
}

func cut(m *imaging.Image, left, top, right, bottom int) *imaging.Image {
	out := imaging.New(right-left, bottom-top, m.C)
	for y := range out.H {
		copy(out.Pix[y*out.W*m.C:][:out.W*m.C], m.Pix[((top+y)*m.W+left)*m.C:])
	}
	return out
}
