package bench

import (
	"context"
	"time"
)

// Clock is what sampling has to know about the machine.
type Clock struct {
	// Now is a monotonic time.
	Now func() time.Duration
	// Others is the CPU time that other processes, and the hypervisor, have used until now, over all cores. nil, or false:
	// not known, and every round counts as quiet.
	Others func() (time.Duration, bool)
}

// QuietShare is the share of one core below which what other processes use is taken for nothing.
const QuietShare = 0.06

// Options say how to sample.
type Options struct {
	Clock
	Rounds   int              // 0: 5
	Patience int              // how many more rounds may be taken in place of those that were not quiet
	Span     time.Duration    // the least that one work takes in a round, by repetition; 0: 30 ms
	Progress func(rounds int) // called after each round with the number done; may be nil
}

// Work is one run of what is timed.
type Work func(ctx context.Context) error

// Round is one pass over all works, in turn.
type Round struct {
	Seconds []float64 // of one run, by work
	Foreign float64   // what others used meanwhile, as a share of one core
	Quiet   bool
}

// Measure runs the works in turn until as many rounds as asked for were quiet, or patience ends, each as often as fills the span, so that
// what disturbs the machine for a while, or slows its clock, meets all of them. The first run of each work is not counted. A cancelled ctx
// ends it with its error.
func Measure(ctx context.Context, o Options, works ...Work) (Series, error) {
	if o.Rounds <= 0 {
		o.Rounds = 5
	}
	if o.Span <= 0 {
		o.Span = 30 * time.Millisecond
	}
	repeat := make([]int, len(works))
	for i, w := range works {
		n, err := o.repetitions(ctx, w)
		if err != nil {
			return nil, err
		}
		repeat[i] = n
	}
	var s Series
	for quiet := 0; quiet < o.Rounds && len(s) < o.Rounds+o.Patience; {
		r, err := o.round(ctx, works, repeat)
		if err != nil {
			return s, err
		}
		s = append(s, r)
		if r.Quiet {
			quiet++
		}
		if o.Progress != nil {
			o.Progress(len(s))
		}
	}
	return s, nil
}

// repetitions finds how often a work has to run to fill the span.
func (o *Options) repetitions(ctx context.Context, w Work) (int, error) {
	if _, err := o.time(ctx, w, 1); err != nil { // memory is touched, weights are packed
		return 0, err
	}
	for n := 1; ; {
		took, err := o.time(ctx, w, n)
		if err != nil {
			return 0, err
		}
		if took >= o.Span/4 {
			return int(max(1, (int64(n)*int64(o.Span)+int64(took)-1)/int64(took))), nil
		}
		n *= 4
	}
}

func (o *Options) round(ctx context.Context, works []Work, repeat []int) (Round, error) {
	r := Round{Quiet: true}
	start := o.Now()
	var before time.Duration
	known := o.Others != nil
	if known {
		before, known = o.Others()
	}
	for i, w := range works {
		took, err := o.time(ctx, w, repeat[i])
		if err != nil {
			return r, err
		}
		r.Seconds = append(r.Seconds, took.Seconds()/float64(repeat[i]))
	}
	if known {
		if after, ok := o.Others(); ok {
			r.Foreign = max(0, float64(after-before)/float64(max(1, o.Now()-start)))
			r.Quiet = r.Foreign < QuietShare
		}
	}
	return r, nil
}

func (o *Options) time(ctx context.Context, w Work, n int) (time.Duration, error) {
	start := o.Now()
	for range n {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := w(ctx); err != nil {
			return 0, err
		}
	}
	return o.Now() - start, nil
}

// Pace prepares a work to be sampled on demand: each call of the result takes the mean time of one run over a span.
func Pace(ctx context.Context, o Options, w Work) (sample func(context.Context) (seconds float64, err error), err error) {
	n, err := o.repetitions(ctx, w)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (float64, error) {
		took, err := o.time(ctx, w, n)
		return took.Seconds() / float64(n), err
	}, nil
}
