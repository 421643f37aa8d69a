package qwb_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
)

// TestAViewSumsAPlanUp: figures of earlier commands, cost, network, and what is advised for operators stand in one value. Before anything
// was measured it names the commands that do, and it has no figure that nobody measured.
func TestAViewSumsAPlanUp(t *testing.T) {
	ctx := context.Background()
	p, _ := own(t)
	v, _, err := p.View(ctx, nil, false)
	require.NoError(t, err)
	require.Nil(t, v.Verdict.NSR)
	require.Empty(t, v.Verdict.Level)
	require.Contains(t, v.Missing["report"], "qwb analyze net.plan.json")
	require.Contains(t, v.Missing, "search")
	require.NotEmpty(t, v.Report.Settings, "settings need no measurement")
	require.Equal(t, len(v.Report.Settings), len(v.Picture.Nodes)-2, "one input, one output")
	var share float64
	for _, w := range v.Verdict.Work {
		share += w.Share
	}
	require.InDelta(t, 1, share, 1e-9)
	require.Less(t, v.Verdict.Bytes.Quantized, v.Verdict.Bytes.Float)

	r, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Outputs: true, Graphwise: true, Layerwise: true}})
	require.NoError(t, err)
	if v, _, err = p.View(ctx, r, false); err != nil {
		t.Fatal(err)
	}
	require.Same(t, r, v.Report)
	require.Equal(t, r.Outputs[0].NSR, v.Verdict.NSR.NSR)
	require.NotEmpty(t, v.Verdict.Level)
	e, _, err := p.Eval(ctx, qwb.EvalOptions{Mode: "sim"})
	require.NoError(t, err)
	v, _, err = p.View(ctx, r, false)
	require.NoError(t, err)
	require.Equal(t, e.Scores[0].Name, v.Verdict.Metric)
	require.Equal(t, e.Scores[0].Value, v.Verdict.Quantized)
	require.Equal(t, e.N, v.Verdict.Scored)
	d, _, err := p.Dispatch(ctx, qwb.DispatchOptions{Budget: &qwb.Budget{Name: "nsr", At: 1e-9}, Force: true})
	if err != nil {
		require.ErrorAs(t, err, new(qwb.CheckError))
	}
	s := d.Search()
	require.NotNil(t, s)
	require.Len(t, s.Points, len(d.Points))
	v, _, err = p.View(ctx, nil, true)
	require.NoError(t, err)
	require.NotNil(t, v.Search, "the plan's outcomes keep the points of the search")
	require.Equal(t, s.Points[0].Metric, v.Search.Points[0].Metric)
	require.NotNil(t, v.Verdict.Budget)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.Contains(t, string(text), `"stale":true`)
	brief, _, err := p.BriefView(ctx, nil, true)
	require.NoError(t, err)
	require.NotEmpty(t, v.Nodes, "the whole view has figures of saturation")
	require.Empty(t, brief.Nodes, "which are all that a brief one lacks")
	brief.Nodes = v.Nodes
	same, err := json.Marshal(brief)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(same))
}

// TestAModelWithoutAPlanHasTheBoxesOfOneWith: an activation that engines compute together with the operator before it is one box with it
// already before there is a plan.
func TestAModelWithoutAPlanHasTheBoxesOfOneWith(t *testing.T) {
	ctx := context.Background()
	p := &qwb.Project{Model: "glyphs.onnx", Plan: "glyphs.plan.json", Store: glyphs(), Catalog: qwb.Standard("1.0")}
	_, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "trt_int8", Data: qwb.DataOptions{Paths: []string{"pictures"}}})
	require.NoError(t, err)
	with, _, err := p.View(ctx, nil, false)
	require.NoError(t, err)
	without, _, err := p.ModelView(ctx)
	require.NoError(t, err)
	require.Len(t, without.Picture.Nodes, len(with.Picture.Nodes))
	boxes := 0
	for i, n := range without.Picture.Nodes {
		require.Equal(t, with.Picture.Nodes[i].Name, n.Name)
		require.Equal(t, with.Picture.Nodes[i].Fused, n.Fused, n.Name)
		require.Empty(t, n.Domain, n.Name)
		if n.Fused >= 0 {
			boxes++
		}
	}
	require.Positive(t, boxes)
}
