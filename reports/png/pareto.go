package png

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
	"qwb/reports"
)

// paretoPlot draws what a search found: the error of each choice by what it costs, those that nothing beats joined by a line.
func paretoPlot(w io.Writer, s *reports.Search) error {
	lo, hi, most := 0.0, 0.0, 0.0
	for _, p := range s.Points {
		e := 0.0
		if p.Error != nil {
			e = *p.Error
		}
		lo, hi, most = min(lo, p.Metric-e), max(hi, p.Metric+e), max(most, p.Cost)
	}
	if s.Budget != nil {
		hi = max(hi, *s.Budget)
	}
	if hi == lo {
		hi = lo + 1
	}
	if most == 0 {
		most = 1
	}
	lo, hi = lo-0.05*(hi-lo), hi+0.12*(hi-lo)
	unit := ""
	if s.Percent {
		unit = ", percentage points"
	}
	h := chart{title: "Choices by error and cost: " + s.Command, titleSize: 13,
		x:      axis{label: s.Cost, size: 10, min: -0.04 * most, max: most * 1.04, ticks: decimals(0, most)},
		y:      axis{label: s.Metric + unit, size: 10, min: lo, max: hi, ticks: evenly(lo, hi), grid: true},
		legend: legend{size: 10, sample: 20, beyond: true}}
	name := func(label string, sample func(*draw.Canvas)) {
		h.legend.entries = append(h.legend.entries, entry{label, sample})
	}
	if tied := slices.IndexFunc(s.Points, func(p reports.SearchPoint) bool { return p.Tied }); tied >= 0 {
		band := [2]float64{math.Inf(1), math.Inf(-1)}
		for _, p := range s.Points {
			if p.Tied {
				band = [2]float64{min(band[0], p.Metric), max(band[1], p.Metric)}
			}
		}
		pad := 0.02 * (hi - lo)
		h.marks = append(h.marks, func(c *draw.Canvas, at func(x, y float64) vg.Point) {
			c.FillPolygon(grey, box(at(h.x.min, band[0]-pad), at(h.x.max, band[1]+pad)))
		})
		name("cannot be told apart from the best", patch(grey))
	}
	if s.Budget != nil {
		style := draw.LineStyle{Color: dark, Width: 1, Dashes: []vg.Length{5, 3}}
		h.marks = append(h.marks, curve([][2]float64{{h.x.min, *s.Budget}, {h.x.max, *s.Budget}}, style))
		name("budget", stroke(style))
	}
	front, first := frontOf(s.Points)
	var errors [][3]float64
	kinds := []struct {
		name   string
		ink    color.RGBA
		radius vg.Length
		is     func(p *reports.SearchPoint) bool
		at     [][2]float64
	}{
		{name: "other choices", ink: pale, radius: 4, is: func(p *reports.SearchPoint) bool { return true }},
		{name: "no other has a smaller error at this cost or less", ink: blue, radius: 4, is: func(p *reports.SearchPoint) bool {
			return first[p]
		}},
		{name: "chosen", ink: red, radius: 5.5, is: func(p *reports.SearchPoint) bool { return p.Chosen }},
	}
	for i := range s.Points {
		p := &s.Points[i]
		at := [2]float64{p.Cost, p.Metric}
		if p.Error != nil {
			errors = append(errors, [3]float64{p.Cost, p.Metric, *p.Error})
		}
		for k := len(kinds) - 1; k >= 0; k-- {
			if kinds[k].is(p) {
				kinds[k].at = append(kinds[k].at, at)
				break
			}
		}
	}
	h.marks = append(h.marks, curve(front, draw.LineStyle{Color: blue, Width: 1}), whiskers(errors, dark, math.Inf(-1)))
	for _, k := range kinds {
		if len(k.at) > 0 {
			h.marks = append(h.marks, dots(k.at, k.ink, k.radius))
			name(k.name, func(c *draw.Canvas) {
				c.DrawGlyph(draw.GlyphStyle{Color: k.ink, Radius: k.radius, Shape: draw.CircleGlyph{}}, c.Center())
			})
		}
	}
	if len(errors) > 0 {
		name("bars: standard error", func(*draw.Canvas) {})
	}
	return h.write(w, 9*vg.Inch, 5.6*vg.Inch)
}

// frontOf finds the choices that none with the same cost or less beats in error, by ascending cost. Those that a search marks may be better
// in something that is not drawn.
func frontOf(list []reports.SearchPoint) (line [][2]float64, is map[*reports.SearchPoint]bool) {
	sorted := make([]*reports.SearchPoint, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	arrange.Stable(sorted, func(a, b *reports.SearchPoint) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Metric, b.Metric))
	})
	is = map[*reports.SearchPoint]bool{}
	best := math.Inf(1)
	for _, p := range sorted {
		if p.Metric < best {
			best, is[p] = p.Metric, true
			line = append(line, [2]float64{p.Cost, p.Metric})
		}
	}
	return line, is
}

// decimals are ticks whose labels have a prefix for thousands, millions and so on.
func decimals(lo, hi float64) []tick {
	ticks := evenly(lo, hi)
	for i := range ticks {
		for _, u := range []struct {
			f    float64
			name string
		}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
			if ticks[i].value >= u.f {
				ticks[i].label = fmt.Sprintf("%.4g %s", ticks[i].value/u.f, u.name)
				break
			}
		}
	}
	return ticks
}

// Roofline draws what a machine can do at most and where the nodes of a model stand below it, by their operations per byte. nil where
// nothing was measured.
func Roofline(r *analysis.Inspection) *Image {
	roof := r.Roofline
	if roof == nil || len(roof.Read) == 0 || roof.FloatGOPS <= 0 {
		return nil
	}
	return &Image{"roofline.png", func(w io.Writer) error { return rooflinePlot(w, r) }}
}

func rooflinePlot(w io.Writer, r *analysis.Inspection) error {
	roof := r.Roofline
	slow := roof.Read[len(roof.Read)-1].GBps
	peak := max(roof.FloatGOPS, roof.IntegerGOPS)
	type bound struct {
		name  string
		nodes [][2]float64
		ink   color.RGBA
		shape draw.GlyphDrawer
	}
	bounds := []bound{{name: "memory", ink: orange, shape: draw.BoxGlyph{}}, {name: "compute", ink: blue, shape: draw.CircleGlyph{}}}
	lo, hi := peak/slow, peak/slow
	for _, n := range r.Nodes {
		if n.Seconds <= 0 || n.MACs <= 0 || n.Intensity <= 0 {
			continue
		}
		lo, hi = min(lo, n.Intensity), max(hi, n.Intensity)
		for i := range bounds {
			if bounds[i].name == n.Bound {
				bounds[i].nodes = append(bounds[i].nodes, [2]float64{n.Intensity, 2 * float64(n.MACs) / n.Seconds / 1e9})
			}
		}
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(lo)-1e-9)), math.Pow(10, math.Ceil(math.Log10(hi)+1e-9))
	floor, top := math.Pow(10, math.Floor(math.Log10(min(lo*slow, peak)))), 3*peak
	h := chart{title: fmt.Sprintf("%s: roofline of this machine on %s", r.Model, plain.Count(roof.Threads, "thread")), titleSize: 13,
		x: axis{label: "operations per byte that is read or written", size: 10, min: lo, max: hi, log: true,
			ticks: decades(lo, hi), grid: true},
		y: axis{label: "GOPS (10⁹ operations per second) at most", size: 10, min: floor, max: top, log: true,
			ticks: decades(floor, top), grid: true},
		legend: legend{size: 10, sample: 20, beyond: true}}
	line := func(points [][2]float64, style draw.LineStyle, name string) {
		for i := range points {
			points[i][1] = max(points[i][1], floor)
		}
		h.marks = append(h.marks, curve(points, style))
		h.legend.entries = append(h.legend.entries, entry{name, stroke(style)})
	}
	line([][2]float64{{lo, roof.FloatGOPS}, {hi, roof.FloatGOPS}}, draw.LineStyle{Color: blue, Width: 1.5},
		fmt.Sprintf("float32: %s GOPS (%s)", reports.Number(roof.FloatGOPS), roof.FloatPeak))
	if roof.IntegerGOPS > 0 {
		line([][2]float64{{lo, roof.IntegerGOPS}, {hi, roof.IntegerGOPS}}, draw.LineStyle{Color: green, Width: 1.5, Dashes: dashes[0]},
			fmt.Sprintf("int8: %s GOPS (%s)", reports.Number(roof.IntegerGOPS), roof.IntegerPeak))
	}
	for i, s := range roof.Read {
		size := fmt.Sprintf("up to %s", bytesText(s.Bytes))
		if i == len(roof.Read)-1 {
			size = "beyond"
		}
		from := max(lo, floor/s.GBps)
		to := min(hi, top/s.GBps)
		if from < to {
			line([][2]float64{{from, from * s.GBps}, {to, to * s.GBps}}, draw.LineStyle{Color: dark, Width: 0.8, Dashes: dashes[(i+1)%len(dashes)]},
				fmt.Sprintf("reading %s: %s GB/s", size, reports.Number(s.GBps)))
		}
	}
	for _, b := range bounds {
		if len(b.nodes) == 0 {
			continue
		}
		style := draw.GlyphStyle{Color: b.ink, Radius: 3.5, Shape: b.shape}
		h.marks = append(h.marks, func(c *draw.Canvas, at func(x, y float64) vg.Point) {
			for _, p := range places(b.nodes, at) {
				c.DrawGlyph(style, p)
			}
		})
		h.legend.entries = append(h.legend.entries, entry{fmt.Sprintf("operator in float32, bound by %s (%d)", b.name, len(b.nodes)),
			func(c *draw.Canvas) { c.DrawGlyph(style, c.Center()) }})
	}
	h.marks = append(h.marks, slowest(r, floor, hi))
	return h.write(w, 9*vg.Inch, 6.8*vg.Inch)
}

// slowest names the operators that take longest at least, below each other where nothing is: in the lower right corner.
func slowest(r *analysis.Inspection, floor, right float64) mark {
	const most = 5
	nodes := slices.DeleteFunc(slices.Clone(r.Nodes), func(n analysis.NodeInfo) bool {
		return n.Seconds <= 0 || n.MACs <= 0 || n.Intensity <= 0
	})
	arrange.Stable(nodes, func(a, b analysis.NodeInfo) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return func(c *draw.Canvas, at func(x, y float64) vg.Point) {
		style, number := letters(9, text.XRight, text.YBottom), letters(7, text.XCenter, text.YBottom)
		corner := at(right, floor)
		list := nodes[:min(most, len(nodes))]
		var taken []vg.Length
		for i, n := range list {
			p := at(n.Intensity, max(2*float64(n.MACs)/n.Seconds/1e9, floor))
			above := vg.Length(0)
			for _, x := range taken {
				if p.X-x < 8 && x-p.X < 8 {
					above += 8
				}
			}
			taken = append(taken, p.X)
			c.FillText(number, vg.Point{X: p.X, Y: p.Y + 5 + above}, fmt.Sprint(i+1))
			c.FillText(style, vg.Point{X: corner.X - 6, Y: corner.Y + 6 + vg.Length(len(list)-1-i)*13},
				fmt.Sprintf("%d  %s: at least %s", i+1, reports.Shorten(n.Name, 48), reports.Seconds(n.Seconds)))
		}
		c.FillText(style, vg.Point{X: corner.X - 6, Y: corner.Y + 8 + vg.Length(len(list))*13}, "slowest operators")
	}
}

func bytesText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.3g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
