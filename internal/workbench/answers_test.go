package workbench_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
)

// What the page shows of a sample is what eval scores, and a tensor inside the network is that of the runs.
func TestAnswersAreThoseOfEval(t *testing.T) {
	p := planned(t)
	var r qwb.AnswersResult
	job := p.job("answers", `{"data": ["data"], "labels": "labels.tsv"}`, &r)
	assert.Equal(t, "qwb eval glyphs.plan.json --mode int8 --data data --labels labels.tsv", job.Command)
	var a analysis.Accuracy
	p.job("eval", `{"data": ["data"], "labels": "labels.tsv", "mode": "int8"}`, &a)
	assert.Equal(t, "top1", r.Metric)
	assert.Equal(t, "labels", r.Against)
	assert.InDelta(t, float64(a.Top1)/float64(a.N), *r.Scores.Int8, 1e-12)
	assert.InDelta(t, float64(a.FloatTop1)/float64(a.N), *r.Scores.Float, 1e-12)
	require.Len(t, r.Items, pictures)
	sum := 0.0
	for i := range r.Items {
		sum += *r.Items[i].Scores.Int8
		require.NotEmpty(t, r.Items[i].Outputs)
	}
	assert.InDelta(t, float64(a.Top1), sum, 1e-9)
	assert.LessOrEqual(t, *r.Items[0].Scores.Int8, *r.Items[pictures-1].Scores.Int8) // the worst first

	// Without labels float is what is right.
	p = planned(t)
	p.job("answers", `{"samples": 4}`, &r)
	assert.Equal(t, "float", r.Against)
	assert.Nil(t, r.Scores.Float)
	require.Len(t, r.Items, 4)
	var v struct {
		Picture struct{ Nodes []struct{ Name, Op string } }
	}
	p.call("view", `{"brief": true}`, &v)
	conv := ""
	for _, n := range v.Picture.Nodes {
		if n.Op == "Conv" && conv == "" {
			conv = n.Name
		}
	}
	var f, one qwb.FeatureMap
	p.call("feature", fmt.Sprintf(`{"sample": %q, "node": %q}`, r.Items[0].Sample, conv), &f)
	require.Len(t, f.Shape, 4)
	assert.Equal(t, f.Shape[1], f.Heat.All)
	assert.Len(t, f.Errors, f.Shape[1])
	assert.Equal(t, -1, f.Channel)
	assert.NotEmpty(t, f.Heat.Int8)
	assert.Equal(t, f.Heat.Sim, f.Heat.Int8) // the simulation is what the integers compute
	assert.Positive(t, f.Heat.Most)
	p.call("feature", fmt.Sprintf(`{"sample": %q, "node": %q, "channel": 1}`, r.Items[0].Sample, conv), &one)
	assert.Equal(t, 1, one.Channel)
	assert.Equal(t, f.Shape[2], one.Heat.All)
	assert.Equal(t, f.Errors, one.Errors)
	for _, wrong := range []string{`{"sample": "none", "node": %q}`, `{"sample": "none", "node": "no %s"}`} {
		assert.Equal(t, qwb.KindUsage, qwb.Describe(p.try("feature", fmt.Sprintf(wrong, conv), nil)).Kind)
	}
}
