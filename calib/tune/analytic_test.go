package tune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// What the sums predict is what happens: with the weight of one operator rounded and all else in float, the mean of each of its output
// channels moves by as much, on the samples that the sums are of.
func TestShiftsArePredictedExactly(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 4, 4)
	ls, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	session, err := exec.New(b.Reference, exec.Options{})
	require.NoError(t, err)
	q, err := b.Simulate(b.Graph, b.Set, nil)
	require.NoError(t, err)
	runner := session.NewRunner()
	for _, l := range ls {
		shift, err := b.shift(l.node)
		require.NoError(t, err)
		require.Len(t, shift, l.channels)
		weight := sim.Only([]tqc.SlotID{b.Set.Input(l.node, 1)})
		moved, count := make([]float64, l.channels), 0
		for _, s := range sampleList(1000, 20) { // those of the statistics
			if exec.HeldOut(s.Hash) {
				continue
			}
			var outs [2]*tensor.Tensor
			for i, h := range []*exec.Hooks{{}, q.Hooks(weight)} {
				values, err := runner.RunAll(context.Background(), s.Feeds, h, func(v graph.ValueID) bool { return v == l.output })
				require.NoError(t, err)
				outs[i] = values[l.output]
			}
			m, err := momentOf(outs[1], outs[0], l.axis)
			require.NoError(t, err)
			for c := range moved {
				moved[c] += m.sums[c]
			}
			count += m.count
		}
		largest := 0.0
		for c := range moved {
			require.InDelta(t, -moved[c]/float64(count), shift[c], 2e-6, "%s, channel %d", b.Graph.Node(l.node).Name, c)
			largest = max(largest, shift[c], -shift[c])
		}
		require.Greater(t, largest, 1e-3, "there is something to predict")
	}
}

func TestAnalyticCorrectionLowersTheError(t *testing.T) {
	b, added := bench(t, &target.TRTInt8, 12, 24)
	b.Fit = b.Fit[:1] // it is fitted on statistics
	reports, err := b.Tune(context.Background(), &Analytic)
	require.NoError(t, err)
	require.True(t, reports[0].Confirmed)
	require.Less(t, reports[0].After.NSR, 0.9*reports[0].Before.NSR)
	require.Len(t, b.Overlay(b.Set, added).Entries, reports[0].Kept)

	b, _ = bench(t, &target.TRTInt8, 24, 24)
	both, err := b.Tune(context.Background(), &Analytic, &Bias)
	require.NoError(t, err)
	require.Equal(t, "bias-analytic", both[0].Name)
	require.Equal(t, both[0].After, both[1].Before, "each starts where the one before ended")
	require.Equal(t, both[1].Kept > 0, both[1].Change < 0 && both[1].Confirmed, "what does not help on top of it is taken back")

	b.Sums = nil
	_, err = b.Tune(context.Background(), &Analytic)
	require.ErrorIs(t, err, errNoSums)
}

func TestShiftOfATransposedConvolution(t *testing.T) {
	g := graphtest.Parse(t, `opset 13
input x: f32[1,8,12,12]
const w: f32[8,3,3,3] = normal(seed=1, std=0.2)
y = ConvTranspose(x, w) {pads=[1,0,1,1], strides=[2,2], group=2} "t"
output y
`)
	require.Empty(t, graph.InferShapes(g))
	data := sampleList(1000, 12)
	stats, err := calib.Run(context.Background(), g, &exec.InMemory{Samples: data}, calib.Config{})
	require.NoError(t, err)
	id, _ := g.LookupNode("t")
	n := g.Node(id)
	w := g.Const(n.Inputs[1])
	rounded := w.Clone()
	for i, v := range rounded.F32() {
		rounded.F32()[i] = float32(int(v*8)) / 8
	}
	shift := meanShift(n, w, rounded, stats.Sums("t"))
	require.Len(t, shift, 6)
	moved, count := make([]float64, 6), 0
	for i, weight := range []*tensor.Tensor{w, rounded} {
		h := g.Clone()
		h.SetConst(n.Inputs[1], weight)
		session, err := exec.New(h, exec.Options{})
		require.NoError(t, err)
		for _, s := range data {
			if exec.HeldOut(s.Hash) {
				continue
			}
			out, err := session.NewRunner().Run(context.Background(), s.Feeds, nil)
			require.NoError(t, err)
			plane := tensor.Count(out[0].Shape[2:])
			count += plane
			for k, v := range out[0].F32() {
				moved[k/plane] += float64(v) * float64(2*i-1)
			}
		}
	}
	for c := range moved {
		require.InDelta(t, -2*moved[c]/float64(count), shift[c], 2e-6, "channel %d", c)
	}
	require.Nil(t, meanShift(n, tensor.New(tensor.Float32, 8, 3, 2, 3), rounded, stats.Sums("t")), "another window")
}
