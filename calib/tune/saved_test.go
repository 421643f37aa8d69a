package tune

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/overlay"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// wide is a bench whose weights have scales twice as large as need be.
func wide(t *testing.T) (*Bench, map[string]bool) {
	b, added := bench(t, &target.ONNXRuntime, 10, 20)
	list, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	for _, l := range list {
		p := tqc.Params{ZeroPoint: b.Set.Params(l.weight).ZeroPoint}
		for _, s := range b.Set.Params(l.weight).Scale {
			p.Scale = append(p.Scale, 2*s)
		}
		require.NoError(t, b.Set.Render(l.weight, p))
	}
	_, err = passes.SolveBias(b.Graph, b.Set)
	require.NoError(t, err)
	return b, added
}

func stages() []*Method {
	return Auto([]*Method{&Bias, {Name: "scaled", Proposer: scaled(true, 0.45, 0.5)}})
}

// file writes a place down and reads it, as a program does.
func file(t *testing.T, s *Saved) *Saved {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	back := new(Saved)
	require.NoError(t, json.Unmarshal(b, back))
	for from, to := range map[*overlay.Overlay]**overlay.Overlay{s.Begin: &back.Begin, s.Now: &back.Now} {
		b, err := from.Encode()
		require.NoError(t, err)
		*to, err = overlay.Parse(b)
		require.NoError(t, err)
	}
	if s.Lesson != nil {
		back.Lesson.Values, back.Lesson.Best = s.Lesson.Values, s.Lesson.Best
	}
	return back
}

// Interrupted after any operator, or in the middle of one, and taken up again, tuning ends in the same bytes.
func TestInterruptedTuningEndsInTheSameBytes(t *testing.T) {
	type outcome struct{ overlay, reports string }
	finish := func(b *Bench, added map[string]bool, reports []*Report) outcome {
		o, err := b.Overlay(b.Set, added).Encode()
		require.NoError(t, err)
		r, err := json.Marshal(reports)
		require.NoError(t, err)
		return outcome{string(o), string(r)}
	}
	b, added := wide(t)
	b.Work = &Work{Limit: 500}
	events := 0
	b.Progress = func(Progress) { events++ }
	reports, err := b.Tune(context.Background(), stages()...)
	require.NoError(t, err)
	require.Positive(t, reports[1].Kept)
	want, spent := finish(b, added, reports), b.Work.Spent
	require.Equal(t, 15, events, "three stages of five operators")
	for _, stop := range []int{1, 5, 8, 11, 15} {
		b, _ := wide(t)
		b.Work = &Work{Limit: 500}
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
				place = file(t, state())
			}
			return nil
		}
		_, err := b.Tune(ctx, stages()...)
		require.ErrorContains(t, err, "enough")
		require.Equal(t, stop, 5*len(place.Reports)+len(place.Layers), "%s", place)
		again, added := wide(t)
		again.Threads, again.Resume = 3, place
		reports, err := again.Tune(context.Background(), stages()...)
		require.NoError(t, err)
		require.Equal(t, want, finish(again, added, reports), "stopped after %d", stop)
		require.Equal(t, spent, again.Work.Spent)
	}
}

func TestBudget(t *testing.T) {
	b, _ := wide(t)
	b.Work = &Work{}
	reports, err := b.Tune(context.Background(), stages()...)
	require.NoError(t, err)
	all := b.Work.Spent
	require.Greater(t, all, 2*20.0+3*(20+2*30), "judging and three sweeps over 30 samples")
	require.Less(t, all, 11*40.0)
	require.Empty(t, reports[2].Note)

	for _, part := range []float64{0.2, 0.5, 0.7} {
		b, _ := wide(t)
		b.Work = &Work{Limit: part * all}
		reports, err := b.Tune(context.Background(), stages()...)
		require.NoError(t, err)
		require.Len(t, reports, 3)
		require.Equal(t, "not tried: the budget is spent", reports[2].Note)
		require.Less(t, b.Work.Spent, part*all+60, "what was begun was finished")
		again, _ := wide(t)
		again.Work, again.Threads = &Work{Limit: part * all}, 3
		other, err := again.Tune(context.Background(), stages()...)
		require.NoError(t, err)
		require.Equal(t, reports, other)
	}

	// A time becomes work by what the first forwards take.
	b, _ = wide(t)
	b.Work = &Work{Time: 10 * time.Second, Clock: func() func() time.Duration { return func() time.Duration { return 4 * time.Second } }}
	_, err = b.Tune(context.Background(), stages()...)
	require.NoError(t, err)
	require.Equal(t, 100.0, b.Work.Limit, "40 forwards took 4 s")
}
