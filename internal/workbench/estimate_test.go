package workbench_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/internal/workbench"
	"qwb/reports"
)

func TestEstimateSaysWhatADecisionDoes(t *testing.T) {
	p := planned(t)
	was, _ := p.store.Read("glyphs.plan.json")
	var e tensors.Estimate
	p.call("estimate", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, &e)
	assert.Nil(t, e.Before)
	assert.Contains(t, e.Basis, "analyze")
	var r analysis.Report
	p.job("analyze", `{"samples": 16}`, &r)
	p.call("estimate", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, &e)
	require.NotNil(t, e.Before)
	require.NotNil(t, e.After)
	assert.False(t, e.Stale)
	assert.Less(t, e.After.NSR, e.Before.NSR)
	assert.Less(t, e.MACs.After, e.MACs.Before)
	assert.Greater(t, e.Bytes.After, e.Bytes.Before)
	assert.NotEmpty(t, e.Changed)
	assert.Equal(t, "qwb set glyphs.plan.json type:Conv domain=fp32", e.Command)
	now, _ := p.store.Read("glyphs.plan.json")
	assert.Equal(t, string(was), string(now), "an estimate writes nothing")
	// What changes nothing about errors is estimated to change nothing, and a worse range to make it worse.
	var one tensors.Estimate
	p.call("estimate", `{"select": "*", "properties": ["domain=fp32"]}`, &e)
	assert.Zero(t, e.After.NSR)
	assert.Zero(t, e.MACs.After)
	p.call("estimate", `{"select": "type:Conv", "properties": ["observer=percentile(0.5)"]}`, &one)
	assert.Greater(t, one.After.NSR, one.Before.NSR)
	for _, ask := range []string{`{"select": "first", "properties": ["domain=fp32"]}`,
		`{"select": "depthwise", "properties": ["domain=fp32"]}`, `{"select": "*", "properties": ["observer=minmax"]}`} {
		if p.try("estimate", ask, &one) != nil { // the model has none of these
			continue
		}
		p.call("set", ask, nil)
		var now analysis.Report
		p.job("analyze", `{"samples": 16, "graphwise": true}`, &now)
		measured := now.Outputs[0].NSR
		if c := now.Outputs[0].Centred; c != nil {
			measured = c.NSR
		}
		assert.InDelta(t, measured, one.After.NSR, 3**one.After.NSRError, ask)
		p.call("undo", ``, nil)
	}
	p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, nil)
	p.call("estimate", `{"select": "type:Conv", "properties": ["domain=int"]}`, &one)
	assert.True(t, one.Stale)
}

// TestAModelWithoutAPlanHasItsNetwork, and nothing that only a plan has.
func TestAModelWithoutAPlanHasItsNetwork(t *testing.T) {
	p := opened(t)
	for range 2 { // the second time it is known
		var v reports.View
		p.call("view", ``, &v)
		require.NotNil(t, v.Picture)
		assert.NotEmpty(t, v.Picture.Nodes)
		assert.Equal(t, "glyphs.onnx", v.Model)
		assert.Nil(t, v.Report)
		assert.Nil(t, v.Verdict)
	}
	p.store.Write("broken.onnx", []byte("no model"))
	b := workbench.New(workbench.Options{Project: qwb.Project{Model: "broken.onnx", Store: p.store, Catalog: qwb.Standard("test")}})
	t.Cleanup(b.Close)
	var none *reports.View
	broken := &page{t, b, p.store, b.Revision()}
	broken.call("view", ``, &none)
	assert.Nil(t, none)
}

// TestABriefViewIsNotTakenForAWholeOne: the view that is kept serves whoever needs no more than it has.
func TestABriefViewIsNotTakenForAWholeOne(t *testing.T) {
	p := planned(t)
	saturation := func(params string) int {
		var v reports.View
		p.call("view", params, &v)
		n := 0
		for _, f := range v.Nodes {
			if f.Saturation != nil {
				n++
			}
		}
		return n
	}
	assert.Zero(t, saturation(`{"brief": true}`))
	assert.Positive(t, saturation(``))
	assert.Positive(t, saturation(`{"brief": true}`), "the whole one is there already")
}

func TestViewHasTheLastAnalysis(t *testing.T) {
	p := planned(t)
	var v reports.View
	p.call("view", ``, &v)
	assert.Contains(t, v.Missing["report"], "qwb analyze")
	p.job("analyze", `{"samples": 4, "layerwise": true}`, nil)
	p.call("view", ``, &v)
	assert.False(t, v.Stale)
	require.NotEmpty(t, v.Report.Layerwise)
	assert.Empty(t, v.Report.Statistical)
	p.job("analyze", `{"samples": 4, "statistical": true}`, nil) // the rest stays known
	p.call("view", ``, &v)
	assert.NotEmpty(t, v.Report.Layerwise)
	assert.NotEmpty(t, v.Report.Statistical)
	p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, nil)
	p.call("view", ``, &v)
	assert.True(t, v.Stale)
	p.call("undo", ``, nil)
	p.job("open", `{"file": "glyphs.plan.json"}`, nil) // a bench that has just started
	p.call("view", ``, &v)
	assert.False(t, v.Stale)
	assert.NotEmpty(t, v.Report.Statistical)
}

func TestFilesOfTheStore(t *testing.T) {
	p := planned(t)
	var l workbench.Listing
	p.call("files", ``, &l)
	names := map[string]string{}
	for _, e := range l.Entries {
		names[e.Name] = e.Kind
	}
	assert.Equal(t, "model", names["glyphs.onnx"])
	assert.Equal(t, "plan", names["glyphs.plan.json"])
	assert.Equal(t, "labels", names["labels.tsv"])
	assert.Contains(t, names, "data")
	p.call("files", `{"dir": "data", "kind": "data"}`, &l)
	assert.Len(t, l.Entries, pictures)
	assert.Equal(t, ".", l.Parent)
	for _, bad := range []string{`{"dir": "/etc"}`, `{"dir": "../x"}`, `{"dir": "data/../.."}`, `{"dir": "nothing"}`, `{"kind": "secret"}`} {
		assert.Error(t, p.try("files", bad, nil), bad)
	}
}

func TestThumbnails(t *testing.T) {
	p := planned(t)
	var r workbench.Thumbnails
	p.call("thumbnails", `{"data": ["data"], "labels": "labels.tsv", "samples": 5}`, &r)
	assert.Len(t, r.Items, 5)
	assert.Equal(t, pictures, r.Labelled)
	for _, x := range r.Items {
		pixels, err := base64.StdEncoding.DecodeString(x.RGB)
		require.NoError(t, err)
		assert.Len(t, pixels, 3*x.Width*x.Height)
		assert.NotNil(t, x.Label)
		assert.Less(t, x.Lo, x.Hi)
		bright := 0
		for _, v := range pixels {
			if v >= 128 {
				bright++
			}
		}
		assert.GreaterOrEqual(t, 100*bright, len(pixels), "%s is dark", x.Name)
	}
}

// TestAnAdviceAndItsEstimateAreOneNumber: what the advice of an analysis ran is not estimated beside it.
func TestAnAdviceAndItsEstimateAreOneNumber(t *testing.T) {
	p := planned(t)
	p.job("calibrate", `{"platform": "trt_int8", "data": ["data"], "per_tensor": true, "observer": "minmax"}`, nil)
	var r analysis.Report
	p.job("analyze", `{"samples": 16}`, &r)
	at := slices.IndexFunc(r.Advice, func(a analysis.Advice) bool {
		return a.Predicted != nil && strings.HasPrefix(a.Command, "qwb set ")
	})
	require.GreaterOrEqual(t, at, 0)
	words := strings.Fields(strings.ReplaceAll(r.Advice[at].Command, "'", ""))[3:]
	ask, err := json.Marshal(map[string]any{"select": words[0], "properties": words[1:]})
	require.NoError(t, err)
	var e tensors.Estimate
	p.call("estimate", string(ask), &e)
	assert.Equal(t, r.Advice[at].Command, e.Command)
	assert.Equal(t, *r.Advice[at].Predicted, e.After.NSR)
	assert.Equal(t, *r.Advice[at].Before, e.Before.NSR)
	assert.Contains(t, e.Basis, "the whole network was run with it")
}
