package tune

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/quantizer/overlay"
	"qwb/quantizer/target"
)

// inTurns is a bench of few samples.
func inTurns(t *testing.T, n int) (*Bench, map[string]bool) {
	b, added := bench(t, &target.ONNXRuntime, 0, n)
	b.Fit = b.Held
	b.Halves = &[2][]*exec.Sample{b.Held[:n/2], b.Held[n/2:]}
	return b, added
}

// Few samples are judged by what the other half fitted: the error after is that of two networks, on the half that neither has seen, and
// what is kept is fitted on all samples and good for others.
func TestHalvesTakeTurns(t *testing.T) {
	ctx := context.Background()
	b, added := inTurns(t, 24)
	reports, err := b.Tune(ctx, &Bias)
	require.NoError(t, err)
	r := reports[0]
	require.True(t, r.Confirmed, r.Note)
	require.GreaterOrEqual(t, r.Kept, 3)
	require.Less(t, r.After.NSR, 0.7*r.Before.NSR)
	require.Len(t, b.End, 24)
	var want analysis.Losses
	for i := range b.Halves {
		one, _ := bench(t, &target.ONNXRuntime, 0, 1)
		one.Fit, one.Held, one.turn = b.Halves[i], b.Halves[1-i], true
		_, err := one.Sweep(ctx, Bias.Proposer)
		require.NoError(t, err)
		losses, err := one.Losses(ctx)
		require.NoError(t, err)
		want = append(want, losses...)
	}
	require.Equal(t, want, b.End)
	change, _, _ := Judge(b.Start, b.End, nil, 1)
	require.InEpsilon(t, analysis.CrossedError*change.Error, *r.ChangeError, 1e-12, "error bars are wider")

	other, _ := bench(t, &target.ONNXRuntime, 0, 40)
	before, err := other.Losses(ctx)
	require.NoError(t, err)
	o := b.Overlay(b.Set, added)
	require.NotEmpty(t, o.Entries)
	other.Held = sampleList(5000, 40)
	other.judge, other.Graph, other.Set = nil, b.Graph, b.Set
	after, err := other.Losses(ctx)
	require.NoError(t, err)
	require.Less(t, after.Estimate().Mean, 0.7*before.Estimate().Mean)
}

// What only one half would keep by chance is not kept: samples whose corrections contradict each other.
func TestTurnsKeepNothingThatTheOtherHalfDenies(t *testing.T) {
	b, added := inTurns(t, 24)
	for _, s := range b.Halves[0] {
		for i := range s.Feeds["x"].F32() {
			s.Feeds["x"].F32()[i] *= -6
		}
	}
	reports, err := b.Tune(context.Background(), &Bias)
	require.NoError(t, err)
	require.Zero(t, reports[0].Kept)
	require.Empty(t, b.Overlay(b.Set, added).Entries)
}

// Interrupted and taken up again, tuning in turns ends in the same bytes.
func TestInterruptedTurns(t *testing.T) {
	b, added := inTurns(t, 24)
	events := 0
	b.Progress = func(Progress) { events++ }
	reports, err := b.Tune(context.Background(), stages()...)
	require.NoError(t, err)
	want, err := b.Overlay(b.Set, added).Encode()
	require.NoError(t, err)
	for _, stop := range []int{1, events / 2, events - 1} {
		b, _ := inTurns(t, 24)
		ctx, cancel := context.WithCancelCause(context.Background())
		count := 0
		b.Progress = func(Progress) {
			if count++; count == stop {
				cancel(errors.New("enough"))
			}
		}
		var place *Saved
		b.Save = func(last bool, state func() *Saved) error {
			if last {
				s := state()
				place = file(t, s)
				for i := range s.Turns {
					raw, err := s.Turns[i].Begin.Encode()
					require.NoError(t, err)
					place.Turns[i].Begin, err = overlay.Parse(raw)
					require.NoError(t, err)
				}
			}
			return nil
		}
		_, err := b.Tune(ctx, stages()...)
		require.ErrorContains(t, err, "enough")
		again, added := inTurns(t, 24)
		again.Resume = place
		list, err := again.Tune(context.Background(), stages()...)
		require.NoError(t, err)
		got, err := again.Overlay(again.Set, added).Encode()
		require.NoError(t, err)
		require.Equal(t, want, got, "stopped after %d", stop)
		x, err := json.Marshal(reports)
		require.NoError(t, err)
		y, err := json.Marshal(list)
		require.NoError(t, err)
		require.JSONEq(t, string(x), string(y))
	}
}

// A method that fails is reported and changes nothing; the others go on. Alone it is an error.
func TestAFailingMethodEndsItself(t *testing.T) {
	fails := &Method{Name: "broken", Run: func(_ context.Context, b *Bench) (*Report, error) {
		b.Graph, b.Set = nil, nil
		return nil, errors.New("it broke")
	}}
	for _, make := range []func() (*Bench, map[string]bool){
		func() (*Bench, map[string]bool) { return bench(t, &target.TRTInt8, 24, 24) }, func() (*Bench, map[string]bool) { return inTurns(t, 24) },
	} {
		b, _ := make()
		reports, err := b.Tune(context.Background(), fails, &Bias)
		require.NoError(t, err)
		require.True(t, reports[0].Failed)
		require.Equal(t, "failed: it broke", reports[0].Note)
		require.Equal(t, reports[0].Before, reports[1].Before)
		require.Positive(t, reports[1].Kept)
		b, _ = make()
		_, err = b.Tune(context.Background(), fails)
		require.ErrorContains(t, err, "tune: broken: it broke")
	}
}

// Sums that have seen what is held out are made again of the samples to fit on.
func TestSumsOfTheSamplesToFitOn(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 24, 24)
	old := b.Sums
	b.Resum = true
	_, err := b.Tune(context.Background(), &Analytic)
	require.NoError(t, err)
	require.NotEqual(t, old("c2").Count, b.Sums("c2").Count)
	n := uint64(0)
	for range b.Fit {
		n += 144
	}
	require.Equal(t, n, uint64(b.Sums("c2").Count))
}

// Where exact weights would leave the error as it is, what changes weights is not tried: an Add of a large and a small tensor is rounded to
// steps that hide the small one.
func TestWeightsThatMakeNoErrorAreLeftAlone(t *testing.T) {
	const net = `opset 13
input x: f32[1,8,12,12]
const w: f32[16,8,3,3] = normal(seed=1, std=0.1)
const v: f32[16,16,3,3] = normal(seed=3, std=0.1)
const big: f32[1] = normal(seed=2, std=400)
a = Conv(x, w) {pads=[1,1,1,1]} "a"
b = Add(a, big) "b"
c = Sub(b, big) "c"
y = Conv(c, v) {pads=[1,1,1,1]} "y"
output y
`
	b, _ := benchNet(t, net, &target.ONNXRuntime, 24, 24)
	reports, err := b.Tune(context.Background(), Auto(Methods)...)
	require.NoError(t, err)
	skipped := 0
	for _, r := range reports {
		if strings.HasPrefix(r.Note, "not tried: the error is not made by weights") {
			skipped++
		}
	}
	require.GreaterOrEqual(t, skipped, 1, "%v", reports)
}

// What was tried before is tried again only where something was kept in between.
func TestNothingIsTriedTwiceOnTheSameNetwork(t *testing.T) {
	for _, c := range []struct {
		scale float32
		again bool
	}{{8, false}, {0.5, true}} {
		b, _ := wide(t)
		between := Method{Name: "scaled", Proposer: scaled(true, c.scale)}
		reports, err := b.Tune(context.Background(), &Bias, &between, &Bias)
		require.NoError(t, err)
		require.Equal(t, c.again, reports[1].Kept > 0)
		require.Equal(t, !c.again, reports[2].Note == "not tried: nothing has changed since it was tried before", reports[2].Note)
	}
}

// Auto does not learn from samples that take turns, and says how many would do.
func TestAutoDoesNotLearnFromFew(t *testing.T) {
	b, _ := inTurns(t, 24)
	learners := Learners()
	learners[0].above, learners[1].above = 1e-12, 1e-12
	reports, err := b.Tune(context.Background(), learners...)
	require.NoError(t, err)
	require.Len(t, reports, 2)
	for _, r := range reports {
		require.Contains(t, r.Note, "24 samples are few to learn from: give at least 64")
	}
}
