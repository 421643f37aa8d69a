package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// What is simulated on kept samples is what analyze measures where these are all there are, for the plan, for a plan with tuned values and
// for other decisions; the float graph runs once.
func TestKeptLosses(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Observer: tqc.ObserverMinMax, Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	for range 2 {
		j := p.job()
		c, err := j.change(ctx, 1)
		require.NoError(t, err)
		r, _, err := p.Analyze(ctx, AnalyzeOptions{Config: analysis.Config{Outputs: true}})
		require.NoError(t, err)
		require.Positive(t, r.Worst().NSR)
		losses, err := j.keptLosses(ctx, c.d, c.was, 2)
		require.NoError(t, err)
		require.Len(t, losses, 4)
		require.InEpsilon(t, r.Worst().NSR, losses.Estimate().Mean, 1e-9)

		first := c.d.kept
		out, err := c.d.Derive(ctx, append(c.p.Plan.Decisions[:len(c.p.Plan.Decisions):len(c.p.Plan.Decisions)],
			decision.Decision{By: decision.ByUser, Select: decision.Select{"*"}, Properties: decision.Properties{Domain: decision.FP32}}))
		require.NoError(t, err)
		none, err := j.keptLosses(ctx, c.d, out, 1)
		require.NoError(t, err)
		require.Zero(t, none.Estimate().Mean)
		require.Same(t, first, c.d.kept)
		c.close()
		coarsen(t, p)
	}
}

// A plan without statistics keeps no samples.
func TestNothingKept(t *testing.T) {
	_, err := new(Project).job().keptLosses(context.Background(), &derivation{}, &derived{}, 1)
	require.ErrorIs(t, err, errNoKept)
}
