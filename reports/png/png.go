// Package png draws the plots of a report. It is apart from package reports because what draws brings fonts along, and text and pages need
// none of that.
//
// Unstable: it may change without notice.
package png

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"qwb/analysis"
	"qwb/reports"
)

// Image is one PNG to be written under Name, a plain file name.
type Image struct {
	Name  string
	Write func(w io.Writer) error
}

// Colours that people who see red and green alike tell apart (Okabe and Ito), and that differ in lightness where two stand for opposites.
var (
	blue    = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	pale    = color.RGBA{0xa6, 0xc8, 0xe4, 0xff}
	orange  = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	red     = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green   = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	dark    = color.RGBA{0x55, 0x5c, 0x66, 0xff}
	grey    = color.RGBA{0xdf, 0xe4, 0xea, 0xff}
	methods = []color.Color{blue, red, green, orange, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}}
	// dashes tell methods apart without colours.
	dashes = [][]vg.Length{{5, 3}, {2, 2}, {8, 3, 2, 3}, {10, 4}, {1, 3}, {6, 2, 1, 2, 1, 2}}
)

// Plots lists the plots of what a page shows: the network with the error of each operator, the error in graph order, the layers with the
// largest error, what a search found, and pages of twelve histograms with the calibration thresholds.
// Kinds that the view does not hold are left out.
func Plots(v *reports.View) []Image {
	r := v.Report
	var images []Image
	if n := newNetwork(v); n != nil {
		images = append(images, Image{"graph.png", n.write})
	}
	if len(r.Graphwise)+len(r.Layerwise) > 0 {
		images = append(images, Image{"error.png", func(w io.Writer) error { return errorPlot(w, r) }})
	}
	if len(r.Layerwise) > 0 {
		images = append(images, Image{"layers.png", func(w io.Writer) error { return layerPlot(w, reports.WorstFirst(r.Layerwise)) }})
	}
	if v.Search != nil && len(v.Search.Points) > 0 {
		images = append(images, Image{"pareto.png", func(w io.Writer) error { return paretoPlot(w, v.Search) }})
	}
	var drawable []*analysis.TensorStatistics
	for i := range r.Statistical {
		if s := &r.Statistical[i]; len(s.Histogram) > 0 && s.Max > s.Min {
			drawable = append(drawable, s)
		}
	}
	for page := 0; page*perPage < len(drawable); page++ {
		part := drawable[page*perPage : min((page+1)*perPage, len(drawable))]
		images = append(images, Image{fmt.Sprintf("tensors-%02d.png", page+1), func(w io.Writer) error { return histogramPage(w, part) }})
	}
	return images
}

// longestName is how many letters of a name are drawn. Names are as long as models want; JSON and HTML have all of it.
const longestName = 120

// errorPlot draws the accumulated error as a line and each operator's own error as bars, on a logarithmic scale.
func errorPlot(w io.Writer, r *analysis.Report) error {
	index := map[string]float64{}
	var names []tick
	place := func(node string) float64 {
		if _, ok := index[node]; !ok {
			index[node] = float64(len(index) + 1)
			names = append(names, tick{index[node], reports.Shorten(node, longestName)})
		}
		return index[node]
	}
	var line, own [][2]float64
	var errors [][3]float64
	highest := 0.0
	add := func(list *[][2]float64, node string, nsr float64, err *float64) {
		*list = append(*list, [2]float64{place(node), nsr})
		highest = max(highest, nsr)
		if err != nil && nsr > 0 {
			errors = append(errors, [3]float64{place(node), nsr, *err})
			highest = max(highest, nsr+*err)
		}
	}
	for _, g := range r.Graphwise {
		add(&line, g.Node, g.NSR, g.NSRError)
	}
	for _, l := range r.Layerwise {
		x := l.Judged()
		add(&own, l.Node, x.NSR, x.NSRError)
	}
	floor := logFloor(slices.Concat(line, own))
	top := 4 * max(highest, 2*floor) // room for the legend
	h := chart{title: fmt.Sprintf("%s on %s: error in graph order", r.Model, r.Platform), titleSize: 13,
		x:      axis{label: "operator in graph order", size: 10, min: 0, max: float64(len(index) + 1), ticks: everyFew(len(index))},
		y:      axis{label: "noise-to-signal ratio (NSR)", size: 10, min: floor, max: top, log: true, ticks: decades(floor, top), grid: true},
		legend: legend{size: 10, sample: 20}}
	width, height := 12*vg.Inch, 4.6*vg.Inch
	if len(names) <= mostNamed { // else operators are counted
		h.x.ticks, h.x.upright, h.x.label = names, true, ""
		width = max(width, vg.Length(len(names))*tickSize*1.3+1.2*vg.Inch)
		longest := vg.Length(0)
		for _, t := range names {
			longest = max(longest, letters(tickSize, text.XRight, text.YCenter).Width(t.label))
		}
		height += longest
	}
	bar := max(min(0.55*width/vg.Length(len(index)+1), 22), 1)
	if len(own) > 0 {
		h.marks = append(h.marks, func(c *draw.Canvas, at func(x, y float64) vg.Point) {
			for _, b := range own {
				foot, head := at(b[0], floor), at(b[0], max(b[1], floor))
				c.FillPolygon(pale, box(vg.Point{X: foot.X - bar/2, Y: foot.Y}, vg.Point{X: head.X + bar/2, Y: head.Y}))
			}
		})
		h.legend.entries = append(h.legend.entries, entry{"NSR of the outputs with this operator quantized alone", patch(pale)})
	}
	for i := range line {
		line[i][1] = max(line[i][1], floor)
	}
	if len(line) > 0 {
		style := draw.LineStyle{Color: red, Width: 1.5}
		h.marks = append(h.marks, curve(line, style), dots(line, red, 1.8))
		h.legend.entries = append(h.legend.entries, entry{"NSR at this operator's output, all quantized", stroke(style)})
	}
	if len(errors) > 0 {
		h.marks = append(h.marks, whiskers(errors, dark, floor))
		h.legend.entries = append(h.legend.entries, entry{fmt.Sprintf("standard error over %d samples", r.Samples), func(c *draw.Canvas) {
			x, half := c.Center().X, (c.Max.Y-c.Min.Y)/3
			whiskers([][3]float64{{0, 0, 1}}, dark, math.Inf(-1))(c, func(_, y float64) vg.Point {
				return vg.Point{X: x, Y: c.Center().Y + vg.Length(y)*half}
			})
		}})
	}
	return h.write(w, width, height)
}

// mostNamed is how many operators are named below a plot of the error; more are counted.
const mostNamed = 250

// logFloor is the lower end of a logarithmic axis: the next power of ten below the smallest positive value, at most twelve decades
// under the largest.
func logFloor(points [][2]float64) float64 {
	lo, hi := math.Inf(1), 0.0
	for _, p := range points {
		if p[1] > 0 {
			lo, hi = math.Min(lo, p[1]), math.Max(hi, p[1])
		}
	}
	if hi == 0 {
		return 1e-12
	}
	return math.Max(math.Pow(10, math.Ceil(math.Log10(lo))-1), hi*1e-12)
}

// layerPlot draws the operators with the largest error at the graph output as horizontal bars, worst on top. The colours of a bar are the
// shares of clipping and rounding in the operator's error at its own output.
func layerPlot(w io.Writer, layers []analysis.LayerError) error {
	const most = 30
	title := "Operators by the NSR of the outputs with each quantized alone"
	if len(layers) > most {
		title = fmt.Sprintf("The %d of %d operators with the largest NSR of the outputs, each quantized alone", most, len(layers))
		layers = layers[:most]
	}
	largest, longest := 0.0, vg.Length(0)
	for i := range layers {
		x := layers[i].Judged()
		reach := x.NSR
		if e := x.NSRError; e != nil {
			reach += *e
		}
		largest = max(largest, reach)
		longest = max(longest, letters(tickSize, text.XRight, text.YCenter).Width(reports.Shorten(layers[i].Node, longestName)))
	}
	if !(largest > 0) {
		largest = 1
	}
	h := chart{title: title, titleSize: 13,
		// with room for numbers
		x: axis{label: "noise-to-signal ratio (NSR), with its standard error", size: 10, max: largest * 1.28,
			ticks: evenly(0, largest*1.28), grid: true},
		y: axis{min: -1, max: float64(len(layers))},
		legend: legend{size: 10, sample: 20, right: true, beyond: true,
			entries: []entry{{"clipping (its share stands behind the figure)", patch(orange)}, {"rounding", patch(blue)}}}}
	for i := range layers {
		h.y.ticks = append(h.y.ticks, tick{float64(len(layers) - 1 - i), reports.Shorten(layers[i].Node, longestName)})
	}
	h.marks = []mark{func(c *draw.Canvas, at func(x, y float64) vg.Point) {
		const half = 4.5
		for i := range layers {
			l, x := &layers[i], layers[i].Judged()
			y := float64(len(layers) - 1 - i)
			from, cut, to := at(0, y), at(x.NSR*clipShare(l), y), at(x.NSR, y)
			c.FillPolygon(orange, box(vg.Point{X: from.X, Y: from.Y - half}, vg.Point{X: cut.X, Y: cut.Y + half}))
			c.FillPolygon(blue, box(vg.Point{X: cut.X, Y: cut.Y - half}, vg.Point{X: to.X, Y: to.Y + half}))
			end := to.X
			if e := x.NSRError; e != nil && *e > 0 {
				style := draw.LineStyle{Color: dark, Width: 1}
				lo, hi := at(max(x.NSR-*e, 0), y), at(x.NSR+*e, y)
				c.StrokeLine2(style, lo.X, lo.Y, hi.X, hi.Y)
				c.StrokeLine2(style, lo.X, lo.Y-2.5, lo.X, lo.Y+2.5)
				c.StrokeLine2(style, hi.X, hi.Y-2.5, hi.X, hi.Y+2.5)
				end = hi.X
			}
			c.FillText(letters(9, text.XLeft, text.YCenter), vg.Point{X: end + 4, Y: to.Y},
				fmt.Sprintf("%s, clip %.0f %%", reports.WithError(x.NSR, x.NSRError), 100*clipShare(l)))
		}
	}}
	return h.write(w, max(11*vg.Inch, 8*vg.Inch+longest), vg.Length(len(layers))*15+1.7*vg.Inch)
}

// clipShare is the share of clipping in an operator's error at its own output. Clipping and rounding may undo each other's error: a
// negative part counts as none.
func clipShare(l *analysis.LayerError) float64 {
	clip, round := math.Max(l.Clip, 0), math.Max(l.Round, 0)
	if !(clip+round > 0) {
		return 0
	}
	return clip / (clip + round)
}

const (
	columns = 3
	perPage = 12
)

func histogramPage(w io.Writer, tensors []*analysis.TensorStatistics) error {
	rows := (len(tensors) + columns - 1) / columns
	width, height := vg.Length(columns)*4.6*vg.Inch, vg.Length(rows)*2.7*vg.Inch
	canvas := vgimg.New(width, height)
	area := draw.New(canvas)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 10, PadY: 14, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 8}
	for i, s := range tensors {
		histogramPlot(s).draw(tiles.At(area, i%columns, i/columns))
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func histogramPlot(s *analysis.TensorStatistics) *chart {
	step := (s.Max - s.Min) / float64(len(s.Histogram))
	outline := [][2]float64{{s.Min, 0}}
	top := 0.0
	for i, n := range s.Histogram {
		y := math.Log10(1 + float64(n))
		top = math.Max(top, y)
		outline = append(outline, [2]float64{s.Min + float64(i)*step, y}, [2]float64{s.Min + float64(i+1)*step, y})
	}
	if top == 0 {
		top = 1
	}
	lo, hi := reports.Span(s)
	hi += (hi - lo) * 0.28 // room for the legend
	h := &chart{title: reports.Shorten(s.Tensor, longestName), titleSize: 10, x: axis{min: lo, max: hi, ticks: evenly(lo, hi)},
		y:      axis{label: "values per bar, log10(1 + n)", size: 8, max: top * 1.1, ticks: evenly(0, top*1.1)},
		legend: legend{size: 8, sample: 14, right: true}, marks: []mark{filled(append(outline, [2]float64{s.Max, 0}), pale)}}
	for i, t := range s.Thresholds {
		style := draw.LineStyle{Color: methods[i%len(methods)], Width: 1.2, Dashes: dashes[i%len(dashes)]}
		if t.Used {
			style.Width, style.Dashes = 2, nil
		}
		for _, v := range []float64{t.Lo, t.Hi} {
			if v != 0 { // where a one-sided range ends says nothing
				h.marks = append(h.marks, curve([][2]float64{{v, 0}, {v, top * 1.05}}, style))
			}
		}
		h.legend.entries = append(h.legend.entries, entry{t.Method, stroke(style)})
	}
	return h
}

// margin is kept free on every side: text is measured a little too small, and would be cut.
const margin vg.Length = 12

// write writes the chart as a PNG.
func (h *chart) write(w io.Writer, width, height vg.Length) error {
	canvas := vgimg.New(width, height)
	h.draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
