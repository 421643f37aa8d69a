package png

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"qwb/analysis"
	"qwb/reports"
	"qwb/reports/layout"
)

// network is a picture of all operators, coloured by their error. It goes down and, where a column is full, on at the top of the next.
type network struct {
	title   string
	boxes   []netBox
	edges   []netEdge
	drawing *layout.Drawing
	lo, hi  float64 // range of errors
}

// netBox is an operator with those that are computed together with it.
type netBox struct {
	lines []string
	nsr   float64 // NaN: not known
	float bool
}

type netEdge struct {
	from, to int
	mark     string
	shape    string
}

// What is drawn: above mostBoxes blocks are closed, and more than mostDrawn are no picture anybody looks at.
const (
	mostBoxes = 600
	mostDrawn = 2000

	boxLetters vg.Length = 8
	lineHeight           = 11
	boxRoom              = 12
	columnGap  vg.Length = 40
	landscape            = 1.5 // how much wider than high the picture is to be
)

// newNetwork lays the picture out; nil where the view has no network.
func newNetwork(v *reports.View) *network {
	p := v.Picture
	if p == nil || len(p.Levels) == 0 {
		return nil
	}
	n := &network{title: fmt.Sprintf("%s on %s: error of each operator alone quantized, at the graph output", v.Report.Model,
		v.Report.Platform), lo: math.Inf(1)}
	at := n.operators(p, v.Report)
	if len(n.boxes) > mostBoxes {
		n.close(p, at)
	}
	if len(n.boxes) > mostDrawn {
		return nil
	}
	for i := range n.boxes {
		if x := n.boxes[i].nsr; x > 0 {
			n.lo, n.hi = min(n.lo, x), max(n.hi, x)
		}
	}
	n.lo = max(n.lo, n.hi*1e-6)
	style := letters(boxLetters, text.XCenter, text.YCenter)
	sizes := make([]layout.Size, len(n.boxes))
	for i, b := range n.boxes {
		widest := vg.Length(0)
		for _, line := range b.lines {
			widest = max(widest, style.Width(line))
		}
		sizes[i] = layout.Size{W: (int(widest*1.05) + boxRoom) &^ 1, H: len(b.lines)*lineHeight + 6}
	}
	edges := make([][2]int, len(n.edges))
	for i, e := range n.edges {
		edges[i] = [2]int{e.from, e.to}
	}
	n.drawing = layout.Draw(sizes, edges, layout.Without)
	return n
}

// operators makes a box of every operator with what is fused to it, and an edge of every tensor between two of them.
// It returns the box of each node.
func (n *network) operators(p *reports.Picture, r *analysis.Report) []int {
	errors := map[string]*analysis.LayerError{}
	for i := range r.Layerwise {
		errors[r.Layerwise[i].Node] = &r.Layerwise[i]
	}
	at := make([]int, len(p.Nodes))
	for i, node := range p.Nodes {
		if node.Fused >= 0 {
			continue
		}
		at[i] = len(n.boxes)
		b := netBox{nsr: math.NaN(), float: node.Domain != "INT8" && node.Domain != ""}
		name := reports.Shorten(node.Name, longestName)
		switch l := errors[node.Name]; {
		case node.Op == "Input" || node.Op == "Output":
			_, name, _ = strings.Cut(name, ":")
			b.lines = []string{node.Op, name}
		case l != nil:
			x := l.Judged()
			b.nsr = x.NSR
			b.lines = []string{node.Op, name, "NSR " + reports.WithError(x.NSR, x.NSRError)}
		default:
			b.lines = []string{node.Op, name}
		}
		n.boxes = append(n.boxes, b)
	}
	for i, node := range p.Nodes {
		if node.Fused >= 0 {
			at[i] = at[node.Fused]
			n.boxes[at[i]].lines[0] += " + " + node.Op
		}
	}
	known := map[[2]int]int{}
	for _, e := range p.Edges {
		k := [2]int{at[e.From], at[e.To]}
		if k[0] == k[1] {
			continue
		}
		if _, ok := known[k]; !ok {
			known[k] = len(n.edges)
			dims := make([]string, len(e.Shape))
			for i, d := range e.Shape {
				dims[i] = fmt.Sprint(d)
			}
			n.edges = append(n.edges, netEdge{k[0], k[1], e.Mark, strings.Join(dims, "×")})
		}
	}
	return at
}

// close draws the outermost blocks instead of what is in them, with the largest of the errors. at has the boxes of nodes.
func (n *network) close(p *reports.Picture, at []int) {
	item := make([]int, len(n.boxes))
	for i := range item {
		item[i] = -1
	}
	outer := make([]int, len(p.Blocks)) // the outermost block around a block
	for b := range p.Blocks {
		if outer[b] = b; p.Blocks[b].Parent >= 0 {
			outer[b] = outer[p.Blocks[b].Parent]
		}
	}
	var boxes []netBox
	block := map[int]int{}
	for i, node := range p.Nodes {
		old := at[i]
		if item[old] >= 0 {
			continue
		}
		if node.Block < 0 {
			item[old] = len(boxes)
			boxes = append(boxes, n.boxes[old])
			continue
		}
		b := outer[node.Block]
		k, ok := block[b]
		if !ok {
			k = len(boxes)
			block[b] = k
			kind := p.Blocks[b].Kind
			if p.Blocks[b].Repeat > 1 {
				kind += fmt.Sprintf(" ×%d", p.Blocks[b].Repeat)
			}
			boxes = append(boxes, netBox{lines: []string{kind, reports.Shorten(p.Blocks[b].Name, longestName)}, nsr: math.NaN(), float: true})
		}
		item[old] = k
		o := &boxes[k]
		o.float = o.float && n.boxes[old].float
		if x := n.boxes[old].nsr; x > o.nsr || math.IsNaN(o.nsr) {
			o.nsr = x
		}
	}
	for _, k := range block {
		if o := &boxes[k]; !math.IsNaN(o.nsr) {
			o.lines = append(o.lines, "NSR up to "+reports.Number(o.nsr))
		}
	}
	known := map[[2]int]bool{}
	var edges []netEdge
	for _, e := range n.edges {
		e.from, e.to = item[e.from], item[e.to]
		if k := [2]int{e.from, e.to}; e.from != e.to && !known[k] {
			known[k] = true
			edges = append(edges, e)
		}
	}
	n.boxes, n.edges = boxes, edges
}

// column is the part of the drawing from one layer to another, with the width that it takes.
type column struct {
	first, last int // layers
	top, bottom int
	left, right int
	x           vg.Length // where it stands in the picture
}

// columns cuts the drawing where few edges pass, so that the picture is about as wide as a page.
func (n *network) columns() []column {
	d := n.drawing
	layers := 0
	for _, p := range d.Places {
		layers = max(layers, p.Layer+1)
	}
	top, bottom := make([]int, layers), make([]int, layers)
	left, right := make([]int, layers), make([]int, layers)
	for l := range layers {
		top[l], left[l] = math.MaxInt, math.MaxInt
	}
	for _, p := range d.Places {
		l := p.Layer
		top[l], bottom[l] = min(top[l], p.Y), max(bottom[l], p.Y+p.H)
		left[l], right[l] = min(left[l], p.X), max(right[l], p.X+p.W)
	}
	passing := make([]int, layers) // edges from a layer or above to one below it
	for i, e := range n.edges {
		from, to := d.Places[e.from].Layer, d.Places[e.to].Layer
		for l := from; l < to; l++ {
			passing[l]++
		}
		for _, b := range d.Bends[i] {
			left[b.Layer], right[b.Layer] = min(left[b.Layer], b.X), max(right[b.Layer], b.X)
		}
	}
	count := max(1, int(math.Round(math.Sqrt(landscape*float64(d.H)/float64(max(d.W, 1))))))
	var list []column
	for first := 0; first < layers; {
		c := column{first: first, last: layers - 1}
		if rest := count - len(list); rest > 1 {
			want := float64(top[first]) + float64(bottom[layers-1]-top[first])/float64(rest)
			slack := (want - float64(top[first])) / 5
			best := math.Inf(1)
			for l := first; l < layers-1; l++ {
				off := math.Abs(float64(bottom[l]) - want)
				if cost := float64(passing[l]) + off/max(slack, 1); off <= max(slack, float64(bottom[l]-top[l])) && cost < best {
					best, c.last = cost, l
				}
			}
		}
		c.top, c.bottom, c.left, c.right = top[c.first], bottom[c.last], math.MaxInt, 0
		for l := c.first; l <= c.last; l++ {
			c.left, c.right = min(c.left, left[l]), max(c.right, right[l])
		}
		list = append(list, c)
		first = c.last + 1
	}
	return list
}

// viridis, from yellow to dark blue, gets darker in even steps, which everybody sees alike. The page has the same colours (colours.js).
var viridis = []color.RGBA{{0xfd, 0xe7, 0x25, 0xff}, {0xb5, 0xde, 0x2b, 0xff}, {0x6e, 0xce, 0x58, 0xff}, {0x35, 0xb7, 0x79, 0xff},
	{0x1f, 0x9e, 0x89, 0xff},
	{0x26, 0x82, 0x8e, 0xff}, {0x31, 0x68, 0x8e, 0xff}, {0x3e, 0x49, 0x89, 0xff}, {0x48, 0x28, 0x78, 0xff}, {0x44, 0x01, 0x54, 0xff}}

// heatAt is the colour of t from 0 to 1; what is small is paler, so that it is quiet.
func heatAt(t float64) color.RGBA {
	t = min(max(t, 0), 1)
	at := t * float64(len(viridis)-1)
	i := min(int(at), len(viridis)-2)
	mix := func(a, b uint8, part float64) uint8 {
		return uint8(math.Round(float64(a) + (float64(b)-float64(a))*part))
	}
	a, b, part, pale := viridis[i], viridis[i+1], at-float64(i), 0.8*math.Pow(1-t, 1.5)
	return color.RGBA{mix(mix(a.R, b.R, part), 0xff, pale), mix(mix(a.G, b.G, part), 0xff, pale), mix(mix(a.B, b.B, part), 0xff, pale), 0xff}
}

// fill is the colour of a box and of the letters on it.
func (n *network) fill(b *netBox) (color.RGBA, color.Color) {
	if math.IsNaN(b.nsr) || n.hi == 0 {
		return color.RGBA{0xf0, 0xf1, 0xf3, 0xff}, black
	}
	t := 1.0
	if n.hi > n.lo {
		t = math.Log(max(b.nsr, n.lo)/n.lo) / math.Log(n.hi/n.lo)
	}
	if c := heatAt(t); luminance(c) < 0.179 { // where white and black letters are read equally well
		return c, color.White
	} else {
		return c, black
	}
}

// luminance of a colour from 0 to 1, as WCAG has it.
func luminance(c color.Color) float64 {
	sum := 0.0
	r, g, b, _ := c.RGBA()
	for i, v := range []uint32{r, g, b} {
		x := float64(v) / 0xffff
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		sum += x * []float64{0.2126, 0.7152, 0.0722}[i]
	}
	return sum
}

// resolution is that of all plots, or less where a picture would have more than 64 million pixels, which take 256 MB.
func resolution(width, height vg.Length) int {
	pixels := float64(width*height) * vgimg.DefaultDPI * vgimg.DefaultDPI / 72 / 72
	return max(1, int(vgimg.DefaultDPI*math.Sqrt(min(1, 64e6/pixels))))
}

func (n *network) write(w io.Writer) error {
	columns := n.columns()
	width, height := vg.Length(0), vg.Length(0)
	for i := range columns {
		columns[i].x = width
		width += vg.Length(columns[i].right-columns[i].left) + columnGap
		height = max(height, vg.Length(columns[i].bottom-columns[i].top))
	}
	width = max(width-columnGap, 420) + 2*margin
	const stub = 26 // room above and below a column for edges that go on
	heading := letters(13, text.XCenter, text.YTop)
	title := broken(n.title, heading, width-2*margin)
	above := vg.Length(len(title))*16 + 34 + 10*vg.Length(len(broken(keyText, letters(8, text.XLeft, text.YCenter), width-2*margin)))
	height += above + 2*stub + 2*margin
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution(width, height)))
	c := draw.New(canvas)
	for i, line := range title {
		c.FillText(heading, vg.Point{X: width / 2, Y: c.Max.Y - margin - vg.Length(i)*16}, line)
	}
	n.key(c, vg.Point{X: margin, Y: c.Max.Y - margin - vg.Length(len(title))*16 - 6})
	ground := c.Max.Y - margin - above - stub
	of := func(layer int) *column {
		i, _ := slices.BinarySearchFunc(columns, layer, func(c column, l int) int { return c.last - l })
		return &columns[i]
	}
	place := func(k *column, x, y int) vg.Point {
		return vg.Point{X: margin + k.x + vg.Length(x-k.left), Y: ground - vg.Length(y-k.top)}
	}
	n.lines(c, of, place)
	for i, p := range n.drawing.Places {
		k, b := of(p.Layer), &n.boxes[i]
		outline := box(place(k, p.X, p.Y), place(k, p.X+p.W, p.Y+p.H))
		ink, on := n.fill(b)
		c.FillPolygon(ink, outline)
		edge := draw.LineStyle{Color: black, Width: 0.8}
		if b.float {
			edge.Dashes = dashes[0]
		}
		c.StrokeLines(edge, append(outline, outline[0]))
		style := letters(boxLetters, text.XCenter, text.YCenter)
		style.Color = on
		for j, line := range b.lines {
			c.FillText(style, place(k, p.X+p.W/2, p.Y+3+lineHeight*j+lineHeight/2), line)
		}
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// lines draws the edges. One that goes on in the next column ends at a number there and begins at the same number here.
func (n *network) lines(c draw.Canvas, of func(layer int) *column, place func(k *column, x, y int) vg.Point) {
	small := letters(6.5, text.XCenter, text.YCenter)
	label := func(p vg.Point, s string, ink color.Color) {
		w := small.Width(s) + 4
		c.FillPolygon(color.White, box(vg.Point{X: p.X - w/2, Y: p.Y - 4.5}, vg.Point{X: p.X + w/2, Y: p.Y + 4.5}))
		style := small
		style.Color = ink
		c.FillText(style, p, s)
	}
	numbers := map[[2]int]int{} // by node and column where its edges leave it: they are one there
	for i, e := range n.edges {
		from, to := n.drawing.Places[e.from], n.drawing.Places[e.to]
		style := draw.LineStyle{Color: dark, Width: 0.8}
		if e.mark == analysis.MarkQuantize || e.mark == analysis.MarkDequantize {
			style = draw.LineStyle{Color: red, Width: 1.4}
		}
		k := of(from.Layer)
		at := place(k, from.X+from.W/2, from.Y+from.H)
		start := at
		line := []vg.Point{at}
		x := from.X + from.W/2
		step := func(layer, nx int, p func(k *column) vg.Point) {
			next := of(layer)
			if next != k {
				key := [2]int{e.from, k.first}
				if _, ok := numbers[key]; !ok {
					numbers[key] = len(numbers) + 1
				}
				number := fmt.Sprint(numbers[key])
				end := vg.Point{X: place(k, x, 0).X, Y: place(k, 0, k.bottom).Y - 12}
				c.StrokeLines(style, append(line, end))
				label(vg.Point{X: end.X, Y: end.Y - 6}, number, black)
				k = next
				begin := vg.Point{X: place(k, nx, 0).X, Y: place(k, 0, k.top).Y + 12}
				label(vg.Point{X: begin.X, Y: begin.Y + 6}, number, black)
				line = []vg.Point{begin}
			}
			line, x = append(line, p(k)), nx
		}
		for _, b := range n.drawing.Bends[i] {
			step(b.Layer, b.X, func(k *column) vg.Point { return place(k, b.X, b.Y) })
		}
		step(to.Layer, to.X+to.W/2, func(k *column) vg.Point { return place(k, to.X+to.W/2, to.Y) })
		c.StrokeLines(style, line)
		end := line[len(line)-1]
		c.FillPolygon(style.Color, []vg.Point{end, {X: end.X - 3, Y: end.Y + 6}, {X: end.X + 3, Y: end.Y + 6}})
		switch e.mark {
		case analysis.MarkQuantize:
			label(vg.Point{X: end.X + 9, Y: end.Y + 6}, "Q", red)
		case analysis.MarkDequantize:
			label(vg.Point{X: start.X + 11, Y: start.Y - 6}, "DQ", red)
		}
		if len(line) == 2 && len(n.edges) < 2*mostBoxes && line[0].Y-end.Y > 30 { // the straight way from one to the other
			label(vg.Point{X: (line[0].X + end.X) / 2, Y: (line[0].Y + end.Y) / 2}, e.shape, dark)
		}
	}
}

const keyText = "dashed box: in float; grey: no error of its own; orange line: changes between float and integers (Q to integers, DQ " +
	"to float); numbers: goes on in the next column"

// key explains the colours and lines.
func (n *network) key(c draw.Canvas, at vg.Point) {
	style := letters(8, text.XLeft, text.YCenter)
	y := at.Y - 12
	x := at.X
	if n.hi > 0 {
		c.FillText(style, vg.Point{X: x, Y: y}, "NSR "+reports.Number(n.lo))
		x += style.Width("NSR "+reports.Number(n.lo))*1.05 + 6
		for i := range 100 {
			c.FillPolygon(heatAt(float64(i)/99), box(vg.Point{X: x + vg.Length(i), Y: y - 5}, vg.Point{X: x + vg.Length(i) + 1.2, Y: y + 5}))
		}
		c.FillText(style, vg.Point{X: x + 106, Y: y}, reports.Number(n.hi)+" (logarithmic; worse is darker)")
		y -= 15
		x = at.X
	}
	for i, part := range broken(keyText, style, c.Max.X-margin-x) {
		c.FillText(style, vg.Point{X: x, Y: y - vg.Length(i)*10}, part)
	}
}
