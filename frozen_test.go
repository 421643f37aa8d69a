package qwb

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/tune"
	"qwb/internal/work/planning"
	worktune "qwb/internal/work/tune"
	"qwb/quantizer/tqc"
)

// coarser is a method that gives every weight scales twice as large, and the weights that lie on them.
var coarser = &tune.Method{Name: "coarser", Run: func(ctx context.Context, b *tune.Bench) (*tune.Report, error) {
	return b.Sweep(ctx, &tune.Proposer{Name: "coarser", Trials: 1,
		Propose: func(_ context.Context, l *tune.LayerBench) ([]tune.Proposal, error) {
			p := tqc.Params{ZeroPoint: l.Set.Params(l.Slot).ZeroPoint}
			for _, s := range l.Set.Params(l.Slot).Scale {
				p.Scale = append(p.Scale, 2*s)
			}
			w := l.Weight.ToRowMajor().Clone()
			for i := range w.F32() {
				w.F32()[i] *= 0.5
			}
			return []tune.Proposal{{By: "coarser", Params: &p, Weight: w}}, nil
		}})
}}

// coarsen tunes a plan by that method and keeps it by force.
func coarsen(t *testing.T, p *Project) {
	t.Helper()
	ctx := context.Background()
	c, err := planning.NewChange(ctx, p.job(), 1)
	require.NoError(t, err)
	defer c.Close()
	o := TuneOptions{Force: true, Threads: 1}
	tn, err := worktune.Tuning(ctx, c, o)
	require.NoError(t, err)
	r := &TuneResult{}
	r.Methods, err = tn.Bench.Tune(ctx, coarser)
	require.NoError(t, err)
	found, err := tn.Settle(ctx, 1)
	require.NoError(t, err)
	_, err = tn.Write(found, r, o)
	require.NoError(t, err)
}

func weightScale(t *testing.T, p *Project, node string) []float32 {
	t.Helper()
	x, _, err := p.Explain(context.Background(), node)
	require.NoError(t, err)
	return x.Slots[1].Scale
}

// Weights keep the scales they were tuned for, whatever is decided and derived again, until their scheme or their scales are decided
// otherwise; then they are what they were before tuning.
func TestTunedWeightsKeepTheirScales(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	before := weightScale(t, p, "conv1")
	var twice []float32
	for _, s := range before {
		twice = append(twice, 2*s)
	}
	coarsen(t, p)
	require.Equal(t, twice, weightScale(t, p, "conv1"))
	derivesAgain(t, p)
	planned, err := planning.OpenPlan(p.job(), p.Plan)
	require.NoError(t, err)
	require.Empty(t, planned.Stale)
	id, _ := planned.Graph.LookupNode("conv1")
	w := planned.Graph.Node(id).Inputs[1]
	require.InEpsilon(t, planned.Reference.Const(w).F32()[0], 2*planned.Graph.Const(w).F32()[0], 1e-6)
	require.NoError(t, planned.Close())
	_, _, err = p.Verify(ctx, VerifyOptions{Data: DataOptions{Samples: 1}})
	require.NoError(t, err)

	// Another method of observing, another operator in float, another calibration: the scales stay.
	for _, change := range []func() error{
		func() error { _, _, err := p.Set(ctx, "*:weight", []string{"observer=mse"}, 1); return err },
		func() error { _, _, err := p.Set(ctx, "gemm", []string{"domain=fp32"}, 1); return err },
		func() error { _, _, err := p.Rederive(ctx, 1); return err },
		func() error {
			_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Observer: "percentile(0.99)", Threads: 1})
			return err
		},
	} {
		require.NoError(t, change())
		require.Equal(t, twice, weightScale(t, p, "conv1"))
		derivesAgain(t, p)
	}
	for range 3 { // all but the tuning
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
	}
	require.Equal(t, twice, weightScale(t, p, "conv1"))

	for i, words := range [][]string{{"scale=" + strings.TrimSuffix(strings.Repeat("0.5;", len(before)), ";")}, {"weights=int8-sym-tensor"}} {
		_, warnings, err := p.Set(ctx, "conv1:weight", words, 1)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(warnings), "tuned values do not fit any more at", "%v", words)
		planned, err := planning.OpenPlan(p.job(), p.Plan)
		require.NoError(t, err)
		require.NotEmpty(t, planned.Stale)
		require.Equal(t, planned.Reference.Const(w), planned.Graph.Const(w), "the weight is the model's")
		got := planned.Set.Params(planned.Set.Input(id, 1)).Scale
		require.NoError(t, planned.Close())
		if i == 1 {
			require.Len(t, got, 1)
			largest := float32(0)
			for _, s := range before {
				largest = max(largest, s)
			}
			require.InEpsilon(t, largest, got[0], 1e-5, "observed on the model's weight, not on the tuned one")
		}
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
	}
}

// What was tuned at an operator that is float now is not applied; tuning again begins with the error that the plan has so.
func TestTuningBeginsAsThePlanIs(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	coarsen(t, p) // halves the weights
	_, _, err = p.Set(ctx, "conv1", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	r, _, err := p.Tune(ctx, TuneOptions{Methods: []string{"bias"}, Threads: 1, Force: true})
	require.NoError(t, err)
	require.NotZero(t, r.Before.NSR)
	require.Equal(t, r.Before, r.Methods[0].Before)
}
