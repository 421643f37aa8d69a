package bench

import "slices"

// Series are the rounds of one measurement.
type Series []Round

// Timing summarises one work, over the quiet rounds or, where there are none, over all.
type Timing struct {
	Seconds float64 `json:"seconds"` // median of one run
	Min     float64 `json:"min_seconds"`
	Max     float64 `json:"max_seconds"`
	Rounds  int     `json:"rounds"`
	Quiet   int     `json:"quiet_rounds"` // 0: other processes used the machine in every round
	Foreign float64 `json:"foreign_cpu"`  // median over all rounds, as a share of one core
}

// Timing returns the timing of a work.
func (s Series) Timing(work int) Timing {
	var foreign []float64
	t := Timing{Rounds: len(s)}
	for _, r := range s {
		foreign = append(foreign, r.Foreign)
		if r.Quiet {
			t.Quiet++
		}
	}
	if len(s) == 0 {
		return t
	}
	seconds := s.each(func(r Round) float64 { return r.Seconds[work] })
	t.Seconds, t.Min, t.Max, t.Foreign = Median(seconds), slices.Min(seconds), slices.Max(seconds), Median(foreign)
	return t
}

// Map returns the series whose seconds are f of those of each round.
func (s Series) Map(f func(seconds []float64) []float64) Series {
	out := make(Series, len(s))
	for i, r := range s {
		out[i] = Round{f(r.Seconds), r.Foreign, r.Quiet}
	}
	return out
}

// Ratio is the time of one work over that of another, round by round.
type Ratio struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Ratio compares two works over the quiet rounds or, where there are none, over all.
func (s Series) Ratio(work, other int) Ratio {
	if len(s) == 0 {
		return Ratio{}
	}
	x := s.each(func(r Round) float64 { return r.Seconds[work] / r.Seconds[other] })
	return Ratio{Median(x), slices.Min(x), slices.Max(x)}
}

// each evaluates f on the rounds that count.
func (s Series) each(f func(Round) float64) []float64 {
	var all, quiet []float64
	for _, r := range s {
		x := f(r)
		all = append(all, x)
		if r.Quiet {
			quiet = append(quiet, x)
		}
	}
	if len(quiet) > 0 {
		return quiet
	}
	return all
}

// Median returns the middle of x, the mean of the two in the middle where their number is even, 0 for none. x is not changed.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
