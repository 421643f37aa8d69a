package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/internal/graphtest"
	"qwb/quantizer/tqc"
)

// searching is a calibrated project whose samples to search on are the folder m.many and others m.other.
func searching(t *testing.T, n int) *Project {
	t.Helper()
	p := placeMany(t, "m", n)
	for i := range 200 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(5000+i), 1, 3, 8, 8)))
		p.Store.(*Memory).Write(fmt.Sprintf("m.other/%03d.npy", i), b.Bytes())
	}
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "trt_int8", Observer: tqc.ObserverMinMax, PerTensor: true,
		Data: DataOptions{Paths: []string{"m"}}, Threads: 2})
	require.NoError(t, err)
	return p
}

func nsrBudget(at float64) DispatchOptions {
	return DispatchOptions{Budget: &Budget{Name: "nsr", At: at}, Data: DataOptions{Paths: []string{"m.many"}}, Threads: 2}
}

// otherNSR is the plan's error on samples that no search saw.
func otherNSR(t *testing.T, p *Project) analysis.OutputError {
	t.Helper()
	r, _, err := p.Analyze(context.Background(), AnalyzeOptions{Data: DataOptions{Paths: []string{"m.other"}},
		Config: analysis.Config{Outputs: true, Threads: 2}})
	require.NoError(t, err)
	return r.Outputs[0]
}

// A budget that the plan meets as it is needs one evaluation and changes nothing. A smaller one is met by a set of operators that is found
// on the one half, confirmed on the other, and holds on samples that neither saw.
func TestSearchClaimsWhatHolds(t *testing.T) {
	ctx := context.Background()
	p := searching(t, 160)
	whole := get(t, p, p.Plan)
	start := otherNSR(t, p).NSR
	r, _, err := p.Dispatch(ctx, nsrBudget(2*start))
	require.NoError(t, err)
	require.True(t, r.Claimed)
	require.Equal(t, 1, r.Evaluations)
	require.Nil(t, r.Fit, "nothing was fitted")
	require.Equal(t, 160, r.HeldOut.Samples, "so that all samples confirm")
	require.Equal(t, whole, get(t, p, p.Plan))

	limit := 0.7 * start
	r, _, err = p.Dispatch(ctx, nsrBudget(limit))
	require.NoError(t, err)
	require.True(t, r.Claimed)
	require.Empty(t, r.Refused)
	require.NotEmpty(t, r.FP32)
	require.Equal(t, 160, r.Fit.Samples+r.HeldOut.Samples)
	require.LessOrEqual(t, r.HeldOut.Value, *r.HeldOut.Upper)
	require.LessOrEqual(t, *r.HeldOut.Upper, limit)
	require.Equal(t, analysis.HeldOutUnseen, r.HeldOut.Kind)
	require.Empty(t, r.Apply, "it is applied")
	require.LessOrEqual(t, r.Evaluations, 12)
	require.LessOrEqual(t, otherNSR(t, p).NSR, limit)
	require.Equal(t, "trt", r.Integers.Profile)
	require.InEpsilon(t, r.HeldOut.Value, r.Integers.Value, 0.01)

	d := planIn(t, p).Decisions
	var evidence struct {
		Confirmed bool    `json:"confirmed"`
		Fit       *Figure `json:"fit"`
		HeldOut   *Figure `json:"held_out"`
	}
	require.NoError(t, json.Unmarshal(d[len(d)-1].Evidence, &evidence))
	require.True(t, evidence.Confirmed)
	require.Equal(t, r.HeldOut, evidence.HeldOut)
	derivesAgain(t, p)
}

// A set may have no more work than MaxWork allows; where none does, that is why nothing is claimed. Half of the work is not refused, nor is
// any where a set needs less. With few samples the halves take turns.
func TestSearchKeepsToTheWorkAllowed(t *testing.T) {
	ctx := context.Background()
	for _, samples := range []int{40, 160} {
		p := searching(t, samples)
		whole := get(t, p, p.Plan)
		o := nsrBudget(0.4 * otherNSR(t, p).NSR)
		none := 0.0
		o.MaxWork = &none
		r, _, err := p.Dispatch(ctx, o)
		require.ErrorAs(t, err, new(CheckError))
		require.ErrorContains(t, err, "no set with at most 0 % more work meets an NSR of at most")
		require.Empty(t, r.FP32)
		require.Equal(t, string(whole), string(get(t, p, p.Plan)))

		free, _, err := p.Dispatch(ctx, nsrBudget(o.Budget.At))
		require.NoError(t, err)
		more := 100 * (free.Cost.After.Work()/free.Cost.Before.Work() - 1)
		require.Positive(t, more)
		_, _, err = p.Dispatch(ctx, DispatchOptions{Reset: true, Threads: 2})
		require.NoError(t, err)
		enough := more + 1e-6
		o.MaxWork = &enough
		r, _, err = p.Dispatch(ctx, o)
		require.NoError(t, err)
		require.True(t, r.Claimed)
		require.LessOrEqual(t, r.Cost.After.Work(), free.Cost.Before.Work()*(1+enough/100))
		for _, point := range r.Points {
			require.LessOrEqual(t, point.MACs, free.Points[0].MACs+int64(free.Cost.Before.Work()*enough/300)+1, "nothing dearer is tried")
		}
	}
}

// A search ranked by gradients finds a set that holds, also in several formats.
func TestSearchRankedByGradients(t *testing.T) {
	for _, formats := range [][]string{nil, {"fp32", "fp16"}} {
		var work []float64
		for _, rank := range []string{RankLayerwise, RankGradient} {
			p := searching(t, 100)
			o := nsrBudget(0.5 * otherNSR(t, p).NSR)
			o.Rank, o.Formats = rank, formats
			r, _, err := p.Dispatch(context.Background(), o)
			require.NoError(t, err)
			require.True(t, r.Claimed)
			work = append(work, r.Cost.After.Work())
		}
		require.Less(t, work[1], 1.5*work[0], "not much more work")
	}
}

// The number of threads changes nothing that a search finds.
func TestSearchWithAnyNumberOfThreads(t *testing.T) {
	var plans [][]byte
	for _, threads := range []int{1, 3} {
		p := searching(t, 100)
		o := nsrBudget(0.7 * otherNSR(t, p).NSR)
		o.Threads = threads
		_, _, err := p.Dispatch(context.Background(), o)
		require.NoError(t, err)
		plans = append(plans, get(t, p, p.Plan))
	}
	require.Equal(t, string(plans[0]), string(plans[1]))
}

// What cannot be claimed leaves the plan alone and says why: too few samples, before anything runs, or a budget that only float meets.
func TestSearchRefuses(t *testing.T) {
	ctx := context.Background()
	p := searching(t, 12)
	whole := get(t, p, p.Plan)
	start := otherNSR(t, p).NSR
	refuses := func(o DispatchOptions, text string) *DispatchResult {
		t.Helper()
		r, _, err := p.Dispatch(ctx, o)
		require.ErrorAs(t, err, new(CheckError))
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "the plan is unchanged")
		require.Contains(t, r.Refused, text)
		require.False(t, r.Claimed)
		require.Equal(t, string(whole), string(get(t, p, p.Plan)))
		return r
	}
	r := refuses(nsrBudget(0.7*start), "12 samples can confirm nothing: give at least 16")
	require.Zero(t, r.Evaluations)
	require.Equal(t, 16, r.Needed)

	o := nsrBudget(0.5 * start)
	o.Force = true
	forced, _, err := p.Dispatch(ctx, o)
	require.NoError(t, err)
	require.False(t, forced.Claimed)
	require.NotEmpty(t, forced.FP32)
	d := planIn(t, p).Decisions
	require.Contains(t, string(d[len(d)-1].Evidence), `"confirmed":false`)
	require.NotEqual(t, string(whole), string(get(t, p, p.Plan)))

	p = searching(t, 160)
	whole = get(t, p, p.Plan)
	r = refuses(nsrBudget(1e-12), "FP32 everywhere only")
	require.NotZero(t, r.Evaluations)
}

// An interrupted search says so, shows what it has, and leaves the plan alone.
func TestInterruptedSearch(t *testing.T) {
	p := searching(t, 160)
	whole := get(t, p, p.Plan)
	limit := 0.7 * otherNSR(t, p).NSR
	full, _, err := p.Dispatch(context.Background(), nsrBudget(limit))
	require.NoError(t, err)
	done, _ := p.Store.(*Memory).Read(p.Plan)
	require.NotEqual(t, whole, done)
	confirmed := 0
	for stop := 1; stop <= full.Evaluations; stop++ {
		p := searching(t, 160)
		ctx, cancel := context.WithCancel(context.Background())
		p.Events = &listener{at: func(what string, done int) {
			if what == "search (evaluations)" && done == stop {
				cancel()
			}
		}}
		r, _, err := p.Dispatch(ctx, nsrBudget(limit))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, whole, get(t, p, p.Plan))
		require.True(t, r.Stopped)
		require.Contains(t, r.Found.Lines(r)[0], "interrupted")
		if r.Claimed {
			confirmed++
			require.LessOrEqual(t, *r.HeldOut.Upper, limit)
			require.Contains(t, r.Apply, "--fp32")
		}
	}
	require.Positive(t, confirmed, "the last ones were interrupted after a set was confirmed")
}

// With few samples the halves take turns: what is claimed holds on others, and nothing is claimed that hangs on one half.
func TestSearchInTurns(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{24, 32} {
		p := searching(t, n)
		start := otherNSR(t, p).NSR
		limit := 0.5 * start
		r, _, err := p.Dispatch(ctx, nsrBudget(limit))
		require.NoError(t, err, "%d", n)
		require.True(t, r.Claimed)
		require.True(t, r.Crossed)
		require.Equal(t, n, r.HeldOut.Samples)
		require.LessOrEqual(t, *r.HeldOut.Upper, limit)
		require.NotEmpty(t, r.FP32)
		require.LessOrEqual(t, otherNSR(t, p).NSR, limit)
		derivesAgain(t, p)
	}
	p := searching(t, 24)
	whole := get(t, p, p.Plan)
	r, _, err := p.Dispatch(ctx, nsrBudget(1e-12))
	require.ErrorAs(t, err, new(CheckError))
	require.False(t, r.Claimed)
	require.Equal(t, whole, get(t, p, p.Plan))
}
