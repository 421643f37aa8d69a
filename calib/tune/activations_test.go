package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// widened makes the scales of all activations so many times as wide as they should be.
func widened(t *testing.T, b *Bench, times float32) {
	wide := 0
	for id := range tqc.SlotID(b.Set.NumSlots()) {
		sl := b.Set.Slot(id)
		if b.Set.Root(id) != id || sl.Weight || b.Graph.Const(sl.Value) != nil || !sl.State().Quantizes() {
			continue
		}
		p := *b.Set.Params(id)
		p.Scale = []float32{times * p.Scale[0]}
		require.NoError(t, b.Set.Render(id, p))
		wide++
	}
	require.Greater(t, wide, 3)
	_, err := passes.SolveBias(b.Graph, b.Set)
	require.NoError(t, err)
}

// What a trial is judged by is what the whole graph computes with that one scale changed.
func TestSitesAreJudgedByWhatTheGraphDoes(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime, &target.Pow2} {
		b, _ := bench(t, platform, 2, 3)
		b.Threads = 2
		widened(t, b, 2)
		sites, trials, err := b.sites()
		require.NoError(t, err)
		require.Positive(t, len(sites))
		require.GreaterOrEqual(t, trials, len(sites))
		errors, err := b.trySites(context.Background(), sites)
		require.NoError(t, err)
		memory := b.Memory
		b.Memory = 8 << 10
		require.NoError(t, b.simulators(sites, trials))
		require.Nil(t, sites[0].trials[0].sim, "they would take more than they may")
		b.Memory = memory
		require.NoError(t, b.simulators(sites, trials))
		require.NotNil(t, sites[0].trials[0].sim)
		again, err := b.trySites(context.Background(), sites)
		require.NoError(t, err)
		require.Equal(t, errors, again)
		session, err := exec.New(b.Reference, exec.Options{})
		require.NoError(t, err)
		runner := session.NewRunner()
		for i, sample := range b.Held {
			float, err := runner.RunAll(context.Background(), sample.Feeds, nil, nil)
			require.NoError(t, err)
			for k, s := range sites {
				if len(s.consumers) > 1 {
					continue // one may read what depends on another, which stays as it was for the judge
				}
				set := b.Set.Clone()
				require.NoError(t, set.Render(s.root, s.trials[0].params))
				_, err := passes.SolveBias(b.Graph, set)
				require.NoError(t, err)
				for trial, set := range []*tqc.Set{b.Set, set} {
					q, err := b.Simulate(b.Graph, set, nil)
					require.NoError(t, err)
					h := *q.Hooks(nil)
					output := h.Output
					wants := h.Wants
					h.Wants = func(graph.ValueID) bool { return true }
					input := h.Input
					h.Input = func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
						if wants(n.Inputs[i]) {
							return input(n, i, x)
						}
						return x, nil
					}
					sum := 0.0
					h.Output = func(n *graph.Node, i int, x *tensor.Tensor) error {
						for _, c := range s.consumers {
							if n.Outputs[i] == c.output {
								m, err := momentOf(x, float[c.output], 0)
								require.NoError(t, err)
								sum += m.nsr()
							}
						}
						if wants(n.Outputs[i]) {
							return output(n, i, x)
						}
						return nil
					}
					_, err = runner.Run(context.Background(), sample.Feeds, &h)
					require.NoError(t, err)
					require.InEpsilon(t, sum, errors[i][k][trial], 1e-9, "%s, %s, trial %d", platform.Name, s.name, trial)
				}
			}
		}
	}
}

// Scales of activations that are far too wide are replaced by what the statistics say, and the errors of the outputs fall.
func TestScalesOfActivationsAreChosen(t *testing.T) {
	var want []Chosen
	for _, threads := range []int{1, 3} {
		b, _ := benchOf(t, &target.ONNXRuntime, 8, 24)
		b.Threads = threads
		before := b.Set.Clone()
		widened(t, b, 6)
		r, err := b.Tune(context.Background(), &Method{Name: "activations", Run: Range.Then})
		require.NoError(t, err)
		require.True(t, r[0].Confirmed)
		require.Less(t, r[0].After.NSR, 0.7*r[0].Before.NSR)
		require.Len(t, b.Chosen, r[0].Kept)
		require.Greater(t, r[0].Kept, 2)
		for _, c := range b.Chosen {
			require.NoError(t, c.Method.Valid())
			require.Equal(t, c.Params.Scale, b.Set.Params(c.Slot).Scale)
			require.Less(t, c.Params.Scale[0], 5*before.Params(c.Slot).Scale[0])
		}
		if want == nil {
			want = b.Chosen
		}
		require.Equal(t, want, b.Chosen)

		// What is chosen is part of what an interrupted run goes on from.
		o := b.Overlay(b.Set, nil)
		other := *b
		other.first = before
		require.NoError(t, other.restore(context.Background(), o, b.Chosen))
		for _, c := range b.Chosen {
			require.Equal(t, c.Params.Scale, other.Set.Params(c.Slot).Scale)
		}
	}

	// Too few samples confirm nothing, and what the others have is taken back.
	b, _ := bench(t, &target.ONNXRuntime, 8, analysis.MinHeldOut-1)
	widened(t, b, 6)
	r, err := b.Tune(context.Background(), &Method{Name: "activations", Run: Range.Then})
	require.NoError(t, err)
	require.Zero(t, r[0].Kept)
	require.Empty(t, b.Chosen)
}

func TestWithoutStatisticsActivationsKeepTheirScales(t *testing.T) {
	b, _ := bench(t, &target.ONNXRuntime, 2, 2)
	b.Ranges = nil
	r, err := b.activations(context.Background())
	require.NoError(t, err)
	require.Empty(t, r.Layers)
	b.Ranges = func(*graph.Graph, *tqc.Set, tqc.SlotID) ([]calib.Candidate, error) { return nil, nil }
	r, err = b.activations(context.Background())
	require.NoError(t, err)
	require.Empty(t, r.Layers, "there is no choice")
}
