package png

import (
	"image/color"
	"math"
	"sort"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"qwb/internal/plain"
)

// chart is a picture with two axes.
type chart struct {
	title     string
	titleSize vg.Length
	x, y      axis
	marks     []mark // in the order in which they are drawn
	legend    legend
}

// mark draws something at places that are given by values on the axes.
type mark func(c *draw.Canvas, at func(x, y float64) vg.Point)

// axis covers the values from min to max.
type axis struct {
	label    string
	min, max float64
	log      bool
	ticks    []tick
	size     vg.Length // of the label's letters
	grid     bool      // a line through the picture at every tick
	upright  bool      // labels of ticks are written upwards, which leaves room for names
}

type tick struct {
	value float64
	label string
}

// legend stands at the top of the picture's area, or above it.
type legend struct {
	entries       []entry
	size, sample  vg.Length // of letters, and how wide a sample is
	right, beyond bool
}

type entry struct {
	name string
	draw func(c *draw.Canvas) // a sample, as large as the canvas
}

const tickSize, tickLength vg.Length = 9, 4

var (
	black = color.Color(color.Black)
	face  = sync.OnceValue(func() *opentype.Font {
		face, err := opentype.Parse(goregular.TTF)
		if err != nil {
			panic(err) // it is part of the program
		}
		return face
	})
	fonts = sync.OnceValue(func() *font.Cache {
		return font.NewCache(font.Collection{{Font: font.Font{Typeface: "Go"}, Face: face()}})
	})
)

// oneLine writes any text in one line, as visible has it. Names come from models.
type oneLine struct{ text.Plain }

func (oneLine) Lines(s string) []string { return []string{visible(s)} }

func (h oneLine) Box(s string, f font.Font) (width, height, depth vg.Length) {
	return h.Plain.Box(visible(s), f)
}

func (h oneLine) Draw(c vg.Canvas, s string, style text.Style, at vg.Point) {
	h.Plain.Draw(c, visible(s), style, at)
}

// visible writes characters that act instead of being shown, and those that the font does not have, as escapes of Go.
func visible(s string) string {
	s = plain.Text(s)
	var buffer sfnt.Buffer
	missing := func(r rune) bool {
		glyph, err := face().GlyphIndex(&buffer, r)
		return r == '\t' || r == '\n' || err != nil || glyph == 0
	}
	if strings.IndexFunc(s, missing) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if missing(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// letters is a style of text that is placed by the given corner or middle of its box.
func letters(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{Color: black, Font: font.Font{Typeface: "Go", Size: size}, XAlign: x, YAlign: y,
		Handler: oneLine{text.Plain{Fonts: fonts()}}}
}

// place is where on an axis from 0 to 1 a value lies.
func (a *axis) place(v float64) float64 {
	if a.log {
		return math.Log(v/a.min) / math.Log(a.max/a.min)
	}
	return (v - a.min) / (a.max - a.min)
}

// draw draws the chart over all of c.
func (h *chart) draw(c draw.Canvas) {
	area := c.Rectangle
	heading := letters(h.titleSize, text.XCenter, text.YTop)
	for _, line := range broken(h.title, heading, c.Max.X-c.Min.X) {
		c.FillText(heading, vg.Point{X: c.Center().X, Y: area.Max.Y}, line)
		area.Max.Y -= h.titleSize * 1.25
	}
	area.Max.Y -= 8 - h.titleSize/4
	if h.legend.beyond {
		area.Max.Y -= h.legend.height() + 4
	}
	under, beside := letters(tickSize, text.XCenter, text.YTop), letters(tickSize, text.XRight, text.YCenter)
	if h.x.label != "" {
		style := letters(h.x.size, text.XCenter, text.YBottom)
		area.Min.Y += style.FontExtents().Height
		defer func() { c.FillText(style, vg.Point{X: (area.Min.X + area.Max.X) / 2, Y: c.Min.Y}, h.x.label) }()
	}
	deep := under.FontExtents().Height
	if h.x.upright {
		under = letters(tickSize, text.XRight, text.YCenter)
		under.Rotation = math.Pi / 2
		for _, t := range h.x.ticks {
			deep = max(deep, under.Width(t.label)*1.05)
		}
	}
	area.Min.Y += deep + tickLength + 2
	if h.y.label != "" {
		style := letters(h.y.size, text.XCenter, text.YTop)
		style.Rotation = math.Pi / 2
		area.Min.X += style.FontExtents().Height + 5
		defer func() { c.FillText(style, vg.Point{X: c.Min.X, Y: (area.Min.Y + area.Max.Y) / 2}, h.y.label) }()
	}
	widest := vg.Length(0)
	for _, t := range h.y.ticks {
		widest = max(widest, beside.Width(t.label))
	}
	area.Min.X += widest + tickLength + 3
	at := func(x, y float64) vg.Point {
		return vg.Point{X: area.Min.X + vg.Length(h.x.place(x))*(area.Max.X-area.Min.X),
			Y: area.Min.Y + vg.Length(h.y.place(y))*(area.Max.Y-area.Min.Y)}
	}
	axes, grid := draw.LineStyle{Color: black, Width: 0.5}, draw.LineStyle{Color: grey, Width: 0.5}
	for _, t := range h.x.ticks {
		p := at(t.value, h.y.min)
		if h.x.grid {
			c.StrokeLine2(grid, p.X, area.Min.Y, p.X, area.Max.Y)
		}
		c.StrokeLine2(axes, p.X, area.Min.Y, p.X, area.Min.Y-tickLength)
		c.FillText(under, vg.Point{X: p.X, Y: area.Min.Y - tickLength - 2}, t.label)
	}
	for _, t := range h.y.ticks {
		p := at(h.x.min, t.value)
		if h.y.grid {
			c.StrokeLine2(grid, area.Min.X, p.Y, area.Max.X, p.Y)
		}
		c.StrokeLine2(axes, area.Min.X, p.Y, area.Min.X-tickLength, p.Y)
		c.FillText(beside, vg.Point{X: area.Min.X - tickLength - 3, Y: p.Y}, t.label)
	}
	for _, m := range h.marks {
		m(&c, at)
	}
	c.StrokeLines(axes, []vg.Point{{X: area.Min.X, Y: area.Max.Y}, area.Min, {X: area.Max.X, Y: area.Min.Y}})
	corner := vg.Point{X: area.Min.X + 6, Y: area.Max.Y}
	if h.legend.right {
		corner.X = area.Max.X - h.legend.width()
	}
	if h.legend.beyond {
		corner.Y += h.legend.height() + 4
	}
	h.legend.draw(c, corner)
}

// broken splits a text into lines that are no wider than width.
func broken(s string, style text.Style, width vg.Length) []string {
	var lines []string
	r := []rune(visible(s))
	for len(r) > 0 {
		n := len(r)
		if style.Width(string(r)) > width {
			n = sort.Search(len(r), func(k int) bool { return style.Width(string(r[:k+1])) > width })
			n = max(n, 1)
			for k := n; k > n/2; k-- {
				if strings.ContainsRune(" /._-", r[k-1]) {
					n = k
					break
				}
			}
		}
		lines = append(lines, strings.TrimSpace(string(r[:n])))
		r = r[n:]
	}
	return lines
}

func (l *legend) height() vg.Length { return vg.Length(len(l.entries)) * l.size * 1.4 }

func (l *legend) width() vg.Length {
	widest := vg.Length(0)
	for _, e := range l.entries {
		widest = max(widest, letters(l.size, text.XLeft, text.YCenter).Width(e.name))
	}
	return l.sample + 4 + widest
}

// draw draws the legend to the right of and below corner.
func (l *legend) draw(c draw.Canvas, corner vg.Point) {
	for _, e := range l.entries {
		below := corner.Y - l.size*1.4
		e.draw(&draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: corner.X, Y: below},
			Max: vg.Point{X: corner.X + l.sample, Y: corner.Y}}})
		c.FillText(letters(l.size, text.XLeft, text.YCenter), vg.Point{X: corner.X + l.sample + 4, Y: (below + corner.Y) / 2}, e.name)
		corner.Y = below
	}
}

// curve is a line through points.
func curve(points [][2]float64, style draw.LineStyle) mark {
	return func(c *draw.Canvas, at func(x, y float64) vg.Point) { c.StrokeLines(style, places(points, at)) }
}

// dots marks every point.
func dots(points [][2]float64, ink color.Color, radius vg.Length) mark {
	return func(c *draw.Canvas, at func(x, y float64) vg.Point) {
		for _, p := range places(points, at) {
			c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: radius, Shape: draw.CircleGlyph{}}, p)
		}
	}
}

// whiskers are the error bars of points (x, y, error): upright, from y less the error to y and the error.
func whiskers(points [][3]float64, ink color.Color, floor float64) mark {
	return func(c *draw.Canvas, at func(x, y float64) vg.Point) {
		style := draw.LineStyle{Color: ink, Width: 1}
		for _, p := range points {
			lo, hi := at(p[0], math.Max(p[1]-p[2], floor)), at(p[0], math.Max(p[1]+p[2], floor))
			c.StrokeLine2(style, lo.X, lo.Y, hi.X, hi.Y)
			c.StrokeLine2(style, lo.X-2.5, lo.Y, lo.X+2.5, lo.Y)
			c.StrokeLine2(style, hi.X-2.5, hi.Y, hi.X+2.5, hi.Y)
		}
	}
}

// filled is the area that points enclose.
func filled(points [][2]float64, ink color.Color) mark {
	return func(c *draw.Canvas, at func(x, y float64) vg.Point) { c.FillPolygon(ink, places(points, at)) }
}

func places(points [][2]float64, at func(x, y float64) vg.Point) []vg.Point {
	list := make([]vg.Point, len(points))
	for i, p := range points {
		list[i] = at(p[0], p[1])
	}
	return list
}

// box is the rectangle with two opposite corners.
func box(a, b vg.Point) []vg.Point {
	return []vg.Point{a, {X: b.X, Y: a.Y}, b, {X: a.X, Y: b.Y}}
}

// patch is a sample of a colour.
func patch(ink color.Color) func(c *draw.Canvas) {
	return func(c *draw.Canvas) {
		middle, half := c.Center().Y, min((c.Max.Y-c.Min.Y)/2, 4)
		c.FillPolygon(ink, box(vg.Point{X: c.Min.X, Y: middle - half}, vg.Point{X: c.Max.X, Y: middle + half}))
	}
}

// stroke is a sample of a line.
func stroke(style draw.LineStyle) func(c *draw.Canvas) {
	return func(c *draw.Canvas) { c.StrokeLine2(style, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y) }
}

// evenly marks about five round values from lo to hi.
func evenly(lo, hi float64) []tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/5)))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (hi-lo)/step > 7 {
			step *= factor
		}
	}
	var ticks []tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ticks = append(ticks, tick{i * step, strconv.FormatFloat(i*step+0, 'g', 4, 64)}) // + 0: no minus before zero
	}
	return ticks
}

// decades marks powers of ten from lo to hi, at most eight of them.
func decades(lo, hi float64) []tick {
	first, last := math.Ceil(math.Log10(lo)-1e-9), math.Floor(math.Log10(hi)+1e-9)
	var ticks []tick
	for e := first; e <= min(last, 308); e += math.Ceil((last - first + 1) / 8) {
		v := math.Pow(10, e)
		ticks = append(ticks, tick{v, strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return ticks
}

// everyFew marks at most about twenty of n things that are counted from one.
func everyFew(n int) []tick {
	var ticks []tick
	for i := 1; i <= n; i += (n + 19) / 20 {
		ticks = append(ticks, tick{float64(i), strconv.Itoa(i)})
	}
	return ticks
}
