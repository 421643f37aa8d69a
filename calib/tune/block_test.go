package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

func TestBlockLowersTheErrorOfUnseenSamples(t *testing.T) {
	longtest.Need(t, "learns for 400 steps")
	b, _ := bench(t, &target.TRTInt8, 48, 32)
	b.BlockSteps = 400
	reports, err := b.Tune(context.Background(), &Bias, &Block)
	require.NoError(t, err)
	r := reports[1]
	require.True(t, r.Confirmed, r.Note)
	require.Less(t, r.After.NSR, 0.85*r.Before.NSR)
	for _, l := range r.Layers {
		require.Len(t, l.Tried, 1)
	}
}

func TestBlockIsTheSameForAnyThreads(t *testing.T) {
	run := func(threads int) *Bench {
		b, _ := bench(t, &target.ONNXRuntime, 20, 8)
		b.BlockSteps, b.Force, b.Threads = 30, true, threads
		_, err := b.Tune(context.Background(), &Block)
		require.NoError(t, err)
		return b
	}
	one, two := run(1), run(3)
	for _, v := range one.Graph.Values() {
		require.Equal(t, one.Graph.Const(v), two.Graph.Const(v), one.Graph.Value(v).Name)
	}
}

func TestBlocksBeginAndEndWithOneTensor(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 1, 1)
	list, err := b.blocks()
	require.NoError(t, err)
	var names []string
	for _, k := range list {
		names = append(names, k.name(b.Graph)+" to "+b.Graph.Value(k.exit).Name)
		require.Len(t, k.inputs, 1)
	}
	require.Equal(t, []string{"c1 to r1", "c2 and 1 more to r3", "c4 to l"}, names)
}

// TestALessonIsTheSimulation: what is learnt on computes, with weights rounded to nearest and everything quantized, what the simulation
// does.
func TestALessonIsTheSimulation(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} {
		b, _ := bench(t, platform, 16, 8)
		b.shared = new(sim.Constants)
		list, err := b.blocks()
		require.NoError(t, err)
		p, err := b.passage(list)
		require.NoError(t, err)
		for _, k := range list {
			require.NoError(t, p.run(context.Background(), k, b.Graph, p.list, true))
			l, err := p.lesson(k)
			require.NoError(t, err)
			got, err := l.measure(context.Background(), l.session.NewRunner(), l.feeds(), p.list[:16])
			require.NoError(t, err)
			want := 0.0
			for _, s := range p.list[:16] {
				m, err := momentOf(s.yq, s.yf, 0)
				require.NoError(t, err)
				want += m.errors
			}
			require.InEpsilon(t, want, got, 1e-2, k.name(b.Graph))
			for _, s := range p.list {
				s.float.kept[k.exit], s.quantized.kept[k.exit] = s.yf, s.next
			}
		}
	}
}

func TestASoftWeightBeginsWhereTheWeightIs(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 1, 1)
	list, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	l := list[1]
	w := b.Reference.Const(b.Graph.Node(l.node).Inputs[graph.WeightInput])
	nearest, err := quantized(b.Set, l.weight, w)
	require.NoError(t, err)
	hard := tensor.New(tensor.Float32, w.Shape...)
	s, err := newSoft(w, w, b.Set, l.weight)
	require.NoError(t, err)
	s.weight(hard.F32(), true)
	require.Equal(t, nearest.F32(), hard.F32())
	soft := tensor.New(tensor.Float32, w.Shape...)
	s.weight(soft.F32(), false)
	for i, x := range w.F32() {
		require.InDelta(t, x, soft.F32()[i], 0.011*float64(s.scale[i]))
	}

	// A tuned weight may be further away than the nearest step.
	tuned := nearest.Clone()
	for i := range tuned.F32() {
		if g := b.Set.Grid(l.weight, 0); i%3 == 0 && tuned.F32()[i] < s.scale[i]*float32(g.QMax) {
			tuned.F32()[i] += s.scale[i]
		}
	}
	s, err = newSoft(w, tuned, b.Set, l.weight)
	require.NoError(t, err)
	s.weight(hard.F32(), true)
	require.InDeltaSlice(t, tuned.F32(), hard.F32(), 1e-6)
}
