package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/quantizer/tqc"
)

// What is said of a decision is what setting it then gives: the figures of tensors to the bit, the error that was measured, the command;
// and nothing is written.
func TestWhatIfIsWhatComesOfIt(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Observer: tqc.ObserverMinMax,
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	analyze := AnalyzeOptions{Config: analysis.Config{Outputs: true, Layerwise: true}}
	first, _, err := p.Analyze(ctx, analyze)
	require.NoError(t, err)
	require.NoError(t, p.KeepAnalysis(first))
	for _, c := range [][]string{
		{"conv1", "domain=fp32"}, {"conv2:in0", "lo=-0.5", "hi=1.5"}, {"type:Conv", "per_tensor=true"}, {"gemm:in0", "observer=percentile(0.5)"},
	} {
		before := string(get(t, p, p.Plan))
		r, _, err := p.WhatIf(ctx, WhatIfOptions{Select: c[0], Properties: c[1:], Measure: true, Histograms: true})
		require.NoError(t, err, c)
		require.Equal(t, before, string(get(t, p, p.Plan)), "nothing is written")
		require.Equal(t, first.Judged().Judged().NSR, r.Measured.Before.NSR)
		require.Equal(t, first.Judged().Judged().NSR, r.Estimate.Before.NSR)
		require.NotNil(t, r.Estimate.After)
		require.NotEmpty(t, r.Tensors, c)
		_, _, err = p.Set(ctx, r.Select, r.Properties, 1)
		require.NoError(t, err)
		then, _, err := p.Analyze(ctx, analyze)
		require.NoError(t, err)
		require.Equal(t, then.Judged().Judged(), r.Measured.After, c)
		opened, _, err := p.OpenPlan()
		require.NoError(t, err)
		figures := p.Tensors(opened)
		for _, x := range r.Tensors {
			require.NotEqual(t, x.Before, x.After)
			require.NotEmpty(t, x.Tensor.Bins.Counts)
			id, err := figures.Slot(x.Slot)
			require.NoError(t, err)
			now, err := figures.Figures(id)
			if x.After == nil {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, now, *x.After, x.Slot)
		}
		require.NoError(t, opened.Close())
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
	}
}

func TestWhatIfRefuses(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 2)
	calibrateOn(t, p, "m")
	for _, c := range [][]string{
		{"conv1:in0", "lo=1"}, {"conv1:in0", "lo=2", "hi=1"}, {"conv1:in0", "lo=0", "hi=1", "observer=kl"}, {"conv1", "lo=0", "hi=1"},
		{"conv1:weight", "lo=0", "hi=1"}, {"conv1:in0", "lo=x", "hi=1"}, {"none:in0", "lo=0", "hi=1"}, {"conv1:in0", "colour=red"}, {"conv1:in0"},
	} {
		_, _, err := p.WhatIf(ctx, WhatIfOptions{Select: c[0], Properties: c[1:]})
		require.Error(t, err, c)
		require.Equal(t, KindUsage, Describe(err).Kind, "%v: %v", c, err)
	}
	_, _, err := p.WhatIf(ctx, WhatIfOptions{Select: "nothing", Properties: []string{"domain=fp32"}})
	_, _, said := p.Set(ctx, "nothing", []string{"domain=fp32"}, 1)
	require.EqualError(t, err, said.Error())
	r, _, err := p.WhatIf(ctx, WhatIfOptions{Select: "conv1", Properties: []string{"domain=fp32"}})
	require.NoError(t, err)
	require.Nil(t, r.Estimate.After, "without an analysis nothing is known of the error")
	require.Contains(t, r.Estimate.Basis, "analyze")
	require.Nil(t, r.Measured)
}
