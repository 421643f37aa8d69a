package workbench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
)

// What makes another plan writes another file, which begins with the decisions of the one that was open; that one stays, byte for byte, and
// all of them are runs.
func TestNothingEatsAPlan(t *testing.T) {
	p := planned(t)
	p.call("set", `{"select": "type:Conv", "properties": ["observer=mse"]}`, nil)
	p.job("analyze", `{"samples": 2, "graphwise": true}`, nil)
	was, _ := p.store.Read("glyphs.plan.json")
	stats, _ := p.store.Read("glyphs.stats")
	stays := func() {
		t.Helper()
		now, _ := p.store.Read("glyphs.plan.json")
		assert.Equal(t, string(was), string(now))
		now, _ = p.store.Read("glyphs.stats")
		assert.Equal(t, stats, now)
	}

	var c qwb.CalibrateResult
	job := p.job("calibrate", `{"platform": "onnxruntime"}`, &c) // from the statistics of the other one
	assert.Equal(t, "qwb calibrate glyphs.onnx --platform onnxruntime --from glyphs.plan.json -o glyphs.onnxruntime.plan.json", job.Command)
	assert.Equal(t, "glyphs.onnxruntime.plan.json", c.Plan)
	stays()
	mine := func() (n int) {
		var log struct{ Decisions []struct{ By, Text string } }
		p.call("log", ``, &log)
		for _, d := range log.Decisions {
			if d.By == "user" {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 1, mine())

	p.job("open", `{"file": "glyphs.plan.json"}`, nil)
	job = p.job("calibrate", `{"platform": "trt_int8", "data": ["data"], "samples": 3}`, &c)
	assert.Contains(t, job.Command, "--from glyphs.plan.json -o glyphs.2.plan.json")
	stays()
	assert.Equal(t, 1, mine())
	second := c.Plan

	p.job("open", `{"file": "glyphs.plan.json"}`, nil)
	var s qwb.SweepResult
	p.job("sweep", `{"observers": ["minmax", "mse"], "data": ["data"], "force": true}`, &s)
	assert.Equal(t, "glyphs.sweep.plan.json", s.Plan)
	stays()

	var runs struct {
		Runs []struct {
			Plan          string
			Open, Current bool
			Figures       map[string]map[string]any
		}
	}
	p.call("runs", ``, &runs)
	names := map[string]bool{}
	for _, r := range runs.Runs {
		names[r.Plan] = true
	}
	assert.Equal(t, map[string]bool{"glyphs.plan.json": true, "glyphs.onnxruntime.plan.json": true, second: true,
		"glyphs.sweep.plan.json": true}, names)
	require.True(t, runs.Runs[0].Open && runs.Runs[0].Current)
	assert.NotNil(t, runs.Runs[0].Figures["analyze"]["nsr"])

	p.call("undo", ``, nil) // the state before, of which nothing was measured, has no run; that which was has one
	runs.Runs = nil
	p.call("runs", ``, &runs)
	assert.Nil(t, runs.Runs[0].Figures["analyze"]["nsr"])
	assert.False(t, runs.Runs[1].Current)
	assert.NotNil(t, runs.Runs[1].Figures["analyze"]["nsr"])
}

// A state says which files of the plan lie outside of the folders that a page may look into: none here.
func TestNothingLiesOutside(t *testing.T) {
	var s struct{ Outside []string }
	planned(t).call("state", ``, &s)
	assert.Empty(t, s.Outside)
}

// What such a job took before says how long the whole takes, and how many stages it has.
func TestALikeJobSaysHowLongItTakes(t *testing.T) {
	p := planned(t)
	first := p.job("analyze", `{"samples": 4}`, nil)
	require.Greater(t, first.Stage, 1)
	again := p.job("analyze", `{"samples": 4}`, nil)
	assert.Equal(t, first.Stage, again.Stage)
}
