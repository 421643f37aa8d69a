package reports

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"qwb/analysis"
)

// canvas builds one inline SVG. Text and titles are escaped.
type canvas struct {
	b strings.Builder
}

func newCanvas(w, h int, class, label string) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, `<svg class="%s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, class, w, h, html.EscapeString(label))
	return c
}

func (c *canvas) rect(x, y, w, h float64, class, title string) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"%s`, class, x, y, math.Max(w, 0), math.Max(h, 0), closing("rect", title))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class, title string) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"%s`, class, x1, y1, x2, y2, closing("line", title))
}

func (c *canvas) circle(x, y, r float64, class, title string) {
	fmt.Fprintf(&c.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"%s`, class, x, y, r, closing("circle", title))
}

func (c *canvas) path(class string, points [][2]float64) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(&c.b, `<path class="%s" d="`, class)
	for i, p := range points {
		op := 'L'
		if i == 0 {
			op = 'M'
		}
		fmt.Fprintf(&c.b, "%c%.1f %.1f", op, p[0], p[1])
	}
	c.b.WriteString(`"/>`)
}

func (c *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

func closing(tag, title string) string {
	if title == "" {
		return "/>"
	}
	return "><title>" + html.EscapeString(title) + "</title></" + tag + ">"
}

func (c *canvas) svg() markup { return markup(c.b.String() + "</svg>") }

// logAxis maps positive values to heights on a logarithmic scale that covers all of them.
type logAxis struct {
	lo, hi      float64 // powers of ten
	top, bottom float64
}

func newLogAxis(top, bottom float64, values ...float64) logAxis {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = math.Min(lo, math.Log10(v)), math.Max(hi, math.Log10(v))
		}
	}
	if lo > hi {
		lo, hi = -1, 0
	}
	lo, hi = math.Ceil(lo)-1, math.Ceil(hi) // lo strictly below: what is not zero shall be seen
	return logAxis{math.Max(lo, hi-12), hi, top, bottom}
}

// y returns the height of v; zero and everything below the axis lie on its bottom.
func (a logAxis) y(v float64) float64 {
	l := a.lo
	if v > 0 {
		l = math.Min(math.Max(math.Log10(v), a.lo), a.hi)
	}
	return a.bottom - (l-a.lo)/(a.hi-a.lo)*(a.bottom-a.top)
}

func (a logAxis) grid(c *canvas, x0, x1 float64) {
	step := math.Ceil((a.hi - a.lo) / 6)
	for e := a.lo; e <= a.hi; e += step {
		y := a.y(math.Pow(10, e))
		c.line(x0, y, x1, y, "grid", "")
		c.text(x0-6, y+4, "tick end", fmt.Sprintf("1e%.0f", e))
	}
}

// errorCurve draws, in graph order, the accumulated error as a line and each operator's own error at the graph output as bars.
func errorCurve(r *analysis.Report) markup {
	if len(r.Graphwise)+len(r.Layerwise) == 0 {
		return ""
	}
	const w, h, left, right, top, bottom = 1080.0, 300.0, 58.0, 1070.0, 16.0, 262.0
	c := newCanvas(w, h, "chart", "error in graph order")
	index := map[string]int{}
	var names []string
	add := func(n string) {
		if _, ok := index[n]; !ok {
			index[n] = len(names)
			names = append(names, n)
		}
	}
	var values []float64
	for _, p := range r.Graphwise {
		add(p.Node)
		values = append(values, p.NSR)
	}
	for _, l := range r.Layerwise {
		add(l.Node)
		values = append(values, l.NSR)
	}
	axis := newLogAxis(top, bottom, values...)
	axis.grid(c, left, right)
	step := (right - left) / float64(len(names))
	x := func(n string) float64 { return left + (float64(index[n])+0.5)*step }
	bar := math.Min(math.Max(step*0.6, 1.5), 26)
	for _, l := range r.Layerwise {
		y := axis.y(l.NSR)
		c.rect(x(l.Node)-bar/2, y, bar, bottom-y, "bar", fmt.Sprintf("%s (%s): NSR %s alone", l.Node, l.Op, Number(l.NSR)))
	}
	var line [][2]float64
	for _, p := range r.Graphwise {
		line = append(line, [2]float64{x(p.Node), axis.y(p.NSR)})
	}
	c.path("curve", line)
	for i, p := range r.Graphwise {
		c.circle(line[i][0], line[i][1], math.Min(math.Max(step/5, 2), 4), "dot", fmt.Sprintf("%s (%s): NSR %s accumulated", p.Node, p.Op, Number(p.NSR)))
	}
	c.line(left, bottom, right, bottom, "axis", "")
	every := (len(names) + 19) / 20
	for i := 0; i < len(names); i += every {
		c.text(left+(float64(i)+0.5)*step, bottom+18, "tick mid", fmt.Sprint(i+1))
	}
	c.text((left+right)/2, h-4, "tick mid", "operator in graph order")
	return c.svg()
}

// histogram draws the distribution of a tensor on a logarithmic scale with the range every calibration method would choose.
func histogram(s *analysis.TensorStatistics) markup {
	if len(s.Histogram) == 0 || !(s.Max > s.Min) {
		return ""
	}
	const w, h, left, right, top, bottom = 380.0, 150.0, 6.0, 374.0, 18.0, 126.0
	c := newCanvas(w, h, "histogram", "histogram of "+s.Tensor)
	largest := int64(1)
	for _, n := range s.Histogram {
		largest = max(largest, n)
	}
	lo, hi := Span(s)
	x := func(v float64) float64 { return left + (v-lo)/(hi-lo)*(right-left) }
	step := (x(s.Max) - x(s.Min)) / float64(len(s.Histogram))
	points := [][2]float64{{x(s.Min), bottom}}
	for i, n := range s.Histogram {
		y := bottom - math.Log1p(float64(n))/math.Log1p(float64(largest))*(bottom-top)
		points = append(points, [2]float64{x(s.Min) + float64(i)*step, y}, [2]float64{x(s.Min) + float64(i+1)*step, y})
	}
	c.path("area", append(points, [2]float64{x(s.Max), bottom}))
	for i, t := range s.Thresholds {
		class := fmt.Sprintf("limit m%d", i%6)
		if t.Used {
			class += " used"
		}
		title := fmt.Sprintf("%s: [%s, %s]", t.Method, Number(t.Lo), Number(t.Hi))
		for _, v := range []float64{t.Lo, t.Hi} {
			if v != 0 { // where a one-sided range ends says nothing
				c.line(x(v), top-6, x(v), bottom, class, title)
			}
		}
	}
	c.line(left, bottom, right, bottom, "axis", "")
	c.text(left, bottom+16, "tick", Number(lo))
	c.text(right, bottom+16, "tick end", Number(hi))
	if lo < 0 && hi > 0 {
		c.text(x(0), bottom+16, "tick mid", "0")
	}
	return c.svg()
}

// Span is what a picture of a tensor has to show: its values, and the ranges of the methods, which may know more samples.
func Span(s *analysis.TensorStatistics) (lo, hi float64) {
	lo, hi = s.Min, s.Max
	for _, t := range s.Thresholds {
		lo, hi = math.Min(lo, t.Lo), math.Max(hi, t.Hi)
	}
	return lo, hi
}

// mostBars is up to how many channels each has a bar of its own, with its range when pointed at.
const mostBars = 128

// channelRanges draws the smallest and largest weight of every output channel.
func channelRanges(l *analysis.LayerError) markup {
	if len(l.WeightRange) == 0 {
		return ""
	}
	const w, h, left, right, top, bottom = 380.0, 150.0, 6.0, 374.0, 8.0, 128.0
	limit := float32(0)
	for _, r := range l.WeightRange {
		limit = max(limit, -r[0], r[1])
	}
	if limit == 0 {
		limit = 1
	}
	c := newCanvas(w, h, "ranges", "weight range per channel of "+l.Node)
	y := func(v float32) float64 { return (top+bottom)/2 - float64(v/limit)*(bottom-top)/2 }
	step := (right - left) / float64(len(l.WeightRange))
	if len(l.WeightRange) <= mostBars {
		for i, r := range l.WeightRange {
			c.rect(left+float64(i)*step+step*0.1, y(r[1]), step*0.8, math.Max(y(r[0])-y(r[1]), 0.5), "range",
				fmt.Sprintf("channel %d: [%s, %s]", i, Number(float64(r[0])), Number(float64(r[1]))))
		}
	} else {
		var upper, lower [][2]float64
		for i, r := range l.WeightRange {
			x0, x1 := left+float64(i)*step, left+float64(i+1)*step
			upper = append(upper, [2]float64{x0, y(r[1])}, [2]float64{x1, y(r[1])})
			lower = append(lower, [2]float64{x0, y(r[0])}, [2]float64{x1, y(r[0])})
		}
		slices.Reverse(lower)
		c.path("range", append(upper, lower...))
	}
	c.line(left, y(0), right, y(0), "axis", "")
	c.text(left, h-4, "tick", fmt.Sprintf("%d channels, weights within ±%s", len(l.WeightRange), Number(float64(limit))))
	return c.svg()
}
