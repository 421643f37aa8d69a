package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
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

// learntBytes is all that tuning leaves.
func learntBytes(t *testing.T, b *Bench, reports []*Report, added map[string]bool) string {
	o, err := b.Overlay(b.Set, added).Encode()
	require.NoError(t, err)
	text, err := json.Marshal([]any{reports, b.Chosen, b.Work.Spent})
	require.NoError(t, err)
	return string(o) + string(text)
}

func TestLearningIsTheSameForAnyThreads(t *testing.T) {
	for _, m := range []*Method{&Block, &Distill} {
		for _, optimizer := range []string{Adam, SignSGD} {
			var first string
			for _, threads := range []int{1, 2} {
				b, added := benchOf(t, fewBitTarget(), 16, 8)
				b.BlockSteps, b.Force, b.Threads, b.Optimizer = 6, true, threads, optimizer
				reports, err := b.Tune(context.Background(), m)
				require.NoError(t, err)
				require.Positive(t, reports[0].Kept)
				got := learntBytes(t, b, reports, added)
				require.Equal(t, cmp.Or(first, got), got, "%s, %s, %d threads", m.Name, optimizer, threads)
				first = got
			}
		}
	}
}

// What the samples hold where blocks meet takes at most the memory, and so does what a step holds; fewer samples are learnt on, and with
// too little memory for a few it is an error.
func TestBlockKeepsToTheMemory(t *testing.T) {
	for _, memory := range []int64{4 << 20, 3 << 19, 1 << 15} {
		b, _ := bench(t, &target.ONNXRuntime, 40, 8)
		said := 0
		b.Memory, b.StepMemory, b.Say = memory, memory/4, func(string) { said++ }
		b.ready()
		list, err := b.blocks()
		require.NoError(t, err)
		p, err := b.passage(list)
		if memory == 1<<15 {
			require.ErrorContains(t, err, "more than --mem allows")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, memory == 3<<19, said == 1)
		require.Equal(t, memory == 3<<19, p.fitting < 40)
		for _, k := range list {
			require.NoError(t, p.run(context.Background(), k, p.list, true))
			held := map[*tensor.Tensor]int64{}
			for _, s := range p.list {
				for _, x := range slices.Concat(s.float.kept, s.quantized.kept, s.yf, s.yq) {
					if x != nil {
						held[x] = int64(4 * x.Len())
					}
				}
			}
			samples, step := int64(0), int64(0)
			for _, n := range held {
				samples += n
			}
			l, err := p.lesson(k)
			require.NoError(t, err)
			for _, v := range l.session.Graph().Values() {
				if shape, ok := l.session.Graph().Value(v).Shape.Ints(); ok {
					step += int64(4 * tensor.Count(shape))
				}
			}
			require.LessOrEqual(t, samples, memory)
			require.True(t, step <= memory/4 || l.batch == 1)
			p.leave(k)
		}
	}
}

// fewBitTarget is a platform whose weights and activations have four bits.
func fewBitTarget() *target.Target {
	few := target.ONNXRuntime
	few.Weight.Bits, few.Weight.QMin, few.Weight.QMax = 4, -7, 7
	few.Activation.QMin, few.Activation.QMax = 0, 15
	return &few
}

// Scales of activations that few bits have, and that nothing outside a block shares, are learnt.
func TestBlockLearnsScales(t *testing.T) {
	b, _ := benchOf(t, fewBitTarget(), 24, 24)
	b.BlockSteps = 60
	reports, err := b.Tune(context.Background(), &Block)
	require.NoError(t, err)
	require.True(t, reports[0].Confirmed)
	require.NotEmpty(t, b.Chosen)
	for _, c := range b.Chosen {
		require.Empty(t, c.Method)
		require.Equal(t, c.Params, *b.Set.Params(c.Slot))
		require.NotEqual(t, c.Params.Scale, b.first.Params(c.Slot).Scale)
	}
}

// TestGradientsOfScalesAreLSQs: round(x/s) - x/s between the ends of the grid, and the end outside (Esser et al. 2020, equation 3).
func TestGradientsOfScalesAreLSQs(t *testing.T) {
	const network = "opset 13\ninput x: f32[1,8,12,12]\nconst w: f32[8,1,1,1] = normal(seed=1, std=0.2)\n" +
		"c = Conv(x, w) {group=8} \"c\"\ny = Softmax(c)\noutput y\n"
	few := fewBitTarget()
	few.BorderCost = 0 // the network is small
	b, _ := benchNet(t, network, few, 2, 1)
	b.shared = new(sim.Constants)
	list, err := b.blocks()
	require.NoError(t, err)
	require.Len(t, list, 1)
	p, err := b.passage(list)
	require.NoError(t, err)
	require.NoError(t, p.run(context.Background(), list[0], p.list, true))
	l, err := p.lesson(list[0])
	require.NoError(t, err)
	require.Len(t, l.scales, 1, "what enters; the exit is the next block's")
	feeds := l.feeds()
	_, _, err = l.measure(context.Background(), l.session.NewRunner(), feeds, p.list[:2]) // nothing is dropped
	require.NoError(t, err)
	s := l.scales[0].first / 2
	feeds[fedScale+"0"].F32()[0], feeds[fedFactor+"0"].F32()[0] = s, 1
	grid := b.Set.Grid(l.scales[0].root, 0)
	x, w := feeds["x"].F32(), feeds[fedWeight+"0"].F32()
	clear(feeds[fedTarget+"0"].F32())
	clear(feeds[fedBias+"0"].F32())
	out, err := l.session.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	want, clipped := 0.0, 0
	for i, v := range x {
		at := float64(v) / float64(s)
		low, high := float64(grid.QMin-grid.ZeroPoint), float64(grid.QMax-grid.ZeroPoint)
		code := min(max(math.RoundToEven(at), low), high)
		slope := code
		if code == math.RoundToEven(at) {
			slope -= at
		} else {
			clipped++
		}
		k := float64(w[i/144%8])
		want += code * float64(s) * k * k * slope // dL/dy = y
	}
	require.Greater(t, clipped, len(x)/100)
	require.InEpsilon(t, want, out[len(out)-1].F32()[0], 1e-4)
}

// Interrupted after a block and taken up again, it ends in the same bytes, and has done the same work.
func TestInterruptedBlockEndsInTheSameBytes(t *testing.T) {
	interruptedBlocks(t, 0, Adam)
	interruptedBlocks(t, 2, SignSGD)
}

func interruptedBlocks(t *testing.T, blocks int, optimizer string) {
	start := func() (*Bench, map[string]bool) {
		b, added := benchOf(t, fewBitTarget(), 20, 8)
		b.BlockSteps, b.Blocks, b.Force, b.Optimizer = 20, blocks, true, optimizer
		return b, added
	}
	finish := func(b *Bench, added map[string]bool) string {
		reports, err := b.Tune(context.Background(), &Block)
		require.NoError(t, err)
		require.Len(t, reports[0].Layers, 3)
		tried := 0
		for _, l := range reports[0].Layers {
			tried += len(l.Tried)
		}
		require.Equal(t, cmp.Or(blocks, 3), tried)
		return learntBytes(t, b, reports, added)
	}
	b, added := start()
	want := finish(b, added)
	require.NotEmpty(t, b.Chosen)
	for stop, step := range map[int]int{0: 7, 1: 0, 2: 19} { // behind so many blocks, or in the next one, of some in the first that is learnt
		b, _ := start()
		ctx, cancel := context.WithCancel(context.Background())
		var place *Saved
		b.Save = func(_ bool, state func() *Saved) error {
			if ctx.Err() == nil {
				place = file(t, state())
			}
			here := len(place.Layers) == stop
			if step > 0 {
				here = (here || blocks > 0) && place.Lesson != nil && place.Lesson.Step == step
			}
			if here {
				cancel()
			}
			return nil
		}
		_, err := b.Tune(ctx, &Block)
		require.ErrorIs(t, err, context.Canceled)
		again, added := start()
		again.Resume, again.Threads = place, 3
		require.Equal(t, want, finish(again, added), "stopped after %d", stop)
	}
}

// Where the integers of a target are not the simulation's, they decide: what is learnt takes back biases that make up for shifts that do
// not round. See TestIntegersAreWhatCounts.
func TestIntegersDecideAboutBlocks(t *testing.T) {
	platform := target.Pow2
	for _, judged := range []string{"", "pow2-half-even", "pow2-floor"} {
		b, _ := benchOf(t, &platform, 24, 24)
		halfAStepMore(t, b)
		if judged != "" {
			runs(t, b, &platform, judged)
		}
		b.BlockSteps = 60
		reports, err := b.Tune(context.Background(), &Block)
		require.NoError(t, err)
		r := reports[0]
		require.Equal(t, judged != "pow2-floor", r.Confirmed, "%q: %v", judged, r.Change)
		require.Equal(t, r.Confirmed, r.Kept > 0)
		tried := 0
		for _, l := range r.Layers {
			for _, s := range l.Tried {
				if s.Change < 0 {
					tried++
				}
			}
		}
		require.Positive(t, tried, "the simulation gets better")
	}
}

// roundsDown has a bench simulate activations that are rounded as a shift does.
func roundsDown(b *Bench) {
	simulate := b.Simulate
	b.Simulate = func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
		return simulate(g, set.Rounded(qmath.Down), shared)
	}
}

// Simulated as the integers round, a block learns what is right for them: they get much better, beside what is learnt for a simulation that
// rounds to nearest.
func TestBlocksLearnTheRoundingOfIntegers(t *testing.T) {
	platform := target.Pow2
	var after []float64
	for _, same := range []bool{false, true} {
		b, _ := benchOf(t, &platform, 24, 24)
		if same {
			roundsDown(b)
			simulated, err := b.Losses(context.Background())
			require.NoError(t, err)
			runs(t, b, &platform, "pow2-floor")
			run, err := b.Losses(context.Background())
			require.NoError(t, err)
			require.InEpsilon(t, run.Estimate().Mean, simulated.Estimate().Mean, 1e-3)
		}
		runs(t, b, &platform, "pow2-floor")
		b.BlockSteps = 60
		reports, err := b.Tune(context.Background(), &Block)
		require.NoError(t, err)
		t.Logf("%v: %g to %g, kept %d", same, reports[0].Before.NSR, reports[0].After.NSR, reports[0].Kept)
		require.True(t, reports[0].Confirmed)
		after = append(after, b.End.Estimate().Mean)
	}
	require.Less(t, after[1], after[0]/4)
}

func TestBlocksBeginAndEndWithOneTensor(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 1, 1)
	list, err := b.blocks()
	require.NoError(t, err)
	var names []string
	for _, k := range list {
		names = append(names, k.name(b.Graph)+" to "+b.Graph.Value(k.exit()).Name)
		require.Len(t, k.inputs, 1)
	}
	require.Equal(t, []string{"c1 to r1", "c2 and 1 more to r3", "c4 to l"}, names)
}

// TestALessonIsTheSimulation: what is learnt on computes, with weights rounded to nearest and everything quantized, what the simulation
// does.
func TestALessonIsTheSimulation(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime, &target.Pow2} {
		b, _ := bench(t, platform, 16, 8)
		b.shared = new(sim.Constants)
		if platform == &target.Pow2 {
			roundsDown(b)
		}
		list, err := b.blocks()
		require.NoError(t, err)
		p, err := b.passage(list)
		require.NoError(t, err)
		for _, k := range list {
			require.NoError(t, p.run(context.Background(), k, p.list, true))
			l, err := p.lesson(k)
			require.NoError(t, err)
			got, _, err := l.measure(context.Background(), l.session.NewRunner(), l.feeds(), p.list[:16])
			require.NoError(t, err)
			want := 0.0
			for _, s := range p.list[:16] {
				m, err := momentOf(s.yq[0], s.yf[0], 0)
				require.NoError(t, err)
				want += m.errors
			}
			require.InEpsilon(t, want, got[0], 1e-2, k.name(b.Graph))
			p.leave(k)
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
	s, err := newSoft(w, w, b.Set, l.weight, Adam)
	require.NoError(t, err)
	s.weight(nil, hard.F32(), true)
	require.Equal(t, nearest.F32(), hard.F32())
	soft := tensor.New(tensor.Float32, w.Shape...)
	s.weight(nil, soft.F32(), false)
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
	s, err = newSoft(w, tuned, b.Set, l.weight, Adam)
	require.NoError(t, err)
	s.weight(nil, hard.F32(), true)
	require.InDeltaSlice(t, tuned.F32(), hard.F32(), 1e-6)
}
