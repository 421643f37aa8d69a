package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// What is simulated on kept samples is what analyze measures where these are all there are, for the plan, for a plan with tuned values and
// for other decisions; the float graph runs once.
func TestKeptLosses(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Observer: tqc.ObserverMinMax,
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	for range 2 {
		j := p.job()
		c, err := planning.NewChange(ctx, j, 1)
		require.NoError(t, err)
		r, _, err := p.Analyze(ctx, AnalyzeOptions{Config: analysis.Config{Outputs: true}})
		require.NoError(t, err)
		require.Positive(t, r.Worst().NSR)
		losses, err := planning.KeptLosses(ctx, j, c.Derivation, c.Was, 2)
		require.NoError(t, err)
		require.Len(t, losses, 4)
		require.InEpsilon(t, r.Worst().NSR, losses.Estimate().Mean, 1e-9)

		first := c.Derivation.Kept
		out, err := c.Derivation.Derive(ctx, append(c.Planned.Plan.Decisions[:len(c.Planned.Plan.Decisions):len(c.Planned.Plan.Decisions)],
			decision.Decision{By: decision.ByUser, Select: decision.Select{"*"}, Properties: decision.Properties{Domain: decision.FP32}}))
		require.NoError(t, err)
		none, err := planning.KeptLosses(ctx, j, c.Derivation, out, 1)
		require.NoError(t, err)
		require.Zero(t, none.Estimate().Mean)
		require.Same(t, first, c.Derivation.Kept)
		c.Close()
		coarsen(t, p)
	}
}

// A plan without statistics keeps no samples.
func TestNothingKept(t *testing.T) {
	_, err := planning.KeptLosses(context.Background(), new(Project).job(), &planning.Derivation{}, &planning.Derived{}, 1)
	require.ErrorIs(t, err, planning.ErrNoKept)
}
