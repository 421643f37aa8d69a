package workbench_test

import (
	"context"
	"fmt"
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

// A file that has the name of the last analysis and is none of ours stays; an analysis without a file is shown all the same.
func TestAnAnalysisReplacesNothingButAnAnalysis(t *testing.T) {
	p := planned(t)
	for _, text := range []string{`{"graphwise": []}`, "notes", `{"format": "other", "version": 1, "report": {}}`} {
		p.store.Write("glyphs.analysis.json", []byte(text))
		j := p.job("analyze", `{"samples": 2, "graphwise": true}`, nil)
		assert.Contains(t, strings.Join(j.Notes, "\n"), "glyphs.analysis.json")
		now, _ := p.store.Read("glyphs.analysis.json")
		assert.Equal(t, text, string(now))
		var v reports.View
		p.call("view", ``, &v)
		assert.NotEmpty(t, v.Report.Graphwise)
	}
	p.store.Write("glyphs.analysis.json", []byte(`{"format": "qwb analysis", "version": 99}`)) // of another qwb: made anew
	p.job("analyze", `{"samples": 2, "graphwise": true}`, nil)
	now, _ := p.store.Read("glyphs.analysis.json")
	assert.Contains(t, string(now), `"format":"qwb analysis","version":1,`)
}

// Parts of analyses stand together where they are of the same samples only: a view names one number of them.
func TestAnalysesOfOtherSamplesAreNotMixed(t *testing.T) {
	p := planned(t)
	for _, c := range []struct {
		options       string
		samples       int
		layers, graph bool
	}{
		{`{"samples": 4, "layerwise": true}`, 4, true, false},
		{`{"samples": 4, "graphwise": true}`, 4, true, true},
		{`{"samples": 2, "graphwise": true}`, 2, false, true},
		{`{"samples": 2, "layerwise": true}`, 2, true, true},
		{`{"samples": 2, "graphwise": true, "seed": 7}`, 2, false, true},
	} {
		p.job("analyze", c.options, nil)
		for range 2 {
			var v reports.View
			p.call("view", ``, &v)
			assert.Equal(t, c.samples, v.Report.Samples, c.options)
			assert.Equal(t, c.layers, v.Report.Layerwise != nil, c.options)
			assert.Equal(t, c.graph, v.Report.Graphwise != nil, c.options)
			// from the file
			p.Bench = workbench.New(workbench.Options{Project: qwb.Project{Plan: "glyphs.plan.json", Store: p.store, Catalog: qwb.Standard("test")}})
			t.Cleanup(p.Close)
			p.revision = p.Revision()
		}
	}
}

// What qwb analyze measures while the page is open is shown as what the page measures.
func TestAnAnalysisOfACommandIsShown(t *testing.T) {
	p := planned(t)
	var v reports.View
	p.call("view", ``, &v)
	require.NotEmpty(t, v.Missing["report"])
	project := qwb.Project{Plan: "glyphs.plan.json", Store: p.store, Catalog: qwb.Standard("test")}
	r, _, err := project.Analyze(context.Background(), qwb.AnalyzeOptions{Data: qwb.DataOptions{Samples: 2},
		Config: analysis.Config{Graphwise: true, Outputs: true}})
	require.NoError(t, err)
	require.NoError(t, project.KeepAnalysis(r))
	v = reports.View{}
	p.call("view", ``, &v)
	assert.Empty(t, v.Missing["report"])
	assert.False(t, v.Stale)
	assert.Len(t, v.Report.Graphwise, len(r.Graphwise))
}

// Data options come back with the result as they were used, so that its samples can be found again, whatever was named since.
func TestFlipsSayWhatTheyAreOf(t *testing.T) {
	p := planned(t)
	var first, second workbench.Flips
	p.job("flips", `{"all": true, "samples": 5, "seed": 3}`, &first)
	assert.Equal(t, []string{"data"}, first.Data.Data)
	p.store.Write("other/00000.npy", shots()["data/00007.npy"])
	p.job("eval", `{"data": ["other"], "labels": "labels.tsv"}`, nil) // what is remembered from now on
	var layers workbench.SampleLayers
	p.call("sample-layers", fmt.Sprintf(`{"sample": %q, "data": ["data"], "samples": 5, "seed": 3}`, first.Flips[2].Sample), &layers)
	assert.InDelta(t, first.Flips[2].NSR, layers.NSR, 1e-9*layers.NSR)
	p.job("flips", `{"all": true}`, &second)
	assert.Equal(t, []string{"other"}, second.Data.Data)
	assert.Equal(t, "labels.tsv", second.Data.Labels)
}

// State names what there is to choose from for the view that verifies, and all that a plan was calibrated on.
func TestStateHasProfilesAndAllData(t *testing.T) {
	p := opened(t)
	p.store.Write("more/a.npy", shots()["data/00001.npy"])
	p.job("calibrate", `{"platform": "trt_int8", "data": ["data", "more"]}`, nil)
	var s struct {
		Calibration []string
		Profiles    []struct{ Name string }
	}
	p.call("state", ``, &s)
	assert.Equal(t, []string{"data", "more"}, s.Calibration)
	names := ""
	for _, a := range s.Profiles {
		names += a.Name + " "
	}
	assert.Contains(t, names, "tflite2 ")
	assert.Contains(t, names, "ort ")
}

// The share of the work on integers is one figure, wherever it stands.
func TestTheShareOfIntegersIsOneFigure(t *testing.T) {
	p := planned(t)
	var s qwb.SweepResult
	p.job("sweep", `{"observers": ["minmax", "robust"], "data": ["data"], "fresh": true}`, &s)
	var e tensors.Estimate
	p.call("estimate", `{"select": "type:Conv", "properties": ["observer=kl"]}`, &e)
	assert.Equal(t, s.Rows[0].MACs, e.MACs.Before)
	for _, r := range s.Rows {
		integer, all := int64(0), int64(0)
		for format, n := range r.Cost.MACs {
			if all += n; format == "int8" {
				integer += n
			}
		}
		assert.Equal(t, float64(integer)/float64(all), r.MACs)
		assert.Equal(t, r.Cost.TotalBytes(), r.Bytes)
		assert.Positive(t, r.MACs)
	}
}

func TestResultsThatAreManyBytesGo(t *testing.T) {
	before := workbench.SetKept(1)
	defer workbench.SetKept(before)
	p := planned(t)
	a := p.job("flips", `{"samples": 2}`, nil)
	b := p.job("eval", `{"samples": 2}`, nil)
	c := p.job("flips", `{"samples": 3}`, nil)
	has := func(j workbench.Job) bool {
		var r result
		p.call("result", fmt.Sprintf(`{"job": %q}`, j.ID), &r)
		return len(r.Result) > 0 && string(r.Result) != "null"
	}
	assert.False(t, has(a), "an older one of the kind")
	assert.True(t, has(b))
	assert.True(t, has(c))
	workbench.SetKept(before)
	d := p.job("flips", `{"samples": 4}`, nil)
	assert.True(t, has(c))
	assert.True(t, has(d))
}

// Whoever does not listen hears of the last change of the plan, not of all.
func TestWhoDoesNotListenHearsOfTheLastChange(t *testing.T) {
	p := planned(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	heard := p.Events(ctx)
	for range 10 {
		p.call("set", `{"select": "type:Conv", "properties": ["domain=fp32"]}`, nil)
		p.call("undo", ``, nil)
	}
	p.call("set", `{"select": "type:Gemm", "properties": ["domain=fp32"]}`, nil)
	n := 0
	for e := range heard {
		if n++; e.Type == "plan" && e.Revision == p.revision {
			break
		}
	}
	assert.LessOrEqual(t, n, 3, "one was taken before, the last one waits")
}
