// Package png draws the plots of a report. It is apart from package reports because what draws brings fonts and writers of other formats along,
// and text and pages need none of that.
//
// Unstable: it may change without notice.
package png

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
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

var (
	blue    = color.RGBA{0x2f, 0x6f, 0xb5, 0xff}
	pale    = color.RGBA{0x9d, 0xc0, 0xe6, 0xff}
	red     = color.RGBA{0xc8, 0x44, 0x3c, 0xff}
	grey    = color.RGBA{0xdf, 0xe4, 0xea, 0xff}
	methods = []color.Color{blue, red, color.RGBA{0x2e, 0x8a, 0x57, 0xff}, color.RGBA{0xd7, 0x8a, 0x1f, 0xff}, color.RGBA{0x7a, 0x4f, 0xb0, 0xff}, color.RGBA{0x15, 0x86, 0x8c, 0xff}}
)

// Plots lists the plots of a report: the error in graph order, the layers with the largest error, and pages of twelve
// histograms with the calibration thresholds. Kinds that the report does not hold are left out.
func Plots(r *analysis.Report) []Image {
	var images []Image
	if len(r.Graphwise)+len(r.Layerwise) > 0 {
		images = append(images, Image{"error.png", func(w io.Writer) error { return errorPlot(w, r) }})
	}
	if len(r.Layerwise) > 0 {
		images = append(images, Image{"layers.png", func(w io.Writer) error { return layerPlot(w, reports.WorstFirst(r.Layerwise)) }})
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

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 8
	p.BackgroundColor = color.White
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
		&p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	return p
}

// errorPlot draws the accumulated error as a line and each operator's own error as bars, on a logarithmic scale.
func errorPlot(w io.Writer, r *analysis.Report) error {
	p := newPlot(fmt.Sprintf("%s on %s: error in graph order", r.Model, r.Platform))
	p.X.Label.Text = "operator in graph order"
	p.Y.Label.Text = "noise-to-signal ratio"
	index := map[string]float64{}
	place := func(node string) float64 {
		if _, ok := index[node]; !ok {
			index[node] = float64(len(index) + 1)
		}
		return index[node]
	}
	var line, own plotter.XYs
	for _, g := range r.Graphwise {
		line = append(line, plotter.XY{X: place(g.Node), Y: g.NSR})
	}
	for _, l := range r.Layerwise {
		own = append(own, plotter.XY{X: place(l.Node), Y: l.NSR})
	}
	floor := logFloor(append(append(plotter.XYs(nil), line...), own...))
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = grey, color.Transparent
	p.Add(grid)
	const width = 12 * vg.Inch
	bar := max(min(0.55*width/vg.Length(len(index)+1), 22), 1)
	for i, b := range own {
		stem, err := plotter.NewLine(plotter.XYs{{X: b.X, Y: floor}, {X: b.X, Y: math.Max(b.Y, floor)}})
		if err != nil {
			return err
		}
		stem.Color, stem.Width = pale, bar
		p.Add(stem)
		if i == 0 {
			p.Legend.Add("this operator alone, at the graph output", swatch{pale})
		}
	}
	for i := range line {
		line[i].Y = math.Max(line[i].Y, floor)
	}
	if len(line) > 0 {
		curve, dots, err := plotter.NewLinePoints(line)
		if err != nil {
			return err
		}
		curve.Color, curve.Width = red, 1.5
		dots.Shape, dots.Color, dots.Radius = draw.CircleGlyph{}, red, 1.8
		p.Add(curve, dots)
		p.Legend.Add("accumulated in the quantized graph", curve, dots)
	}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Min = floor
	p.Y.Max *= 4 // room for the legend
	p.X.Min, p.X.Max = 0, float64(len(index)+1)
	p.X.Tick.Marker = everyFew(len(index))
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, 3
	return writePlot(w, p, width, 4.6*vg.Inch)
}

// swatch is a patch of colour in a legend.
type swatch struct{ color.Color }

// Thumbnail draws the patch, no higher than the text beside it.
func (s swatch) Thumbnail(c *draw.Canvas) {
	middle, half := (c.Min.Y+c.Max.Y)/2, min((c.Max.Y-c.Min.Y)/2, 4)
	c.FillPolygon(s.Color, []vg.Point{{X: c.Min.X, Y: middle - half}, {X: c.Max.X, Y: middle - half},
		{X: c.Max.X, Y: middle + half}, {X: c.Min.X, Y: middle + half}})
}

// everyFew marks at most about twenty of n things that are counted from one.
func everyFew(n int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i := 1; i <= n; i += (n + 19) / 20 {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(i)})
	}
	return ticks
}

// plainTicks are gonum's, labelled without trailing zeros.
type plainTicks struct{}

func (plainTicks) Ticks(lo, hi float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lo, hi)
	for i, t := range ticks {
		switch {
		case t.Label == "":
		case math.Abs(t.Value) < 1e-9*(hi-lo): // steps do not always add up to 0
			ticks[i].Label = "0"
		default:
			ticks[i].Label = strconv.FormatFloat(t.Value, 'g', 4, 64)
		}
	}
	return ticks
}

// logFloor is the lower end of a logarithmic axis: the next power of ten below the smallest positive value, at most twelve decades
// under the largest.
func logFloor(points plotter.XYs) float64 {
	lo, hi := math.Inf(1), 0.0
	for _, p := range points {
		if p.Y > 0 {
			lo, hi = math.Min(lo, p.Y), math.Max(hi, p.Y)
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
	title := "Operators by their error at the graph output"
	if len(layers) > most {
		title = fmt.Sprintf("The %d operators of %d with the largest error at the graph output", most, len(layers))
		layers = layers[:most]
	}
	p := newPlot(title)
	p.Title.Padding = 26 // room for the legend
	p.X.Label.Text = "noise-to-signal ratio with this operator alone quantized"
	clip, round := make(plotter.Values, len(layers)), make(plotter.Values, len(layers))
	values := plotter.XYLabels{XYs: make(plotter.XYs, len(layers)), Labels: make([]string, len(layers))}
	names := make([]string, len(layers))
	for i, l := range layers {
		at := len(layers) - 1 - i
		names[at] = reports.Shorten(l.Node, 40)
		clip[at] = l.NSR * clipShare(&l)
		round[at] = l.NSR - clip[at]
		values.XYs[at], values.Labels[at] = plotter.XY{X: l.NSR, Y: float64(at)}, reports.Number(l.NSR)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Transparent, grey
	p.Add(grid)
	var below *plotter.BarChart
	for _, part := range []struct {
		name   string
		color  color.Color
		values plotter.Values
	}{{"clipping", red, clip}, {"rounding", blue, round}} {
		bars, err := plotter.NewBarChart(part.values, 9)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, part.color, 0
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(part.name, swatch{part.color})
	}
	labels, err := plotter.NewLabels(values)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: 4}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Variant, labels.TextStyle[i].Font.Size, labels.TextStyle[i].YAlign = "Sans", 9, draw.YCenter
	}
	p.Add(labels)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, layers[0].NSR*1.1 // the worst has room for its number
	if !(p.X.Max > 0) {
		p.X.Max = 1
	}
	p.X.Tick.Marker = plainTicks{}
	p.Legend.Top, p.Legend.YOffs, p.Legend.Padding = true, 30, 2
	return writePlot(w, p, 11*vg.Inch, vg.Length(len(layers))*15+1.7*vg.Inch)
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
		p, err := histogramPlot(s)
		if err != nil {
			return err
		}
		p.Draw(tiles.At(area, i%columns, i/columns))
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func histogramPlot(s *analysis.TensorStatistics) (*plot.Plot, error) {
	p := newPlot(reports.Shorten(s.Tensor, 44))
	p.Title.TextStyle.Font.Size = 10
	step := (s.Max - s.Min) / float64(len(s.Histogram))
	outline := plotter.XYs{{X: s.Min, Y: 0}}
	top := 0.0
	for i, n := range s.Histogram {
		y := math.Log10(1 + float64(n))
		top = math.Max(top, y)
		outline = append(outline, plotter.XY{X: s.Min + float64(i)*step, Y: y}, plotter.XY{X: s.Min + float64(i+1)*step, Y: y})
	}
	area, err := plotter.NewPolygon(append(outline, plotter.XY{X: s.Max, Y: 0}))
	if err != nil {
		return nil, err
	}
	area.Color, area.LineStyle.Width = pale, 0
	p.Add(area)
	for i, t := range s.Thresholds {
		for k, v := range []float64{t.Lo, t.Hi} {
			limit, err := plotter.NewLine(plotter.XYs{{X: v, Y: 0}, {X: v, Y: top * 1.05}})
			if err != nil {
				return nil, err
			}
			limit.Color, limit.Width, limit.Dashes = methods[i%len(methods)], 1, []vg.Length{4, 3}
			if t.Used {
				limit.Width, limit.Dashes = 2, nil
			}
			if v != 0 { // where a one-sided range ends says nothing
				p.Add(limit)
			}
			if k == 0 {
				p.Legend.Add(t.Method, limit)
			}
		}
	}
	p.Y.Label.Text = "log10(1 + count)"
	p.Y.Label.TextStyle.Font.Size = 8
	p.Y.Max = top * 1.1
	lo, hi := reports.Span(s)
	p.X.Min, p.X.Max = lo, hi+(hi-lo)*0.28 // room for the legend
	p.X.Tick.Marker, p.Y.Tick.Marker = plainTicks{}, plainTicks{}
	p.Legend.Top, p.Legend.TextStyle.Font.Size, p.Legend.ThumbnailWidth = true, 8, 14
	return p, nil
}

// margin is kept free on every side: text is measured a little too small, and would be cut.
const margin vg.Length = 12

func writePlot(w io.Writer, p *plot.Plot, width, height vg.Length) error {
	canvas := vgimg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 2*margin, -margin, margin, -margin))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}
