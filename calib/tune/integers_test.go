package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// runs gives a bench integers of a profile.
func runs(t *testing.T, b *Bench, platform *target.Target, profile string) {
	p, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	b.Integers = func(g *graph.Graph, set *tqc.Set) (analysis.Forward, error) {
		lowered, err := lower.CompilePartial(g, set, platform, p)
		if err != nil {
			return nil, err
		}
		x, err := program.New(lowered, program.Reference, 1)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return x.Run(ctx, feeds, nil)
		}, nil
	}
}

// halfAStepMore adds half a step of its output to the biases of each Conv.
func halfAStepMore(t *testing.T, b *Bench) {
	list, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	made := 0
	for _, l := range list {
		if l.channels == 0 || b.Graph.Node(l.node).Op != "Conv" {
			continue
		}
		order, err := b.Graph.Order()
		require.NoError(t, err)
		nodes := b.Set.Together(l.node, order)
		out := b.Set.Outputs(nodes[len(nodes)-1])[0]
		require.True(t, b.Set.Slot(out).State().Quantizes())
		v := b.Graph.Node(l.node).Inputs[graph.BiasInput]
		c := b.Graph.Const(v).Clone()
		for i := range c.F32() {
			c.F32()[i] += 0.5 * b.Set.Params(out).Scale[0]
		}
		b.Graph.SetConst(v, c)
		made++
	}
	require.GreaterOrEqual(t, made, 3)
}

// An accelerator that shifts without rounding loses half a step at every output. Biases that make up for it are wrong for the simulation,
// which rounds: it would correct them, and the integers would get worse. Where the integers are judged the correction is taken back.
func TestIntegersAreWhatCounts(t *testing.T) {
	platform := target.Pow2
	for _, judged := range []string{"", "pow2-half-even", "pow2-floor"} {
		b, _ := benchOf(t, &platform, 24, 24)
		halfAStepMore(t, b)
		simulated, err := b.Losses(context.Background())
		require.NoError(t, err)
		if judged != "" {
			runs(t, b, &platform, judged)
		}
		run, err := b.Losses(context.Background())
		require.NoError(t, err)
		if judged == "pow2-half-even" {
			require.InDelta(t, simulated.Estimate().Mean, run.Estimate().Mean, 1e-3*simulated.Estimate().Mean, "the simulation is this profile")
		}
		reports, err := b.Tune(context.Background(), &Bias)
		require.NoError(t, err)
		r := reports[0]
		require.Equal(t, judged != "pow2-floor", r.Confirmed, "%q: %v", judged, r.Change)
		if judged == "pow2-floor" {
			require.Positive(t, r.Change, "the integers got worse")
			require.Zero(t, r.Kept)
			require.Contains(t, r.Note, "taken back")
		}
	}
}
