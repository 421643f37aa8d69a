package png

import (
	"bytes"
	"fmt"
	"image/color"
	imagepng "image/png"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/text"

	"qwb/analysis"
	"qwb/reports"
)

// report builds a report of n layers with names that need escaping.
func report(n int) *analysis.Report {
	r := &analysis.Report{Model: "a<b>&c", Plan: "m.plan.json", Platform: "trt_int8", Samples: 4, Forwards: 3.5, Seconds: 1,
		Outputs:  []analysis.OutputError{{Output: "prob", Error: analysis.Error{NSR: 0.012, MSE: 1e-5, Cosine: 0.998}}},
		Warnings: []analysis.Warning{{Node: "conv<1>", Text: `bias "overflows"`}}}
	for i := range n {
		name := fmt.Sprintf("block/%03d/<conv>", i)
		e := analysis.Error{NSR: math.Exp(-float64(i % 9)), MSE: 1e-6, Cosine: 1 - 1e-4*float64(i%7)}
		r.Layerwise = append(r.Layerwise, analysis.LayerError{Node: name, Op: "Conv", Error: e, Local: 0.3, Clip: 0.1, Round: 0.2, MACs: 1e6,
			WeightRange: [][2]float32{{-1, 2}, {-0.1, 0.1}, {0, 0}}})
		r.Graphwise = append(r.Graphwise, analysis.GraphwisePoint{Node: name, Op: "Conv", Tensor: name + "_out", Error: e})
		s := analysis.TensorStatistics{Tensor: name + "_out", Kind: "activation", Min: -1, Max: 3, Channels: 8, Dead: []int{2}}
		for b := range 64 {
			s.Histogram = append(s.Histogram, int64(b*b))
		}
		s.Thresholds = []analysis.Threshold{{Method: "minmax", Lo: -1, Hi: 3}, {Method: "kl", Lo: -0.5, Hi: 2, Used: true}}
		r.Statistical = append(r.Statistical, s)
	}
	return r
}

// view is a report with a network, a chain with a skip over every third operator, and with what a search found.
func view(n int) *reports.View {
	v := &reports.View{Report: report(n), Search: &reports.Search{Command: "qwb dispatch --auto", Metric: "NSR", Cost: "MACs in FP32"}}
	t := &analysis.Topology{Nodes: []analysis.TopologyNode{{Name: "input:x", Op: "Input", Block: -1, Fused: -1}}, Blocks: []analysis.Block{}}
	for i, l := range v.Report.Layerwise {
		if i%10 == 0 {
			t.Blocks = append(t.Blocks, analysis.Block{Name: fmt.Sprint("block ", i), Kind: "repeat", Parent: -1, Repeat: 5})
		}
		for k, op := range []string{"Conv", "Relu"} {
			at := len(t.Nodes)
			t.Nodes = append(t.Nodes, analysis.TopologyNode{Name: l.Node + []string{"", "_act"}[k], Op: op, Domain: "INT8", Block: len(t.Blocks) - 1,
				Fused: []int{-1, at - 1}[k]})
			t.Edges = append(t.Edges, analysis.TopologyEdge{From: at - 1, To: at, Shape: []any{1, 64, 112, "W"}, Mark: []string{"q", ""}[k]})
			if i%3 == 0 && i > 3 {
				t.Edges = append(t.Edges, analysis.TopologyEdge{From: at - 6, To: at, Mark: "qdq"})
			}
		}
		e := 0.01
		v.Search.Points = append(v.Search.Points, reports.SearchPoint{Label: l.Node, Metric: l.NSR, Error: &e, Cost: float64(1e6 * i),
			Pareto: i%2 == 0, Tied: i < 3, Chosen: i == 1})
	}
	v.Picture = reports.NewPicture(t)
	return v
}

// TestAPictureOfALargeNetworkHasItsBlocks: a box for each block, coloured by the worst in it.
func TestAPictureOfALargeNetworkHasItsBlocks(t *testing.T) {
	n := newNetwork(view(mostBoxes + 10))
	require.Len(t, n.boxes, 1+(mostBoxes+10)/10)
	require.Equal(t, "repeat ×5", n.boxes[1].lines[0])
	require.Equal(t, 1.0, n.boxes[1].nsr)
	require.Len(t, newNetwork(view(50)).boxes, 51, "an operator and what is fused to it are one box")
	require.Nil(t, newNetwork(&reports.View{Report: report(1)}))
}

func TestTheFrontFallsWithCost(t *testing.T) {
	points := []reports.SearchPoint{{Cost: 3, Metric: 2, Pareto: true}, {Cost: 1, Metric: 4}, {Cost: 2, Metric: 1}, {Cost: 2, Metric: 0.5},
		{Cost: 5, Metric: 0.1}}
	line, is := frontOf(points)
	require.Equal(t, [][2]float64{{1, 4}, {2, 0.5}, {5, 0.1}}, line)
	require.False(t, is[&points[0]], "another is better and costs less, whatever else it is good at")
}

func TestAVeryLargePictureHasFewerPixels(t *testing.T) {
	require.Equal(t, 96, resolution(1000, 1000))
	dpi := float64(resolution(30_000, 20_000))
	require.InDelta(t, 64e6, 30_000*20_000*dpi*dpi/72/72, 3e6)
}

func TestLettersOnHeatCanBeRead(t *testing.T) {
	n := &network{lo: 1e-6, hi: 1}
	before := 2.0
	for i := range 101 {
		ground, ink := n.fill(&netBox{nsr: math.Pow(10, -6+6*float64(i)/100)})
		a, b := luminance(ground), luminance(ink)
		require.Greater(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, "%d %v", i, ground)
		require.Less(t, a, before, "darker all the way")
		before = a
	}
}

func TestRooflineIsDrawnWhereItWasMeasured(t *testing.T) {
	r := &analysis.Inspection{Model: "m", Nodes: []analysis.NodeInfo{{MACs: 1e6, Intensity: 10, Seconds: 1e-4, Bound: "memory"},
		{MACs: 1e9, Intensity: 300, Seconds: 1e-2, Bound: "compute"}}}
	require.Nil(t, Roofline(r))
	r.Roofline = &analysis.Roofline{Threads: 1, FloatGOPS: 200, FloatPeak: "fma", IntegerGOPS: 800,
		Read: []analysis.ReadSpeed{{Bytes: 1 << 15, GBps: 200}, {Bytes: 1 << 28, GBps: 12}}}
	var b bytes.Buffer
	require.NoError(t, Roofline(r).Write(&b))
	requireWhiteBorder(t, "roofline", &b)
}

func TestPNGsDecodeAtAnySize(t *testing.T) {
	for _, n := range []int{1, 13, 100} {
		images := Plots(view(n))
		require.Len(t, images, 4+(n+perPage-1)/perPage)
		for _, im := range images[:min(5, len(images))] {
			var b bytes.Buffer
			require.NoError(t, im.Write(&b), im.Name)
			cfg, err := imagepng.DecodeConfig(&b)
			require.NoError(t, err, im.Name)
			require.Greater(t, cfg.Width, 400)
			require.NotContains(t, im.Name, "/")
		}
	}
	require.Empty(t, Plots(&reports.View{Report: &analysis.Report{}}))
}

// TestNothingIsCutOffInPlots: text and bars end before the border of the picture. Long names were cut at the left, the title at the top,
// and the longest bar ran off at the right.
func TestNothingIsCutOffInPlots(t *testing.T) {
	long := func(i int) string {
		return fmt.Sprintf("a_name_of_many_letters/WWWWWWWWWWWWWWWWWWWWWWWWWW_%d/and <more> of them/%0*d", i, 20+i, i)
	}
	v := view(40)
	for i := range v.Report.Layerwise {
		v.Report.Layerwise[i].Node = long(i)
		v.Report.Graphwise[i].Node = long(i)
		v.Report.Statistical[i].Tensor = long(i)
		v.Picture.Nodes[1+2*i].Name = long(i)
	}
	for _, im := range Plots(v) {
		var b bytes.Buffer
		require.NoError(t, im.Write(&b), im.Name)
		requireWhiteBorder(t, im.Name, &b)
	}
}

func requireWhiteBorder(t *testing.T, name string, file *bytes.Buffer) {
	t.Helper()
	picture, err := imagepng.Decode(file)
	require.NoError(t, err)
	box := picture.Bounds()
	for x := box.Min.X; x < box.Max.X; x++ {
		for y := box.Min.Y; y < box.Max.Y; y++ {
			if min(x, y, box.Max.X-1-x, box.Max.Y-1-y) < 3 {
				red, green, blue, _ := picture.At(x, y).RGBA()
				require.Equal(t, []uint32{0xffff, 0xffff, 0xffff}, []uint32{red, green, blue}, "%s at %d,%d", name, x, y)
			}
		}
	}
}

// TestBarsShowClippingAndRounding: both colours are in the picture, in the ratio of the two.
func TestBarsShowClippingAndRounding(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, layerPlot(&b, []analysis.LayerError{{Node: "n", Error: analysis.Error{NSR: 0.5}, Local: 0.4, Clip: 0.3, Round: 0.1}}))
	picture, err := imagepng.Decode(&b)
	require.NoError(t, err)
	counts := map[color.RGBA]int{}
	for x := range picture.Bounds().Max.X {
		for y := range picture.Bounds().Max.Y {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	require.InDelta(t, 3, float64(counts[orange])/float64(counts[blue]), 0.3)
	require.Equal(t, 1.0, clipShare(&analysis.LayerError{Clip: 0.2, Round: -0.1}), "a negative part counts as none")
	require.Zero(t, clipShare(&analysis.LayerError{}))
}

func TestPNGOfErrorsThatAreZero(t *testing.T) {
	r := report(2)
	for i := range r.Layerwise {
		r.Layerwise[i].NSR, r.Graphwise[i].NSR = 0, 0
	}
	for _, im := range Plots(&reports.View{Report: r}) {
		require.NoError(t, im.Write(&bytes.Buffer{}), im.Name)
	}
}

func TestTicksAreWrittenShort(t *testing.T) {
	for _, r := range [][2]float64{{0, 27}, {-750, 1250}, {-1, 3}, {0, 1e-7}, {-0.3, 0.3}} {
		ticks := evenly(r[0], r[1])
		require.GreaterOrEqual(t, len(ticks), 4)
		require.LessOrEqual(t, len(ticks), 8)
		for _, tick := range ticks {
			require.NotContains(t, tick.label, ".00")
			require.NotEqual(t, "-0", tick.label)
			require.LessOrEqual(t, len(tick.label), 9)
		}
	}
	ticks := everyFew(100)
	require.Len(t, ticks, 20)
	require.Equal(t, "1", ticks[0].label)
	require.Equal(t, []tick{{1e-3, "0.001"}, {1e-2, "0.01"}, {0.1, "0.1"}}, decades(1e-3, 0.2))
}

func TestNamesThatActAreWrittenOut(t *testing.T) {
	for in, want := range map[string]string{"conv/été_ß": "conv/été_ß", "a\nb\tc": `a\nb\tc`, "\x1b[31m": `\x1b[31m`,
		"x\u202egnp": `x\u202egnp`, "卷积": `\u5377\u79ef`, "\xff": `\xff`} {
		require.Equal(t, want, visible(in))
		require.Equal(t, want, visible(want))
	}
	style := letters(9, text.XLeft, text.YTop)
	lines := broken(strings.Repeat("a\n", 50), style, 100)
	require.Equal(t, strings.Repeat(`a\n`, 50), strings.Join(lines, ""))
	for _, line := range lines {
		require.LessOrEqual(t, float64(style.Width(line)), 100.0)
	}
}

func TestAPowerOfTenIsAboveTheFloor(t *testing.T) {
	require.InDelta(t, 1e-4, logFloor([][2]float64{{0, 1e-3}, {0, 0}}), 1e-15)
}

func TestThresholdsBeyondTheValuesAreDrawn(t *testing.T) {
	s := report(1).Statistical[0]
	s.Thresholds = append(s.Thresholds, analysis.Threshold{Method: "mse", Lo: 0, Hi: 7})
	h := histogramPlot(&s)
	require.Equal(t, -1.0, h.x.min)
	require.Greater(t, h.x.max, 7.0)
}
