package task

import (
	"encoding/base64"
	"math"

	"qwb/graph/tensor"
)

// What an answer may be.
const (
	Boxes   = "boxes"   // of objects
	Text    = "text"    // written by steps or as whole numbers
	Map     = "map"     // a class for each pixel
	Numbers = "numbers" // anything else: the outputs as they are
)

// Reading is what the outputs for one sample say, read as the metrics read them.
type Reading struct {
	Boxes []Box     `json:"boxes,omitempty"` // by falling score
	Text  *string   `json:"text,omitempty"`
	Map   *ClassMap `json:"map,omitempty"`
}

// Box is a detection, in pixels of the picture as the network sees it, or in shares of it, whatever the network answers.
type Box struct {
	Box   [4]float64 `json:"box"` // x1, y1, x2, y2
	Class int64      `json:"class"`
	Score float64    `json:"score"`
}

// ClassMap is a map of classes, made smaller where it is large by leaving pixels out.
type ClassMap struct {
	Height  int    `json:"height"`
	Width   int    `json:"width"`
	Classes string `json:"classes"` // base64, a byte for each pixel; 255 for classes beyond 254
}

// most says how much of an answer is given: to be seen, not to be computed with.
const (
	mostBoxes   = 100
	mostMapSide = 128
)

// KindOf says what outputs are: what the metric reads, or, without one of boxes, texts or maps, what their shape says. A text is told by
// shares of classes at each step, or by an alphabet of that size.
func KindOf(metric string, outputs []*tensor.Tensor, alphabet int) string {
	switch metric {
	case cocoMAP.Name, coco50.Name, vocMAP.Name, voc07MAP.Name:
		return Boxes
	case cer.Name, wer.Name, em.Name:
		return Text
	case miou.Name:
		return Map
	}
	if len(outputs) == 0 || outputs[0].DType != tensor.Float32 {
		return Numbers
	}
	t := outputs[0].ToRowMajor()
	shape := t.Shape
	if n := len(shape); n >= 2 && shape[n-1] == 6 && tensor.Count(shape[:n-2]) == 1 {
		return Boxes
	}
	for len(shape) > 2 && shape[0] == 1 {
		shape = shape[1:]
	}
	switch {
	case len(shape) == 2 && shape[0] > 1 && (shape[1] == alphabet || alphabet == 0 && shape[1] > 2 && shares(t.F32(), shape[1])):
		return Text
	case len(shape) == 3 && min(shape[0], shape[2]) > 1 && shape[1] >= 8 && max(shape[0], shape[2]) >= 8:
		return Map
	}
	return Numbers
}

// shares reports whether every row of n numbers are shares of 1.
func shares(x []float32, n int) bool {
	for ; len(x) >= n; x = x[n:] {
		sum := 0.0
		for _, v := range x[:n] {
			if !(v >= 0) {
				return false
			}
			sum += float64(v)
		}
		if math.Abs(sum-1) > 1e-2 {
			return false
		}
	}
	return true
}

// Read reads outputs of a kind; of Numbers there is nothing to read. NaN, and outputs of another form, are errors as they are of metrics.
func Read(kind string, outputs []*tensor.Tensor, alphabet []string) (r Reading, err error) {
	switch kind {
	case Boxes:
		found, err := detections(outputs)
		if err != nil {
			return r, err
		}
		sortBoxes(found)
		for _, b := range found[:min(len(found), mostBoxes)] {
			r.Boxes = append(r.Boxes, Box{[4]float64{b.x1, b.y1, b.x2, b.y2}, b.class, b.score})
		}
	case Text:
		var text string
		if text, err = readText(outputs, alphabet); err == nil {
			r.Text = &text
		}
	case Map:
		var m *classMap
		if m, _, err = readMap(outputs); err == nil {
			r.Map = m.shown()
		}
	}
	return r, err
}

// shown is the map with every k-th pixel of every k-th line, so that it is at most mostMapSide long.
func (m *classMap) shown() *ClassMap {
	step := (max(m.height, m.width) + mostMapSide - 1) / mostMapSide
	out := &ClassMap{Height: (m.height + step - 1) / step, Width: (m.width + step - 1) / step}
	pixels := make([]byte, 0, out.Height*out.Width)
	for y := 0; y < m.height; y += step {
		for x := 0; x < m.width; x += step {
			pixels = append(pixels, byte(min(m.class[y*m.width+x], math.MaxUint8)))
		}
	}
	out.Classes = base64.StdEncoding.EncodeToString(pixels)
	return out
}
