package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"qwb/analysis"
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

func render(t *testing.T, r *analysis.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, HTML(&b, r))
	return b.String()
}

func TestHTMLNeedsNothingFromOutside(t *testing.T) {
	page := render(t, report(3))
	require.Empty(t, regexp.MustCompile(`(?:src|href)\s*=\s*["'][^#]`).FindAllString(page, -1))
	require.NotContains(t, page, "http")
}

func TestHTMLEscapesNames(t *testing.T) {
	page := render(t, report(3))
	require.NotContains(t, page, "<conv>")
	require.NotContains(t, page, "<b>&c")
	require.Contains(t, page, "a&lt;b&gt;&amp;c")
}

func TestHTMLHoldsTheReportAsJSON(t *testing.T) {
	want := report(3)
	m := regexp.MustCompile(`(?s)<script type="application/json" id="report">(.*?)</script>`).FindStringSubmatch(render(t, want))
	require.Len(t, m, 2)
	var got analysis.Report
	require.NoError(t, json.Unmarshal([]byte(m[1]), &got))
	require.Equal(t, want, &got)
}

func TestHTMLCellsCarryExactNumbers(t *testing.T) {
	r := report(1)
	r.Layerwise[0].NSR = 0.1234567890123456
	require.Contains(t, render(t, r), `data-v="0.1234567890123456"`)
}

func TestHTMLOfAnEmptyReport(t *testing.T) {
	page := render(t, &analysis.Report{Model: "m"})
	require.NotContains(t, page, "<svg")
	require.Contains(t, page, "</html>")
}

func TestPNGsDecodeAtAnySize(t *testing.T) {
	for _, n := range []int{1, 13, 100} {
		images := PNG(report(n))
		require.Len(t, images, 2+(n+perPage-1)/perPage)
		for _, im := range images[:min(3, len(images))] {
			var b bytes.Buffer
			require.NoError(t, im.Write(&b), im.Name)
			cfg, err := png.DecodeConfig(&b)
			require.NoError(t, err, im.Name)
			require.Greater(t, cfg.Width, 400)
			require.NotContains(t, im.Name, "/")
		}
	}
	require.Empty(t, PNG(&analysis.Report{}))
}

func TestPNGOfErrorsThatAreZero(t *testing.T) {
	r := report(2)
	for i := range r.Layerwise {
		r.Layerwise[i].NSR, r.Graphwise[i].NSR = 0, 0
	}
	for _, im := range PNG(r) {
		require.NoError(t, im.Write(&bytes.Buffer{}), im.Name)
	}
}

func TestTextPutsTheWorstLayerFirst(t *testing.T) {
	r := report(3)
	r.Layerwise[2].NSR = 7
	var b strings.Builder
	require.NoError(t, Text(&b, r))
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "Layerwise") {
			require.Contains(t, lines[i+2], "block/002")
			return
		}
	}
	t.Fatal("no layer table")
}

func TestSearchTextNamesTheOperators(t *testing.T) {
	units := []analysis.Unit{{Name: "conv1", MACs: 10, Error: 0.5}}
	res := &analysis.SearchResult{FP32: []int{0}, Ranking: []int{0}, Points: []analysis.Point{{FP32: []string{}, Metric: 1, Pareto: true},
		{FP32: []string{"conv1"}, MACs: 10, Borders: 2, Metric: 0.1, Met: true, Pareto: true}}}
	res.Before, res.After = res.Points[0], res.Points[1]
	var b strings.Builder
	require.NoError(t, SearchText(&b, units, res))
	require.Contains(t, b.String(), "conv1")
	require.Contains(t, b.String(), "met")
}

// A method that knows more samples than the analysis saw may choose a range beyond them: its line must be in the picture.
func TestThresholdsBeyondTheValuesAreDrawn(t *testing.T) {
	s := report(1).Statistical[0]
	s.Thresholds = append(s.Thresholds, analysis.Threshold{Method: "mse", Lo: 0, Hi: 7})
	lo, hi := span(&s)
	require.Equal(t, []float64{-1, 7}, []float64{lo, hi})
	require.Equal(t, 5, strings.Count(string(histogram(&s)), `class="limit`), "both ends of three ranges but for the one at 0")
	p, err := histogramPlot(&s)
	require.NoError(t, err)
	require.Equal(t, -1.0, p.X.Min)
	require.Greater(t, p.X.Max, 7.0)
}

func TestAPowerOfTenIsAboveTheBottomOfItsAxis(t *testing.T) {
	a := newLogAxis(0, 100, 1e-3, 1e-3)
	require.Less(t, a.y(1e-3), 100.0)
	require.Equal(t, 100.0, a.y(0))
	require.InDelta(t, 1e-4, logFloor(plotter.XYs{{Y: 1e-3}, {Y: 0}}), 1e-15)
}

func TestManyChannelsAreOnePath(t *testing.T) {
	l := analysis.LayerError{Node: "n", WeightRange: make([][2]float32, mostBars)}
	require.Equal(t, mostBars, strings.Count(string(channelRanges(&l)), "<rect"))
	l.WeightRange = make([][2]float32, 4096)
	svg := string(channelRanges(&l))
	require.NotContains(t, svg, "<rect")
	require.Less(t, len(svg), 50*4096)
}

func TestTicksAreWrittenShort(t *testing.T) {
	for _, r := range [][2]float64{{0, 27}, {-750, 1250}, {-1, 3}, {0, 1e-7}} {
		for _, tick := range (plainTicks{}).Ticks(r[0], r[1]) {
			require.NotContains(t, tick.Label, ".00")
			require.LessOrEqual(t, len(tick.Label), 9)
		}
	}
	ticks := everyFew(100)
	require.Len(t, ticks, 20)
	require.Equal(t, "1", ticks[0].Label)
}
