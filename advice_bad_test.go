package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/internal/advisetest"
	workadvise "qwb/internal/work/advise"
	"qwb/internal/work/planning"
)

// A bad plan is told what looks for its cure, and that analyze says what helps only where it has found something.
func TestBadPlanIsToldWhatIsKnown(t *testing.T) {
	p := admit(t, advisetest.Patient{})
	j := p.job()
	told := func(r *analysis.Report) string {
		return planning.WhatHelps(j, r, "qwb analyze", DataOptions{Paths: []string{"my data"}})
	}
	const search = "a search over all operators finds which operators to keep in float: qwb dispatch m.plan.json " +
		"--auto --max-nsr 0.05 --data 'my data'"
	require.Equal(t, "qwb analyze looks for the cause and for a cure; if it finds none, "+search, told(nil))
	require.Equal(t, "qwb analyze --layerwise looks for the cause and for a cure; if it finds none, "+search, told(&analysis.Report{}))
	r := &analysis.Report{Layerwise: []analysis.LayerError{}, Advice: []analysis.Advice{{Cause: "few-samples"}}}
	require.Equal(t, "Nothing that was tried by itself helps; "+search, told(r))
	predicted := 0.01
	r.Advice = append(r.Advice, analysis.Advice{Cause: "clipping", Predicted: &predicted})
	require.Equal(t, "qwb analyze says why and what helps", told(r))

	// What the last analysis found counts as long as it is of the plan as it is.
	q, err := planning.OpenPlan(j, p.Plan)
	require.NoError(t, err)
	defer q.Close()
	require.Nil(t, planning.Analysed(j, q.Plan))
	r.PlanSHA256, err = q.Plan.Hash()
	require.NoError(t, err)
	require.NoError(t, p.KeepAnalysis(r))
	require.Equal(t, r.Advice, planning.Analysed(j, q.Plan).Advice)
	_, _, err = p.Set(context.Background(), "conv4", []string{"observer=kl"}, 1)
	require.NoError(t, err)
	q, err = planning.OpenPlan(j, p.Plan)
	require.NoError(t, err)
	defer q.Close()
	require.Nil(t, planning.Analysed(j, q.Plan))
}

// The warning names what its figure is of, and is none where the error may be chance.
func TestWarningOfBadPlan(t *testing.T) {
	w, ok := planning.BadPlan(analysis.Estimate{Mean: 0.3, Error: 0.02, N: 8}, "", false, "8 samples", "Then.")
	require.True(t, ok)
	require.Equal(t, "this plan is bad: NSR 0.300 ± 0.020 of the outputs (8 samples); above 0.1 predictions get worse. Then.", w.Text)
	w, _ = planning.BadPlan(analysis.Estimate{Mean: 0.3, Error: 0.02, N: 8}, "scores", false, "8 samples", "Then.")
	require.Equal(t, "this plan is bad: NSR 0.300 ± 0.020 of part scores of the outputs (8 samples); above 0.1 predictions get worse. Then.",
		w.Text)
	w, _ = planning.BadPlan(analysis.Estimate{Mean: 0.3, Error: 0.02, N: 8}, "", true, "8 samples", "Then.")
	require.Contains(t, w.Text, "0.300 ± 0.020 of the elements of the outputs, which are integers, differ")
	_, ok = planning.BadPlan(analysis.Estimate{Mean: 0.11, Error: 0.02, N: 8}, "", false, "", "")
	require.False(t, ok)
}

// Advice that does not help where it is tried, or cannot be carried out, is none; what cannot be tried stays.
func TestAdviceThatDoesNotHelpIsNotGiven(t *testing.T) {
	p := admit(t, advisetest.Patient{})
	ctx := context.Background()
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	set, err := planning.PlanData(c.Job, c.Planned, DataOptions{Samples: 8}, 8)
	require.NoError(t, err)
	a := &workadvise.Adviser{Change: c, Facts: &advise.Facts{}, Cures: map[string]*advise.Cure{
		"worse": {All: true, Words: []string{"observer=percentile(0.5)"}}, "fails": {All: true, Words: []string{"observer=none-such"}},
		"better": {All: true, Words: []string{"domain=fp32"}}}}
	a.Predicted = map[string]float64{"better": 0.5}
	r := &analysis.Report{Advice: []analysis.Advice{{Command: "worse"}, {Command: "look at the data"}, {Command: "fails"},
		{Command: "worse", Others: []string{"fails", "better"}}}}
	require.NoError(t, a.Try(ctx, set, r))
	require.Len(t, r.Advice, 2)
	require.Equal(t, "look at the data", r.Advice[0].Command)
	require.Nil(t, r.Advice[0].Trial)
	// Where another cure of the same cause helps, that is advised.
	require.Equal(t, "better", r.Advice[1].Command)
	require.Empty(t, r.Advice[1].Others)
	require.Equal(t, 0.5, *r.Advice[1].Predicted)
	require.Less(t, r.Advice[1].Trial.Change, 0.0)
}
