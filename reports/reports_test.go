package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/language"
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

// view is what the page shows of a report.
func view(r *analysis.Report) *View {
	return &View{Version: "1.0", Title: r.Model, Model: r.Model, Plan: r.Plan, Platform: r.Platform, Report: r,
		Verdict: &Verdict{Work: []Work{}}, Nodes: []NodeFigures{}}
}

func render(t *testing.T, r *analysis.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, view(r).HTML(&b))
	return b.String()
}

func TestHTMLNeedsNothingFromOutside(t *testing.T) {
	page := render(t, report(3))
	require.Empty(t, regexp.MustCompile(`(?:src|href)\s*=\s*["'][^#]`).FindAllString(page, -1))
	require.NotContains(t, page, "http:/")
	require.NotContains(t, page, "https:/")
}

func TestHTMLEscapesNames(t *testing.T) {
	page := render(t, report(3))
	require.NotContains(t, page, "<conv>")
	require.NotContains(t, page, "<b>&c")
	require.Contains(t, page, "<title>a&lt;b&gt;&amp;c: ")
	require.Contains(t, page, `a\u003cb\u003e\u0026c`)
}

// inside is the value in an element of a page.
func inside(t *testing.T, page, id string, into any) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="` + id + `">(.*?)</script>`).FindStringSubmatch(page)
	require.Len(t, m, 2)
	require.NoError(t, json.Unmarshal([]byte(m[1]), into))
}

// TestHTMLHoldsTheReportAsJSON: what scripts read is what analyze --json prints, and the rest of the view stands beside it.
func TestHTMLHoldsTheReportAsJSON(t *testing.T) {
	want := report(3)
	want.Layerwise[0].NSR = 0.1234567890123456
	want.Settings = settings()
	page := render(t, want)
	var got analysis.Report
	inside(t, page, "report", &got)
	require.Equal(t, want, &got)
	var rest View
	inside(t, page, "view", &rest)
	require.Nil(t, rest.Report, "it stands in the file once")
	require.Equal(t, want.Model, rest.Model)
}

// TestHTMLIsDeterministic: the same view gives the same bytes.
func TestHTMLIsDeterministic(t *testing.T) {
	require.Equal(t, render(t, report(3)), render(t, report(3)))
}

// TestEveryPageIsOneFile: verifications and language models have pages of the same kind.
func TestEveryPageIsOneFile(t *testing.T) {
	var b bytes.Buffer
	want := analysis.Verification{Profile: "trt", Verdict: "equal", PerTensor: []analysis.TensorCheck{{Node: "</script><b>", Op: "Conv"}}}
	require.NoError(t, VerificationHTML(&b, "a<b>", &want))
	require.False(t, strings.Contains(b.String(), "</script><b>"))
	var got analysis.Verification
	inside(t, b.String(), "verification", &got)
	require.Equal(t, want, got)
	b.Reset()
	require.NoError(t, LanguageLayersHTML(&b, &language.Layers{Model: "m", Layerwise: []language.MatrixDamage{{}}}))
	require.Contains(t, b.String(), `id="report"`)
}

func TestTextPutsTheWorstLayerFirst(t *testing.T) {
	r := report(3)
	r.Layerwise[2].NSR = 7
	var b strings.Builder
	require.NoError(t, Text(&b, r, true))
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
	off := 0.05
	ranking := []analysis.LayerError{{Node: "conv1", MACs: 10, Error: analysis.Error{NSR: 0.5}, Ranks: [2]int{1, 2}},
		{Node: "conv2", MACs: 20, Error: analysis.Error{NSR: 0.6}, Ranks: [2]int{1, 1}}}
	points := []analysis.Point{{FP32: []string{}, Metric: 1, Pareto: true}, {FP32: []string{"conv1"}, MACs: 10, Borders: 2, Metric: 0.1,
		Error: &off, Met: true, Pareto: true}}
	var b strings.Builder
	require.NoError(t, SearchText(&b, "NSR", ranking, points))
	require.Regexp(t, `(?s)\n +1  conv2 +0.60 .*\n +1-2  conv1 +0.50 .*\n +1 operator +10 +2 +0.100 ± 0.050  met`, b.String())
	b.Reset()
	require.NoError(t, SearchText(&b, "NSR", nil, nil))
	require.Empty(t, b.String())
}

// settings are those of one operator on integers, with a scale per channel, and one in float.
func settings() []analysis.NodeSetting {
	return []analysis.NodeSetting{
		{Node: "block/000/<conv>", Op: "Conv", Domain: "INT8", Why: "target: weighted", Slots: []analysis.SlotSetting{
			{At: "in0", Tensor: "x", State: "ACTIVATED", Scheme: "uint8 asymmetric per-tensor", Scales: 1, Scale: [2]float32{0.25, 0.25},
				ZeroPoint: [2]int32{7, 7}, Method: "mse"},
			{At: "in1", Tensor: "w", State: "ACTIVATED", Scheme: "int8 symmetric per-channel", Scales: 3, Scale: [2]float32{0.5, 2}},
			{At: "out0", Tensor: "y", State: "PASSIVE", Scheme: "uint8 asymmetric per-tensor", Root: "next:in0", Scales: 1,
				Scale: [2]float32{1, 1}}}},
		{Node: "softmax", Op: "Softmax", Domain: "FP32", Why: "user: type:Softmax"},
	}
}

// TestSplitIsInTheText: the parts of --split were measured and shown nowhere but in HTML.
func TestSplitIsInTheText(t *testing.T) {
	r := report(3)
	var b strings.Builder
	require.NoError(t, Text(&b, r, true))
	require.NotRegexp(t, `weight +activation`, b.String())
	for i := range r.Layerwise {
		weight, activation := 0.27, 0.03
		r.Layerwise[i].Weight, r.Layerwise[i].Activation = &weight, &activation
	}
	b.Reset()
	require.NoError(t, Text(&b, r, true))
	require.Regexp(t, `(?m)^ +node .*round +weight +activation +MACs$`, b.String())
	require.Regexp(t, `(?m)^ +block/000.* 0\.27 +0\.030 +1M$`, b.String())
	require.Contains(t, b.String(), "of weights more than activations")
}

// TestTheSummaryComesFirst: what matters stands in the first lines, and tables end after a few rows unless all are asked for.
func TestTheSummaryComesFirst(t *testing.T) {
	r := report(60)
	r.Layerwise[41].NSR, r.Layerwise[41].Clip = 50, 0.25
	var brief, full strings.Builder
	require.NoError(t, Text(&brief, r, false))
	require.NoError(t, Text(&full, r, true))
	first := strings.Split(brief.String(), "\n")
	require.Equal(t, "a<b>&c for trt_int8, 4 samples", first[0])
	require.Contains(t, first[1], "NSR 0.012")
	require.Regexp(t, `^  block/041/<conv> \(Conv\) alone: NSR 50, \d+ % of the sum over all operators, mostly clipping$`, first[2])
	require.Less(t, len(first), 60)
	require.Contains(t, brief.String(), "... and 50 more")
	require.Greater(t, strings.Count(full.String(), "\n"), 180)
	require.NotContains(t, full.String(), "more: --all")
}

// A method that knows more samples than the analysis saw may choose a range beyond them: its line must be in the picture.
func TestThresholdsBeyondTheValuesAreDrawn(t *testing.T) {
	s := report(1).Statistical[0]
	s.Thresholds = append(s.Thresholds, analysis.Threshold{Method: "mse", Lo: 0, Hi: 7})
	lo, hi := Span(&s)
	require.Equal(t, []float64{-1, 7}, []float64{lo, hi})
}

// TestDiffBeginsWithTheSummary, and shows the largest differences of each kind. It listed everything in graph order, the summary last.
func TestDiffBeginsWithTheSummary(t *testing.T) {
	r := &analysis.DiffResult{Nodes: 60, Slots: 240, Scales: 50, Domains: 1}
	for i := range 50 {
		r.Differences = append(r.Differences, analysis.Difference{Node: fmt.Sprintf("n%d", i), Op: "Conv", At: "in0", What: analysis.DiffScale,
			A: "1", B: "2", Count: 1, Of: 1,
			Largest: float64(i)})
	}
	r.Differences = append(r.Differences, analysis.Difference{Node: "soft", Op: "Softmax", What: analysis.DiffDomain, A: "INT8", B: "FP32"})
	var brief, full strings.Builder
	require.NoError(t, DiffText(&brief, r, false))
	require.NoError(t, DiffText(&full, r, true))
	lines := strings.Split(brief.String(), "\n")
	require.Contains(t, lines[0], "1 domain, 0 states, 0 schemes, 50 scales")
	require.Equal(t, "Operators in another domain", lines[3])
	require.Equal(t, []string{"node", "op", "a", "b"}, strings.Fields(lines[4]), "columns without content are left out")
	require.Contains(t, brief.String(), "n49 ")
	require.NotContains(t, brief.String(), "n39 ")
	require.Contains(t, brief.String(), "... and 40 more: --all")
	require.Contains(t, full.String(), "n0 ")
	require.NotContains(t, full.String(), "--all")
}

// TestADropWithinItsErrorSaysSo: "drop 1.67 +- 1.66 points" was read as a loss.
func TestADropWithinItsErrorSaysSo(t *testing.T) {
	text := func(drop, err float64) string {
		var b strings.Builder
		require.NoError(t, AccuracyText(&b, &analysis.Accuracy{Mode: "sim", N: 120, Counts: &analysis.Counts{Top1: 95},
			Change: &analysis.Change{FloatTop1: 97, Drop: drop, DropError: err}, Flipped: &analysis.Flipped{Flips: 4}}))
		return b.String()
	}
	require.Contains(t, text(1.67, 1.66), "top-1 drop from fp32: 1.67 ± 1.66 pp (not significant); 4 of 120 predictions changed")
	require.NotContains(t, text(5, 1), "significant")
	require.NotContains(t, text(0, 0), "significant")
}

func TestStepsByTheReferenceAreNamed(t *testing.T) {
	p := &analysis.Placed{Steps: 40}
	for i := range 10 {
		p.OnHost = append(p.OnHost, analysis.HostStep{Node: fmt.Sprintf("conv%d", i), Op: "Conv", Reason: "int16 activations"})
	}
	var b strings.Builder
	require.NoError(t, AccuracyText(&b, &analysis.Accuracy{Mode: "int8", N: 10, Counts: &analysis.Counts{Top1: 9}, Placed: p}))
	require.Contains(t, b.String(), "10 of 40 steps by the reference: conv0 (int16 activations), conv1 (int16 activations), ")
	require.Contains(t, b.String(), "conv7 (int16 activations), and 2 more\n")
	b.Reset()
	p.OnHost = p.OnHost[:1]
	require.NoError(t, VerificationText(&b, &analysis.Verification{Placed: p}))
	require.Contains(t, b.String(), "1 of 40 steps by the reference: conv0 (int16 activations)\n")
}

// TestOneNSRIsCompared: of class scores summary, table and order have the centred NSR; the plain one stands beside it under its name.
func TestOneNSRIsCompared(t *testing.T) {
	e, f := 0.0054, 0.031
	centred := func(x float64) *analysis.NSR { return &analysis.NSR{NSR: x, Spread: analysis.Spread{NSRError: &e}} }
	r := &analysis.Report{Outputs: []analysis.OutputError{{Output: "y", Error: analysis.Error{NSR: 0.1115},
		Spread: analysis.Spread{NSRError: &f}, Centred: centred(0.0606)}},
		Layerwise: []analysis.LayerError{{Node: "a", Error: analysis.Error{NSR: 0.09}, Ranks: [2]int{1, 2}, Centred: centred(0.01),
			CentredRanks: &[2]int{2, 2}},
			{Node: "b", Error: analysis.Error{NSR: 0.02}, Ranks: [2]int{1, 2}, Centred: centred(0.0276), CentredRanks: &[2]int{1, 1}}}}
	var b bytes.Buffer
	require.NoError(t, Text(&b, r, false))
	require.Contains(t, b.String(), "whole network quantized: NSR 0.0606 ± 0.0054 (noise-to-signal ratio of the class scores")
	require.Regexp(t, `(?s)NSR +plain NSR.*\n +y +0.0606 ± 0.0054 +0.112 ± 0.031 .*\n +1 +b +0.0276 ± 0.0054 .*\n +2 +a +0.0100 ± 0.0054`,
		b.String())
}
