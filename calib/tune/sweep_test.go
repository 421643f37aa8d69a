package tune

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/overlay"
	"qwb/quantizer/passes"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// scaled proposes the weight's scales times factors, the weight as it is, with or without a correction of the bias.
func scaled(corrected bool, factors ...float32) *Proposer {
	return &Proposer{Name: "scaled", Trials: len(factors), Propose: func(_ context.Context, l *LayerBench) ([]Proposal, error) {
		var list []Proposal
		for _, f := range factors {
			p := tqc.Params{ZeroPoint: l.Set.Params(l.Slot).ZeroPoint}
			for _, s := range l.Set.Params(l.Slot).Scale {
				p.Scale = append(p.Scale, s*f)
			}
			list = append(list, Proposal{By: "scaled", Params: &p})
			if !corrected {
				list[len(list)-1].Bias = make([]float64, biasChannels(l.Graph, l.Node))
			}
		}
		return list, nil
	}}
}

// What a proposal is judged by is what the graph does with it: the operator run alone computes the bits of the graph's.
func TestProposalsAreJudgedByWhatTheGraphDoes(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} {
		b, _ := bench(t, platform, 4, 20)
		b.Threads = 2
		list, err := layers(b.Graph, b.Set)
		require.NoError(t, err)
		b.Frozen = map[graph.NodeID]bool{}
		w, err := b.walk(list, b.Fit)
		require.NoError(t, err)
		for k, l := range list {
			require.NoError(t, w.enter(context.Background(), k, true))
			proposals, err := scaled(false, 1, 0.7).Propose(context.Background(), &LayerBench{Bench: b, Node: l.node, Slot: l.weight, walk: w})
			require.NoError(t, err)
			trials, err := w.try(context.Background(), proposals)
			require.NoError(t, err)
			for i, s := range w.states {
				require.InEpsilon(t, s.now.errors, trials[0].after[i].errors, 1e-12, "nothing was changed")
			}
			promised := trials[1].after
			w.set(l, trials[1])
			w.leave(true)
			require.NoError(t, w.enter(context.Background(), k, false))
			for i, s := range w.states {
				require.InEpsilon(t, promised[i].errors, s.now.errors, 1e-12)
			}
			w.leave(false)
		}
	}
}

func TestSweepKeepsTheBestProposalThatHelps(t *testing.T) {
	var want *overlay.Overlay
	for _, o := range []struct {
		threads int
		memory  int64
	}{{1, 0}, {3, 0}, {2, 1}, {2, 1 << 18}, {1, 1 << 19}} {
		b, added := bench(t, &target.TRTInt8, 12, 24)
		b.Threads, b.Memory = o.threads, o.memory
		list, err := layers(b.Graph, b.Set)
		require.NoError(t, err)
		for _, l := range list { // scales that are twice as large as need be
			p := tqc.Params{ZeroPoint: b.Set.Params(l.weight).ZeroPoint}
			for _, s := range b.Set.Params(l.weight).Scale {
				p.Scale = append(p.Scale, 2*s)
			}
			require.NoError(t, b.Set.Render(l.weight, p))
		}
		_, err = passes.SolveBias(b.Graph, b.Set)
		require.NoError(t, err)
		m := &Method{Name: "scaled", Run: func(ctx context.Context, b *Bench) (*Report, error) {
			return b.Sweep(ctx, Bias.Proposer, scaled(true, 2, 0.5, 0.45))
		}}
		before := b.Set.Clone()
		reports, err := b.Tune(context.Background(), m)
		require.NoError(t, err)
		require.Positive(t, reports[0].Kept)
		frozen := 0
		got := b.Overlay(b.Set, added)
		for _, l := range reports[0].Layers {
			require.Equal(t, []int{1, 3}, []int{l.Tried[0].Trials, l.Tried[1].Trials})
		}
		for _, e := range got.Entries {
			if e.Input != graph.WeightInput {
				continue
			}
			frozen++
			id, _ := b.Graph.LookupNode(e.Node)
			s := b.Set.Input(id, 1)
			require.Equal(t, b.Set.Params(s).Scale, e.Scale)
			require.Less(t, e.Scale[0], before.Params(s).Scale[0])
			require.True(t, e.Freezes(&b.Set.Slot(s).Config))
			require.Equal(t, overlay.TensorHash(e.Value), e.Base, "only scales were tuned")
			if bias := b.Set.Input(id, 2); b.Set.Slot(bias).State().Quantizes() {
				require.InDelta(t, b.Set.Params(b.Set.Input(id, 0)).Scale[0]*e.Scale[0], b.Set.Params(bias).Scale[0], 1e-12)
			}
		}
		require.Positive(t, frozen)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func TestWhatWasTakenBackIsAsItWas(t *testing.T) {
	b, added := bench(t, &target.ONNXRuntime, 4, 8)
	graph, set := b.Graph, b.Set
	m := &Method{Name: "scaled", Run: func(ctx context.Context, b *Bench) (*Report, error) { return b.Sweep(ctx, scaled(true, 0.8)) }}
	reports, err := b.Tune(context.Background(), m)
	require.NoError(t, err)
	require.Contains(t, reports[0].Note, "taken back")
	require.Same(t, graph, b.Graph)
	require.Same(t, set, b.Set)
	require.Empty(t, b.Overlay(b.Set, added).Entries)
}

// What a proposer is shown is what the operator reads: behind a quantized prefix, and in float.
func TestInputsOfBothLanes(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 5, 20)
	b.Threads = 2
	seen := 0
	p := &Proposer{Name: "look", Trials: 1, Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
		n := l.Graph.Node(l.Node)
		var first *tensor.Tensor
		samples := 0
		err := l.Inputs(ctx, func(xq, xf *tensor.Tensor) error {
			require.Equal(t, xq.Shape, xf.Shape)
			require.Equal(t, tensor.RowMajor, xq.Layout)
			on := tensor.New(tensor.Float32, xq.Shape...)
			s := l.Set.Input(l.Node, 0)
			if l.Set.Slot(s).State().Quantizes() {
				require.NoError(t, sim.Apply(on, xq, &l.Set.Slot(s).Config, l.Set.Params(s), sim.Quantize))
				require.Equal(t, on.F32(), xq.F32(), "it lies on the grid")
			}
			if n.Name == "c1" {
				require.Equal(t, l.Fit[samples].Feeds["x"].F32(), xf.F32())
			}
			require.NotEqual(t, xf.F32(), xq.F32())
			first, samples = xq, samples+1
			return nil
		})
		require.NotNil(t, first)
		require.Equal(t, len(l.Fit), samples)
		seen++
		if n.Name == "c4" {
			return nil, errors.New("enough")
		}
		return nil, err
	}}
	_, err := b.Sweep(context.Background(), p)
	require.ErrorContains(t, err, `"c4"`)
	require.ErrorContains(t, err, "look: enough")
	require.Equal(t, 4, seen)
}

func TestSweepRefusesWhatIsNoWeight(t *testing.T) {
	for name, p := range map[string]Proposal{
		"a weight f32[2]":      {Weight: tensor.New(tensor.Float32, 2)},
		"1 scales":             {Params: &tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}}},
		"2 numbers for a bias": {Bias: []float64{1, 2}},
	} {
		b, _ := bench(t, &target.TRTInt8, 2, 2)
		_, err := b.Sweep(context.Background(), &Proposer{Name: "wrong", Trials: 1,
			Propose: func(context.Context, *LayerBench) ([]Proposal, error) {
				p.By = "wrong"
				return []Proposal{p}, nil
			}})
		require.ErrorContains(t, err, "wrong")
		require.ErrorContains(t, err, name)
	}
}

func TestStagesOfAuto(t *testing.T) {
	run := &Method{Name: "structure", Run: func(context.Context, *Bench) (*Report, error) { return &Report{}, nil }}
	one, two := &Method{Name: "one", Proposer: scaled(true, 2)}, &Method{Name: "two", Proposer: scaled(true, 0.5)}
	names := func(list []*Method) (out []string) {
		for _, m := range list {
			out = append(out, m.Name)
		}
		return out
	}
	stages := Auto([]*Method{run, &Analytic, &Bias, one, two})
	require.Equal(t, []string{"structure", "bias-analytic", "bias", "one+two", "bias"}, names(stages))
	require.Equal(t, []*Proposer{Bias.Proposer, one.Proposer, two.Proposer}, stages[3].stage)
	require.Equal(t, []string{"bias-analytic", "bias"}, names(Auto([]*Method{&Analytic, &Bias})))

	b, _ := bench(t, &target.TRTInt8, 12, 24)
	reports, err := b.Tune(context.Background(), Auto([]*Method{&Bias, one, two})...)
	require.NoError(t, err)
	require.Len(t, reports, 3)
	for i := range reports[1:] {
		require.Equal(t, reports[i].After, reports[i+1].Before)
		require.LessOrEqual(t, reports[i+1].After.NSR, reports[i].After.NSR)
	}
	require.Len(t, reports[1].Layers[0].Tried, 3)
}

// Methods that learn are tried where the others leave much of the error, and those that are named always.
func TestAutoLearnsWhereTheErrorIsLarge(t *testing.T) {
	for above, learns := range map[float64]bool{1e-4: true, 0.5: false} {
		b, _ := benchOf(t, fewBitTarget(), 24, 24)
		learners := Learners()
		learners[0].above, learners[1].above = above, above
		b.BlockSteps = 60
		reports, err := b.Tune(context.Background(), learners...)
		require.NoError(t, err)
		if require.Equal(t, learns, len(reports) == 2); learns {
			require.Equal(t, "block", reports[0].Name)
			require.True(t, reports[0].Confirmed, reports[0].Note)
			require.Equal(t, "distill", reports[1].Name)
			require.Zero(t, b.Blocks, "as it was")
		}
	}
}

// Where a sweep with several methods is taken back as a whole, each of them is tried by itself.
func TestMethodsAreTriedAloneWhereTheirSweepIsTakenBack(t *testing.T) {
	one, two := &Method{Name: "one", Proposer: scaled(true, 2)}, &Method{Name: "two", Proposer: scaled(true, 0.5)}
	stages := Auto([]*Method{&Bias, one, two})
	names := func(reports ...*Report) (out []string) {
		for _, m := range expand(stages, reports) {
			out = append(out, m.Name)
		}
		return out
	}
	plain := []string{"bias", "one+two", "bias"}
	kept := &Report{Kept: 1, Layers: []Layer{{Tried: []Step{{Kept: true}}}}}
	back := &Report{Layers: []Layer{{Tried: []Step{{Kept: true}}}}}
	none := &Report{Layers: []Layer{{Tried: []Step{{}}}}}
	require.Equal(t, plain, names())
	require.Equal(t, plain, names(back, kept))
	require.Equal(t, plain, names(back, none), "nothing would be kept of one alone either")
	require.Equal(t, []string{"bias", "one+two", "one", "two", "bias"}, names(kept, back))
	require.Equal(t, []string{"bias", "one+two", "one", "two", "bias"}, names(kept, back, back, kept))

	// Fitted on samples of another kind, nothing is worth keeping.
	b, _ := bench(t, &target.ONNXRuntime, 12, 24)
	for _, s := range b.Fit {
		for i := range s.Feeds["x"].F32() {
			s.Feeds["x"].F32()[i] *= -6
		}
	}
	reports, err := b.Tune(context.Background(), Auto(Methods)...)
	require.NoError(t, err)
	after, err := b.Losses(context.Background())
	require.NoError(t, err)
	require.LessOrEqual(t, after.Estimate().Mean, reports[0].Before.NSR)
}
