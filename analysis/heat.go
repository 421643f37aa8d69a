package analysis

import (
	"encoding/base64"
	"math"
	"slices"
)

// Heat is a tensor as a picture of rows and columns, of float, of the simulation and of the integers, and what the last of them differs
// by: bytes of colours in base64, row by row, one for each cell. A cell is the mean of the elements that fall into it, of the difference
// the one that is farthest from 0.
type Heat struct {
	Name    string `json:"name"`
	Rows    int    `json:"rows"`
	Columns int    `json:"columns"`
	What    string `json:"what"` // what a row is: "channel", "row", "column"
	All     int    `json:"all"`  // rows of the tensor; Rows where none are put together
	// 0 to 255 of Float, Sim and Int8 are Lo to Hi, of float and the last run together, which leave out the hundredth part of the elements
	// at either end: one outlier does not flatten the colours. 1 to 255 of Difference are -Most to Most, 128 is none.
	Lo         float64 `json:"lo"`
	Hi         float64 `json:"hi"`
	Most       float64 `json:"most"`
	Float      string  `json:"float"`
	Sim        string  `json:"sim"`
	Int8       string  `json:"int8,omitempty"`
	Difference string  `json:"difference"`
	// NSR is the error of each row against the mean square of float in it, of what Difference is of; null where the row is 0 in float.
	NSR []*float64 `json:"nsr"`
}

// The size of a picture.
const (
	heatRows    = 64
	heatColumns = 160
)

// Plane is a tensor cut into rows. At is the place of an element among those of the tensor in row-major order.
type Plane struct {
	What          string
	Rows, Columns int
	At            func(row, column int) int
}

// PlaneOf cuts a shape into rows: the first or the last dimension, whichever is smaller, those of 1 in front left out. A map of one channel
// is its lines.
func PlaneOf(shape []int) Plane {
	for len(shape) > 1 && shape[0] == 1 {
		shape = shape[1:]
	}
	all := 1
	for _, d := range shape {
		all *= d
	}
	n := len(shape)
	switch {
	case n < 2 || all == 0:
		return Plane{"row", 1, all, func(_, c int) int { return c }}
	case n == 2 && (shape[0] <= shape[1] || shape[1] > heatRows):
		return Plane{"row", shape[0], shape[1], func(r, c int) int { return r*shape[1] + c }}
	case shape[n-1] < shape[0]:
		k := shape[n-1]
		return Plane{"column", k, all / k, func(r, c int) int { return c*k + r }}
	}
	k := all / shape[0]
	return Plane{"channel", shape[0], k, func(r, c int) int { return r*k + c }}
}

// ChannelOf is one channel of a map of channels first, as lines and columns; ok is false for other shapes. Shapes are those of one sample.
func ChannelOf(shape []int, channel int) (p Plane, ok bool) {
	if len(shape) != 4 || shape[0] != 1 || channel < 0 || channel >= shape[1] {
		return p, false
	}
	h, w := shape[2], shape[3]
	return Plane{"row", h, w, func(r, c int) int { return (channel*h+r)*w + c }}, true
}

// NewHeat draws a tensor by its planes; integers may be nil. What is not finite is drawn as an end of the scale.
func NewHeat(name string, p Plane, float, sim, integers []float32) Heat {
	last := sim
	if integers != nil {
		last = integers
	}
	rows, columns := min(p.Rows, heatRows), min(p.Columns, heatColumns)
	if p.What == "row" {
		rows = min(p.Rows, heatColumns)
	}
	h := Heat{Name: name, Rows: rows, Columns: columns, What: p.What, All: p.Rows, NSR: rowErrors(p, float, last)}
	h.Lo, h.Hi = ends(p, float, last)
	cells := func(x []float32) string {
		return h.paint(p, func(i int) float64 { return float64(x[i]) }, func(sum, _ float64, n int) float64 {
			return 255 * (sum/float64(n) - h.Lo) / math.Max(h.Hi-h.Lo, math.SmallestNonzeroFloat32)
		})
	}
	h.Float, h.Sim = cells(float), cells(sim)
	if integers != nil {
		h.Int8 = cells(integers)
	}
	difference := func(i int) float64 { return float64(last[i]) - float64(float[i]) }
	for r := range p.Rows {
		for c := range p.Columns {
			if d := math.Abs(difference(p.At(r, c))); d > h.Most && !math.IsInf(d, 0) {
				h.Most = d
			}
		}
	}
	h.Difference = h.paint(p, difference, func(_, far float64, _ int) float64 {
		return 128 + 127*far/math.Max(h.Most, math.SmallestNonzeroFloat32)
	})
	return h
}

// paint makes a byte of each cell: colour is given the sum of its elements, the one farthest from 0, and how many there are.
func (h *Heat) paint(p Plane, at func(i int) float64, colour func(sum, far float64, n int) float64) string {
	bytes := make([]byte, 0, h.Rows*h.Columns)
	for r := range h.Rows {
		for c := range h.Columns {
			var sum, far float64
			n := 0
			for y := r * p.Rows / h.Rows; y < (r+1)*p.Rows/h.Rows; y++ {
				for x := c * p.Columns / h.Columns; x < (c+1)*p.Columns/h.Columns; x++ {
					v := at(p.At(y, x))
					if sum, n = sum+v, n+1; math.Abs(v) > math.Abs(far) {
						far = v
					}
				}
			}
			v := colour(sum, far, max(n, 1))
			var b byte // of NaN too
			if v > 0 {
				b = byte(min(v, 255) + 0.5)
			}
			bytes = append(bytes, b)
		}
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// ends are the hundredth part of the elements from below and from above; 0 where none is finite.
func ends(p Plane, lists ...[]float32) (lo, hi float64) {
	var list []float32
	step := max(1, p.Rows*p.Columns/20000)
	for i := 0; i < p.Rows*p.Columns; i += step {
		for _, x := range lists {
			if v := x[p.At(i/p.Columns, i%p.Columns)]; !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
				list = append(list, v)
			}
		}
	}
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	cut := len(list) / 100
	if lo, hi = float64(list[cut]), float64(list[len(list)-1-cut]); lo == hi { // nearly all are one number
		lo, hi = float64(list[0]), float64(list[len(list)-1])
	}
	return lo, hi
}

// rowErrors are the errors of the rows.
func rowErrors(p Plane, float, got []float32) []*float64 {
	list := make([]*float64, p.Rows)
	for r := range p.Rows {
		var signal, noise float64
		for c := range p.Columns {
			i := p.At(r, c)
			d := float64(got[i]) - float64(float[i])
			signal, noise = signal+float64(float[i])*float64(float[i]), noise+d*d
		}
		if nsr := noise / signal; signal > 0 && !math.IsNaN(nsr) && !math.IsInf(nsr, 0) {
			list[r] = &nsr
		}
	}
	return list
}
