package bench_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/bench"
)

// scene is a clock that works advance, and other processes that use what they are told to.
type scene struct {
	now, others time.Duration
	log         []string
}

func (s *scene) options(rounds int, span time.Duration) bench.Options {
	return bench.Options{Clock: bench.Clock{Now: func() time.Duration {
		return s.now
	}, Others: func() (time.Duration, bool) { return s.others, true }},
		Rounds: rounds, Span: span}
}

func (s *scene) work(name string, took time.Duration) bench.Work {
	return func(context.Context) error {
		s.now += took
		s.log = append(s.log, name)
		return nil
	}
}

// Works run in turn, as often as fills the span, after a warm-up that does not count.
func TestMeasureTakesTurns(t *testing.T) {
	var s scene
	first := true
	slowStart := func(context.Context) error {
		s.now += 2 * time.Millisecond
		if first {
			s.now += time.Hour
		}
		first = false
		s.log = append(s.log, "a")
		return nil
	}
	o := s.options(3, 8*time.Millisecond)
	var told []int
	o.Progress = func(n int) { told = append(told, n) }
	series, err := bench.Measure(context.Background(), o, slowStart, s.work("b", 10*time.Millisecond))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, told)
	round := []string{"a", "a", "a", "a", "b"}
	assert.Equal(t, append(append(append([]string{}, round...), round...), round...), s.log[len(s.log)-15:])
	a, b := series.Timing(0), series.Timing(1)
	assert.InDelta(t, 0.002, a.Seconds, 1e-12)
	assert.InDelta(t, 0.010, b.Max, 1e-12)
	assert.Equal(t, 3, a.Quiet)
	assert.InDelta(t, 0.2, series.Ratio(0, 1).Median, 1e-9)
}

// A round in which others worked does not count, and patience replaces it.
func TestMeasureLeavesOutDisturbedRounds(t *testing.T) {
	for _, patience := range []int{0, 1, 5} {
		var s scene
		runs := 0
		disturbed := func(context.Context) error {
			runs++
			s.now += 100 * time.Millisecond
			if runs == 4 { // after two of warming up: in the second round
				s.now += 900 * time.Millisecond
				s.others += 70 * time.Millisecond // 7 % of a core
			} else {
				s.others += 5 * time.Millisecond // 5 %
			}
			return nil
		}
		o := s.options(3, time.Millisecond)
		o.Patience = patience
		series, err := bench.Measure(context.Background(), o, disturbed)
		require.NoError(t, err)
		timing := series.Timing(0)
		assert.Equal(t, 3+min(patience, 1), timing.Rounds, patience)
		assert.Equal(t, 2+min(patience, 1), timing.Quiet, patience)
		assert.InDelta(t, 0.1, timing.Max, 1e-12)
		assert.InDelta(t, 0.05, timing.Foreign, 1e-12)
		assert.InDelta(t, 0.07, series[1].Foreign, 1e-12)
	}
}

// Where nothing was quiet all rounds count, and Quiet says so.
func TestMeasureNothingQuiet(t *testing.T) {
	var s scene
	series, err := bench.Measure(context.Background(), s.options(4, time.Millisecond), func(context.Context) error {
		s.now += time.Second
		s.others += time.Second
		return nil
	})
	require.NoError(t, err)
	assert.Zero(t, series.Timing(0).Quiet)
	assert.Equal(t, 1.0, series.Timing(0).Seconds)
}

func TestMeasureEnds(t *testing.T) {
	var s scene
	broken := errors.New("broken")
	_, err := bench.Measure(context.Background(), s.options(1, time.Millisecond), s.work("a", time.Second), func(context.Context) error {
		return broken
	})
	assert.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err = bench.Measure(ctx, s.options(100, time.Millisecond), func(context.Context) error {
		if n++; n == 10 {
			cancel()
		}
		s.now += time.Second
		return nil
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 10, n)
}

func TestPace(t *testing.T) {
	var s scene
	p, err := bench.Pace(context.Background(), s.options(0, 10*time.Millisecond), s.work("a", 4*time.Millisecond))
	require.NoError(t, err)
	s.log = nil
	x, err := p(context.Background())
	require.NoError(t, err)
	assert.InDelta(t, 0.004, x, 1e-12)
	assert.Len(t, s.log, 3)
}

func TestSeries(t *testing.T) {
	s := bench.Series{{Seconds: []float64{1, 2}, Quiet: true}, {Seconds: []float64{3, 2}, Quiet: true}, {Seconds: []float64{9, 9}}}
	assert.Equal(t, 2.0, s.Timing(0).Seconds)
	assert.Equal(t, bench.Ratio{Median: 1, Min: 0.5, Max: 1.5}, s.Ratio(0, 1))
	d := s.Map(func(x []float64) []float64 { return []float64{x[0] + x[1]} })
	assert.Equal(t, 4.0, d.Timing(0).Seconds)
	assert.Equal(t, 2, d.Timing(0).Quiet)
	assert.Zero(t, bench.Series{}.Timing(0))
	assert.Zero(t, bench.Series{}.Ratio(0, 1))
	assert.Zero(t, bench.Median(nil))
	x := []float64{3, 1, 2}
	assert.Equal(t, 2.0, bench.Median(x))
	assert.Equal(t, []float64{3, 1, 2}, x)
}
