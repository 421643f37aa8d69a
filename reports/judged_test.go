package reports

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

func textOf(t *testing.T, r *analysis.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Text(&b, r, false))
	return b.String()
}

// Where the rows say nothing of the whole, the summary says so, and which operators work together.
func TestTogetherIsInTheSummary(t *testing.T) {
	r := &analysis.Report{Layerwise: []analysis.LayerError{{Node: "a", Op: "Mul", Error: analysis.Error{NSR: 0.01}},
		{Node: "b", Op: "Mul", Error: analysis.Error{NSR: 0.03}}}}
	require.Contains(t, textOf(t, r), "b (Mul) alone: NSR 0.030, 75 % of the sum over all operators, ")
	for want, x := range map[string]analysis.Together{
		"the rows sum to NSR 0.04, the whole is 0.9: a and b work together, NSR 0.5 with nothing else quantized; " +
			"each alone they sum to 0.04 (2 samples)": {Sum: 0.04, Whole: 0.9,
			Nodes: []string{"a", "b"}, NSR: 0.5, Alone: 0.04, Samples: 2},
		"the rows sum to NSR 0.04, the whole is 0.9: b makes most of it on the first samples (NSR 0.6 on 2 samples)": {Sum: 0.04, Whole: 0.9,
			Nodes: []string{"b"}, NSR: 0.6, Samples: 2},
		"the rows sum to NSR 0.04, the whole is 0.9: operators work together, more than a few of them": {Sum: 0.04, Whole: 0.9},
		"the rows sum to NSR 0.04, the whole is 0.01: errors make up for each other":                   {Sum: 0.04, Whole: 0.01},
	} {
		r.Together = &x
		text := textOf(t, r)
		require.Contains(t, text, want)
		require.NotContains(t, text, "of the sum over all operators")
	}
	r.Together = &analysis.Together{Sum: 0.04, Whole: 0.05}
	require.NotContains(t, textOf(t, r), "the rows sum to")
}

// Rows that were not run on all samples are called estimates.
func TestEstimatedRowsAreNamed(t *testing.T) {
	r := &analysis.Report{Layerwise: []analysis.LayerError{{Node: "a", Op: "Conv", Error: analysis.Error{NSR: 0.01}},
		{Node: "b", Op: "Add", Error: analysis.Error{NSR: 1e-4}, Bounded: 14}, {Node: "c", Op: "Mul", Bounded: 3}}}
	require.Contains(t, textOf(t, r), "Estimated on up to 14 samples, from the error at their own output: "+
		"2 rows of operators without products that are small.")
	r.Layerwise = r.Layerwise[:1]
	require.NotContains(t, textOf(t, r), "Estimated")
}

// What counts more than a figure stands in the texts of analyze, eval and compare.
func TestHeadlinesAreInTheTexts(t *testing.T) {
	const line = "output p: the class changes in 1 of 16 rows"
	outputs := []analysis.OutputError{{Output: "p", Centred: &analysis.NSR{NSR: 0.002}, Rows: 16, ClassesChanged: 1}}
	require.Contains(t, textOf(t, &analysis.Report{Outputs: outputs}), "\n  "+line+"\n")
	var b bytes.Buffer
	require.NoError(t, AccuracyText(&b, &analysis.Accuracy{Mode: "sim", N: 16, Counts: &analysis.Counts{},
		Noise: &analysis.Noise{Headlines: []string{line}}}))
	require.Contains(t, b.String(), "\n"+line+"\n")
	b.Reset()
	require.NoError(t, ComparisonText(&b, &analysis.Comparison{Runs: []analysis.RunFigures{{Name: "a.plan.json", Headlines: []string{line}},
		{Name: "b.plan.json"}}, Pairs: []analysis.PairOfRuns{{A: "a.plan.json", B: "b.plan.json"}}}, false))
	require.Contains(t, b.String(), "\na.plan.json: "+line+"\n")
}

// The loss of a part stands below that of its output.
func TestLossOfPartsIsInTheTexts(t *testing.T) {
	x := &analysis.Explanation{Profile: "qdq", Samples: 2,
		Outputs: []analysis.OutputLoss{{Output: "p", Loss: analysis.Loss{NSR: 0.01, Round: 0.01},
			Slices: []analysis.SliceLoss{{Name: "scores", Loss: analysis.Loss{NSR: 0.75, Round: 0.5, Clip: 0.25}}}}}}
	require.Regexp(t, `\n *p +0\.010?0? .*\n *scores +0\.75`, textOf(t, &analysis.Report{Explained: x}))
}

// A gate that holds says what counts more than its limits.
func TestHeadlinesAreInGates(t *testing.T) {
	const line = "small (0..3 of axis 1 of y): no signal in these samples"
	g := &GateChecks{Subject: "a.plan.json", Held: true, Samples: 16,
		Checks: []analysis.GateCheck{{Check: "NSR", Verdict: analysis.GatePassed}}, Headlines: []string{line}}
	for want, write := range map[string]func(io.Writer, *GateChecks) error{"\n" + line + "\n": GateText, "\n\n- " + line + "\n": GateMarkdown,
		"<system-out>" + line + "</system-out>\n  </testsuite>": GateJUnit} {
		var b bytes.Buffer
		require.NoError(t, write(&b, g))
		require.Contains(t, b.String(), want)
	}
}
